//! What must hold, while it runs and at its end.

use crate::common::plain::peek;
use crate::handover::deaths::Crashes;
use crate::handover::memory::{Process, left};
use crate::handover::world::{A, C, Hostile, World, frame};
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
        let last = std::mem::replace(&mut self.seen[source as usize], number);
        if number <= last {
            self.wrong(Kind::Order, format!("frame {number} of {source} came after {last}"));
        }
        if source == A {
            self.outcome.delivered += 1;
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
            self.outcome.delivered += 1;
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
                return;
            }
            if self.plan.hostile == Hostile::Nobody && self.is_settled() {
                return self.account();
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
            && self.sender.has_link
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
        let is_idle = self.driver.as_ref().is_some_and(|d| !d.closer.is_due());
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
        let sent = peek(&s.a, header::SENT) + peek(&s.link_a, header::SENT);
        let thrown = left(&s.link_a, &s.link_b);
        let known = self.outcome.delivered + self.dropped + thrown;
        if self.plan.crashes != Crashes::Anywhere && sent != known {
            let parts = (self.outcome.delivered, self.dropped, thrown);
            self.wrong(Kind::Lost, format!("{sent} were sent, and {known} are known: {parts:?}"));
        }
        let s = &self.shared;
        let bad = peek(&s.a_host, header::BAD) + peek(&s.b, header::BAD);
        if self.plan.crashes == Crashes::None && (bad != 0 || self.outcome.forced) {
            self.wrong(
                Kind::Nonsense,
                format!("{bad} times nonsense, forced: {}", self.outcome.forced),
            );
        }
    }
}
