//! Memory of the window that a program and the host's library both use.

use crate::failure::Failure;
use crate::link::Link;
use crate::say;
use std::sync::Once;
use std::time::Duration;
use vfun::{Buffer, BufferRequest, MemoryPlace, MemoryToMove, OwnedPending, Unmovable};
use vfun_remoting::numbers;

/// How often the host is asked whether it has taken a buffer: it has it after the first time,
/// unless cells were taken out of their order.
const ASKED_MAX: usize = 1000;
/// Cells that lent buffers do not take.
const CELLS_FOR_CALLS: u32 = 2;
/// Between two times.
const PAUSE: Duration = Duration::from_micros(50);

/// A buffer that the host may use until it is taken back. Dropping it takes it back, and waits
/// until the host has let go of it.
pub struct Lent {
    link: &'static Link,
    buffer: Buffer,
    /// Answered when the host lets go.
    held: Option<OwnedPending>,
}

impl Link {
    /// Lends the host a new buffer of `bytes`.
    ///
    /// A lent buffer keeps a cell of the channel until it is taken back. Two cells are left for calls: without one
    /// nobody could take a buffer back.
    pub fn lend(&'static self, bytes: usize) -> Result<Lent, Failure> {
        if self.lent() + CELLS_FOR_CALLS >= u32::from(self.api.depth) {
            return Err(Failure::Limit);
        }
        let wish = BufferRequest::new(bytes);
        let buffer = self.function.buffer(wish).map_err(|_| Failure::Limit)?;
        let handle = buffer.handle();
        let held = self.open_call(numbers::ATTACH, |w| w.u64(handle))?;
        self.lends();
        let mut lent = Lent { link: self, buffer, held: Some(held) };
        for _ in 0..ASKED_MAX {
            let there = self.call(numbers::ATTACHED, |w| w.u64(handle), |r| Ok(r.bool()?))?;
            if there {
                return Ok(lent);
            }
            if lent.held.as_ref().is_some_and(OwnedPending::poll) {
                self.not_lent(lent.held.take());
                break;
            }
            std::thread::sleep(PAUSE);
        }
        Err(Failure::Limit)
    }
}

impl Link {
    /// The host did not take a buffer: people are told why.
    fn not_lent(&self, answered: Option<OwnedPending>) {
        static SAID: Once = Once::new();
        if let Some(Err(error)) = answered.map(|call| call.append_to(&mut vec![])) {
            say::once(&SAID, || {
                vec![format!("'{}': the host does not take a buffer: {error}", self.api.name)]
            });
        }
    }
}

impl Lent {
    /// What the host knows it by.
    pub fn handle(&self) -> u64 {
        self.buffer.handle()
    }

    /// Where it lies in this process.
    pub fn start(&self) -> *mut u8 {
        self.buffer.as_ptr()
    }

    /// Moves memory of the program into it ([`Buffer::take_over`]).
    pub fn take_over(&self, offset: usize, memory: MemoryToMove) -> Result<MemoryPlace, Unmovable> {
        self.buffer.take_over(offset, memory)
    }

    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Never: a buffer has at least a byte.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

impl Lent {
    fn take_back(&mut self) {
        let handle = self.handle();
        let gone = self.link.call(numbers::DETACH, |w| w.u64(handle), |_| Ok(()));
        if let (Ok(()), Some(held)) = (gone, self.held.take()) {
            let _ = held.append_to(&mut vec![]); // answered with the call before
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A child of fork has nothing to take back, and locks may be held that nobody opens.
        if self.link.is_alive() {
            self.take_back();
        }
        self.link.lends_no_more();
    }
}
