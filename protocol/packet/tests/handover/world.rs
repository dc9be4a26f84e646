//! Everybody: the sender A, the driver at its port, the switch, the driver at B's port, the
//! receiver B, the manager, and C, which sends to B as well. One step of one of them at a
//! time, in an order that the seed gives; any of them may die and be started again.

use crate::common::plain::{peek, poke};
use crate::handover::hostile;
use crate::handover::memory::{Process, RING, Shared, View, left, ring};
use crate::handover::mutant::Mutant;
use crate::handover::random::Random;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use vfun_packet::layout::{KIND_BEGIN, KIND_SKIP, RING_OFF, header, line};
use vfun_packet::{
    Closer, Director, Fence, LinkedReceiver, LinkedSender, Sender, Stage, Todo, Turn, Way,
};

pub const LINK: u64 = 7;
const A: u64 = 1;
const C: u64 = 2;

/// Who may die in a run, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crashes {
    None,
    /// Between two of its steps; or the link's memory goes away under it, and comes back.
    Sender,
    Receiver,
    Switch,
    Manager,
    /// Nobody dies. A VM or the switch is stopped for a while, and then goes on as if nothing
    /// had been.
    Stops,
    /// All of them, after any store. What dies in the middle of a burst may lose it.
    Anywhere,
}

/// Which VM writes anything anywhere, the host's pages of its port included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hostile {
    Nobody,
    Sender,
    Receiver,
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub crashes: Crashes,
    pub mutant: Mutant,
    pub hostile: Hostile,
    pub steps: u64,
    /// Milliseconds of a step, in 16ths: how soon a party is taken for silent.
    pub pace: u64,
}

struct Queued {
    source: u64,
    stamp: u64,
    frame: Vec<u8>,
}

struct Driver {
    process: Process,
    fence: Fence<View, View>,
    closer: Closer<View>,
    tx: Sender<View>,
    /// What the switch has of A and of C.
    queues: [VecDeque<Queued>; 2],
}

struct Party<T> {
    live: Option<(Process, T)>,
    /// When it is started again.
    again: u64,
    has_link: bool,
}

impl<T> Party<T> {
    const fn none() -> Self {
        Party { live: None, again: 0, has_link: false }
    }

    fn kill(&mut self, again: u64) {
        *self = Party { live: None, again, has_link: false };
    }

    /// Whether it has died in the middle of a step.
    fn is_dead(&self) -> bool {
        self.live.as_ref().is_some_and(|(process, _)| process.is_dead())
    }
}

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

pub struct World {
    plan: Plan,
    random: Random,
    now: u64,
    shared: Shared,
    sender: Party<LinkedSender<View>>,
    receiver: Party<LinkedReceiver<View>>,
    driver: Option<Driver>,
    driver_again: u64,
    director: Director<View>,
    manager: Process,
    /// Falsified views of mutants.
    head: Rc<Cell<Option<u64>>>,
    /// Where the link's ring was at A's way back, by epoch.
    marks: BTreeMap<u64, u64>,
    quiet: bool,
    /// The last epoch that the manager has allowed.
    allowed: u64,
    bytes: usize,
    next: [u64; 3],
    seen: [u64; 3],
    /// Of A's frames: those that the switch dropped, those with no room at B, those that died
    /// with the switch.
    dropped: u64,
    weights: [u64; 7],
    pub outcome: Outcome,
}

