//! What must hold, while it runs and at its end.

use crate::common::plain::peek;
use crate::handover::deaths::{Anew, Crashes};
use crate::handover::memory::{Process, left};
use crate::handover::world::{A, C, Driver, Hostile, World, frame};
use std::collections::VecDeque;
use vfun_packet::layout::header;
use vfun_packet::{Reading, Stage, Turn, Way};

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Repeated, or out of order.
    Order,
    /// Lost, and not counted.
    Lost,
    /// A frame that nobody sent.
    Frame,
    /// The manager is told that a flow is back, and it is not.
    Past,
    /// A flip does not end.
    Stuck,
    /// Honest parties found nonsense, or were taken for silent.
    Nonsense,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub wrong: Option<(Kind, String)>,
    pub flips: u64,
    pub delivered: u64,
    pub over_link: u64,
    /// What C has sent, and what of it came to B.
    pub third: [u64; 2],
    pub forced: bool,
    pub crashes: u64,
}

impl World {
    pub fn wrong(&mut self, kind: Kind, what: String) {
        let plan = self.plan;
        self.outcome
            .wrong
            .get_or_insert_with(|| (kind, format!("{what}, at {} of {plan:?}", self.now)));
    }

    pub fn deliver(&mut self, got: &[u8]) {
        if self.plan.hostile != Hostile::Nobody {
            return self.deliver_hostile(got);
        }
        let word = |n: usize| u64::from_le_bytes(got[8 * n..8 * n + 8].try_into().unwrap());
        let (source, number) = (word(0), word(1));
        if source == 0 || source > C || got != frame(source, number, self.bytes) {
            return self.wrong(Kind::Frame, format!("a frame that nobody sent: {source} {number}"));
        }
        self.came[source as usize] += 1;
        let last = std::mem::replace(&mut self.seen[source as usize], number);
        if number <= last {
            self.wrong(Kind::Order, format!("frame {number} of {source} came after {last}"));
        }
    }

    /// What hostile VMs send is theirs. C's frames come as ever.
    fn deliver_hostile(&mut self, got: &[u8]) {
        let number = got.get(8..16).and_then(|n| n.try_into().ok()).map_or(0, u64::from_le_bytes);
        if self.plan.hostile == Hostile::Sender && got == frame(C, number, self.bytes) {
            let last = std::mem::replace(&mut self.seen[C as usize], number);
            if number <= last {
                self.wrong(Kind::Order, format!("frame {number} of C came after {last}"));
            }
            self.came[C as usize] += 1;
        }
    }

    /// Where the manager says that frames go through the switch, none goes past it; and B does
    /// not read a link that the manager has not allowed.
    pub fn check_way(&mut self) {
        let way = self.sender.live.as_ref().and_then(|(_, tx)| tx.way());
        let is_said = matches!(self.director.stage(), Stage::Switch { .. });
        if is_said && way == Some(Way::Link) && self.plan.hostile != Hostile::Sender {
            self.wrong(Kind::Past, "A sends past the switch".into());
        }
        let open = Turn::of(peek(&self.shared.b, header::OPEN));
        let is_wild = |turn: Turn| turn.to() == Way::Link && turn.epoch() > self.allowed;
        if open.is_some_and(is_wild) && self.plan.hostile != Hostile::Receiver {
            self.wrong(Kind::Past, format!("{open:?} was not allowed"));
        }
    }

    /// What honest VMs say of the link's frames is believed.
    pub fn check_counts(&mut self) {
        let p = Process::new();
        let (a, b) = (&self.shared.link_a, &self.shared.link_b);
        let reading = Reading::of(&p.view(b, a), &p.view(a, b));
        let found = self.ledger.look(reading);
        if found.is_err() && self.plan.hostile == Hostile::Nobody {
            self.wrong(Kind::Nonsense, format!("{reading:?} is not believed: {found:?}"));
        }
    }

    /// Everybody lives, and A has nothing to say any more: the flip under way must end, and
    /// all that was sent be accounted for.
    pub fn settle(&mut self) {
        self.quiet = true;
        for _ in 0..40_000 {
            self.step();
            if self.outcome.wrong.is_some() {
                return;
            }
            if self.plan.hostile != Hostile::Nobody && self.is_settled_hostile() {
                return self.account_third();
            }
            if self.plan.hostile == Hostile::Nobody && self.is_settled() {
                self.account();
                return self.account_third();
            }
        }
        self.wrong(Kind::Stuck, format!("the flip does not end: {:?}", self.director.stage()));
    }

