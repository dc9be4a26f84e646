//! Further windows of VMs: memory beside a VM's control window. The host names them in the
//! control window's table, and the guest's kernel module says which of them it has
//! (R-WIN-14). A data window that is named and there is one of the window's memories, for
//! buffers. A link is none: what lies there is for its two VMs to say.

use super::nacks;
use super::requests::{Answer, body, empty, zero};
use super::{Action, Core, Level, WindowId};
use serde::{Deserialize, Serialize};
use vfun_wire::message::{Kind, WindowHere};
use zerocopy::little_endian::U64;

/// A further window as the rim named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Further {
    /// Its number in its VM, from 1.
    pub index: u16,
    /// What nobody knows but those who share it; never again that of another window.
    pub key: [u64; 2],
    /// Its size.
    pub bytes: u64,
    /// Bytes of a page of the file behind it.
    pub page: u64,
    /// It is a link: another VM has it, too.
    #[serde(default)]
    pub link: bool,
    /// The guest has it, as its kernel module said.
    #[serde(default)]
    pub here: bool,
}

impl Core {
    /// A further window is named in a VM's control window.
    pub(super) fn window_named(&mut self, window: WindowId, named: Further, out: &mut Vec<Action>) {
        let Some(w) = self.windows.get_mut(&window) else { return };
        // A manager that takes over names again what is noted.
        if w.further.get(&named.index).is_some_and(|f| f.key == named.key) {
            return;
        }
        w.further.insert(named.index, Further { here: false, ..named });
        // What was of that number before is not this.
        self.memory_down(window, named.index, out);
    }

    /// It is named no more.
    pub(super) fn window_unnamed(&mut self, window: WindowId, index: u16, out: &mut Vec<Action>) {
        if let Some(w) = self.windows.get_mut(&window) {
            w.further.remove(&index);
            self.memory_down(window, index, out);
        }
    }

    /// A guest's kernel module has a further window, or has it no more.
    pub(super) fn window_here(
        &mut self,
        window: WindowId,
        bytes: &[u8],
        out: &mut Vec<Action>,
    ) -> Answer {
        let said: WindowHere = body(bytes, Kind::Window)?;
        zero("window's reserved bytes", said.reserved == [0; 6])?;
        let here = match said.here.get() {
            here @ (0 | 1) => here == 1,
            other => {
                return Err(nacks::malformed(format!("window's `here` is 0 or 1, not {other}")));
            }
        };
        let w = self.windows.get_mut(&window).ok_or_else(nacks::client_removed)?;
        let key = said.key.map(U64::get);
        let found = w.further.values_mut().find(|f| f.key == key);
        let further = found.ok_or_else(nacks::no_such_window)?;
        further.here = here;
        let (index, client) = (further.index, w.client);
        self.further_waits = true;
        let what = if here { "has" } else { "has no longer" };
        let text = format!("its VM {what} its further window {index}");
        out.push(Action::LogOf { client, level: Level::Info, text });
        if !here {
            self.memory_down(window, index, out);
        }
        Ok(empty())
    }

    /// The module that said what is there starts anew.
    pub(super) fn no_window_here(&mut self, window: WindowId, out: &mut Vec<Action>) {
        let Some(w) = self.windows.get_mut(&window) else { return };
        let gone: Vec<u16> = w.further.values().filter(|f| f.here).map(|f| f.index).collect();
        w.further.values_mut().for_each(|f| f.here = false);
        gone.into_iter().for_each(|index| self.memory_down(window, index, out));
    }

    /// A further window of a VM's control window.
    pub fn further(&self, window: WindowId, index: u16) -> Option<&Further> {
        self.windows.get(&window)?.further.get(&index)
    }

    /// All further windows that are named, with the control window of each.
    pub fn all_further(&self) -> impl Iterator<Item = (WindowId, &Further)> {
        self.windows.iter().flat_map(|(id, w)| w.further.values().map(move |f| (*id, f)))
    }

    /// Gives out memory that came. What came again is given out when all services have
    /// let go of what was there before: they may write to it still.
    pub(super) fn follow_further(&mut self, out: &mut Vec<Action>) {
        if !std::mem::take(&mut self.further_waits) {
            return;
        }
        let came: Vec<(WindowId, u32, Further)> = self
            .windows
            .iter()
            .flat_map(|(id, w)| w.further.values().map(move |f| (*id, w, *f)))
            .filter(|(_, w, f)| f.here && !f.link && !w.data.contains_key(&f.index))
            .map(|(id, w, f)| (id, w.client, f))
            .collect();
        for (id, client, f) in came {
            match self.is_touched(client, f.index) {
                true => self.further_waits = true,
                false => self.memory_up(id, f.index, (f.bytes, f.page), out),
            }
        }
    }

    /// Whether a service of this client may touch what lay in a further window that was
    /// taken away: one of the same number, of whichever VM.
    pub fn is_touched(&self, client: u32, index: u16) -> bool {
        self.buffers.iter().any(|(_, b)| {
            let gone = b.lost || !self.windows.contains_key(&b.holder.window);
            b.holder.client_id == client && b.memory == index && gone
        })
    }
}
