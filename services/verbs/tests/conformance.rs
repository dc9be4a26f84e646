//! What verbs promise, case by case: how each entry ends on both sides, and what was moved.

mod common;

use common::*;
use vfun_verbs::flags::{access, attribute, completion, send};
use vfun_verbs::*;
use vfun_verbs_nic::*;

use SendOpcode::*;
use Status::*;

/// One entry of A, and what must come of it.
struct Case {
    name: &'static str,
    op: SendOpcode,
    /// What A sends from, or reads to: changed from (0x1000, 64) with A's key.
    local: fn(&Keys) -> Vec<Sge>,
    /// Address and key at B.
    remote: fn(&Keys) -> (u64, u32),
    /// B's receive, if there is one.
    receive: Option<fn(&Keys) -> Vec<Sge>>,
    /// A's status, B's status of the receive, if it completes.
    ends: (Status, Option<Status>),
}

/// Keys of A's and B's memory: of A at 0x1000, of B at 0x4000, 0x1000 bytes each.
struct Keys {
    a: u32,
    a_read_only: u32,
    b: u32,
    b_no_rights: u32,
    /// B's own, in another of its domains.
    b_elsewhere: u32,
}

const fn case(name: &'static str, op: SendOpcode, ends: (Status, Option<Status>)) -> Case {
    Case {
        name,
        op,
        local: |k| vec![sge(0x1000, 64, k.a)],
        remote: |k| (0x4000, k.b),
        receive: Some(|k| vec![sge(0x4800, 64, k.b)]),
        ends,
    }
}

const CASES: &[Case] = &[
    case("send", Send, (Success, Some(Success))),
    case("send with immediate", SendImm, (Success, Some(Success))),
    case("write", Write, (Success, None)),
    case("write with immediate", WriteImm, (Success, Some(Success))),
    case("read", Read, (Success, None)),
    Case {
        local: |k| vec![sge(0x1000, 64, k.a ^ 1)],
        ..case("bad lkey of a write", Write, (LocalProtection, None))
    },
    Case {
        local: |k| vec![sge(0x4000, 64, k.b)],
        ..case("the peer's key as lkey", Send, (LocalProtection, None))
    },
    Case {
        local: |k| vec![sge(0x1fc1, 64, k.a)],
        ..case("local memory out of bounds", Write, (LocalProtection, None))
    },
    Case {
        local: |k| vec![sge(0xfff, 64, k.a)],
        ..case("local memory below its region", Send, (LocalProtection, None))
    },
    Case {
        local: |k| vec![sge(u64::MAX - 8, 64, k.a)],
        ..case("local address that wraps", Send, (LocalProtection, None))
    },
    Case {
        local: |k| vec![sge(0x1000, 8, k.a), sge(0x1008, 8, k.b)],
        ..case("second element is bad", Write, (LocalProtection, None))
    },
    Case {
        local: |k| vec![sge(0x1000, 64, k.a_read_only)],
        ..case("read into read-only memory", Read, (LocalProtection, None))
    },
    Case {
        local: |k| vec![sge(0x1000, 64, k.a_read_only)],
        ..case("write from read-only memory", Write, (Success, None))
    },
    Case {
        remote: |k| (0x4000, k.b ^ 1),
        ..case("bad rkey of a write", Write, (RemoteAccess, None))
    },
    Case { remote: |k| (0x4000, k.a), ..case("bad rkey of a read", Read, (RemoteAccess, None)) },
    Case {
        remote: |k| (0x4000, k.b_elsewhere),
        ..case("rkey of another domain", Write, (RemoteAccess, None))
    },
    Case {
        remote: |k| (0x4fc1, k.b),
        ..case("remote memory out of bounds", Write, (RemoteAccess, None))
    },
    Case { remote: |k| (0x3fff, k.b), ..case("read out of bounds", Read, (RemoteAccess, None)) },
    Case {
        remote: |k| (u64::MAX - 3, k.b),
        ..case("remote address that wraps", Write, (RemoteAccess, None))
    },
    Case {
        remote: |k| (0x4000, k.b_no_rights),
        ..case("no REMOTE_WRITE", Write, (RemoteAccess, None))
    },
    Case {
        remote: |k| (0x4000, k.b_no_rights),
        ..case("no REMOTE_READ", Read, (RemoteAccess, None))
    },
    Case {
        receive: Some(|k| vec![sge(0x4800, 63, k.b)]),
        ..case("short receive", Send, (RemoteInvalid, Some(LocalLength)))
    },
    Case {
        receive: Some(|_| vec![]),
        ..case("no element in the receive", Send, (RemoteInvalid, Some(LocalLength)))
    },
    Case {
        receive: Some(|k| vec![sge(0x4800, 64, k.a)]),
        ..case("bad lkey of a receive", Send, (RemoteOperation, Some(LocalProtection)))
    },
    Case {
        receive: Some(|k| vec![sge(0x4800, 60, k.b), sge(0x5000, 4, k.b)]),
        ..case("second element of a receive", Send, (RemoteOperation, Some(LocalProtection)))
    },
    Case {
        receive: Some(|k| {
            vec![sge(0x4810, 10, k.b), sge(0, 0, 0), sge(0x4800, 5, k.b), sge(0x4900, 90, k.b)]
        }),
        ..case("a receive in pieces", Send, (Success, Some(Success)))
    },
    Case {
        receive: Some(|_| vec![]),
        ..case("receive of a write with immediate", WriteImm, (Success, Some(Success)))
    },
    Case { local: |_| vec![], ..case("zero bytes, no element", Send, (Success, Some(Success))) },
    Case { local: |_| vec![sge(7, 0, 7)], ..case("zero bytes, no key", Write, (Success, None)) },
    Case {
        local: |_| vec![],
        remote: |_| (9, 9),
        ..case("zero bytes, no remote key", Read, (Success, None))
    },
    Case {
        local: |k| (0..16).map(|i| sge(0x1000 + i * 9, 4, k.a)).collect(),
        ..case("sixteen elements", Send, (Success, Some(Success)))
    },
];

