//! The functions that a connection has active, and its calls under way.

use crate::late::{Call, Late};
use crate::output::{Output, push_call};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use vfun::{Error, Function, OwnedPending};
use vfun_wire::channel::Command;
use vfun_wire::frame::{CallAnswer, CallHead};
use vfun_wire::status::Status;
use vfun_wire::{Handle, Nack, NackCode};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

/// An active function of a connection.
pub struct Active {
    pub function: Function,
    late: OnceLock<Late>,
}

impl Active {
    pub fn new(function: Function) -> Self {
        Active { function, late: OnceLock::new() }
    }
}

/// What a connection's threads share of its functions.
#[derive(Default)]
pub struct Functions {
    active: Mutex<HashMap<u64, Arc<Active>>>,
    /// Longest call frame that they take, bytes of body.
    longest: AtomicUsize,
}

impl Functions {
    pub fn insert(&self, grant: u64, function: Function) {
        let body = size_of::<CallHead>() + function.info().max_args();
        self.longest.fetch_max(body, Ordering::AcqRel);
        self.lock().insert(grant, Arc::new(Active::new(function)));
    }
    pub fn get(&self, grant: u64) -> Option<Arc<Active>> {
        self.lock().get(&grant).cloned()
    }
    pub fn remove(&self, grant: u64) -> Option<Arc<Active>> {
        self.lock().remove(&grant)
    }
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }
    pub fn longest(&self) -> usize {
        self.longest.load(Ordering::Acquire)
    }
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Active>>> {
        self.active.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A call that the reading thread waits for itself.
struct Short {
    id: u64,
    pending: OwnedPending,
    active: Arc<Active>,
    since: Instant,
}

/// The calls that the reading thread waits for itself.
#[derive(Default)]
pub struct Calls {
    short: Vec<Short>,
    /// The function called last: most connections call one.
    last: Option<(u64, Arc<Active>)>,
}

impl Calls {
    pub fn is_empty(&self) -> bool {
        self.short.is_empty()
    }

    /// Starts the call of a frame's body. What is answered at once goes to `out`.
    pub fn start(
        &mut self,
        functions: &Functions,
        id: u64,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Nack> {
        let (head, args) = CallHead::read_from_prefix(body).map_err(|_| {
            Nack::new(NackCode::Malformed, format!("a call of {} bytes has no head", body.len()))
        })?;
        if head.reserved != [0; 7] {
            return Err(Nack::new(NackCode::Malformed, "a call's reserved bytes are not zero"));
        }
        let Some(command) = Command::from_wire(head.command) else {
            let bad =
                CallAnswer { status: U32::new(Status::BadCommand.to_wire()), broken: U32::ZERO };
            crate::output::push_plain_call(out, id, bad.as_bytes());
            return Ok(());
        };
        let active = self.function(functions, head.grant.get())?;
        match active.function.submit_owned(command, args) {
            Ok(pending) => self.short.push(Short { id, pending, active, since: Instant::now() }),
            Err(Error::Full { depth }) => {
                return Err(Nack::new(
                    NackCode::NoCapacity,
                    format!(
                        "all {depth} cells of the channel are in use: wait for an answer before the next call"
                    ),
                ));
            }
            Err(e) => push_call(out, id, |_| Err(e)),
        }
        Ok(())
    }

    fn function(&mut self, functions: &Functions, grant: u64) -> Result<Arc<Active>, Nack> {
        if let Some((last, active)) = &self.last
            && *last == grant
        {
            return Ok(active.clone());
        }
        let active = functions.get(grant).ok_or_else(|| {
            Nack::new(
                NackCode::BadHandle,
                format!(
                    "grant {} is not active on this connection: activate it first",
                    Handle(grant)
                ),
            )
        })?;
        self.last = Some((grant, active.clone()));
        Ok(active)
    }

    /// Lets go of functions that may be released by now.
    pub fn forget_last(&mut self) {
        self.last = None;
    }

    /// Looks at all; appends the answers of those that are done.
    #[inline]
    pub fn look(&mut self, out: &mut Vec<u8>) {
        let mut i = 0;
        while i < self.short.len() {
            if self.short[i].pending.poll() {
                let done = self.short.remove(i);
                push_call(out, done.id, |out| done.pending.append_to(out));
            } else {
                i += 1;
            }
        }
    }

    /// Hands over those that take longer than `patience`.
    pub fn hand_over(&mut self, patience: Duration, output: &Arc<Output>) {
        let mut i = 0;
        while i < self.short.len() {
            if self.short[i].since.elapsed() < patience {
                i += 1;
                continue;
            }
            let s = self.short.remove(i);
            let late = s.active.late.get_or_init(|| Late::start(output.clone()));
            late.push(Call { id: s.id, pending: s.pending }, output);
        }
    }
}
