//! Datagrams, shared receive queues, registration, control calls, fairness, sleep.

mod common;

use common::*;
use vfun_verbs::flags::{access, completion};
use vfun_verbs::*;
use vfun_verbs_nic::limits::{IDLE_LOOKS, LOOKS_A_TURN};
use vfun_verbs_nic::*;

use SendOpcode::*;
use Status::*;

/// Two programs with a queue pair for datagrams each, their keys, and A's handle of B.
fn datagrams(lab: &mut Lab) -> ((App, End, u32), (App, End, u32), AhId) {
    let (a, b) = (lab.app(1), lab.app(2));
    let (x, y) = (lab.qp(&a, QpType::Ud), lab.qp(&b, QpType::Ud));
    for (app, qp) in [(&a, &x), (&b, &y)] {
        let set = attributes(app, qp);
        lab.bring_up(app, qp, QpType::Ud, &set);
    }
    let (ka, kb) = (lab.region(&a, 1, 4, access::ALL), lab.region(&b, 8, 4, access::ALL));
    let path = Path { gid: None, lid: 2 };
    let ah = lab.nic.make_ah(a.program, a.pd, path).unwrap();
    ((a, x, ka), (b, y, kb), ah)
}

#[test]
fn a_datagram_comes_with_a_header_and_says_who_sent_it() {
    let mut lab = Lab::new();
    let ((a, mut x, ka), (b, mut y, kb), ah) = datagrams(&mut lab);
    lab.fill(0x1000, b"datagram");
    y.receive(&b, 9, &[sge(0x8000, 20, kb), sge(0x8100, 28, kb)]);
    let to = SendHead::datagram(y.qpn, 0x1234);
    x.send(&a, &head(SendImm, 1, to, ah.number()), SendBody::Gather(&[sge(0x1000, 8, ka)]));
    lab.run();
    assert_eq!(x.ended(), [(1, Success)]);
    let got = y.cq.poll();
    let expected = Completion {
        status: Success,
        opcode: CompletionOpcode::Receive,
        flags: completion::GRH | completion::WITH_IMM,
        wr_id: 9,
        qpn: y.qpn,
        src_qp: x.qpn,
        byte_len: 48,
        imm: 0x5566_7788,
        position: 0,
        slid: 1,
    };
    assert_eq!(got, [expected]);
    let bytes = [lab.bytes(0x8000, 20), lab.bytes(0x8100, 28)].concat();
    assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 8, 0x1b, 0xff]);
    assert_eq!((&bytes[8..24], &bytes[24..40]), (&address(1).gid[..], &address(2).gid[..]));
    assert_eq!(&bytes[40..], b"datagram");
}

#[test]
fn a_datagram_that_nobody_may_take_is_dropped() {
    let mut lab = Lab::new();
    let ((a, mut x, ka), (b, mut y, kb), ah) = datagrams(&mut lab);
    let stranger = lab.nic.make_ah(a.program, a.pd, Path { gid: None, lid: 3 }).unwrap();
    let one = [sge(0x1000, 8, ka)];
    let mut id = 0;
    let mut send = |lab: &mut Lab, x: &mut End, qpn, qkey, ah: AhId| {
        id += 1;
        let to = SendHead::datagram(qpn, qkey);
        x.send(&a, &head(Send, id, to, ah.number()), SendBody::Gather(&one));
        lab.run();
        assert_eq!(x.ended(), [(id, Success)]);
    };
    send(&mut lab, &mut x, y.qpn, 0x1234, ah);
    assert_eq!(lab.nic.counts().all.dropped, 1, "no receive");
    y.receive(&b, 9, &[sge(0x8000, 47, kb)]);
    send(&mut lab, &mut x, y.qpn, 0x1234, ah);
    assert_eq!(lab.nic.counts().all.dropped, 2, "too short with its header; the receive stays");
    lab.nic.end_qp(b.program, y.id).unwrap();
    let mut y = lab.qp(&b, QpType::Ud);
    let set = attributes(&b, &y);
    lab.bring_up(&b, &y, QpType::Ud, &set);
    y.receive(&b, 10, &[sge(0x8000, 48, kb)]);
    send(&mut lab, &mut x, y.qpn, 0x1235, ah);
    send(&mut lab, &mut x, y.qpn ^ 1, 0x1234, ah);
    send(&mut lab, &mut x, y.qpn, 0x1234, stranger);
    assert_eq!((lab.nic.counts().all.dropped, y.ended()), (5, vec![]));
    // The highest bit stands for the sender's own key.
    send(&mut lab, &mut x, y.qpn, 0x8000_0000, ah);
    assert_eq!(y.ended(), [(10, Success)]);
    let before = lab.nic.counts().all;
    assert_eq!(lab.nic.program_counts(a.program).map(|all| all.dropped), Some(5));
    lab.nic.end_program(a.program).unwrap();
    assert_eq!((lab.nic.counts().all, lab.nic.program_counts(a.program)), (before, None));
}