fn keys(lab: &mut Lab, a: &App, b: &App) -> Keys {
    let other = App {
        program: b.program,
        pd: lab.nic.make_pd(b.program).unwrap(),
        address: b.address,
        page: a.page.clone(),
        bells: vfun_verbs::bells::ProgramBells::new(sides(PAGE, PAGE).0),
    };
    Keys {
        a: lab.region(a, 1, 1, access::ALL),
        a_read_only: lab.region(a, 1, 1, 0),
        b: lab.region(b, 4, 1, access::ALL),
        b_no_rights: lab.region(b, 4, 1, access::LOCAL_WRITE),
        b_elsewhere: lab.region(&other, 4, 1, access::ALL),
    }
}

/// What the elements name, one behind the other.
fn gathered(lab: &Lab, sges: &[Sge]) -> Vec<u8> {
    sges.iter().flat_map(|s| lab.bytes(s.addr, s.len as usize)).collect()
}

fn run_case(case: &Case) {
    let mut lab = Lab::new();
    let ((a, mut x), (b, mut y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    let pattern =
        |seed: u8| (0..4096u32).map(|i| (i as u8).wrapping_mul(7) ^ seed).collect::<Vec<_>>();
    lab.fill(0x1000, &pattern(3));
    lab.fill(0x4000, &pattern(200));
    if let Some(receive) = case.receive {
        y.receive(&b, 77, &receive(&k));
    }
    let (addr, key) = (case.remote)(&k);
    let list = (case.local)(&k);
    let total: usize = list.iter().map(|s| s.len as usize).sum();
    let before = lab.bytes(0, WINDOW);
    x.send(&a, &head(case.op, 5, addr, key), SendBody::Gather(&list));
    lab.run();

    let (mine, theirs) = (x.cq.poll(), y.cq.poll());
    assert_eq!(mine.len(), 1, "{}: {mine:?}", case.name);
    assert_eq!((mine[0].wr_id, mine[0].status), (5, case.ends.0), "{}", case.name);
    let received: Vec<_> = theirs.iter().filter(|c| c.status != Flushed).collect();
    assert_eq!(received.first().map(|c| c.status), case.ends.1, "{}", case.name);
    let state = |lab: &mut Lab, app: &App, qp: &End| lab.nic.state(app.program, qp.id).unwrap();
    if case.ends.0 != Success {
        assert_eq!(lab.bytes(0, WINDOW), before, "{}: bytes were moved", case.name);
        assert_eq!(state(&mut lab, &a, &x), QpState::Error, "{}", case.name);
        let fails = !matches!(case.ends.0, LocalProtection);
        assert_eq!(state(&mut lab, &b, &y) == QpState::Error, fails, "{}", case.name);
        let wrong = u64::from(case.ends.0 == RemoteAccess);
        assert_eq!(lab.nic.counts().all.wrong_keys, wrong, "{}", case.name);
        let told = usize::from(case.ends.0 == RemoteAccess);
        assert_eq!(lab.told(AsyncKind::QpAccess).len(), told, "{}", case.name);
        return;
    }
    let moved = match case.op {
        Read => (lab.bytes(addr.min(0x4000), total), gathered(&lab, &list)),
        Write | WriteImm => (gathered(&lab, &list), lab.bytes(addr, total)),
        _ => {
            let all = gathered(&lab, &case.receive.unwrap()(&k));
            (gathered(&lab, &list), all[..total].to_vec())
        }
    };
    assert_eq!(moved.0, moved.1, "{}", case.name);
    if let Some(received) = received.first() {
        assert_eq!((received.wr_id, received.byte_len), (77, total as u32), "{}", case.name);
        let imm = case.op.has_imm();
        assert_eq!(received.flags & completion::WITH_IMM != 0, imm, "{}", case.name);
        assert_eq!(received.imm, if imm { 0x5566_7788 } else { 0 }, "{}", case.name);
        let opcode = [CompletionOpcode::Receive, CompletionOpcode::ReceiveWrite];
        assert_eq!(received.opcode, opcode[usize::from(case.op == WriteImm)], "{}", case.name);
    }
}

#[test]
fn each_entry_ends_as_it_should() {
    assert!(CASES.len() > 25);
    CASES.iter().for_each(run_case);
}

/// What a queue pair's own rights do not offer is an invalid request.
#[test]
fn a_queue_pair_without_rights_refuses() {
    for (op, needed) in [
        (Write, access::REMOTE_WRITE),
        (WriteImm, access::REMOTE_WRITE),
        (Read, access::REMOTE_READ),
        (FetchAdd, access::REMOTE_ATOMIC),
    ] {
        let mut lab = Lab::new();
        let ((a, mut x), (b, y)) = lab.pair(QpType::Rc);
        let k = keys(&mut lab, &a, &b);
        let set = Attributes { access: access::ALL & !needed, ..attributes(&a, &x) };
        lab.modify(&b, &y, attribute::ACCESS_FLAGS, QpState::Rts, &set).unwrap();
        x.send(&a, &head(op, 1, 0x4000, k.b), SendBody::Gather(&[sge(0x1000, 8, k.a)]));
        lab.run();
        assert_eq!(x.ended(), [(1, RemoteInvalid)], "{op}");
        assert_eq!(lab.told(AsyncKind::QpRequest), [y.qpn]);
    }
}

#[test]
fn entries_after_an_error_are_flushed_in_order_on_both_sides() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, mut y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    for i in 0..4 {
        y.receive(&b, 100 + i, &[sge(0x4000, 64, k.b)]);
    }
    let one = [sge(0x1000, 8, k.a)];
    let quiet = |op, id, key| SendHead { flags: 0, ..head(op, id, 0x4000, key) };
    x.send(&a, &quiet(Write, 1, k.b), SendBody::Gather(&one));
    x.send(&a, &quiet(Send, 2, 0), SendBody::Gather(&one));
    x.send(&a, &quiet(Write, 3, 12), SendBody::Gather(&one));
    x.send(&a, &quiet(Send, 4, 0), SendBody::Gather(&one));
    x.send(&a, &quiet(Read, 5, k.b), SendBody::Gather(&one));
    lab.run();
    assert_eq!(x.ended(), [(3, RemoteAccess), (4, Flushed), (5, Flushed)]);
    let all = [(100, Success), (101, Flushed), (102, Flushed), (103, Flushed)];
    assert_eq!(y.ended(), all);
    // What is posted later is flushed as well.
    x.send(&a, &quiet(Send, 6, 0), SendBody::Gather(&one));
    y.receive(&b, 104, &[]);
    x.receive(&a, 7, &[]);
    lab.run();
    assert_eq!(x.ended(), [(6, Flushed), (7, Flushed)]);
    assert_eq!(y.ended(), [(104, Flushed)]);
}

#[test]
fn a_failed_queue_pair_lives_again_after_reset() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, mut y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    let one = [sge(0x1000, 8, k.a)];
    x.send(&a, &head(Write, 1, 0x4000, 3), SendBody::Gather(&one));
    lab.run();
    assert_eq!(x.ended(), [(1, RemoteAccess)]);
    for (app, qp) in [(&a, &x), (&b, &y)] {
        lab.modify(app, qp, attribute::STATE, QpState::Reset, &Attributes::default()).unwrap();
    }
    // What is posted before a reset is gone without a completion.
    x.sends.post_send(&head(Write, 9, 0x4000, k.b), SendBody::Gather(&one)).unwrap();
    lab.modify(&a, &x, attribute::STATE, QpState::Reset, &Attributes::default()).unwrap();
    lab.connect(QpType::Rc, (&a, &x), (&b, &y));
    x.send(&a, &head(Write, 2, 0x4000, k.b), SendBody::Gather(&one));
    lab.run();
    assert_eq!((x.ended(), y.ended()), (vec![(2, Success)], vec![]));
}

