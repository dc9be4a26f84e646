//! Tables of pages: memory of this process that the host's services reach where it is
//! ([`vfun_wire::pages`]).

use super::life::{DROP_TIMEOUT, put};
use super::{MemoryPlace, MemoryToMove, Unmovable};
use crate::control;
use crate::error::{Error, Result};
use crate::session::{Session, SessionInner};
use crate::transport::Window;
use std::sync::Arc;
use vfun_window::Process;
use vfun_wire::PAGE;
use vfun_wire::message::{BUFFER_PAGES, BufferAck, BufferGet, Kind};
use vfun_wire::pages::{ENTRIES, ENTRY_BYTES};
use vfun_wire::version::Features;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

/// A table of pages of the VM's memory, which the kernel module writes: this library never sees it. Dropping it
/// gives it back: its pages stay pinned until no service of the host has it any more.
pub struct PageTable {
    handle: u64,
    places: usize,
    session: Arc<SessionInner>,
    window: Arc<Window>,
    /// Whose it is: a child of fork has none of it.
    of: Process,
}

impl std::fmt::Debug for PageTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageTable").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl PageTable {
    /// What the host knows it by.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// How many pages it can name.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Pins pages of this process and writes their numbers into the table, from `place` on. The module may pin fewer
    /// pages than asked for; the answer says how many. Pages that are in a table of this session already are not
    /// written again: the answer says where they are.
    ///
    /// # Errors
    /// [`Unmovable`]
    pub fn pin(
        &self,
        place: usize,
        memory: MemoryToMove,
    ) -> std::result::Result<MemoryPlace, Unmovable> {
        let end = place.checked_add(memory.place().1 / PAGE);
        if !self.of.is_current() || end.is_none_or(|end| end > self.places) {
            return Err(Unmovable::BufferOver);
        }
        self.window.transport.pin(self.handle, place as u64, memory)
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        if self.of.is_current() {
            // Best effort: else the module gives it back.
            let _ = put(&self.session, self.handle, DROP_TIMEOUT);
        }
    }
}

impl Session {
    /// Asks for a table of so many pages of this VM's memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is no module that can do it, or the host is too old; [`Error::Refused`]
    /// with what the host says: the client's manifest names no memory of the VM, over quota, no room.
    pub fn page_table(&self, places: usize) -> Result<PageTable> {
        let session = self.inner();
        let features = session.info.features;
        let Some(window) = session.window.as_ref().filter(|_| features.has(Features::PAGES)) else {
            return Err(Error::Unsupported(
                "the host reaches memory of programs only where a VM's kernel module pins it",
            ));
        };
        let bytes = places.checked_mul(ENTRY_BYTES).and_then(|n| n.checked_add(ENTRIES));
        let bytes = bytes.filter(|_| places > 0);
        let bytes =
            bytes.ok_or_else(|| Error::BadOption(format!("no table has {places} places")))?;
        let ask = BufferGet {
            grant: U64::ZERO,
            bytes: U64::new(bytes as u64),
            align: U64::ZERO,
            flags: U32::new(BUFFER_PAGES),
            reserved: U32::ZERO,
        };
        let body = session.request(Kind::BufferGet, ask.as_bytes(), control::TIMEOUT)?;
        let ack: BufferAck = control::exact(&body, "buffer-get")?;
        // The module has checked where it lies: it writes there.
        match ack.buffer.get() {
            0 => Err(Error::HostNonsense("the table that it gave has no handle".into())),
            handle => Ok(PageTable {
                handle,
                places,
                session: session.clone(),
                window: window.clone(),
                of: Process::current(),
            }),
        }
    }

    /// Whether memory of this process is named in a table of this session, by [`PageTable::pin`], and where.
    ///
    /// # Errors
    /// [`Unmovable`]: it is in none, and cannot be.
    pub fn find_pages(&self, memory: MemoryToMove) -> std::result::Result<MemoryPlace, Unmovable> {
        let window = self.inner().window.as_ref().ok_or(Unmovable::NoModule)?;
        window.transport.pin(0, 0, memory)
    }
}
