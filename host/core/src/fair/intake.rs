//! Control requests of windows: each window is served in turn, a little at a
//! time, and no faster than its client may ask.
//!
//! Deficit round robin: each turn allows a window [`QUANTUM`] of work, and
//! what it did not use counts for its next turn, unless it had nothing to ask.
//! Requests beyond the rate stay unread in the window: their cells stay full,
//! so the client has to wait, and nobody else has to.

use super::{Bucket, Rate};
use vfun_wire::message::Kind;

/// Work of one turn, in the units of [`cost`]: at least the dearest request,
/// so that every turn gets something done.
pub const QUANTUM: u32 = 4;

/// Bytes set to zero that count 1, in the units of [`cost`]: those of small buffers are in
/// the cost of their request.
pub const BYTES_A_UNIT: u64 = 1 << 20;

/// What a request costs: 1 is a look-up. What writes records, or may start a
/// process, weighs more, as measured by the manager's time, roughly.
pub fn cost(kind: u16) -> u32 {
    match Kind::from_wire(kind) {
        // Services to be told; the zeros of large ones cost more (`Intake::zeroed`).
        Some(Kind::Activate | Kind::BufferGet) => QUANTUM,
        Some(
            Kind::Hello
            | Kind::Negotiate
            | Kind::Release
            | Kind::Goodbye
            | Kind::Reset
            | Kind::BufferPut,
        ) => 2,
        // Also what is no request at all: refusing it is a look-up's work.
        _ => 1,
    }
}

/// What may be done with a window's next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Serve it.
    Serve,
    /// Others first.
    NextTurn,
    /// Leave it until this time, ms: its client asked too much.
    Until(u64),
}

/// Where a window stands with its requests and its bell.
#[derive(Debug)]
pub struct Intake {
    requests: Bucket,
    rings: Bucket,
    /// Below 0: what it had done for it beyond its turns.
    credit: i64,
    /// It waits for its turn.
    pub queued: bool,
    /// It has requests that are left unread until this time, ms.
    pub due: Option<u64>,
    /// Its bell is not listened to until this time, ms.
    pub deaf_until: Option<u64>,
    /// Times that requests were left unread.
    pub throttled: u64,
    /// Times that its bell was not listened to.
    pub deafened: u64,
}

impl Intake {
    /// One that may ask and ring this fast.
    pub fn new(requests: Rate, rings: Rate, now: u64) -> Self {
        Intake {
            requests: Bucket::new(requests, now),
            rings: Bucket::new(rings, now),
            credit: 0,
            queued: false,
            due: None,
            deaf_until: None,
            throttled: 0,
            deafened: 0,
        }
    }

    /// Other rates from now on.
    pub fn set(&mut self, requests: Rate, rings: Rate, now: u64) {
        self.requests.set(requests, now);
        self.rings.set(rings, now);
        // What waits may ask again at once, or is told anew how long.
        self.due = self.due.map(|_| now);
    }

    /// Its turn begins.
    pub fn begin_turn(&mut self) {
        self.due = None;
        let quantum = i64::from(QUANTUM);
        self.credit = self.credit.saturating_add(quantum).min(2 * quantum);
    }

    /// A request of this kind is there.
    pub fn next(&mut self, now: u64, kind: u16) -> Step {
        let cost = cost(kind);
        if i64::from(cost) > self.credit {
            return Step::NextTurn;
        }
        if !self.requests.take(now, cost) {
            self.throttled += 1;
            let until = now + self.requests.wait(now, cost).max(1);
            self.due = Some(until);
            return Step::Until(until);
        }
        self.credit -= i64::from(cost);
        Step::Serve
    }

    /// So many bytes were set to zero for it, beside what a request costs: its next requests
    /// wait for as many turns, and for its client's rate, at most for a whole burst.
    /// The largest buffer still comes.
    pub fn zeroed(&mut self, now: u64, bytes: u64) {
        let cost = u32::try_from(bytes / BYTES_A_UNIT).unwrap_or(u32::MAX);
        self.credit = self.credit.saturating_sub(i64::from(cost));
        self.requests.owe(now, cost);
    }

