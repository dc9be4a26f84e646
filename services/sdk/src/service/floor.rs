//! Raw lines: the first word of each of the app's lines is stored in the
//! service's line of the same cell as soon as it changes. No sequence, no
//! checks, no driver: what a call costs beyond this is the protocol's doing.

use super::idle::{ChannelWork, LookOutcome};
use vfun_ring::{Memory, Server, WindowMemory, sync::Ordering};
use vfun_window::Bell;
use vfun_wire::channel::line_off;

/// As in the ring: looks at the expected line between two looks elsewhere.
const LOOKS_PER_SWEEP: u32 = 32;

/// A channel of raw lines.
pub struct Floor {
    /// For its declarations only.
    server: Server<WindowMemory>,
    mem: WindowMemory,
    app: Option<Bell>,
    last: Box<[u64]>,
    head: usize,
    sweep: usize,
    looks: u32,
}

fn word(cell: usize) -> usize {
    line_off(cell) / 8
}

impl Floor {
    /// Takes up the channel in `mem`.
    pub fn new(mem: WindowMemory, depth: u16, app: Option<Bell>) -> Self {
        let last = (0..depth.into()).map(|c| mem.load_own(word(c), Ordering::Relaxed)).collect();
        let server = Server::new(mem.clone(), depth, 0);
        Floor { server, mem, app, last, head: 0, sweep: 0, looks: 0 }
    }

    #[inline]
    fn look_at(&self, cell: usize) -> Option<(usize, u64)> {
        let now = self.mem.load(word(cell), Ordering::Acquire);
        (now != self.last[cell]).then_some((cell, now))
    }

    fn after(&self, cell: usize) -> usize {
        (cell + 1) & (self.last.len() - 1)
    }

    #[cold]
    fn ring(&self) {
        if let Some(bell) = &self.app {
            self.server.about_to_ring();
            bell.ring();
        }
    }
}

impl ChannelWork for Floor {
    type Look = Option<(usize, u64)>;

    #[inline]
    fn next(&mut self, look: &mut Self::Look) {
        *look = self.look_at(self.head);
        if look.is_some() {
            return;
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS_PER_SWEEP) {
            self.sweep = self.after(self.sweep);
            *look = self.look_at(self.sweep);
        }
    }

    fn next_anywhere(&mut self) -> Self::Look {
        (0..self.last.len()).find_map(|cell| self.look_at(cell))
    }

    #[inline]
    fn seen(look: &Self::Look) -> LookOutcome {
        if look.is_some() { LookOutcome::Request } else { LookOutcome::Nothing }
    }

    #[inline]
    fn serve(&mut self, look: &Self::Look) {
        let Some((cell, now)) = *look else { return };
        self.last[cell] = now;
        self.mem.store(word(cell), now, Ordering::Release);
        self.head = self.after(cell);
        self.mem.prefetch(word(self.head));
        if self.server.seems_asleep() {
            self.ring();
        }
    }

    fn rest(&mut self) {}

    /// Raw lines ring nobody but on the way of [`ChannelWork::serve`].
    fn owes_ring(&mut self) -> bool {
        true
    }

    fn spent(&mut self, _: u64, _: u64) {}

    fn server(&self) -> &Server<WindowMemory> {
        &self.server
    }
}