/// A QP that waits for a receive goes on when there is one, and gives up after its retries.
#[test]
fn receiver_not_ready() {
    for (retries, more) in [(0u8, 0u64), (1, 1), (3, 3), (7, u64::MAX)] {
        let mut lab = Lab::new();
        let ((a, mut x), (b, mut y)) = lab.pair(QpType::Rc);
        let k = keys(&mut lab, &a, &b);
        let set = Attributes { rnr_retry: retries, min_rnr_timer: 12, ..attributes(&b, &y) };
        // 0.64 ms is the responder's wish; the requester's own does not count.
        lab.modify(&b, &y, attribute::MIN_RNR_TIMER, QpState::Rts, &set).unwrap();
        let to_sqd = [attribute::STATE, attribute::STATE | attribute::RNR_RETRY];
        for mask in to_sqd {
            lab.modify(&a, &x, mask, QpState::Sqd, &set).unwrap();
        }
        lab.modify(&a, &x, attribute::STATE, QpState::Rts, &set).unwrap();
        x.send(&a, &head(Send, 1, 0, 0), SendBody::Gather(&[sge(0x1000, 8, k.a)]));
        x.send(&a, &head(Write, 2, 0x4000, k.b), SendBody::Gather(&[]));
        lab.run();
        for round in 0..more.min(20) {
            assert_eq!(x.ended(), [], "round {round} of {more}");
            let until = lab.nic.run(lab.now).until.expect("a time to wait for");
            assert_eq!(until, lab.now + 640_000);
            lab.now = until - 1;
            lab.run();
            assert_eq!(x.ended(), []);
            lab.now = until;
            lab.run();
        }
        if retries == 7 {
            assert_eq!(x.ended(), []);
            y.receive(&b, 70, &[sge(0x4000, 8, k.b)]);
            lab.run();
            assert_eq!(
                (x.ended(), y.ended()),
                (vec![(1, Success), (2, Success)], vec![(70, Success)])
            );
        } else {
            assert_eq!(x.ended(), [(1, RnrExceeded), (2, Flushed)], "{retries}");
            assert_eq!(lab.nic.state(b.program, y.id), Ok(QpState::Rts), "the receiver lives");
        }
    }
}

