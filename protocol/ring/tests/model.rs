//! Random operations on a channel against obvious models: with an honest
//! peer on both sides, with a hostile caller, with a hostile service.
#![cfg(not(loom))]

mod common;

use common::caller_ops::{self, CallerModel};
use common::memory::{Plain, side};
use common::server_ops::{self, ServerModel};
use proptest::prelude::*;
use vfun_ring::{Caller, Claim, Full, Next, PollAnswer, Request, Server, Ticket};
use vfun_wire::Status;
use vfun_wire::channel::Command;

/// Mostly small numbers, where the edges are.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..200, 1 => Just(u32::MAX), 1 => any::<u32>()]
}

/// Mostly words that nearly make sense in a header or a line.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => any::<u64>(),
        4 => (0u64..4, 0u64..4, 0u64..4, 0u64..2).prop_map(|(s, o, f, r)| s | o << 32 | f << 40 | r << 48),
        1 => 0u64..200,
    ]
}

/// Words of the header page and of the lines, seldom the rest of the page.
fn index() -> impl Strategy<Value = u16> {
    prop_oneof![1 => 0u16..64, 4 => 512u16..580, 1 => any::<u16>()]
}

/// A field that is mostly right.
fn mostly<T: Clone + std::fmt::Debug + 'static>(
    right: T,
    wrong: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = T> {
    prop_oneof![8 => Just(right), 1 => wrong]
}

fn server_op(datain: bool) -> impl Strategy<Value = server_ops::Op> {
    use server_ops::Op;
    let post =
        (
            any::<u16>(),
            mostly(1, number()),
            prop_oneof![6 => Just(1u8), 2 => Just(3), 1 => any::<u8>()],
            prop_oneof![4 => Just(0u8), 4 => Just(1), 1 => any::<u8>()],
            mostly(0, any::<u16>()),
            number(),
            mostly(0, any::<u32>()),
            any::<u64>(),
        )
            .prop_map(|(cell, ahead, command, flags, reserved, len, status, fill)| {
                Op::Post { cell, ahead, command, flags, reserved, len, status, fill }
            });
    let poke_in = (index(), word()).prop_map(move |(index, value)| {
        if datain { Op::PokeIn { index, value } } else { Op::NextAnywhere }
    });
    prop_oneof![
        10 => post,
        1 => (index(), word()).prop_map(|(index, value)| Op::PokeOut { index, value }),
        2 => poke_in,
        4 => (0u8..80).prop_map(Op::Next),
        6 => Just(Op::NextAnywhere),
        6 => (any::<u16>(), number(), any::<bool>(), any::<bool>())
            .prop_map(|(nth, len, space, error)| Op::Answer { nth, len, space, error }),
        1 => Just(Op::Restart),
        1 => Just(Op::Sleep),
        1 => any::<u16>().prop_map(|nth| Op::Begin { nth }),
    ]
}

fn caller_op() -> impl Strategy<Value = caller_ops::Op> {
    use caller_ops::Op;
    let answer =
        (
            any::<u16>(),
            mostly(0, number()),
            mostly(2, any::<u8>()),
            prop_oneof![4 => Just(0u8), 4 => Just(1), 1 => any::<u8>()],
            mostly(0, any::<u16>()),
            number(),
            0u32..20,
            any::<u64>(),
        )
            .prop_map(|(cell, ahead, state, flags, reserved, len, status, fill)| {
                Op::Answer { cell, ahead, state, flags, reserved, len, status, fill }
            });
    prop_oneof![
        6 => Just(Op::Claim),
        1 => any::<u16>().prop_map(|nth| Op::Unclaim { nth }),
        6 => (any::<u16>(), number(), any::<bool>(), any::<bool>(), any::<u64>())
            .prop_map(|(nth, len, space, rst, fill)| Op::Post { nth, len, space, rst, fill }),
        4 => any::<u16>().prop_map(|nth| Op::Look { nth }),
        6 => any::<u16>().prop_map(|nth| Op::Take { nth }),
        6 => answer,
        2 => (index(), word()).prop_map(|(index, value)| Op::PokeIn { index, value }),
        1 => Just(Op::Sleep),
    ]
}

fn shape() -> impl Strategy<Value = (u16, u32)> {
    (0u32..4, prop_oneof![Just(0u32), Just(64), Just(192)]).prop_map(|(d, bytes)| (1 << d, bytes))
}

