//! Calls whose caller stopped waiting. The service may still write their
//! answers, so their cells are freed only once answered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use vfun_ring::{Caller, Memory, PollAnswer, Ticket};

/// Claims between two walks of the list while some of it may be answered.
const CLAIMS_A_WALK: u32 = 64;

/// The list. Touched by calls only while it is not empty.
#[derive(Default)]
pub(super) struct Abandoned {
    count: AtomicU32,
    claims: AtomicU32,
    tickets: Mutex<Vec<Ticket>>,
}

impl Abandoned {
    /// Takes a ticket over from its caller.
    pub fn push<M: Memory>(&self, caller: &Caller<M>, ticket: Ticket) {
        let mut tickets = self.lock();
        tickets.push(ticket);
        Self::walk(caller, &mut tickets);
        self.count.store(tickets.len() as u32, Relaxed);
    }

    /// On every claim: one load while nothing is abandoned.
    #[inline(always)]
    pub fn on_claim<M: Memory>(&self, caller: &Caller<M>) {
        if self.count.load(Relaxed) != 0
            && self.claims.fetch_add(1, Relaxed).is_multiple_of(CLAIMS_A_WALK)
        {
            self.reap(caller);
        }
    }

    /// Frees the cells of what was answered; whether there were any.
    #[cold]
    pub fn reap<M: Memory>(&self, caller: &Caller<M>) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let mut tickets = self.lock();
        let freed = Self::walk(caller, &mut tickets);
        self.count.store(tickets.len() as u32, Relaxed);
        freed
    }

    fn walk<M: Memory>(caller: &Caller<M>, tickets: &mut Vec<Ticket>) -> bool {
        let before = tickets.len();
        let mut i = 0;
        while i < tickets.len() {
            // Nonsense keeps its cell: nobody knows whether the host is done with it.
            if matches!(caller.look(&tickets[i]), PollAnswer::Done(_)) {
                caller.take(tickets.swap_remove(i));
            } else {
                i += 1;
            }
        }
        tickets.len() != before
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Ticket>> {
        self.tickets.lock().unwrap_or_else(|e| e.into_inner())
    }
}
