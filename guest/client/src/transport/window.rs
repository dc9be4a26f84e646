//! The first pages of a window, mapped as the protocol lets an app use them.

use super::Transport;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfun_window::{Access, MapError, Mapping, ReadSpan, WriteSpan};
use vfun_wire::PAGE;
use vfun_wire::header::{ANSWERS_OFF, GUEST_PAGE_OFF, HEAP_OFF, WindowHeader, check_size};
use zerocopy::{FromZeros, IntoBytes};

/// Word of the header that holds the generation.
const GENERATION_WORD: usize = std::mem::offset_of!(WindowHeader, generation) / 8;

/// A window as this side sees it: the transport beneath, the header, and the
/// control pages. Header and answers are mapped for reading only.
pub(crate) struct Window {
    pub transport: Arc<dyn Transport>,
    /// The private copy that was checked.
    pub checked: WindowHeader,
    /// Page 0: for the few words that change.
    pub header: ReadSpan,
    /// From [`GUEST_PAGE_OFF`] to [`ANSWERS_OFF`].
    pub guest: WriteSpan,
    /// From [`ANSWERS_OFF`] to [`HEAP_OFF`].
    pub answers: ReadSpan,
}

impl Window {
    /// Checks the header on a private copy, then maps the control pages.
    pub fn open(transport: Arc<dyn Transport>) -> Result<Self> {
        let place = || format!("{} {}", transport.kind(), transport.place());
        let bytes = transport.window_bytes();
        check_size(bytes).map_err(|why| Error::NotAWindow { place: place(), why })?;
        let header = map(&*transport, 0, PAGE, Access::Read)?.read();
        let mut checked = WindowHeader::new_zeroed();
        read_part(&header, 0, checked.as_mut_bytes())?;
        checked.check(bytes).map_err(|why| Error::NotAWindow { place: place(), why })?;
        let guest =
            map(&*transport, GUEST_PAGE_OFF, ANSWERS_OFF - GUEST_PAGE_OFF, Access::ReadWrite)?;
        let guest = guest.write().ok_or(Error::Map(MapError::Shape))?;
        let answers = map(&*transport, ANSWERS_OFF, HEAP_OFF - ANSWERS_OFF, Access::Read)?.read();
        Ok(Window { transport, checked, header, guest, answers })
    }

    /// The generation that was checked.
    pub fn generation(&self) -> u64 {
        self.checked.generation.get()
    }

    /// Whether the window was laid out anew since.
    #[inline(always)]
    pub fn check_generation(&self) -> Result<()> {
        let found = self.header.load(GENERATION_WORD, Ordering::Relaxed);
        if found == self.generation() { Ok(()) } else { self.stale(found) }
    }

    #[cold]
    fn stale(&self, found: u64) -> Result<()> {
        Err(Error::StaleGeneration { ours: self.generation(), found })
    }

    /// A word of the header page that the host changes.
    pub fn host_word(&self, off: usize) -> u64 {
        self.header.load(off / 8, Ordering::Acquire)
    }
    /// The index in [`Window::guest`] of the word at `off` in the window.
    pub const fn guest_word(off: usize) -> usize {
        (off - GUEST_PAGE_OFF) / 8
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

fn read_part(span: &ReadSpan, off: usize, to: &mut [u8]) -> Result<()> {
    span.read(off, to).map_err(|_| Error::Map(MapError::Shape))
}
