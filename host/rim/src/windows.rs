//! Windows come and go.

use crate::act::Act;
use crate::keep::Keep;
use crate::{Attached, System};
use vfun_core::{Event, WindowId};

/// Makes and takes down control windows.
pub trait Windows: System {
    /// A number that no window or connection had before.
    fn fresh_id(&mut self) -> u32 {
        let rim = self.rim_mut();
        rim.next_id += 1;
        rim.next_id
    }

    /// The generation of the next window that is laid out.
    fn next_window_generation(&mut self) -> u64 {
        let rim = self.rim_mut();
        rim.window_generation += 1;
        rim.window_generation
    }

    /// A window that its other end has already, or that none comes for. It is kept
    /// before the core hears of it.
    fn window_up(&mut self, id: WindowId, attached: Attached<Self::Peer>) {
        let up = up(id, &attached);
        self.rim_mut().windows.insert(id, attached);
        self.hold_window(id);
        self.point("a window is kept, not noted");
        self.push(up);
    }

    /// A window that is given to its other end by `give`, which cannot ask for
    /// another one: so it is kept first, as one that is being handed over.
    fn window_given<E>(
        &mut self,
        id: WindowId,
        mut attached: Attached<Self::Peer>,
        give: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        attached.handing = true;
        let up = up(id, &attached);
        self.rim_mut().windows.insert(id, attached);
        self.hold_window(id);
        self.point("a window is kept, its VM has nothing of it");
        let given = give(self);
        self.point("a VM has its window and counts as not told");
        if let Err(e) = given {
            self.rim_mut().windows.remove(&id);
            self.let_window_go(id);
            return Err(e);
        }
        if let Some(a) = self.rim_mut().windows.get_mut(&id) {
            a.handing = false;
        }
        self.hold_window(id);
        self.point("a VM's window is kept, not noted");
        self.push(up);
        Ok(())
    }

    /// A window's other end is gone, or the window is to go.
    fn window_gone(&mut self, id: WindowId) {
        if !self.rim().windows.contains_key(&id) {
            return;
        }
        // First, as it was kept before it was noted: one that is kept and
        // not noted counts as new.
        self.let_window_go(id);
        self.point("a window is let go, not noted");
        self.push(Event::WindowDown { window: id });
        self.settle();
        // Services map what they need of it themselves.
        if let Some(attached) = self.rim_mut().windows.remove(&id) {
            self.close(id, attached);
        }
    }
}

impl<S: System> Windows for S {}

/// What the core is told of a window.
pub(crate) fn up<P>(window: WindowId, a: &Attached<P>) -> Event {
    Event::WindowUp {
        window,
        client: a.client,
        vm: a.vm.clone(),
        bytes: a.window.bytes(),
        doorbell: a.window.bells().is_some(),
        death_seen: !a.by_heartbeats(),
        proven: a.proven,
    }
}