#[test]
fn errors_of_datagrams_stay_with_whom_they_are() {
    for (len, key_off, ah_off, expected) in
        [(4097, 0, 0, LocalLength), (8, 1, 0, LocalProtection), (8, 0, 77, LocalOperation)]
    {
        let mut lab = Lab::new();
        let ((a, mut x, ka), (_b, y, _kb), ah) = datagrams(&mut lab);
        let to = SendHead::datagram(y.qpn, 0x1234);
        let body = [sge(0x1000, len, ka ^ key_off)];
        x.send(&a, &head(Send, 1, to, ah.number() + ah_off), SendBody::Gather(&body));
        lab.run();
        assert_eq!(x.ended(), [(1, expected)]);
        assert_eq!(lab.nic.state(a.program, x.id), Ok(QpState::Sqe));
    }
    // The receiver's own: its receive fails, and it does; the sender does not know.
    let mut lab = Lab::new();
    let ((a, mut x, ka), (b, mut y, kb), ah) = datagrams(&mut lab);
    y.receive(&b, 9, &[sge(0x8000, 40, kb), sge(0x8100, 40, kb ^ 1)]);
    let to = SendHead::datagram(y.qpn, 0x1234);
    x.send(&a, &head(Send, 1, to, ah.number()), SendBody::Gather(&[sge(0x1000, 8, ka)]));
    lab.run();
    assert_eq!((x.ended(), y.ended()), (vec![(1, Success)], vec![(9, LocalProtection)]));
    assert_eq!(lab.nic.state(b.program, y.id), Ok(QpState::Error));
    assert_eq!(lab.bytes(0x8000, 40), [0; 40]);
}

#[test]
fn a_shared_receive_queue_serves_in_order_and_says_when_it_is_low() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let (srq, mut shared) = lab.srq(&b);
    let mut ends = vec![];
    for _ in 0..2 {
        let (x, y) = (lab.qp(&a, QpType::Rc), lab.qp_of(&b, QpType::Rc, 64, Some(srq)));
        lab.connect(QpType::Rc, (&a, &x), (&b, &y));
        ends.push((x, y));
    }
    let (ka, kb) = (lab.region(&a, 1, 1, access::ALL), lab.region(&b, 4, 1, access::ALL));
    for i in 0..5u64 {
        let entry = ReceiveEntry::new(i, &[sge(0x4000 + i * 64, 64, kb)]).unwrap();
        shared.post_receive(&entry).unwrap();
    }
    lab.nic.limit_srq(b.program, srq, 3).unwrap();
    let mut got = vec![];
    for i in 0..5usize {
        let (x, y) = &mut ends[i % 2];
        x.send(&a, &head(Send, i as u64, 0, 0), SendBody::Gather(&[sge(0x1000, 8, ka)]));
        lab.run();
        got.extend(y.ended());
        assert_eq!(x.ended(), [(i as u64, Success)]);
        let low = lab.told(AsyncKind::SrqLimit);
        assert_eq!(low, if i == 2 { vec![srq.number()] } else { vec![] }, "{i}");
    }
    assert_eq!(got, (0..5).map(|i| (i, Success)).collect::<Vec<_>>());
    assert!(lab.nic.end_srq(b.program, srq).is_err(), "it is used");
    // A queue pair that fails takes no more from it, and says so once.
    let (x, y) = &mut ends[0];
    x.send(&a, &head(Write, 9, 0x4000, 1), SendBody::Gather(&[sge(0x1000, 8, ka)]));
    lab.run();
    assert_eq!((x.ended(), y.ended()), (vec![(9, RemoteAccess)], vec![]));
    assert_eq!(lab.told(AsyncKind::LastReceive), [y.qpn]);
}