/// A peer that is not there, not ready, or does not name us, is tried for a while.
#[test]
fn a_peer_that_does_not_name_us_is_none() {
    for broken in 0..5 {
        let mut lab = Lab::new();
        let (a, b, c) = (lab.app(1), lab.app(2), lab.app(3));
        let (mut x, y, z) =
            (lab.qp(&a, QpType::Rc), lab.qp(&b, QpType::Rc), lab.qp(&c, QpType::Rc));
        let k = keys(&mut lab, &a, &b);
        let right = attributes(&a, &x);
        let theirs = match broken {
            0 => attributes(&c, &z),
            1 => Attributes { dest_qpn: z.qpn, ..right },
            2 => Attributes { path: Path { gid: Some(c.address.gid), lid: 0 }, ..right },
            3 => Attributes { path: Path { gid: None, lid: 3 }, ..right },
            _ => right,
        };
        if broken < 4 {
            lab.bring_up(&b, &y, QpType::Rc, &theirs);
        }
        lab.bring_up(&a, &x, QpType::Rc, &attributes(&b, &y));
        x.send(&a, &head(Write, 1, 0x4000, k.b), SendBody::Gather(&[sge(0x1000, 8, k.a)]));
        lab.run();
        // Three retries after the first try, each after 4.096 µs × 2^10.
        for round in 1..=4 {
            assert_eq!(x.ended(), [], "{broken}, round {round}");
            assert_eq!(lab.nic.run(lab.now).until, Some(lab.now + (4096 << 10)));
            lab.now += 4096 << 10;
            lab.run();
        }
        assert_eq!(x.ended(), [(1, RetryExceeded)], "{broken}");
    }
}