    fn is_settled(&self) -> bool {
        let s = &self.shared;
        let is_over = self.director.stage() == Stage::Over;
        let is_back = is_over || matches!(self.director.stage(), Stage::Switch { .. });
        let is_empty = |from, to| peek(from, header::HEAD) == peek(to, header::TAIL);
        let is_out = self.sender.live.as_ref().is_some_and(|(_, tx)| tx.way() == Some(Way::Switch));
        let driver = self.driver.as_ref();
        let is_idle =
            driver.is_some_and(|d| !d.closer.is_due() && d.queues.iter().all(VecDeque::is_empty));
        is_back
            && is_out
            && is_idle
            && (self.sender.has_link || self.anew.is_some())
            && self.receiver.live.is_some()
            && is_empty(&s.a, &s.a_host)
            && is_empty(&s.b_host, &s.b)
            && (is_over || is_empty(&s.link_a, &s.link_b))
    }

    /// The honest VM is back on the switch, and knows it.
    fn is_settled_hostile(&self) -> bool {
        let s = &self.shared;
        let stage = self.director.stage();
        let is_back = matches!(stage, Stage::Switch { .. } | Stage::Over);
        let is_out = self.sender.live.as_ref().is_some_and(|(_, tx)| tx.way() == Some(Way::Switch));
        let open = Turn::of(peek(&s.b, header::OPEN));
        let is_closed = open.is_none_or(|turn| turn.to() == Way::Switch);
        let is_idle = |d: &Driver| !d.closer.is_due() && d.queues.iter().all(VecDeque::is_empty);
        let is_idle = self.driver.as_ref().is_some_and(is_idle);
        let is_empty = peek(&s.b_host, header::HEAD) == peek(&s.b, header::TAIL);
        let is_honest_back = match self.plan.hostile {
            Hostile::Receiver => is_out,
            _ => self.receiver.live.is_some() && is_closed && is_empty && is_idle,
        };
        is_back && is_honest_back
    }

    fn account(&mut self) {
        let s = &self.shared;
        self.outcome.over_link = peek(&s.link_b, header::TAKEN);
        let before = match self.anew {
            Some(Anew::Sender(sent)) => sent,
            Some(Anew::Receiver) | None => 0,
        };
        let sent = before + peek(&s.a, header::SENT) + peek(&s.link_a, header::SENT);
        let thrown = left(&s.link_a, &s.link_b);
        let (came, dropped) = (self.came[A as usize], self.dropped[A as usize]);
        self.outcome.delivered = came;
        let known = came + dropped + thrown;
        if self.plan.crashes != Crashes::Anywhere && sent != known {
            let parts = (came, dropped, thrown);
            self.wrong(Kind::Lost, format!("{sent} were sent, and {known} are known: {parts:?}"));
        }
        let s = &self.shared;
        let bad = [peek(&s.a_host, header::BAD), peek(&s.b, header::BAD)];
        let is_wrong = match self.plan.crashes {
            Crashes::None => bad != [0, 0] || self.outcome.forced,
            // What B's new VM finds in its ring has sense.
            Crashes::Anew => self.anew == Some(Anew::Receiver) && bad[1] != 0,
            _ => false,
        };
        if is_wrong {
            let forced = self.outcome.forced;
            self.wrong(Kind::Nonsense, format!("{bad:?} times nonsense, forced: {forced}"));
        }
    }

    /// Each frame of C came, or was dropped where it is counted.
    fn account_third(&mut self) {
        let third = C as usize;
        let (sent, came, dropped) = (self.next[third], self.came[third], self.dropped[third]);
        self.outcome.third = [sent, came];
        // B's own frames are its own affair, and what dies in the middle of a burst is lost.
        let is_known =
            self.plan.hostile != Hostile::Receiver && self.plan.crashes != Crashes::Anywhere;
        if is_known && sent != came + dropped {
            let what = format!("{sent} of C were sent, {came} came, {dropped} were dropped");
            self.wrong(Kind::Lost, what);
        }
    }
}