/// A region whose pages lie apart and in any order, with a first byte inside of a page.
#[test]
fn a_region_of_scattered_pages_is_one_memory() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
    let pages = [40u64, 41, 20, 60, 21, 22];
    let runs: Vec<PageRun> = [(40, 2), (20, 1), (60, 1), (21, 2)]
        .map(|(page, pages)| PageRun { window: lab.window, page, pages })
        .into();
    let (iova, len) = (0x7777_0000_0123, 5 * PAGE);
    let what = Registration { iova, len, access: access::ALL, pages: &runs };
    let key = lab.nic.register(b.program, b.pd, &what).unwrap();
    let mine = lab.region(&a, 100, 5, access::ALL);
    let data: Vec<u8> = (0..5 * PAGE).map(|i| (i % 251) as u8).collect();
    lab.fill(100 * PAGE, &data);
    let all = [sge(100 * PAGE, 5 * PAGE as u32, mine)];
    x.send(&a, &head(Write, 1, iova, key), SendBody::Gather(&all));
    lab.run();
    assert_eq!(x.ended(), [(1, Success)]);
    let flat: Vec<u8> = pages.iter().flat_map(|p| lab.bytes(p * PAGE, 4096)).collect();
    assert_eq!(flat[0x123..0x123 + data.len()], data);
    // Back again, in odd pieces.
    lab.fill(100 * PAGE, &vec![0; data.len()]);
    for (i, from) in (0..5 * PAGE).step_by(3001).enumerate() {
        let len = 3001.min(5 * PAGE - from);
        let to = [sge(100 * PAGE + from, len as u32, mine)];
        x.send(&a, &head(Read, i as u64, iova + from, key), SendBody::Gather(&to));
    }
    lab.run();
    assert_eq!(lab.bytes(100 * PAGE, data.len()), data);
    lab.nic.deregister(b.program, key).unwrap();
    x.cq.poll();
    x.send(&a, &head(Write, 1, iova, key), SendBody::Gather(&all));
    lab.run();
    assert_eq!(x.ended(), [(1, RemoteAccess)], "its key is dead at once");
}

#[test]
fn what_cannot_be_registered_is_refused() {
    let mut lab = Lab::new();
    let app = lab.app(1);
    let last = WINDOW as u64 / PAGE - 1;
    let run = |page, pages| PageRun { window: lab.window, page, pages };
    let (program, pd) = (app.program, app.pd);
    let good: (u64, u64, u32, Vec<PageRun>) = (0x1000, 0x1000, access::ALL, vec![run(1, 1)]);
    let wrong = [
        (0x1000, 0, access::ALL, vec![run(1, 1)]),
        (0x1001, 0x1000, access::ALL, vec![run(1, 1)]),
        (0x1000, 0x1000, access::ALL, vec![run(1, 2)]),
        (0x1000, 0x1000, access::ALL, vec![run(1, 1), run(2, 1)]),
        (0x1000, 0x1000, access::ALL, vec![]),
        (0x1000, 0x1000, access::REMOTE_WRITE, vec![run(1, 1)]),
        (0x1000, 0x1000, 1 << 8, vec![run(1, 1)]),
        (0x1000, 0x1000, access::ALL, vec![run(last + 1, 1)]),
        (0x1000, 0x2000, access::ALL, vec![run(last, 2)]),
        (0x1000, 0x1000, access::ALL, vec![run(u64::MAX, 1)]),
        (0x1000, 0x1000, access::ALL, vec![run(1 << 60, 1)]),
        (0x1000, 0x1000, access::ALL, vec![run(1, u64::MAX)]),
        (0x1000, 0x1000, access::ALL, vec![run(1, 0)]),
        (u64::MAX - 0xfff, 0x1000, access::ALL, vec![run(1, 1)]),
    ];
    let nic = &mut lab.nic;
    let mut register = |(iova, len, access, pages): &(u64, u64, u32, Vec<PageRun>)| {
        nic.register(program, pd, &Registration { iova: *iova, len: *len, access: *access, pages })
    };
    register(&good).unwrap();
    for (i, w) in wrong.iter().enumerate() {
        assert!(register(w).is_err(), "{i}: {w:?}");
    }
}

