//! Memory of the window that a program and the host's library both use.

use crate::failure::Failure;
use crate::link::Link;
use crate::say;
use std::sync::Once;
use std::time::Duration;
use vfun::{
    Buffer, BufferFile, BufferRequest, MemoryPlace, MemoryToMove, OwnedPending, PageTable,
    Unmovable,
};
use vfun_remoting::numbers;

/// How often the host is asked whether it has taken a buffer: it has it after the first time,
/// unless cells were taken out of their order.
const ASKED_MAX: usize = 1000;
/// Cells that lent buffers do not take.
const CELLS_FOR_CALLS: u32 = 2;
/// Between two times.
const PAUSE: Duration = Duration::from_micros(50);

/// Memory that the host may use until it is taken back. Dropping it takes it back, and waits
/// until the host has let go of it.
struct Attached {
    link: &'static Link,
    handle: u64,
    /// Answered when the host lets go.
    held: Option<OwnedPending>,
}

/// A buffer that the host may use until it is taken back.
pub struct Lent {
    // The host lets go first.
    _attached: Attached,
    buffer: Buffer,
}

/// Pages of this process that the host may use, by a table of them, until it is taken back.
pub struct LentPages {
    // The host lets go first.
    _attached: Attached,
    table: PageTable,
}

impl Link {
    /// Lends the host a new buffer of `bytes`.
    ///
    /// A lent buffer keeps a cell of the channel until it is taken back. Two cells are left for calls: without one
    /// nobody could take a buffer back.
    pub fn lend(&'static self, bytes: usize) -> Result<Lent, Failure> {
        self.room_to_lend()?;
        let wish = BufferRequest::new(bytes);
        let buffer = self.function.buffer(wish).map_err(|_| Failure::Limit)?;
        Ok(Lent { _attached: self.attach(buffer.handle())?, buffer })
    }

    /// Lends the host a new table of so many pages of this process, as [`Link::lend`] does a buffer.
    pub fn lend_pages(&'static self, places: usize) -> Result<LentPages, Failure> {
        self.room_to_lend()?;
        let table = self.page_table(places).map_err(|_| Failure::Limit)?;
        Ok(LentPages { _attached: self.attach(table.handle())?, table })
    }

    fn room_to_lend(&self) -> Result<(), Failure> {
        match self.lent() + CELLS_FOR_CALLS >= u32::from(self.api.depth) {
            true => Err(Failure::Limit),
            false => Ok(()),
        }
    }

    /// Tells the host of what it may use, and waits until it has it.
    fn attach(&'static self, handle: u64) -> Result<Attached, Failure> {
        let held = self.open_call(numbers::ATTACH, |w| w.u64(handle))?;
        self.lends();
        let mut attached = Attached { link: self, handle, held: Some(held) };
        for _ in 0..ASKED_MAX {
            let there = self.call(numbers::ATTACHED, |w| w.u64(handle), |r| Ok(r.bool()?))?;
            if there {
                return Ok(attached);
            }
            if attached.held.as_ref().is_some_and(OwnedPending::poll) {
                self.not_lent(attached.held.take());
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
    /// As [`Buffer::in_file`].
    pub fn in_file<T>(&self, f: impl FnOnce(BufferFile<'_>) -> T) -> Result<T, Unmovable> {
        self.buffer.in_file(f)
    }

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

impl LentPages {
    /// What the host knows it by.
    pub fn handle(&self) -> u64 {
        self.table.handle()
    }

    /// Names pages of the program in it ([`PageTable::pin`]).
    pub fn pin(&self, place: usize, memory: MemoryToMove) -> Result<MemoryPlace, Unmovable> {
        self.table.pin(place, memory)
    }

    /// How many pages it can name.
    pub fn places(&self) -> usize {
        self.table.places()
    }
}

impl Attached {
    fn take_back(&mut self) {
        let handle = self.handle;
        let gone = self.link.call(numbers::DETACH, |w| w.u64(handle), |_| Ok(()));
        if let (Ok(()), Some(held)) = (gone, self.held.take()) {
            let _ = held.append_to(&mut vec![]); // answered with the call before
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // A child of fork has nothing to take back, and locks may be held that nobody opens.
        if self.link.is_alive() {
            self.take_back();
        }
        self.link.lends_no_more();
    }
}
