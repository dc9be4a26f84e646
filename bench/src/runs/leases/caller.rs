//! A client that calls the modelled device's function and checks each answer.

use super::lab::Lab;
use crate::leases::Trouble;
use crate::{BenchError, Result};
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Function, FunctionRequest, Preference, Session, WaitMode};
use vfun_modeldevice::{MAX_RESULT, NAME, Told, arguments, checksum, read_result};

/// A call without an answer for so long is a lost one: a thousand times the longest that
/// is asked for.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// How a caller is made.
pub struct How<'a> {
    pub client: &'a str,
    pub preference: Preference,
    pub bytes: usize,
    pub units: u32,
    pub wait: WaitMode,
}

/// One call that was answered as it should be.
#[derive(Clone, Copy)]
pub struct Answer {
    pub ns: u64,
    pub told: Told,
    /// The call before was answered in another place, or by another state.
    pub crossed: bool,
}

pub struct Caller {
    function: Function,
    _session: Session,
    args: Vec<u8>,
    bytes: usize,
    units: u32,
    number: u64,
    last: Option<Told>,
    answered: u64,
    pub trouble: Trouble,
}

impl Caller {
    pub fn open(lab: &Lab, how: &How<'_>) -> Result<Self> {
        let session = ConnectOptions::new("bench-leases")
            .client(how.client)
            .endpoint(Endpoint::Host(Some(lab.manager.host_socket())))
            .wait(how.wait.into())
            .connect()?;
        let room = u32::try_from(how.bytes + 64).map_err(|e| BenchError::Options(e.to_string()))?;
        let request = FunctionRequest::new(NAME)
            .preference(how.preference)
            .depth(4)
            .cell_bytes(room)
            .service_waits(how.wait);
        let function = session.negotiate(&request)?.activate()?;
        let data: Vec<u8> = (0..how.bytes).map(|i| (i * 31 + 7) as u8).collect();
        Ok(Caller {
            function,
            _session: session,
            args: arguments(0, how.units, true, &data),
            bytes: how.bytes,
            units: how.units,
            number: 0,
            last: None,
            answered: 0,
            trouble: Trouble::default(),
        })
    }

    /// Calls, waits and checks; `None` if something went wrong, which is counted.
    pub fn call(&mut self) -> Option<Answer> {
        self.number += 1;
        self.args[..8].copy_from_slice(&self.number.to_le_bytes());
        let mut room = [0; MAX_RESULT as usize];
        let start = Instant::now();
        let done = self.function.submit(&self.args).and_then(|mut pending| {
            if pending.ready_within(LOST_AFTER) {
                pending.wait_into(&mut room).map(Some)
            } else {
                Ok(None)
            }
        });
        let ns = start.elapsed().as_nanos() as u64;
        let last = self.last.take();
        let len = match done {
            Ok(Some(len)) => len,
            Ok(None) => {
                self.trouble.lost += 1;
                return None;
            }
            Err(_) => {
                self.answered += 1;
                self.trouble.failed += 1;
                return None;
            }
        };
        self.answered += 1;
        let data = &self.args[self.args.len() - self.bytes..];
        let wanted = checksum(self.number, self.units, data);
        let told = match read_result(&room[..len]) {
            Some((sum, Some(told))) if sum == wanted => told,
            _ => {
                self.trouble.wrong += 1;
                return None;
            }
        };
        self.last = Some(told);
        let mut crossed = false;
        if let Some(last) = last {
            crossed = told.calls == 1 || last.vf.is_some() != told.vf.is_some();
            // In the same state one more than before; in a new one the first.
            let wanted = if crossed { 1 } else { last.calls + 1 };
            self.trouble.repeated += told.calls.abs_diff(wanted);
        }
        Some(Answer { ns, told, crossed })
    }

    /// Gives the function back. What services ran beyond what was answered was run twice.
    pub fn close(mut self) -> Result<Trouble> {
        let stats = self.function.release()?;
        self.trouble.repeated += stats.calls.saturating_sub(self.answered);
        Ok(self.trouble)
    }
}