/// Two pages that do not touch are never one run, however little memory they are.
#[test]
fn regions_have_so_many_runs_together() {
    let mut lab = Lab::new();
    let ((a, _), (b, _)) = lab.pair(QpType::Rc);
    let window = lab.window;
    let runs: Vec<_> =
        (0..1 << 16).map(|n| PageRun { window, page: n % 2 * 2, pages: 1 }).collect();
    let what = Registration { iova: 0, len: PAGE << 16, access: access::ALL, pages: &runs };
    let keys: Vec<_> = (0..16).map(|_| lab.nic.register(a.program, a.pd, &what).unwrap()).collect();
    let full = |r: Result<u32, Refused>| assert!(matches!(r, Err(Refused::Limit(_))), "{r:?}");
    full(lab.nic.register(a.program, a.pd, &what));
    full(lab.nic.register(b.program, b.pd, &what));
    lab.nic.deregister(a.program, keys[0]).unwrap();
    lab.nic.register(b.program, b.pd, &what).unwrap();
}

#[test]
fn objects_belong_to_a_program_and_hold_each_other() {
    let mut lab = Lab::new();
    let ((a, x), (b, y)) = lab.pair(QpType::Rc);
    let key = lab.region(&a, 1, 1, access::ALL);
    let set = attributes(&a, &x);
    let no = |r: Result<(), Refused>| assert!(matches!(r, Err(Refused::NoSuch(_))), "{r:?}");
    no(lab.nic.deregister(b.program, key));
    no(lab.nic.end_qp(b.program, x.id));
    no(lab.nic.end_cq(b.program, x.cq.id));
    no(lab.nic.end_pd(b.program, a.pd));
    no(lab.modify(&b, &x, 1, QpState::Error, &set));
    assert!(matches!(lab.nic.end_cq(a.program, x.cq.id), Err(Refused::Busy(_))));
    assert!(matches!(lab.nic.end_pd(a.program, a.pd), Err(Refused::Busy(_))));
    assert!(matches!(lab.nic.end_window(lab.window), Err(Refused::Busy(_))));
    lab.nic.end_qp(a.program, x.id).unwrap();
    no(lab.nic.end_qp(a.program, x.id));
    lab.nic.end_cq(a.program, x.cq.id).unwrap();
    lab.nic.deregister(a.program, key).unwrap();
    lab.nic.end_pd(a.program, a.pd).unwrap();
    lab.nic.end_program(a.program).unwrap();
    lab.nic.end_program(b.program).unwrap();
    no(lab.nic.end_qp(b.program, y.id));
    lab.nic.end_window(lab.window).unwrap();
}

/// Large copies of one program do not hold up another's small entries: at most a slice for
/// each program comes between.
#[test]
fn large_copies_take_turns() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let mut large: Vec<_> =
        (0..4).map(|_| (lab.qp(&a, QpType::Rc), lab.qp(&a, QpType::Rc))).collect();
    for (x, y) in &large {
        lab.connect(QpType::Rc, (&a, x), (&a, y));
    }
    let (mut small, other) = (lab.qp(&b, QpType::Rc), lab.qp(&b, QpType::Rc));
    lab.connect(QpType::Rc, (&b, &small), (&b, &other));
    let (ka, kb) = (lab.region(&a, 0, 128, access::ALL), lab.region(&b, 128, 1, access::ALL));
    let len = 256 << 10;
    for (x, _) in &mut large {
        x.send(&a, &head(Write, 1, 256 << 10, ka), SendBody::Gather(&[sge(0, len, ka)]));
    }
    assert!(lab.nic.run(1).worked);
    small.send(&b, &head(Write, 2, 128 * PAGE, kb), SendBody::Gather(&[sge(128 * PAGE, 8, kb)]));
    assert!(lab.nic.run(1).worked);
    assert_eq!(small.ended(), [(2, Success)], "after one look");
    let mut runs = 2;
    while lab.nic.run(1).worked {
        runs += 1;
        let done: usize = large.iter_mut().map(|(x, _)| x.ended().len()).sum();
        assert!(done == 0 || runs > 12, "they go on in turn, a slice each: {runs}");
    }
    assert_eq!(runs, 16);
}

