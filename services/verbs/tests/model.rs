//! Random entries on several queue pairs against a model that does one after the other. A seed
//! that fails is in the message.

mod common;

use common::*;
use std::collections::VecDeque;
use vfun_verbs::flags::{access, send};
use vfun_verbs::*;

use SendOpcode::*;
use Status::*;

/// Each pair has this many pages of its own for each side: A's first, then B's.
const SIDE: u64 = 8;
const BYTES: u64 = SIDE * PAGE;

#[derive(Clone, Debug)]
struct Work {
    id: u64,
    op: SendOpcode,
    signaled: bool,
    inline: Option<Vec<u8>>,
    /// Places in A's memory.
    list: Vec<(u64, u32)>,
    /// A place in B's memory.
    to: u64,
    operands: Operands,
}

impl Work {
    fn total(&self) -> u64 {
        match &self.inline {
            Some(bytes) => bytes.len() as u64,
            None => self.list.iter().map(|(_, len)| u64::from(*len)).sum(),
        }
    }
}

type Ended = Vec<(u64, Status)>;

/// What must come of a pair's entries.
#[derive(Default)]
struct PairModel {
    mine: Vec<u8>,
    theirs: Vec<u8>,
    sends: VecDeque<Work>,
    receives: VecDeque<(u64, Vec<(u64, u32)>)>,
    failed: bool,
    /// B too: all but a local error of A's fail both.
    theirs_failed: bool,
    ended: (Ended, Ended),
}

fn inside((at, len): &(u64, u32)) -> bool {
    *len == 0 || at + u64::from(*len) <= BYTES
}

fn gather(from: &[u8], list: &[(u64, u32)]) -> Vec<u8> {
    list.iter().flat_map(|(at, len)| from[*at as usize..][..*len as usize].to_vec()).collect()
}

fn scatter(to: &mut [u8], list: &[(u64, u32)], mut bytes: &[u8]) {
    for (at, len) in list {
        let n = bytes.len().min(*len as usize);
        to[*at as usize..][..n].copy_from_slice(&bytes[..n]);
        bytes = &bytes[n..];
    }
}

impl PairModel {
    fn new() -> Self {
        let zeros = vec![0; BYTES as usize];
        PairModel { mine: zeros.clone(), theirs: zeros, ..PairModel::default() }
    }

    fn run(&mut self) {
        while let Some(work) = self.sends.front().cloned() {
            if self.failed {
                self.ended.0.push((work.id, Flushed));
            } else if work.op.takes_receive()
                && self.receives.is_empty()
                && self.mine_is_good(&work)
            {
                break;
            } else {
                let status = self.apply(&work);
                self.failed = status != Success;
                self.theirs_failed = self.failed && status != LocalProtection;
                if work.signaled || self.failed {
                    self.ended.0.push((work.id, status));
                }
            }
            self.sends.pop_front();
        }
        if self.theirs_failed {
            self.ended.1.extend(self.receives.drain(..).map(|(id, _)| (id, Flushed)));
        }
    }

    fn mine_is_good(&self, work: &Work) -> bool {
        work.inline.is_some() || work.list.iter().all(inside)
    }

    fn apply(&mut self, work: &Work) -> Status {
        if !self.mine_is_good(work) {
            return LocalProtection;
        }
        let total = work.total();
        let at = work.to as usize;
        let remote = total == 0 || work.to + total <= BYTES;
        let bytes = match &work.inline {
            Some(bytes) => bytes.clone(),
            None => gather(&self.mine, &work.list),
        };
        match work.op {
            Write | WriteImm | Read if !remote => return RemoteAccess,
            Write | WriteImm => self.theirs[at..].iter_mut().zip(&bytes).for_each(|(b, n)| *b = *n),
            Read if total == 0 => {}
            Read => {
                let from = self.theirs[at..at + total as usize].to_vec();
                scatter(&mut self.mine, &work.list, &from);
            }
            CompareSwap | FetchAdd => return self.atomic(work),
            Send | SendImm => {}
        }
        if work.op.takes_receive() {
            let (id, list) = self.receives.pop_front().expect("looked at");
            if matches!(work.op, Send | SendImm) {
                if list.iter().map(|(_, len)| u64::from(*len)).sum::<u64>() < total {
                    self.ended.1.push((id, LocalLength));
                    return RemoteInvalid;
                }
                scatter(&mut self.theirs, &list, &bytes);
            }
            self.ended.1.push((id, Success));
        }
        Success
    }

    fn atomic(&mut self, work: &Work) -> Status {
        if !work.to.is_multiple_of(8) {
            return RemoteInvalid;
        }
        if work.to + 8 > BYTES {
            return RemoteAccess;
        }
        let word = &mut self.theirs[work.to as usize..][..8];
        let before = u64::from_le_bytes(word.try_into().unwrap());
        let Operands { compare_add, swap } = work.operands;
        let after = match work.op {
            FetchAdd => before.wrapping_add(compare_add),
            _ if before == compare_add => swap,
            _ => before,
        };
        word.copy_from_slice(&after.to_le_bytes());
        scatter(&mut self.mine, &work.list, &before.to_le_bytes());
        Success
    }
}

struct Pair {
    model: PairModel,
    base: u64,
    keys: (u32, u32),
    x: End,
    y: End,
}

struct World {
    lab: Lab,
    a: App,
    b: App,
    pairs: Vec<Pair>,
    next: u64,
}