fn frame(source: u64, number: u64, bytes: usize) -> Vec<u8> {
    let mut frame = [source.to_le_bytes(), number.to_le_bytes()].concat();
    frame.resize(bytes, source as u8);
    frame
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let shared = Shared::new();
        let manager = Process::new();
        let director = director(&manager, &shared, 0);
        let weights = std::array::from_fn(|_| 1 + random.below(12));
        // Rings of 64, 8, 4 and 2 records.
        let bytes = [40, 500, 1000, 2040][random.below(4) as usize];
        let mut world = World {
            plan,
            random,
            now: 0,
            shared,
            sender: Party::none(),
            receiver: Party::none(),
            driver: None,
            driver_again: 0,
            director,
            manager,
            head: Rc::default(),
            marks: BTreeMap::new(),
            quiet: false,
            allowed: 0,
            bytes,
            next: [0; 3],
            seen: [0; 3],
            dropped: 0,
            weights,
            outcome: Outcome::default(),
        };
        world.start_all();
        world
    }

    /// The whole run.
    pub fn run(mut self) -> Outcome {
        for _ in 0..self.plan.steps {
            self.step();
            if self.outcome.wrong.is_some() {
                return self.outcome;
            }
        }
        self.settle();
        self.outcome
    }

    fn wrong(&mut self, kind: Kind, what: String) {
        let plan = self.plan;
        self.outcome
            .wrong
            .get_or_insert_with(|| (kind, format!("{what}, at {} of {plan:?}", self.now)));
    }

    fn step(&mut self) {
        self.now += 1;
        let sum: u64 = self.weights.iter().sum();
        let mut at = self.random.below(sum);
        let mut who = 0;
        while at >= self.weights[who] {
            at -= self.weights[who];
            who += 1;
        }
        self.maybe_crash();
        if self.plan.hostile != Hostile::Nobody && !self.quiet && self.random.once_in(8) {
            let s = &self.shared;
            let sides = match self.plan.hostile {
                Hostile::Sender => [&s.a, &s.a_host, &s.link_a],
                _ => [&s.b, &s.b_host, &s.link_b],
            };
            hostile::write(&mut self.random, sides);
        }
        match who {
            0 => self.step_sender(),
            1 => self.step_fence(),
            2 => self.step_third(),
            3 => self.step_switch(),
            4 => self.step_closer(),
            5 => self.step_receiver(),
            _ => self.step_manager(),
        }
        self.bury();
    }

    // ---- A ----

    fn step_sender(&mut self) {
        if self.now < self.sender.again {
            return;
        }
        if self.sender.live.is_none() {
            return self.start_sender();
        }
        let Some((process, tx)) = &mut self.sender.live else { return };
        if !self.sender.has_link && self.random.once_in(3) {
            let link = process.view(&self.shared.link_a, &self.shared.link_b);
            self.sender.has_link = tx.attach(LINK, link, ring());
            return;
        }
        for _ in 0..self.random.below(4) {
            if self.quiet {
                break;
            }
            self.next[A as usize] += 1;
            let _ = tx.put(&frame(A, self.next[A as usize], self.bytes));
            if self.random.once_in(8) {
                tx.look();
            }
        }
        self.die_at_turn();
        let Some((_, tx)) = &mut self.sender.live else { return };
        tx.publish();
        tx.must_ring();
        if let Some(turn) = Turn::of(peek(&self.shared.a, header::ACK)) {
            // What a RETURN with a position would say.
            let mark = peek(&self.shared.link_a, header::HEAD);
            self.marks.entry(turn.epoch()).and_modify(|at| *at = mark).or_insert(mark);
        }
    }

    fn start_sender(&mut self) {
        let process = Process::new();
        let view = process.view(&self.shared.a, &self.shared.a_host);
        let mut tx = LinkedSender::new(view, ring());
        self.sender.has_link = self.random.once_in(2);
        if self.sender.has_link {
            let link = process.view(&self.shared.link_a, &self.shared.link_b);
            self.sender.has_link = tx.attach(LINK, link, ring());
        }
        self.sender.live = Some((process, tx));
    }

    // ---- the switch ----

    fn step_fence(&mut self) {
        let Some(driver) = self.driver.as_mut().filter(|_| self.now >= self.driver_again) else {
            return;
        };
        let mut to = [0; 4096];
        for _ in 0..self.random.below(5) {
            // The switch keeps so many frames of a port at most.
            if driver.queues[0].len() >= 16 {
                break;
            }
            match driver.fence.next(&mut to) {
                Some(0) => {}
                Some(bytes) => {
                    let (stamp, frame) = (driver.fence.stamp(), to[..bytes].to_vec());
                    driver.queues[0].push_back(Queued { source: A, stamp, frame });
                }
                None => break,
            }
        }
        driver.fence.take();
        if self.plan.mutant.forgets_the_fence(peek(&self.shared.fence, line::LAST)) {
            poke(&self.shared.fence, line::STAMP, 0);
        }
    }

    fn step_third(&mut self) {
        let Some(driver) = self.driver.as_mut().filter(|_| self.now >= self.driver_again) else {
            return;
        };
        if driver.queues[1].len() < 8 && !self.quiet {
            self.next[C as usize] += 1;
            let frame = frame(C, self.next[C as usize], self.bytes);
            driver.queues[1].push_back(Queued { source: C, stamp: 0, frame });
        }
    }

    fn step_switch(&mut self) {
        if self.now < self.driver_again {
            return;
        }
        let Some(driver) = &mut self.driver else {
            return self.start_driver();
        };
        driver.closer.run(&mut driver.tx);
        for _ in 0..1 + self.random.below(2) {
            let queue = self.random.below(2) as usize;
            let Some(q) = driver.queues[queue].pop_front() else { continue };
            let is_lost = self.random.once_in(16);
            let done = match (is_lost, q.source) {
                (true, _) => false,
                (_, A) => driver.closer.put(&mut driver.tx, &q.frame, q.stamp).is_ok(),
                _ => driver.tx.put(&q.frame).is_ok(),
            };
            if !done && q.source == A {
                self.dropped += 1;
            }
        }
        driver.closer.run(&mut driver.tx);
        driver.tx.publish();
    }

    fn step_closer(&mut self) {
        let Some(driver) = self.driver.as_mut().filter(|_| self.now >= self.driver_again) else {
            return;
        };
        driver.closer.run(&mut driver.tx);
        // The switch keeps nothing of A: what has not come out was dropped.
        if driver.queues[0].is_empty() && self.random.once_in(4) {
            driver.closer.expire(&mut driver.tx);
        }
        driver.tx.publish();
    }

    fn start_driver(&mut self) {
        let process = Process::new();
        for half in [&self.shared.fence, &self.shared.closer] {
            (0..line::WORDS).for_each(|word| poke(half, word, 0));
        }
        let s = &self.shared;
        let mut fence = Fence::new(process.view(&s.a_host, &s.a), ring());
        if let Some(epoch) = self.director.epoch() {
            self.allowed = self.allowed.max(epoch);
            fence.line(process.view(&s.fence, &s.closer), LINK, epoch);
        }
        let closer = Closer::new(process.view(&s.closer, &s.fence), LINK);
        let tx = Sender::new(process.view(&s.b_host, &s.b), ring());
        self.driver = Some(Driver { process, fence, closer, tx, queues: Default::default() });
    }

    // ---- B ----

    fn step_receiver(&mut self) {
        if self.now < self.receiver.again {
            return;
        }
        if self.receiver.live.is_none() {
            return self.start_receiver();
        }
        if !self.receiver.has_link && self.random.once_in(3) {
            self.attach_receiver();
            return;
        }
        let mut got = vec![];
        let mut to = [0; 4096];
        for _ in 0..self.random.below(5) {
            self.falsify_head();
            let Some((_, rx)) = &mut self.receiver.live else { return };
            match rx.next(&mut to) {
                Some(0) => {}
                Some(bytes) => got.push(to[..bytes].to_vec()),
                None => break,
            }
        }
        let Some((process, rx)) = &mut self.receiver.live else { return };
        rx.take();
        if self.random.once_in(3) {
            rx.declare_sleep();
            rx.is_there();
        }
        // Who dies in the middle of a step has done nothing with its frames.
        if !process.is_dead() {
            got.iter().for_each(|frame| self.deliver(frame));
        }
    }

    fn deliver(&mut self, got: &[u8]) {
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

    fn start_receiver(&mut self) {
        let process = Process::new();
        let rx = LinkedReceiver::new(process.view(&self.shared.b, &self.shared.b_host), ring());
        self.receiver.live = Some((process, rx));
        self.receiver.has_link = false;
        if !self.random.once_in(8) {
            self.attach_receiver();
        }
    }

    fn attach_receiver(&mut self) {
        let Some((process, rx)) = &mut self.receiver.live else { return };
        let s = &self.shared;
        rx.attach(LINK, process.view_with(&s.link_b, &s.link_a, &self.head), ring());
        self.receiver.has_link = true;
    }

    /// For mutants: what B finds when it looks at the link's ring at a BEGIN.
    fn falsify_head(&mut self) {
        let Some((_, rx)) = self.receiver.live.as_mut().filter(|_| self.plan.mutant.falsifies())
        else {
            return;
        };
        rx.take();
        let s = &self.shared;
        let word = |position: u64, n: usize| {
            peek(&s.b_host, (RING_OFF + (position % RING) as usize) / 8 + n)
        };
        let tail = peek(&s.b, header::TAIL);
        let is_skip = word(tail, 0) >> 32 == KIND_SKIP;
        let at = if is_skip { tail.next_multiple_of(RING) } else { tail };
        let is_begin = at < peek(&s.b_host, header::HEAD) && word(at, 0) >> 32 == KIND_BEGIN;
        let shown = match self.plan.mutant {
            Mutant::NoRest => peek(&s.link_b, header::TAIL),
            _ => self.marks.get(&word(at, 1)).copied().unwrap_or_default(),
        };
        self.head.set(is_begin.then_some(shown));
    }

    // ---- the manager ----

    fn clock(&self) -> u64 {
        self.now * self.plan.pace / 16
    }

    fn step_manager(&mut self) {
        let now = self.clock();
        self.plan.mutant.at_manager(&self.shared);
        let todo = self.director.look(now, self.driver.is_some());
        if let Some(driver) = &mut self.driver {
            match todo {
                Todo::Nothing => {}
                Todo::Allow(epoch) => {
                    let is_known = driver.fence.allow(epoch);
                    self.allowed = self.allowed.max(epoch);
                    is_known.then(|| self.director.allowed(epoch, now));
                }
                Todo::Force(epoch) => {
                    driver.fence.force(epoch);
                    if driver.fence.is_over(epoch) {
                        self.outcome.forced = true;
                        self.director.forced();
                    }
                }
            }
        }
        self.check_way();
        self.outcome.flips = self.director.epoch().unwrap_or(self.outcome.flips);
        match self.director.stage() {
            Stage::Switch { .. } if !self.quiet && self.random.once_in(3) => {
                self.director.go(now);
            }
            Stage::Direct { .. } if self.quiet || self.random.once_in(8) => {
                self.director.back(now);
            }
            Stage::Going { .. } if self.quiet || self.random.once_in(16) => {
                self.director.back(now);
            }
            _ => {}
        }
    }

    /// Where the manager says that frames go through the switch, none goes past it; and B does
    /// not read a link that the manager has not allowed.
    fn check_way(&mut self) {
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

    // ---- deaths ----

    fn maybe_crash(&mut self) {
        if self.quiet || !self.random.once_in(200) {
            return;
        }
        let after = self.random.below(16);
        match self.plan.crashes {
            Crashes::None => {}
            Crashes::Sender if after < 8 => self.kill_sender(),
            Crashes::Receiver if after < 8 => self.kill_receiver(),
            Crashes::Sender | Crashes::Receiver => self.unplug(),
            Crashes::Switch => self.kill_driver(),
            Crashes::Manager => self.restart_manager(),
            Crashes::Stops => {
                let until = self.again() + self.random.below(1000);
                match self.random.below(3) {
                    0 => self.sender.again = until,
                    1 => self.receiver.again = until,
                    _ => self.driver_again = until,
                }
            }
            Crashes::Anywhere => match self.random.below(4) {
                0 => self.sender.live.iter().for_each(|(p, _)| p.dies_after(after)),
                1 => self.receiver.live.iter().for_each(|(p, _)| p.dies_after(after)),
                2 => self.driver.iter().for_each(|d| d.process.dies_after(after)),
                _ => self.manager.dies_after(after % 3),
            },
        }
    }

    /// The few stores of a turn are where a death may matter.
    fn die_at_turn(&mut self) {
        let s = &self.shared;
        let is_due = peek(&s.a, header::ACK) != peek(&s.a_host, header::TURN);
        let may_die = self.plan.crashes == Crashes::Anywhere && !self.quiet;
        if may_die && is_due && self.random.once_in(2) {
            // To publish is 5 stores, and a turn 10 more.
            let after = self.random.below(17);
            let live = self.sender.live.iter().filter(|(process, _)| !process.is_dead());
            live.for_each(|(process, _)| process.dies_after(after));
        }
    }

    /// Those that died in the middle of a step.
    fn bury(&mut self) {
        if self.sender.is_dead() {
            self.kill_sender();
        }
        if self.receiver.is_dead() {
            self.kill_receiver();
        }
        if self.driver.as_ref().is_some_and(|d| d.process.is_dead()) {
            self.kill_driver();
        }
        if self.manager.is_dead() {
            self.restart_manager();
        }
    }

    fn unplug(&mut self) {
        if self.plan.crashes == Crashes::Sender {
            self.sender.has_link = false;
            self.sender.live.iter_mut().for_each(|(_, tx)| tx.detach());
        } else {
            self.receiver.has_link = false;
            self.receiver.live.iter_mut().for_each(|(_, rx)| rx.detach());
        }
    }

    fn again(&mut self) -> u64 {
        self.outcome.crashes += 1;
        self.now + self.random.below(500)
    }

    fn kill_sender(&mut self) {
        let again = self.again();
        self.sender.kill(again);
    }

    fn kill_receiver(&mut self) {
        let again = self.again();
        self.receiver.kill(again);
    }

    fn kill_driver(&mut self) {
        self.driver_again = self.again();
        let lost = self.driver.take().map_or(0, |driver| driver.queues[0].len());
        self.dropped += lost as u64;
    }

    fn restart_manager(&mut self) {
        // That a link is not used any more stands in the manager's notes.
        if self.director.stage() != Stage::Over {
            self.outcome.crashes += 1;
            self.manager = Process::new();
            self.director = director(&self.manager, &self.shared, self.clock());
        }
    }

    fn start_all(&mut self) {
        self.start_driver();
        self.start_sender();
        self.start_receiver();
    }

    // ---- the end ----

    /// Everybody lives, and A has nothing to say any more: the flip under way must end, and
    /// all that was sent be accounted for.
    fn settle(&mut self) {
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

fn director(process: &Process, shared: &Shared, now: u64) -> Director<View> {
    let sender = process.view(&shared.a_host, &shared.a);
    let receiver = process.view(&shared.b_host, &shared.b_said);
    Director::new(sender, receiver, LINK, now)
}