/// The NIC looks at a quiet queue pair no more, and a post tells it so.
#[test]
fn quiet_queue_pairs_are_left_and_found_again() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
    let (ka, kb) = (lab.region(&a, 1, 1, access::ALL), lab.region(&b, 4, 1, access::ALL));
    for i in 0..5 {
        for _ in 0..IDLE_LOOKS * (i % 3) {
            assert!(!lab.nic.run(1).worked);
        }
        x.send(&a, &head(Write, 1, 0x4000, kb), SendBody::Gather(&[sge(0x1000, 8, ka)]));
        assert!(lab.nic.run(1).worked, "{i}");
        assert_eq!(x.ended(), [(1, Success)]);
    }
    // Without its bell it is not found.
    for _ in 0..IDLE_LOOKS + 2 {
        assert!(!lab.nic.run(1).worked);
    }
    let one = [sge(0x1000, 8, ka)];
    x.sends.post_send(&head(Write, 2, 0x4000, kb), SendBody::Gather(&one)).unwrap();
    assert!(!lab.nic.run(1).worked);
    assert!(!a.bells.posted(x.bit), "the NIC is awake");
    lab.nic.declare_sleep();
    assert!(a.bells.posted(x.bit), "it sleeps: ring");
    assert!(lab.nic.run(1).worked);
    lab.nic.declare_awake();
    assert!(!a.bells.posted(x.bit));
}

#[test]
fn the_first_message_establishes() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let (mut x, y) = (lab.qp(&a, QpType::Rc), lab.qp(&b, QpType::Rc));
    lab.bring_up(&a, &x, QpType::Rc, &attributes(&b, &y));
    let set = attributes(&a, &x);
    for (from, to) in [(QpState::Reset, QpState::Init), (QpState::Init, QpState::Rtr)] {
        let mask = 1 | allowed(from, to, QpType::Rc).unwrap().required;
        lab.modify(&b, &y, mask, to, &set).unwrap();
    }
    for i in 0..2 {
        x.send(&a, &head(Write, i, 0, 0), SendBody::Gather(&[]));
    }
    lab.run();
    assert_eq!(x.ended(), [(0, Success), (1, Success)]);
    assert_eq!(lab.told(AsyncKind::Established), [y.qpn]);
}

/// A thousand queue pairs of which eight are busy cost as many looks as eight.
#[test]
fn quiet_queue_pairs_cost_no_looks() {
    let looks = |quiet: usize| {
        let mut lab = Lab::new();
        let (a, b) = (lab.app(1), lab.app(2));
        let size = (8, shape(8, 0));
        let mut ends = vec![];
        for _ in 0..8 + quiet {
            let x = lab.qp_shaped(&a, QpType::Rc, size, None);
            let y = lab.qp_shaped(&b, QpType::Rc, size, None);
            lab.connect(QpType::Rc, (&a, &x), (&b, &y));
            ends.push((x, y));
        }
        let (ka, kb) = (lab.region(&a, 1, 1, access::ALL), lab.region(&b, 4, 1, access::ALL));
        // A turn has so many looks, and these are two programs.
        for _ in 0..(IDLE_LOOKS as usize + 2) * (quiet / LOOKS_A_TURN + 2) {
            lab.nic.run(1);
        }
        let before = lab.nic.counts().looks;
        for i in 0..100 {
            for (x, _) in &mut ends[quiet..] {
                let body = [sge(0x1000, 8, ka)];
                x.send(&a, &head(Write, i, 0x4000, kb), SendBody::Gather(&body));
            }
            lab.run();
            for (x, _) in &mut ends[quiet..] {
                assert_eq!(x.ended(), [(i, Success)]);
            }
        }
        lab.nic.counts().looks - before
    };
    assert_eq!(looks(1000), looks(0));
}