fn world() -> World {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let pairs = (0..3).map(|i| {
        let (x, y) = (lab.qp(&a, QpType::Rc), lab.qp(&b, QpType::Rc));
        lab.connect(QpType::Rc, (&a, &x), (&b, &y));
        let page = i * SIDE * 2;
        let keys = (
            lab.region(&a, page, SIDE, access::ALL),
            lab.region(&b, page + SIDE, SIDE, access::ALL),
        );
        Pair { model: PairModel::new(), base: page * PAGE, keys, x, y }
    });
    let pairs = pairs.collect();
    World { lab, a, b, pairs, next: 0 }
}

/// Lengths: mostly small, some larger than a slice together; one in 60 is out of bounds.
fn place(draw: &mut dyn FnMut() -> u64) -> (u64, u32) {
    let len = match draw() % 6 {
        0 => 0,
        1 => draw() % 9000,
        _ => draw() % 40,
    };
    match draw() % 60 {
        0 => (BYTES - len / 2, len as u32 + 1),
        _ => (draw() % (BYTES - len), len as u32),
    }
}

fn work(id: u64, draw: &mut dyn FnMut() -> u64) -> Work {
    let op = SendOpcode::ALL[draw() as usize % SendOpcode::ALL.len()];
    let inline = (matches!(op, Write | WriteImm | Send | SendImm) && draw().is_multiple_of(3))
        .then(|| (0..draw() % 221).map(|_| draw() as u8).collect());
    let mut list: Vec<_> = (0..1 + draw() % 5).map(|_| place(draw)).collect();
    // Elements that are written do not overlap: their order is nobody's promise.
    let each = BYTES / 8;
    for (i, (at, len)) in list.iter_mut().enumerate() {
        if op == Read {
            (*at, *len) = (i as u64 * each + *at % 50, *len % 3000);
        }
    }
    let mut to = draw() % BYTES;
    if op.is_atomic() {
        list = vec![(draw() % (BYTES / 8) * 8, 8)];
        to = if draw().is_multiple_of(40) { to } else { to / 64 * 64 };
    } else if !draw().is_multiple_of(30) {
        to = draw() % 1000;
    }
    let operands = Operands { compare_add: draw() % 3, swap: draw() };
    Work { id, op, signaled: !draw().is_multiple_of(4), inline, list, to, operands }
}

impl World {
    fn step(&mut self, draw: &mut dyn FnMut() -> u64) {
        let at = draw() as usize % self.pairs.len();
        self.next += 1;
        match draw() % 8 {
            0..=3 => self.send(at, work(self.next, draw)),
            4..=5 => {
                let list = (0..1 + draw() % 3).map(|i| (i * 9000 + draw() % 9, 4000)).collect();
                self.receive(at, self.next, list);
            }
            6 => {
                self.lab.nic.run(self.lab.now);
            }
            _ => self.compare(),
        }
    }

    fn send(&mut self, at: usize, work: Work) {
        let pair = &mut self.pairs[at];
        if pair.model.sends.len() >= 40 {
            return;
        }
        let list: Vec<Sge> =
            work.list.iter().map(|(at, len)| sge(pair.base + at, *len, pair.keys.0)).collect();
        let flags = if work.signaled { send::SIGNALED } else { 0 };
        let to = pair.base + BYTES + work.to;
        let head = SendHead { flags, ..head(work.op, work.id, to, pair.keys.1) };
        let body = match &work.inline {
            Some(bytes) => SendBody::Inline(bytes),
            None if work.op.is_atomic() => SendBody::Atomic(list[0], work.operands),
            None => SendBody::Gather(&list),
        };
        pair.x.send(&self.a, &head, body);
        pair.model.sends.push_back(work);
    }

    fn receive(&mut self, at: usize, id: u64, list: Vec<(u64, u32)>) {
        let pair = &mut self.pairs[at];
        if pair.model.receives.len() >= 40 {
            return;
        }
        let base = pair.base + BYTES;
        let sges: Vec<Sge> =
            list.iter().map(|(at, len)| sge(base + at, *len, pair.keys.1)).collect();
        pair.y.receive(&self.b, id, &sges);
        pair.model.receives.push_back((id, list));
    }

    fn compare(&mut self) {
        self.lab.run();
        for (n, pair) in self.pairs.iter_mut().enumerate() {
            pair.model.run();
            let ended = std::mem::take(&mut pair.model.ended);
            assert_eq!(pair.x.ended(), ended.0, "A of pair {n}");
            assert_eq!(pair.y.ended(), ended.1, "B of pair {n}");
            let bytes = self.lab.bytes(pair.base, 2 * BYTES as usize);
            assert!(bytes[..BYTES as usize] == pair.model.mine, "A's memory of pair {n}");
            assert!(bytes[BYTES as usize..] == pair.model.theirs, "B's memory of pair {n}");
            // A failed pair stays failed.
            let failed = lab_failed(&self.lab, &self.a, &pair.x);
            assert_eq!(failed, pair.model.failed);
        }
    }
}

fn lab_failed(lab: &Lab, app: &App, qp: &End) -> bool {
    lab.nic.state(app.program, qp.id) == Ok(QpState::Error)
}

#[test]
fn random_entries_do_what_the_model_does() {
    let seeds = std::env::var("VFUN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let mut fine = 0;
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| {
            let mut draw = random(seed);
            let mut world = world();
            for _ in 0..120 {
                world.step(&mut || draw() >> 24);
            }
            world.compare();
            world.pairs.iter().filter(|p| !p.model.failed).count()
        });
        fine += run.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(fine > 20, "most pairs fail soon: {fine}");
}
