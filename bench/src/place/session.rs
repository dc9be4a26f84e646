//! Work over a session of this process: on the host, or inside a guest.

use super::Place;
use crate::measure::{self, Calls, Job, Outcome, Socket};
use crate::report::{Domain, Kind, LatencyRow};
use crate::{BenchError, Result};
use std::time::Duration;
use vfun::Endpoint;

/// A session and what it has active.
pub struct OverSession(Calls);

impl OverSession {
    pub fn connect(endpoint: &Endpoint, client: Option<&str>) -> Result<Self> {
        Ok(OverSession(Calls::connect(endpoint, client)?))
    }

    pub fn calls(&mut self) -> &mut Calls {
        &mut self.0
    }
}

fn ms(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

impl Place for OverSession {
    fn domain(&self) -> Domain {
        self.0.domain()
    }

    fn transport(&self) -> &str {
        self.0.transport()
    }

    fn run(&mut self, job: &Job, _: Duration) -> Result<Outcome> {
        let calls = &mut self.0;
        Ok(match *job {
            Job::Work { function, repetitions, iterations } => {
                let callee = calls.function(function.as_str())?;
                Outcome::Seconds(measure::seconds(&*callee, function, repetitions, iterations)?)
            }
            Job::Trips { ref of, samples, millis } => {
                Outcome::Trips(measure::trips(calls, of, samples, ms(millis))?)
            }
            Job::BareVm { rounds, samples, millis } => {
                Outcome::BareVm(measure::bare_vm(calls, rounds, samples, ms(millis))?)
            }
            Job::Rate { ref of, in_flight, millis } => {
                Outcome::PerS(measure::rate_of(calls, of, in_flight, ms(millis))?)
            }
            Job::Bandwidth { bytes, rounds, millis } => {
                Outcome::Rows(measure::bandwidth(calls, bytes, rounds, ms(millis))?)
            }
            Job::Copies { bytes, rounds, millis } => {
                let row =
                    measure::copies(calls.clock(), calls.domain(), bytes, rounds, ms(millis))?;
                Outcome::Rows(vec![row])
            }
            Job::Tcp { ref address, rounds, samples, millis } => {
                let socket = Socket::tcp(address)?;
                let trips = socket.trips(calls.clock(), false, rounds, samples, ms(millis))?;
                let row = LatencyRow::new(calls.domain(), "tcp, blocking", Kind::Tcp);
                Outcome::Rows(vec![row.with_percentiles(&trips)])
            }
            Job::Activations { count } => Outcome::Activations(measure::activations(calls, count)?),
            Job::Hold { millis } => {
                let echo = calls.function("echo")?;
                echo.call(&[]).map_err(BenchError::from)?;
                std::thread::sleep(Duration::from_millis(millis));
                Outcome::Held
            }
            Job::Load { mode, millis, together } => {
                Outcome::Load(measure::load(calls, mode, ms(millis), together)?)
            }
            Job::Rings { ref device } => measure::rings(calls.clock(), device.as_ref())?,
            Job::LoadModule { .. } | Job::AwaitDevice { .. } | Job::Serve { .. } => {
                return Err(self.unfit("what precedes a session"));
            }
            Job::Idle { channels, millis } => {
                let _open = measure::idle_channels(calls, channels)?;
                std::thread::sleep(Duration::from_millis(millis));
                Outcome::Held
            }
            Job::Clock => Outcome::NsPerCycle(measure::Clock::calibrate().ns_per_cycle()),
        })
    }
}
