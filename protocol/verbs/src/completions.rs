//! Completion queues: who asks for an event, and who gets one.
//!
//! The program asks in its header page (word [`ASKED`]), the NIC answers in its own (word
//! [`FIRED`]). So no event can be lost for want of room, and none comes unasked.

use crate::limits::ENTRY_BYTES;
use vfun_queue::{Consumer, Memory, Producer};
use vfun_window::sync::{Ordering, fence};

/// In the program's header page: how often it asked, times two; plus 1 if it asked for
/// solicited completions only.
pub const ASKED: usize = 16;
/// In the NIC's header page: how many events there were.
pub const FIRED: usize = 16;

/// The program's end of a completion queue, beside the entries.
pub struct Asker {
    asked: u64,
    seen: u64,
}

impl Default for Asker {
    fn default() -> Self {
        Self::new()
    }
}

impl Asker {
    pub const fn new() -> Self {
        Asker { asked: 0, seen: 0 }
    }

    /// Asks for an event at the next completion, or the next solicited one. Poll once more
    /// after it: what was there before need not bring an event (R-VRB-8).
    pub fn ask<M: Memory>(&mut self, end: &Consumer<M, ENTRY_BYTES>, solicited_only: bool) {
        self.asked = self.asked.wrapping_add(1);
        let word = self.asked.wrapping_shl(1) | u64::from(solicited_only);
        end.memory().store(ASKED, word, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Takes an event, if there is one.
    pub fn take<M: Memory>(&mut self, end: &Consumer<M, ENTRY_BYTES>) -> bool {
        let fired = end.memory().load(FIRED, Ordering::Acquire);
        let is = fired != self.seen;
        if is {
            self.seen = self.seen.wrapping_add(1);
        }
        is
    }
}

/// The NIC's end of it.
#[derive(Default)]
pub struct Answerer {
    answered: u64,
    fired: u64,
}

impl Answerer {
    /// After completions were put into the queue, of which one was `solicited` or none:
    /// whether an event came of it. Then wake the program. At most one event comes for each
    /// change of the program's word, whatever it writes.
    #[inline]
    pub fn completed<M: Memory>(
        &mut self,
        end: &Producer<M, ENTRY_BYTES>,
        solicited: bool,
    ) -> bool {
        fence(Ordering::SeqCst);
        let word = end.memory().load(ASKED, Ordering::Relaxed);
        let (asked, solicited_only) = (word >> 1, word & 1 != 0);
        if asked == self.answered || solicited_only && !solicited {
            return false;
        }
        self.answered = asked;
        self.fired = self.fired.wrapping_add(1);
        end.memory().store(FIRED, self.fired, Ordering::Release);
        true
    }
}
