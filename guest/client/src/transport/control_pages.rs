//! The control cells of a window, for transports by which this process itself
//! writes them.

use super::{Transport, Window, map};
use crate::error::{Error, Result};
use std::sync::Arc;
use vfun_window::{Access, MapError, ReadSpan, WriteSpan};
use vfun_wire::header::{ANSWERS_OFF, GUEST_PAGE_OFF, HEAP_OFF};

/// The guest's page, requests and answers. Answers are mapped for reading only.
pub(crate) struct ControlPages {
    pub window: Arc<Window>,
    /// From [`GUEST_PAGE_OFF`] to [`ANSWERS_OFF`].
    pub guest: WriteSpan,
    /// From [`ANSWERS_OFF`] to [`HEAP_OFF`].
    pub answers: ReadSpan,
}

impl ControlPages {
    /// Maps the pages of a window.
    pub fn open(window: Arc<Window>) -> Result<Self> {
        let transport: &dyn Transport = &*window.transport;
        let guest =
            map(transport, GUEST_PAGE_OFF, ANSWERS_OFF - GUEST_PAGE_OFF, Access::ReadWrite)?;
        let guest = guest.write().ok_or(Error::Map(MapError::Shape))?;
        let answers = map(transport, ANSWERS_OFF, HEAP_OFF - ANSWERS_OFF, Access::Read)?.read();
        Ok(ControlPages { window, guest, answers })
    }

    /// The index in [`ControlPages::guest`] of the word at `off` in the window.
    pub const fn guest_word(off: usize) -> usize {
        (off - GUEST_PAGE_OFF) / 8
    }
}
