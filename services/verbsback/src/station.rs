//! What all contexts of one connection share: its place in the NIC, and the buffers that it lent.

use crate::errno::Errno;
use crate::guest::GuestPages;
use crate::lent::LentBuffer;
use crate::memory::{BufferRun, Lend};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use vfun_remoting_host::Used;
use vfun_verbs_nic::{Engine, PageRun, WindowId};
use vfun_window::{WindowMemory, WriteSpan};

/// The NIC's engine, over real windows.
pub type NicEngine = Engine<WindowMemory, WriteSpan>;

/// A buffer that regions lie in.
struct StationWindow {
    window: WindowId,
    /// The window is the VM's memory, and these are the program's pages of it.
    pages: Option<GuestPages>,
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
    fn window(
        &mut self,
        engine: &mut NicEngine,
        handle: u64,
        lend: Lend<'_>,
    ) -> Result<&StationWindow, Errno> {
        let room = match self.windows.entry(handle) {
            Entry::Occupied(known) => return Ok(known.into_mut()),
            Entry::Vacant(room) => room,
        };
        let LentBuffer { span, pages, used } = lend(handle)?;
        let window = engine.add_window(span)?;
        Ok(room.insert(StationWindow { window, pages, _used: used, regions: 0 }))
    }

    /// Appends pages of a buffer to those of a region. So many runs may be there at most.
    pub fn append(
        &mut self,
        engine: &mut NicEngine,
        (run, is_written): (&BufferRun, bool),
        (runs, most): (&mut Vec<PageRun>, usize),
        lend: Lend<'_>,
    ) -> Result<(), Errno> {
        let its = self.window(engine, run.buffer, lend)?;
        let mut push = |run| {
            if runs.len() >= most {
                return Err(Errno::LIMIT);
            }
            runs.push(run);
            Ok(())
        };
        let (window, place) = (its.window, (run.page, run.pages));
        match &its.pages {
            Some(pages) => pages.each_run(window, place, is_written, push),
            None => push(PageRun { window, page: run.page, pages: run.pages }),
        }
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