/// A step of an honest pair.
#[derive(Clone, Debug)]
enum Step {
    Claim,
    Unclaim(u16),
    Post(u16, Vec<u8>, bool),
    Next(u8),
    NextAnywhere,
    Answer(u16, Vec<u8>),
    Take(u16),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..=48);
    prop_oneof![
        6 => Just(Step::Claim),
        1 => any::<u16>().prop_map(Step::Unclaim),
        6 => (any::<u16>(), bytes(), any::<bool>()).prop_map(|(n, b, s)| Step::Post(n, b, s)),
        3 => (1u8..80).prop_map(Step::Next),
        3 => Just(Step::NextAnywhere),
        6 => (any::<u16>(), bytes()).prop_map(|(n, b)| Step::Answer(n, b)),
        6 => any::<u16>().prop_map(Step::Take),
        1 => Just(Step::Restart),
    ]
}

/// A call of the model: what was asked, and what was answered.
struct Call {
    ticket: Ticket,
    args: Vec<u8>,
    space: bool,
    taken: Option<Request>,
    answer: Option<Vec<u8>>,
}

/// The honest pair and the obvious model of it.
struct Pair {
    caller: Caller<Plain>,
    server: Server<Plain>,
    shape: (u16, u32),
    claims: Vec<Claim>,
    calls: Vec<Call>,
}

impl Pair {
    fn new(shape: (u16, u32)) -> Self {
        let (out, inn) = (side(shape.0), side(shape.0));
        let app = Plain { mine: out.clone(), theirs: inn.clone() };
        let service = Plain { mine: inn, theirs: out };
        let (caller, server) =
            (Caller::new(app, shape.0, shape.1), Server::new(service, shape.0, shape.1));
        Pair { caller, server, shape, claims: vec![], calls: vec![] }
    }

    fn in_use(&self) -> usize {
        self.claims.len() + self.calls.len()
    }

