//! Raw lines, the app's side: memory, and a way to wake who answers them.

use super::end::ChannelSides;
use super::life::ServiceLife;
use super::open::GrantedChannel;
use crate::error::{Error, Result};
use crate::transport::{BellPlace, Window};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use vfun_ring::{Memory, WindowMemory, broken};
use vfun_wire::channel::in_header;
use vfun_wire::status::BreakReason;

/// A channel of raw lines.
pub(crate) struct RawLines {
    memory: WindowMemory,
    window: Arc<Window>,
    place: BellPlace,
    life: ServiceLife,
    /// Whether its memory is its own by now.
    cut: Mutex<bool>,
}

impl RawLines {
    /// Takes an activated channel up.
    pub fn open(window: Arc<Window>, placed: &GrantedChannel) -> Result<Self> {
        let memory = placed.sides(&window)?;
        Ok(RawLines {
            memory,
            window,
            place: placed.bells(),
            life: ServiceLife::default(),
            cut: Mutex::default(),
        })
    }

    pub fn memory(&self) -> &WindowMemory {
        &self.memory
    }

    /// Lets go of the channel's memory. Its header says from then on that it was
    /// released, as the one of a channel of calls does: who goes on sending sees it.
    pub fn cut_off(&self) -> Result<()> {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        if !*cut {
            ChannelSides { memory: &self.memory, depth: 0, cell_bytes: 0 }.cut_off(&[], &[])?;
            *cut = true;
        }
        Ok(())
    }

    /// Whether lines that are sent are answered still; else why not. Lets go of a
    /// channel that the host released, as it may give its memory to others.
    pub fn check(&self) -> Result<()> {
        if let Some(reason) = broken(&self.memory) {
            if reason == BreakReason::Released {
                self.cut_off()?;
            }
            return Err(Error::of_break(reason));
        }
        self.window.check_generation()?;
        self.life.check(&self.memory, || self.window.manager_gone()).map_or(Ok(()), Err)
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