#[test]
fn a_peer_that_comes_late_is_found() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let (mut x, y) = (lab.qp(&a, QpType::Rc), lab.qp(&b, QpType::Rc));
    let k = keys(&mut lab, &a, &b);
    lab.bring_up(&a, &x, QpType::Rc, &attributes(&b, &y));
    x.send(&a, &head(Write, 1, 0x4000, k.b), SendBody::Gather(&[sge(0x1000, 8, k.a)]));
    lab.run();
    assert_eq!(x.ended(), []);
    let by_lid = Attributes { path: Path { gid: None, lid: 1 }, ..attributes(&a, &x) };
    lab.bring_up(&b, &y, QpType::Rc, &by_lid);
    lab.run();
    assert_eq!(x.ended(), [(1, Success)]);
    // It goes, and is no more written to.
    lab.nic.end_qp(b.program, y.id).unwrap();
    x.send(&a, &head(Write, 2, 0x4000, k.b), SendBody::Gather(&[sge(0x1000, 8, k.a)]));
    lab.run();
    assert_eq!(x.ended(), []);
}

#[test]
fn atomics_of_two_queue_pairs_add_up() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let ends: Vec<_> = (0..2).map(|_| (lab.qp(&a, QpType::Rc), lab.qp(&b, QpType::Rc))).collect();
    let k = keys(&mut lab, &a, &b);
    lab.fill(0x4010, &1000u64.to_le_bytes());
    let mut ends = ends;
    for (x, y) in &ends {
        lab.connect(QpType::Rc, (&a, x), (&b, y));
    }
    for i in 0..50u64 {
        for (at, (x, _)) in ends.iter_mut().enumerate() {
            let to = sge(0x1000 + (i * 2 + at as u64) * 8, 8, k.a);
            let operands = Operands { compare_add: 3, swap: 0 };
            x.send(&a, &head(FetchAdd, i, 0x4010, k.b), SendBody::Atomic(to, operands));
        }
    }
    lab.run();
    let word = |at: u64| u64::from_le_bytes(lab.bytes(at, 8).try_into().unwrap());
    assert_eq!(word(0x4010), 1000 + 100 * 3);
    let mut before: Vec<u64> = (0..100).map(|i| word(0x1000 + i * 8)).collect();
    before.sort_unstable();
    assert_eq!(before, (0..100).map(|i| 1000 + i * 3).collect::<Vec<_>>());
}