    /// Nothing more is there: what it did not use is not saved up.
    pub fn is_empty(&mut self) {
        self.credit = self.credit.min(0);
    }

    /// Its bell rang and there was nothing to do. False if that happens too often.
    pub fn rang_for_nothing(&mut self, now: u64) -> bool {
        self.rings.take(now, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const PLENTY: Rate = Rate { per_s: 0, burst: 0 };

    fn kinds() -> impl Iterator<Item = u16> {
        (0..40).chain([u16::MAX])
    }

    #[test]
    fn every_turn_gets_something_done() {
        for kind in kinds() {
            assert!((1..=QUANTUM).contains(&cost(kind)), "message {kind}");
            let mut i = Intake::new(PLENTY, PLENTY, 0);
            i.begin_turn();
            assert_eq!(i.next(0, kind), Step::Serve);
        }
    }

    /// One that is full of the dearest requests and one that asks one thing now
    /// and then: the second never waits for more than a turn of the first.
    #[test]
    fn a_full_window_delays_another_by_one_turn_at_most() {
        let mut full = Intake::new(PLENTY, PLENTY, 0);
        let mut queue = VecDeque::from(["full"]);
        for round in 0..100 {
            queue.push_back("small");
            let mut before = 0;
            while let Some(who) = queue.pop_front() {
                if who == "small" {
                    break;
                }
                full.begin_turn();
                while full.next(round, Kind::Activate.to_wire()) == Step::Serve {
                    before += 1;
                }
                queue.push_back("full");
            }
            assert!(before <= 2, "{before} activations before one keep-alive");
        }
    }

    #[test]
    fn a_large_buffer_costs_turns_and_the_clients_rate() {
        let get = Kind::BufferGet.to_wire();
        let mut i = Intake::new(PLENTY, PLENTY, 0);
        i.begin_turn();
        assert_eq!(i.next(0, get), Step::Serve);
        i.zeroed(0, 256 << 20);
        // Also where it asked for nothing meanwhile.
        i.is_empty();
        let turns = (1..1000).find(|_| {
            i.begin_turn();
            i.next(0, get) == Step::Serve
        });
        assert_eq!(turns, Some(65), "256 units, four a turn, and its own");
        i.zeroed(0, 64 << 10);
        i.begin_turn();
        assert_eq!(i.next(0, get), Step::Serve, "a small one costs nothing more");
        // A rate: what the zeros cost is paid back before the next request.
        let mut i = Intake::new(Rate { per_s: 100, burst: 10 }, PLENTY, 0);
        i.begin_turn();
        assert_eq!(i.next(0, get), Step::Serve);
        i.zeroed(0, 56 << 20);
        (0..20).for_each(|_| i.begin_turn());
        assert_eq!(i.next(0, get), Step::Until(80), "4 of a burst that it owes, and its own 4");
        i.begin_turn();
        assert_eq!(i.next(80, get), Step::Serve);
    }

    #[test]
    fn beyond_the_rate_requests_stay_until_tokens_are_there() {
        let rate = Rate { per_s: 1_000, burst: 10 };
        let mut i = Intake::new(rate, PLENTY, 0);
        let (mut served, mut now) = (0, 0);
        while now < 100 {
            i.begin_turn();
            now = loop {
                match i.next(now, Kind::KeepAlive.to_wire()) {
                    Step::Serve => served += 1,
                    Step::NextTurn => break now,
                    Step::Until(t) => {
                        assert!(t > now && i.due == Some(t));
                        break t;
                    }
                }
            };
        }
        assert!((100..=111).contains(&served), "{served} in 100 ms at 1000/s");
        assert!(i.throttled > 0);
    }

    #[test]
    fn a_quiet_window_saves_no_turns_up() {
        let mut i = Intake::new(PLENTY, PLENTY, 0);
        for _ in 0..1000 {
            i.begin_turn();
        }
        let served = (0..).take_while(|_| i.next(0, Kind::List.to_wire()) == Step::Serve).count();
        assert!(served <= 2 * QUANTUM as usize);
        i.begin_turn();
        i.is_empty();
        assert_eq!(i.next(0, Kind::List.to_wire()), Step::NextTurn);
    }
}