    fn nth(&self, n: u16, wanted: impl Fn(&Call) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.calls.len()).filter(|&i| wanted(&self.calls[i])).collect();
        (!all.is_empty()).then(|| all[usize::from(n) % all.len()])
    }

    fn found(&mut self, next: Next) {
        let Next::Call(r) = next else { panic!("{next:?}") };
        let call = self.calls.iter_mut().find(|c| c.ticket.cell() == r.cell).expect("never posted");
        assert!(call.taken.is_none() && call.answer.is_none(), "seen twice");
        assert_eq!((r.seq, r.in_space), (call.ticket.seq(), call.space));
        if call.space {
            assert_eq!(r.len as usize, call.args.len());
        } else {
            assert_eq!(r.inline[..r.len as usize], call.args);
        }
        call.taken = Some(r);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Claim => match self.caller.claim() {
                Ok(claim) => self.claims.push(claim),
                Err(Full) => assert_eq!(self.in_use(), self.shape.0.into()),
            },
            Step::Unclaim(n) if !self.claims.is_empty() => {
                let i = usize::from(n) % self.claims.len();
                self.caller.unclaim(self.claims.swap_remove(i));
            }
            Step::Post(n, args, space) if !self.claims.is_empty() => {
                let i = usize::from(n) % self.claims.len();
                let claim = self.claims.swap_remove(i);
                let space = space && args.len() <= self.shape.1 as usize;
                let ticket = if space {
                    self.caller.post_space(claim, Command::Set, args.len() as u32)
                } else {
                    self.caller.post_inline(claim, Command::Set, &args)
                };
                self.calls.push(Call { ticket, args, space, taken: None, answer: None });
            }
            Step::Next(times) => {
                for _ in 0..times {
                    match self.server.next() {
                        Next::Nothing => {}
                        found => self.found(found),
                    }
                }
            }
            Step::NextAnywhere => match self.server.next_anywhere() {
                Next::Nothing => {
                    assert!(self.calls.iter().all(|c| c.taken.is_some() || c.answer.is_some()));
                }
                found => self.found(found),
            },
            Step::Answer(n, results) => {
                let Some(i) = self.nth(n, |c| c.taken.is_some()) else { return };
                let r = self.calls[i].taken.take().unwrap();
                self.server.answer_inline(r.cell, Status::Ok, &results);
                self.calls[i].answer = Some(results);
            }
            Step::Take(n) => {
                for c in self.calls.iter().filter(|c| c.answer.is_none()) {
                    assert_eq!(self.caller.look(&c.ticket), PollAnswer::NotYet);
                }
                let Some(i) = self.nth(n, |c| c.answer.is_some()) else { return };
                let call = self.calls.swap_remove(i);
                let PollAnswer::Done(a) = self.caller.look_hard(&call.ticket) else { panic!() };
                assert_eq!(a.inline[..a.len as usize], call.answer.unwrap());
                self.caller.take(call.ticket);
            }
            Step::Restart => {
                let mem = self.server.memory().clone();
                self.server = Server::new(mem, self.shape.0, self.shape.1);
                // What was taken and not answered will be served again.
                self.calls.iter_mut().for_each(|c| c.taken = None);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn an_honest_pair_does_what_the_model_does(
        shape in shape(),
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut pair = Pair::new(shape);
        for s in steps {
            pair.step(s);
        }
        // In the end every posted call is seen and answered, in any order.
        while pair.calls.iter().any(|c| c.answer.is_none()) {
            pair.step(Step::Answer(0, vec![1, 2, 3]));
            if pair.calls.iter().any(|c| c.taken.is_none() && c.answer.is_none()) {
                pair.step(Step::NextAnywhere);
            }
        }
    }

    #[test]
    fn a_hostile_caller_breaks_only_its_channel(
        (depth, cell_bytes) in shape(),
        ops in proptest::collection::vec(server_op(false), 1..200),
    ) {
        let mut model = ServerModel::new(depth, cell_bytes);
        for op in ops {
            model.step(op);
        }
    }

    /// As above, and the caller overwrites the service's own pages too.
    #[test]
    fn a_hostile_caller_that_writes_everywhere_breaks_only_its_channel(
        (depth, cell_bytes) in shape(),
        ops in proptest::collection::vec(server_op(true), 1..200),
    ) {
        let mut model = ServerModel::new(depth, cell_bytes);
        for op in ops {
            model.step(op);
        }
    }

    #[test]
    fn a_hostile_service_cannot_confuse_the_caller(
        (depth, cell_bytes) in shape(),
        ops in proptest::collection::vec(caller_op(), 1..200),
    ) {
        let mut model = CallerModel::new(depth, cell_bytes);
        for op in ops {
            model.step(op);
        }
    }
}

/// Sequence numbers wrap, at both ends of a cell's life.
#[test]
fn sequence_numbers_wrap() {
    use common::memory::{at, poke};
    let mut m = ServerModel::new(1, 0);
    poke(&m.inn, at(0, 0), u64::from(u32::MAX - 1));
    poke(&m.out, at(0, 0), u64::from(u32::MAX - 1));
    m.step(server_ops::Op::PokeIn { index: 100, value: 0 });
    m.step(server_ops::Op::Restart);
    for _ in 0..4 {
        m.step(server_ops::Op::Post {
            cell: 0,
            ahead: 1,
            command: 1,
            flags: 0,
            reserved: 0,
            len: 8,
            status: 0,
            fill: 9,
        });
        m.step(server_ops::Op::NextAnywhere);
        assert_eq!(m.open().len(), 1);
        m.step(server_ops::Op::Answer { nth: 0, len: 8, space: false, error: false });
    }
    assert_eq!(common::memory::word0(&m.inn, 0).seq, 2);
}

/// The service goes on from the counters it finds, and wraps.
#[test]
fn counters_that_were_overwritten_wrap() {
    use vfun_wire::channel::in_header::{BYTES_IN, BYTES_OUT, CALLS, ERRORS, RANG, SLEPT};
    let mut m = ServerModel::new(1, 0);
    for word in [CALLS, ERRORS, BYTES_IN, BYTES_OUT, SLEPT, RANG] {
        m.step(server_ops::Op::PokeIn { index: word as u16, value: u64::MAX });
    }
    m.step(server_ops::Op::Restart);
    m.step(server_ops::Op::Post {
        cell: 0,
        ahead: 1,
        command: 1,
        flags: 0,
        reserved: 0,
        len: 8,
        status: 0,
        fill: 9,
    });
    m.step(server_ops::Op::NextAnywhere);
    m.step(server_ops::Op::Answer { nth: 0, len: 8, space: false, error: true });
    m.step(server_ops::Op::Sleep);
    let now = |word| common::memory::peek(&m.inn, word);
    assert_eq!([CALLS, ERRORS, BYTES_IN, BYTES_OUT, SLEPT, RANG].map(now), [0, 0, 7, 7, 0, 0]);
}