/// Numbers that jump, and counts that do not add up: what is broken fails, and is told.
#[test]
fn broken_queues_fail_their_queue_pairs() {
    let fails = |break_it: fn(&mut End, &mut WorkProducer<Plain>), shared: bool| {
        let mut lab = Lab::new();
        let (a, b) = (lab.app(1), lab.app(2));
        let (srq, mut srq_end) = lab.srq(&b);
        let mut x = lab.qp(&a, QpType::Rc);
        let mut y = lab.qp_of(&b, QpType::Rc, 64, shared.then_some(srq));
        lab.connect(QpType::Rc, (&a, &x), (&b, &y));
        let key = lab.region(&a, 1, 1, access::ALL);
        break_it(&mut y, &mut srq_end);
        b.bells.posted(y.bit);
        lab.run();
        x.send(&a, &head(Send, 1, 0, 0), SendBody::Gather(&[sge(0x1000, 8, key)]));
        lab.run();
        assert_eq!(lab.nic.state(b.program, y.id), Ok(QpState::Error));
        let reset = lab.modify(&b, &y, 1, QpState::Reset, &Attributes::default());
        let told = lab.events().into_iter().filter_map(|e| match e {
            Event::Async { kind, .. } => Some(kind),
            Event::Completed { .. } => None,
        });
        (told.collect::<Vec<_>>(), reset.is_ok())
    };
    let sends = fails(|y, _| poke(&y.sends.queue().memory().mine, 512, 7), false);
    assert_eq!(sends, (vec![AsyncKind::QpFatal], false));
    let receives = fails(|y, _| poke(&y.receives.queue().memory().mine, 512, 9), false);
    assert_eq!(receives, (vec![AsyncKind::QpFatal], false));
    let shared = fails(|_, s| poke(&s.queue().memory().mine, 512, 9), true);
    assert_eq!(shared.0[0], AsyncKind::SrqError);
}

/// Many entries of a turn share one slice.
#[test]
fn a_turn_moves_no_more_than_a_slice() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, _y)) = lab.pair(QpType::Rc);
    let (ka, kb) = (lab.region(&a, 0, 64, access::ALL), lab.region(&b, 64, 64, access::ALL));
    for i in 0..4 {
        let body = [sge(0, 48 << 10, ka)];
        x.send(&a, &head(Write, i, 64 * PAGE, kb), SendBody::Gather(&body));
    }
    for done in [1, 2, 4] {
        assert!(lab.nic.run(1).worked);
        assert_eq!(lab.nic.counts().all.done, done, "64 KiB more each time");
    }
    assert!(!lab.nic.run(1).worked);
}

/// A peer that failed names us still, and is written to no more.
#[test]
fn a_failed_peer_is_none() {
    let mut lab = Lab::new();
    let ((a, mut x), (b, y)) = lab.pair(QpType::Rc);
    let (ka, kb) = (lab.region(&a, 1, 1, access::ALL), lab.region(&b, 4, 1, access::ALL));
    lab.modify(&b, &y, 1, QpState::Error, &Attributes::default()).unwrap();
    x.send(&a, &head(Write, 1, 0x4000, kb), SendBody::Gather(&[sge(0x1000, 8, ka)]));
    lab.run();
    assert_eq!(x.ended(), []);
    for _ in 0..4 {
        lab.now += 4096 << 10;
        lab.run();
    }
    assert_eq!(x.ended(), [(1, RetryExceeded)]);
}

#[test]
fn a_program_has_its_share_of_domains() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    // One it has already.
    let made = (0..).take_while(|_| lab.nic.make_pd(a.program).is_ok()).count();
    assert_eq!(made + 1, vfun_verbs_nic::limits::PDS_OF_PROGRAM);
    assert!(lab.nic.make_pd(b.program).is_ok(), "others have theirs");
}