#[test]
fn compare_and_swap_and_what_is_no_atomic() {
    for (addr, len, compare, expected, word) in [
        (0x4010, 8, 5u64, Success, 9u64),
        (0x4010, 8, 6, Success, 5),
        (0x4014, 8, 5, RemoteInvalid, 5),
        (0x4010, 4, 5, LocalLength, 5),
        (0x5000, 8, 5, RemoteAccess, 5),
    ] {
        let mut lab = Lab::new();
        let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
        let k = keys(&mut lab, &a, &b);
        lab.fill(0x4010, &5u64.to_le_bytes());
        let operands = Operands { compare_add: compare, swap: 9 };
        let body = SendBody::Atomic(sge(0x1000, len, k.a), operands);
        x.send(&a, &head(CompareSwap, 1, addr, k.b), body);
        lab.run();
        let done = x.cq.poll();
        assert_eq!((done[0].status, done.len()), (expected, 1), "{addr:#x} {len}");
        assert_eq!(lab.bytes(0x4010, 8), word.to_le_bytes(), "{addr:#x} {len} {compare}");
        if expected == Success {
            assert_eq!(lab.bytes(0x1000, 8), 5u64.to_le_bytes());
            assert_eq!((done[0].opcode, done[0].byte_len), (CompletionOpcode::CompareSwap, 8));
        }
    }
    // The answer has no place to go: nothing is changed.
    let mut lab = Lab::new();
    let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    let body =
        SendBody::Atomic(sge(0x1000, 8, k.a_read_only), Operands { compare_add: 1, swap: 0 });
    x.send(&a, &head(FetchAdd, 1, 0x4010, k.b), body);
    lab.run();
    assert_eq!((x.ended(), lab.bytes(0x4010, 8)), (vec![(1, LocalProtection)], vec![0; 8]));
}

#[test]
fn entries_of_a_queue_pair_are_done_in_their_order() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    lab.fill(0x1000, b"first___second__third___");
    // Each writes the same place; a read in between sees what came before it.
    for (i, op) in [Write, Read, Write, Read, Write].into_iter().enumerate() {
        let i = i as u64;
        let local = if op == Read { 0x1100 + i * 8 } else { 0x1000 + i * 4 };
        x.send(&a, &head(op, i, 0x4000, k.b), SendBody::Gather(&[sge(local, 8, k.a)]));
    }
    lab.run();
    let ids: Vec<u64> = x.cq.poll().iter().map(|c| c.wr_id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4]);
    assert_eq!(lab.bytes(0x1108, 8), b"first___");
    assert_eq!(lab.bytes(0x1118, 8), b"second__");
    assert_eq!(lab.bytes(0x4000, 8), b"third___");
}

#[test]
fn inline_data_of_each_length() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, mut y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    let all: Vec<u8> = (1..=220).collect();
    for len in 0..=220usize {
        lab.fill(0x4000, &[0; 256]);
        y.receive(&b, len as u64, &[sge(0x4100, 100, k.b), sge(0x4200, 120, k.b)]);
        x.send(&a, &head(Write, 1, 0x4000, k.b), SendBody::Inline(&all[..len]));
        x.send(&a, &head(Send, 2, 0, 0), SendBody::Inline(&all[..len]));
        lab.run();
        assert_eq!(x.ended(), [(1, Success), (2, Success)]);
        assert_eq!(y.cq.poll()[0].byte_len, len as u32);
        assert_eq!(lab.bytes(0x4000, len), all[..len]);
        assert_eq!(lab.bytes(0x4000 + len as u64, 8), [0; 8], "beyond {len}");
        let got = [lab.bytes(0x4100, 100), lab.bytes(0x4200, 120)].concat();
        assert_eq!(got[..len], all[..len]);
    }
    let too_long = x.sends.post_send(&head(Write, 1, 0, 0), SendBody::Inline(&[0; 221]));
    assert_eq!(too_long, Err(PostError::Bad(BadEntry::Count(221))));
}

