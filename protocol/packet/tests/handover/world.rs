//! Everybody: the sender A, the driver at its port, the switch, the driver at B's port, the
//! receiver B, the manager, and C, which sends to B as well. One step of one of them at a
//! time, in an order that the seed gives; any of them may die and be started again.

use crate::common::plain::{peek, poke};
use crate::handover::deaths::{Anew, Crashes};
use crate::handover::hostile;
use crate::handover::memory::{Process, RING, Shared, View, ring};
use crate::handover::mutant::Mutant;
use crate::handover::random::Random;
use crate::handover::verdict::Outcome;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use vfun_packet::layout::{KIND_BEGIN, KIND_SKIP, RING_OFF, header, line};
use vfun_packet::{
    Claims, Closer, Director, Fence, Ledger, LinkedReceiver, LinkedSender, Sender, Stage, Todo,
    Turn,
};

pub const LINK: u64 = 7;
/// Longer than by default: here a party seldom has a step.
const SILENCE: u64 = 1000;
pub const A: u64 = 1;
pub const C: u64 = 2;

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

pub struct Queued {
    pub source: u64,
    pub stamp: u64,
    pub frame: Vec<u8>,
}

pub struct Driver {
    pub process: Process,
    pub fence: Fence<View, View>,
    pub closer: Closer<View>,
    pub tx: Sender<View>,
    /// What the switch has of A and of C.
    pub queues: [VecDeque<Queued>; 2],
}

pub struct Party<T> {
    pub live: Option<(Process, T)>,
    /// When it is started again.
    pub again: u64,
    pub has_link: bool,
}

impl<T> Party<T> {
    const fn none() -> Self {
        Party { live: None, again: 0, has_link: false }
    }

    pub fn kill(&mut self, again: u64) {
        *self = Party { live: None, again, has_link: false };
    }

    /// Whether it has died in the middle of a step.
    pub fn is_dead(&self) -> bool {
        self.live.as_ref().is_some_and(|(process, _)| process.is_dead())
    }
}

pub struct World {
    pub plan: Plan,
    pub random: Random,
    pub now: u64,
    pub shared: Shared,
    pub sender: Party<LinkedSender<View>>,
    pub receiver: Party<LinkedReceiver<View>>,
    pub driver: Option<Driver>,
    pub driver_again: u64,
    pub director: Director<View>,
    pub ledger: Ledger,
    pub manager: Process,
    /// Falsified views of mutants.
    pub head: Rc<Cell<Option<u64>>>,
    /// Where the link's ring was at A's way back, by epoch.
    pub marks: BTreeMap<u64, u64>,
    pub quiet: bool,
    /// The last epoch that the manager has allowed; and the one that it has noted before that.
    pub allowed: u64,
    pub noted: u64,
    pub bytes: usize,
    pub next: [u64; 3],
    pub seen: [u64; 3],
    /// Frames of each that came to B.
    pub came: [u64; 3],
    /// Those that the switch dropped, those with no room at B, and those that were in a port's
    /// memory or in the switch when it ended.
    pub dropped: [u64; 3],
    /// A VM was started anew.
    pub anew: Option<Anew>,
    pub weights: [u64; 7],
    pub outcome: Outcome,
}

pub fn frame(source: u64, number: u64, bytes: usize) -> Vec<u8> {
    let mut frame = [source.to_le_bytes(), number.to_le_bytes()].concat();
    frame.resize(bytes, source as u8);
    frame
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let shared = Shared::new();
        let manager = Process::new();
        let director = director(&manager, &shared, 0, 0);
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
            ledger: Ledger::new(ring(), Claims::default()),
            manager,
            head: Rc::default(),
            marks: BTreeMap::new(),
            quiet: false,
            allowed: 0,
            noted: 0,
            bytes,
            next: [0; 3],
            seen: [0; 3],
            came: [0; 3],
            dropped: [0; 3],
            anew: None,
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

    fn start_all(&mut self) {
        self.start_driver();
        self.start_sender();
        self.start_receiver();
    }

    pub fn step(&mut self) {
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
        if !self.sender.has_link && self.anew.is_none() && self.random.once_in(3) {
            let link = process.view(&self.shared.link_a, &self.shared.link_b);
            self.sender.has_link = tx.attach(LINK, link, ring()).is_some();
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
        self.sender.has_link = self.anew.is_none() && self.random.once_in(2);
        if self.sender.has_link {
            let link = process.view(&self.shared.link_a, &self.shared.link_b);
            self.sender.has_link = tx.attach(LINK, link, ring()).is_some();
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
            if !done {
                self.dropped[q.source as usize] += 1;
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
        let mut fence = fence(&process, s);
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
        if !self.receiver.has_link && self.anew.is_none() && self.random.once_in(3) {
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

    fn start_receiver(&mut self) {
        let process = Process::new();
        let rx = LinkedReceiver::new(process.view(&self.shared.b, &self.shared.b_host), ring());
        self.receiver.live = Some((process, rx));
        self.receiver.has_link = false;
        if !self.random.once_in(8) && self.anew.is_none() {
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

    pub fn clock(&self) -> u64 {
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
                    self.noted = epoch;
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
        self.check_counts();
        self.outcome.flips = self.director.epoch().unwrap_or(self.outcome.flips);
        match self.director.stage() {
            Stage::Switch { .. } if !self.quiet && self.random.once_in(3) => {
                self.director.go(now);
                if self.random.once_in(8) {
                    self.director.back(now);
                }
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
}

pub fn fence(process: &Process, shared: &Shared) -> Fence<View, View> {
    Fence::new(process.view(&shared.a_host, &shared.a), ring())
}

pub fn director(process: &Process, shared: &Shared, noted: u64, now: u64) -> Director<View> {
    let sender = process.view(&shared.a_host, &shared.a);
    let receiver = process.view(&shared.b_host, &shared.b_said);
    Director::new(sender, receiver, LINK, noted, now).with_silence(SILENCE)
}
