//! Buffers of the window that a connection lent to its back end for longer than a call.

use crate::budget::LentShare;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfun_remoting::limits::ATTACHED_MAX;
use vfun_remoting::{Refusal, Writer};
use vfun_sdk::abi::PagesPlace;
use vfun_sdk::{Answerer, DriverError};

/// Where a buffer lies in the service. The guest writes there at any moment: read each byte
/// once, check the copy, use the copy. It stays where it is until it is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub start: *mut u8,
    pub len: usize,
}

/// A lent buffer that the back end's library uses. As long as this lives, the guest cannot take the
/// buffer back: its pages stay mapped, and nobody else gets them.
#[derive(Debug)]
pub struct Held {
    memory: Memory,
    used: Used,
}

/// Keeps a lent buffer from being taken back, also on another thread.
#[derive(Debug)]
pub struct Used(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Held {
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Where it lies, and apart from that what keeps it.
    pub fn into_parts(self) -> (Memory, Used) {
        (self.memory, self.used)
    }
}

/// What a connection lends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lending {
    Buffer(Memory),
    /// A table of pages of the VM's memory.
    Pages(PagesPlace),
}

impl Lending {
    /// Bytes of the window.
    fn len(&self) -> usize {
        match self {
            Lending::Buffer(memory) => memory.len,
            Lending::Pages(place) => place.table_len as usize,
        }
    }
}

struct Lent {
    memory: Lending,
    /// Each [`Held`] has it as well.
    uses: Arc<()>,
    call: Option<Answerer>,
    _share: LentShare,
}

impl Lent {
    /// One library object's alone: two would write over each other.
    fn used(&self) -> Result<Used, Refusal> {
        match Arc::strong_count(&self.uses) {
            1 => Ok(Used(self.uses.clone())),
            _ => Err(Refusal::Argument),
        }
    }
}

/// The buffers of one connection, by the handles that the guest knows them by. An open call
/// keeps each of them mapped: it is answered when the buffer is used no longer.
#[derive(Default)]
pub struct Attached {
    buffers: BTreeMap<u64, Lent>,
}

impl Attached {
    /// A refusal answers the open call, in words.
    pub(crate) fn insert(
        &mut self,
        handle: u64,
        memory: Lending,
        call: impl Into<Option<Answerer>>,
    ) -> Result<(), Refusal> {
        let call = call.into();
        match self.check(handle).and_then(|()| LentShare::take(memory.len())) {
            Ok(_share) => {
                let lent = Lent { memory, uses: Arc::default(), call, _share };
                self.buffers.insert(handle, lent);
                Ok(())
            }
            Err(refusal) => {
                let why = DriverError::new(refusal.number().into(), refusal.words());
                let _ = call.map(|call| call.fail(&why)); // cancelled: nobody waits any more
                Err(refusal)
            }
        }
    }

    fn check(&self, handle: u64) -> Result<(), Refusal> {
        if self.buffers.contains_key(&handle) {
            return Err(Refusal::Argument);
        }
        if self.buffers.len() == ATTACHED_MAX { Err(Refusal::Limit) } else { Ok(()) }
    }

    /// Whether the guest has lent this buffer.
    pub fn is_there(&self, handle: u64) -> bool {
        self.buffers.contains_key(&handle)
    }

    /// Takes a buffer for a library that uses it beyond this call. Each buffer is one library
    /// object's alone.
    pub fn hold(&self, handle: u64) -> Result<Held, Refusal> {
        let lent = self.buffers.get(&handle).ok_or(Refusal::Argument)?;
        match lent.memory {
            Lending::Buffer(memory) => Ok(Held { memory, used: lent.used()? }),
            Lending::Pages(_) => Err(Refusal::Argument),
        }
    }

    /// A table of pages, and what keeps it and the VM's memory where they are; none: the buffer is no table.
    pub fn hold_pages(&self, handle: u64) -> Result<Option<(PagesPlace, Used)>, Refusal> {
        let lent = self.buffers.get(&handle).ok_or(Refusal::Argument)?;
        match lent.memory {
            Lending::Buffer(_) => Ok(None),
            Lending::Pages(place) => Ok(Some((place, lent.used()?))),
        }
    }

    /// Answers the open call: the back end uses the buffer no longer. Refused while it does.
    pub(crate) fn remove(&mut self, handle: u64) -> Result<(), Refusal> {
        let lent = self.buffers.get(&handle).ok_or(Refusal::Argument)?;
        if Arc::strong_count(&lent.uses) > 1 {
            return Err(Refusal::Argument);
        }
        let call = self.buffers.remove(&handle).and_then(|lent| lent.call);
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

    /// Never lets go of these buffers: what uses them is not known. The manager ends a service
    /// that keeps a buffer too long, and nobody else gets the pages before that.
    pub(crate) fn keep_for_ever(&mut self) {
        std::mem::forget(std::mem::take(&mut self.buffers));
    }
}