#[test]
fn events_come_as_they_were_asked_for() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, mut y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    let mut send = |lab: &mut Lab, y: &mut End, flags| {
        y.receive(&b, 1, &[sge(0x4000, 8, k.b)]);
        let head = SendHead { flags, ..head(Send, 1, 0, 0) };
        x.send(&a, &head, SendBody::Gather(&[sge(0x1000, 8, k.a)]));
        lab.run();
        let events = lab.events();
        assert!(events.iter().all(|e| matches!(e, Event::Completed { program, cq }
            if *program == b.program && *cq == y.cq.id)));
        assert_eq!(events.len(), usize::from(y.cq.asker.take(&y.cq.queue)));
        assert!(!y.cq.asker.take(&y.cq.queue), "one event, taken once");
        y.cq.poll();
        events.len()
    };
    assert_eq!(send(&mut lab, &mut y, 0), 0, "nobody asked");
    y.cq.asker.ask(&y.cq.queue, false);
    assert_eq!(send(&mut lab, &mut y, 0), 1);
    assert_eq!(send(&mut lab, &mut y, 0), 0, "asked once");
    y.cq.asker.ask(&y.cq.queue, true);
    assert_eq!(send(&mut lab, &mut y, 0), 0, "not a solicited one");
    assert_eq!(send(&mut lab, &mut y, send::SOLICITED), 1);
    y.cq.asker.ask(&y.cq.queue, true);
    // A failure is always worth an event.
    lab.modify(&b, &y, attribute::STATE, QpState::Error, &Attributes::default()).unwrap();
    y.receive(&b, 1, &[]);
    lab.run();
    assert_eq!(lab.events().len(), 1);
}

#[test]
fn writes_of_one_turn_bring_one_event() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    for round in 0..3 {
        x.cq.asker.ask(&x.cq.queue, false);
        for i in 0..5 {
            x.send(&a, &head(Write, i, 0x4000, k.b), SendBody::Gather(&[sge(0x1000, 8, k.a)]));
        }
        lab.run();
        assert_eq!(lab.events(), [Event::Completed { program: a.program, cq: x.cq.id }], "{round}");
        assert!(x.cq.asker.take(&x.cq.queue) && !x.cq.asker.take(&x.cq.queue));
        assert_eq!(x.cq.poll().len(), 5);
    }
}

#[test]
fn what_is_not_signaled_has_no_completion_and_frees_its_place() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    for i in 0..1000u64 {
        let flags = if i % 50 == 49 { send::SIGNALED } else { 0 };
        let head = SendHead { flags, ..head(Write, i, 0x4000, k.b) };
        x.send(&a, &head, SendBody::Gather(&[sge(0x1000, 8, k.a)]));
        lab.run();
    }
    let done = x.cq.poll();
    assert_eq!(done.len(), 20);
    assert!(done.iter().all(|c| u64::from(c.position) == c.wr_id));
}

