//! Buffers of the window that a connection lent to its back end for longer than a call.

use std::collections::BTreeMap;
use vfun_remoting::limits::ATTACHED_MAX;
use vfun_remoting::{Refusal, Writer};
use vfun_sdk::Answerer;

/// Where a buffer lies in the service. The guest writes there at any moment: read each byte
/// once, check the copy, use the copy. It stays where it is until it is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub start: *mut u8,
    pub len: usize,
}

/// The buffers of one connection, by the handles that the guest knows them by. An open call
/// keeps each of them mapped: it is answered when the buffer is used no longer.
#[derive(Default)]
pub struct Attached {
    buffers: BTreeMap<u64, (Memory, Option<Answerer>)>,
}

impl Attached {
    pub(crate) fn insert(
        &mut self,
        handle: u64,
        memory: Memory,
        call: impl Into<Option<Answerer>>,
    ) -> Result<(), Refusal> {
        if self.buffers.contains_key(&handle) {
            return Err(Refusal::Argument);
        }
        if self.buffers.len() == ATTACHED_MAX {
            return Err(Refusal::Limit);
        }
        self.buffers.insert(handle, (memory, call.into()));
        Ok(())
    }

    /// Where a buffer lies.
    pub fn find(&self, handle: u64) -> Result<Memory, Refusal> {
        self.buffers.get(&handle).map(|(memory, _)| *memory).ok_or(Refusal::Argument)
    }

    /// Answers the open call: the back end uses the buffer no longer.
    pub(crate) fn remove(&mut self, handle: u64) -> Result<(), Refusal> {
        let (_, call) = self.buffers.remove(&handle).ok_or(Refusal::Argument)?;
        let mut answer = vec![];
        Writer::answer(&mut answer);
        // Cancelled: nobody waits any more.
        let _ = call.map(|call| call.answer(&answer));
        Ok(())
    }

    /// Drops all: the connection ends, and the back end is gone.
    pub(crate) fn end(&mut self) {
        self.buffers.clear();
    }
}
