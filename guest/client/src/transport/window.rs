//! A window's header, checked, and the few words of its page that change.

use super::beat::HostBeat;
use super::{Bells, Transport};
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;
use vfun_window::{Access, MapError, Mapping, ReadSpan, ReadWord};
use vfun_wire::PAGE;
use vfun_wire::header::{
    HOST_BEAT_OFF, HOST_STATE_OFF, PORTS_OFF, PortEntry, Role, WindowHeader, check_size,
};
use vfun_wire::limits::NAME_BYTES;
use vfun_wire::message::Name;
use vfun_wire::names;
use vfun_wire::version::Features;
use zerocopy::{FromZeros, IntoBytes};

/// Word of the header that holds the generation.
const GENERATION_WORD: usize = std::mem::offset_of!(WindowHeader, generation) / 8;

/// A window as this side sees it: the transport beneath, and the header.
pub(crate) struct Window {
    pub transport: Arc<dyn Transport>,
    /// The private copy that was checked.
    pub checked: WindowHeader,
    /// What of its doorbells works on this side.
    pub bells: Bells,
    /// Page 0, for reading only: for the few words that change.
    header: ReadSpan,
    /// The header's generation, as it is now.
    found: ReadWord,
    beat: HostBeat,
}

impl Window {
    /// Checks the header on a private copy.
    pub fn open(transport: Arc<dyn Transport>) -> Result<Self> {
        let place = || format!("{} {}", transport.kind(), transport.place());
        let bytes = transport.window_bytes();
        check_size(bytes).map_err(|why| Error::NotAWindow { place: place(), why })?;
        let header = map(&*transport, 0, PAGE, Access::Read)?.read();
        let mut checked = WindowHeader::new_zeroed();
        header.read(0, checked.as_mut_bytes()).map_err(|_| Error::Map(MapError::Shape))?;
        checked
            .check(bytes, Role::Control)
            .map_err(|why| Error::NotAWindow { place: place(), why })?;
        let offered = Features(checked.features.get()).has(Features::DOORBELL);
        let bells = if offered { transport.bells()? } else { Bells::default() };
        let found = header.read_word(GENERATION_WORD).map_err(|_| Error::Map(MapError::Shape))?;
        Ok(Window { transport, checked, bells, header, found, beat: HostBeat::default() })
    }

    /// The generation that was checked.
    pub fn generation(&self) -> u64 {
        self.checked.generation.get()
    }

    /// Whether the window was made again since, or its device was unplugged.
    #[inline(always)]
    pub fn is_stale(&self) -> bool {
        self.found.load(Ordering::Relaxed) != self.generation()
    }

    /// The error of a window that was made again, if it was.
    #[inline(always)]
    pub fn check_generation(&self) -> Result<()> {
        if self.is_stale() { Err(self.renewed()) } else { Ok(()) }
    }

    /// The error of a window that was found to be made again.
    #[cold]
    pub fn renewed(&self) -> Error {
        match self.transport.device_gone() {
            true => Error::DeviceGone,
            false => Error::StaleGeneration {
                ours: self.generation(),
                found: self.found.load(Ordering::Relaxed),
            },
        }
    }

    /// Whether the manager is gone, as far as this side can tell: its socket was
    /// closed or, where there is none, its beat stands still.
    pub fn manager_gone(&self) -> bool {
        self.transport.host_gone().unwrap_or_else(|| {
            let state = self.host_word(HOST_STATE_OFF) as u32;
            self.beat.stands_still(Instant::now(), self.host_word(HOST_BEAT_OFF), state)
        })
    }

    /// An entry of the table of ports, copied (R-WIN-13); `None`: there is none, or it is being
    /// written.
    pub fn port_entry(&self, number: usize) -> Option<PortEntry> {
        let at = PORTS_OFF + number * size_of::<PortEntry>();
        let mut entry = PortEntry::NONE;
        let id = self.host_word(at);
        self.header.read(at, entry.as_mut_bytes()).ok()?;
        // What was read is read before the word is looked at again.
        fence(Ordering::Acquire);
        let same = id != 0 && entry.id.get() == id && self.host_word(at) == id;
        same.then_some(entry)
    }

    /// A word of the header page that the host changes.
    pub fn host_word(&self, off: usize) -> u64 {
        self.header.load(off / 8, Ordering::Acquire)
    }
}

/// Maps a range; `off` and `len` are this side's own or were checked.
pub(crate) fn map(
    t: &dyn Transport,
    off: usize,
    len: usize,
    access: Access,
) -> Result<Arc<Mapping>> {
    t.map(off as u64, len, access).map_err(Error::Map)
}

/// Whose window it is, by its header, before it is opened; `None` if that
/// cannot be told.
pub(super) fn client_of(t: &dyn Transport) -> Option<String> {
    let header = map(t, 0, PAGE, Access::Read).ok()?.read();
    let mut name: Name = [0; NAME_BYTES];
    header.read(std::mem::offset_of!(WindowHeader, client), &mut name).ok()?;
    names::decode(&name).ok().map(str::to_owned)
}