#[test]
fn a_full_completion_queue_fails_its_queue_pairs() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let (mut x, y) = (lab.qp_of(&a, QpType::Rc, 4, None), lab.qp(&b, QpType::Rc));
    lab.connect(QpType::Rc, (&a, &x), (&b, &y));
    let k = keys(&mut lab, &a, &b);
    x.cq.asker.ask(&x.cq.queue, false);
    for i in 0..6 {
        x.send(&a, &head(Write, i, 0x4000, k.b), SendBody::Gather(&[sge(0x1000, 8, k.a)]));
    }
    lab.run();
    let events = lab.events();
    let cq =
        Event::Async { program: a.program, kind: AsyncKind::CqError, object: x.cq.id.number() };
    let qp = Event::Async { program: a.program, kind: AsyncKind::QpFatal, object: x.qpn };
    // Somebody sleeps until the first one completes.
    let done = Event::Completed { program: a.program, cq: x.cq.id };
    assert_eq!(events, [done, cq, qp]);
    assert_eq!(x.ended().len(), 4, "those that had room");
    assert_eq!(lab.nic.state(a.program, x.id), Ok(QpState::Error));
    assert_eq!(lab.nic.state(b.program, y.id), Ok(QpState::Rts));
}

#[test]
fn unreliable_connections_lose_what_nobody_takes() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, mut y)) = lab.pair(QpType::Uc);
    let k = keys(&mut lab, &a, &b);
    lab.fill(0x1000, b"12345678");
    let one = [sge(0x1000, 8, k.a)];
    x.send(&a, &head(Send, 1, 0, 0), SendBody::Gather(&one));
    x.send(&a, &head(Write, 2, 0x4000, 5), SendBody::Gather(&one));
    x.send(&a, &head(Write, 3, 0x4000, k.b), SendBody::Gather(&one));
    lab.run();
    assert_eq!(x.ended(), [(1, Success), (2, Success), (3, Success)]);
    assert_eq!((lab.nic.counts().all.dropped, lab.nic.counts().all.wrong_keys), (2, 1));
    assert_eq!(lab.bytes(0x4000, 8), b"12345678");
    // A short receive stays for a message that fits.
    y.receive(&b, 10, &[sge(0x4000, 4, k.b)]);
    x.send(&a, &head(Send, 4, 0, 0), SendBody::Gather(&one));
    x.send(&a, &head(Send, 5, 0, 0), SendBody::Gather(&[sge(0x1004, 4, k.a)]));
    lab.run();
    assert_eq!(x.ended(), [(4, Success), (5, Success)]);
    assert_eq!((y.ended(), lab.bytes(0x4000, 4)), (vec![(10, Success)], b"5678".to_vec()));
    // Not offered, and an own error: the sending half fails, the other one does not.
    x.send(&a, &head(Read, 6, 0x4000, k.b), SendBody::Gather(&one));
    x.send(&a, &head(Send, 7, 0, 0), SendBody::Gather(&one));
    lab.run();
    assert_eq!(x.ended(), [(6, LocalOperation), (7, Flushed)]);
    assert_eq!(lab.nic.state(a.program, x.id), Ok(QpState::Sqe));
    lab.modify(&a, &x, attribute::STATE, QpState::Rts, &Attributes::default()).unwrap();
    x.receive(&a, 20, &[sge(0x1800, 8, k.a)]);
    y.send(&b, &head(Send, 8, 0, 0), SendBody::Gather(&[sge(0x4000, 8, k.b)]));
    lab.run();
    assert_eq!((x.ended(), y.ended()), (vec![(20, Success)], vec![(8, Success)]));
}

#[test]
fn a_drained_send_queue_is_told() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
    let k = keys(&mut lab, &a, &b);
    let set = Attributes { tell_drained: true, ..attributes(&b, &_y) };
    let mask = attribute::STATE | attribute::EN_SQD_ASYNC_NOTIFY;
    lab.modify(&a, &x, mask, QpState::Sqd, &set).unwrap();
    assert_eq!(lab.told(AsyncKind::Drained), [x.qpn]);
    x.send(&a, &head(Write, 1, 0x4000, k.b), SendBody::Gather(&[sge(0x1000, 8, k.a)]));
    lab.run();
    assert_eq!(x.ended(), [], "nothing is begun");
    lab.modify(&a, &x, attribute::STATE, QpState::Rts, &set).unwrap();
    lab.run();
    assert_eq!((x.ended(), lab.told(AsyncKind::Drained)), (vec![(1, Success)], vec![]));
}
