//! Raw lines, the app's side: memory, and a way to wake who answers them.

use super::open::{open_sides, place};
use crate::error::{Error, Result};
use crate::grant::GrantInfo;
use crate::transport::{BellPlace, Window};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use vfun_ring::{Memory, WindowMemory};
use vfun_wire::channel::in_header;
use vfun_wire::message::ActivateAck;

/// A channel of raw lines.
pub(crate) struct RawLines {
    memory: WindowMemory,
    window: Arc<Window>,
    place: BellPlace,
}

impl RawLines {
    /// Takes an activated channel up.
    pub fn open(window: Arc<Window>, ack: &ActivateAck, info: &GrantInfo) -> Result<Self> {
        let memory = open_sides(&window, &ack.geometry, info)?;
        Ok(RawLines { memory, window, place: place(ack) })
    }

    pub fn memory(&self) -> &WindowMemory {
        &self.memory
    }

    /// Lets go of the channel's memory.
    pub fn cut_off(&self) -> Result<()> {
        self.memory.mine().cut_off(|_| ()).map_err(Error::Map)?;
        self.memory.theirs().cut_off(|_| ()).map_err(Error::Map)
    }

    /// Rings the service if it has declared sleep and can be rung (R-SLP-2);
    /// whether it was rung.
    pub fn wake(&self) -> bool {
        // What was sent is out before the look: either this sees the
        // declaration, or the service sees the lines as it looks once more.
        fence(Ordering::SeqCst);
        let asleep = self.memory.load(in_header::SLEEPS, Ordering::Relaxed) != 0;
        let rings = asleep && self.window.bells.ring;
        if rings {
            self.window.transport.ring(self.place);
        }
        rings
    }
}
