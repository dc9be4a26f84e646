//! What all contexts of one connection share: its place in the NIC, and the buffers that it lent.

use crate::errno::Errno;
use crate::lent::LentBuffer;
use std::collections::HashMap;
use vfun_remoting_host::Used;
use vfun_verbs_nic::{Engine, WindowId};
use vfun_window::{WindowMemory, WriteSpan};

/// The NIC's engine, over real windows.
pub type NicEngine = Engine<WindowMemory, WriteSpan>;

/// A buffer that regions lie in.
struct StationWindow {
    window: WindowId,
    _used: Used,
    /// Regions that lie in it, with or without a key.
    regions: u32,
}

/// A connection, as the NIC knows it.
#[derive(Default)]
pub struct Station {
    /// By the handles that the program knows them by.
    windows: HashMap<u64, StationWindow>,
    /// Runs of regions that have no key yet.
    pub staged: usize,
}

impl Station {
    /// The window that is this buffer, made if it is none yet. Who does not use it after all says
    /// so by [`Station::tidy`].
    pub fn window(
        &mut self,
        engine: &mut NicEngine,
        handle: u64,
        lend: &mut dyn FnMut(u64) -> Result<LentBuffer, Errno>,
    ) -> Result<WindowId, Errno> {
        if let Some(known) = self.windows.get(&handle) {
            return Ok(known.window);
        }
        let (span, used) = lend(handle)?;
        let window = engine.add_window(span)?;
        self.windows.insert(handle, StationWindow { window, _used: used, regions: 0 });
        Ok(window)
    }

    /// One more region has pages of this buffer.
    pub fn uses(&mut self, handle: u64) {
        if let Some(window) = self.windows.get_mut(&handle) {
            window.regions += 1;
        }
    }

    /// One fewer has. Its key is dead by now.
    pub fn leaves(&mut self, engine: &mut NicEngine, handle: u64) {
        if let Some(window) = self.windows.get_mut(&handle) {
            window.regions -= 1;
        }
        self.tidy(engine, handle);
    }

    /// Lets go of a buffer that no region has pages of.
    pub fn tidy(&mut self, engine: &mut NicEngine, handle: u64) {
        let unused = self.windows.get(&handle).filter(|window| window.regions == 0);
        // One that the engine does not give back stays: it may still be written to.
        if let Some(window) = unused.map(|window| window.window)
            && let Ok(span) = engine.end_window(window)
        {
            drop(span);
            self.windows.remove(&handle);
        }
    }

    /// Whether the NIC has none of its buffers any more.
    pub fn is_clean(&self) -> bool {
        self.windows.is_empty() && self.staged == 0
    }
}
