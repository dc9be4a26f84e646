//! What many queue pairs of one program cost the others: looks, failures, events.

mod common;

use common::*;
use vfun_verbs::flags::{access, attribute};
use vfun_verbs::*;
use vfun_verbs_nic::limits::{FAILS_A_TURN, IDLE_LOOKS, LOOKS_A_TURN, RUNG_A_TURN};
use vfun_verbs_nic::*;

use SendOpcode::*;
use Status::*;

/// More than a turn looks at.
const MANY: usize = 3 * LOOKS_A_TURN;
const SMALL: u32 = 8;

/// Queue pairs of `a`, each of which has sent to one of `b` that is not ready.
fn waiting(lab: &mut Lab, (a, b): (&App, &App), timeout: u8) -> Vec<(End, End)> {
    let key = lab.region(a, 1, 1, access::ALL);
    let mut ends = vec![];
    for _ in 0..MANY {
        let mut x = lab.qp_shaped(a, QpType::Rc, (SMALL, shape(SMALL, 0)), None);
        let y = lab.qp_shaped(b, QpType::Rc, (SMALL, shape(SMALL, 0)), None);
        let set = Attributes { timeout, ..attributes(b, &y) };
        lab.bring_up(a, &x, QpType::Rc, &set);
        x.send(a, &head(Send, 1, 0, 0), SendBody::Gather(&[sge(0x1000, 8, key)]));
        ends.push((x, y));
    }
    lab.run();
    ends
}

/// Queue pairs of `a` and `b` that are each other's peers, of which each one of `a` waits for a
/// receive.
fn waiting_for_receives(lab: &mut Lab, (a, b): (&App, &App)) -> Vec<(End, End)> {
    let key = lab.region(a, 1, 1, access::ALL);
    let mut ends = vec![];
    for _ in 0..MANY {
        let mut x = lab.qp_shaped(a, QpType::Rc, (SMALL, shape(SMALL, 0)), None);
        let y = lab.qp_shaped(b, QpType::Rc, (SMALL, shape(SMALL, 0)), None);
        lab.connect(QpType::Rc, (a, &x), (b, &y));
        x.send(a, &head(Send, 1, 0, 0), SendBody::Gather(&[sge(0x1000, 8, key)]));
        ends.push((x, y));
    }
    lab.run();
    ends
}

/// A program that changes all of its doorbell bits again and again has some of its queue pairs
/// noted in each run, and each is found nevertheless.
#[test]
fn who_rings_for_all_is_heard_some_in_each_turn() {
    const WORDS: usize = 10;
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let (ka, kb) = (lab.region(&a, 1, 1, access::ALL), lab.region(&b, 4, 1, access::ALL));
    let small = (SMALL, shape(SMALL, 0));
    let mut x: Vec<_> =
        (0..WORDS * 64).map(|_| lab.qp_shaped(&a, QpType::Rc, small, None)).collect();
    let y = lab.qp(&b, QpType::Rc);
    let last = x.last_mut().unwrap();
    lab.connect(QpType::Rc, (&a, last), (&b, &y));
    (0..IDLE_LOOKS + 2).for_each(|_| assert!(!lab.nic.run(1).worked));
    let to = head(Write, 1, 0x4000, kb);
    last.sends.post_send(&to, SendBody::Gather(&[sge(0x1000, 8, ka)])).unwrap();
    for run in 0..WORDS as u64 * 2 {
        (0..WORDS).for_each(|word| poke(&a.page, bells::BITS + word, !0));
        poke(&a.page, bells::RINGS, 1000 + run);
        let before = lab.nic.counts().rung;
        lab.nic.run(1);
        assert!(lab.nic.counts().rung - before < RUNG_A_TURN as u64 + 64);
    }
    lab.run();
    assert_eq!(last.ended(), [(1, Success)]);
}

/// A queue pair that comes while some words of doorbell bits are still to be looked at takes
/// nobody's turn: a program rings once.
#[test]
fn who_rang_is_heard_though_more_queue_pairs_come() {
    const WORDS: usize = 2;
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let (ka, kb) = (lab.region(&a, 1, 1, access::ALL), lab.region(&b, 4, 1, access::ALL));
    let small = (SMALL, shape(SMALL, 0));
    let mut x: Vec<_> =
        (0..WORDS * 64).map(|_| lab.qp_shaped(&a, QpType::Rc, small, None)).collect();
    for of_word in x.chunks_mut(64) {
        let y = lab.qp(&b, QpType::Rc);
        lab.connect(QpType::Rc, (&a, &of_word[0]), (&b, &y));
    }
    (0..IDLE_LOOKS + 2).for_each(|_| assert!(!lab.nic.run(1).worked));
    for of_word in x.chunks_mut(64) {
        let to = head(Write, 1, 0x4000, kb);
        of_word[0].sends.post_send(&to, SendBody::Gather(&[sge(0x1000, 8, ka)])).unwrap();
    }
    (0..WORDS).for_each(|word| poke(&a.page, bells::BITS + word, !0));
    poke(&a.page, bells::RINGS, 1000);
    lab.nic.run(1);
    lab.qp_shaped(&a, QpType::Rc, small, None);
    lab.run();
    for of_word in x.chunks_mut(64) {
        assert_eq!(of_word[0].ended(), [(1, Success)]);
    }
}

/// Queue pairs that wait for peers for ever are not looked at, and go on when a peer comes.
#[test]
fn who_waits_for_a_peer_costs_no_looks() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let mut ends = waiting(&mut lab, (&a, &b), 0);
    let before = lab.nic.counts().looks;
    for _ in 0..100 {
        assert_eq!(lab.nic.run(1), Ran { worked: false, more: false, until: None });
    }
    assert_eq!(lab.nic.counts().looks, before);

    for (x, y) in &mut ends {
        assert_eq!(x.ended(), []);
        let set = attributes(&a, x);
        lab.bring_up(&b, y, QpType::Rc, &set);
        y.receive(&b, 5, &[]);
    }
    lab.run();
    for (x, y) in &mut ends {
        // The receive has no room: it is found, so the message came.
        assert_eq!(x.ended(), [(1, RemoteInvalid)]);
        assert_eq!(y.ended(), [(5, LocalLength)]);
    }
}

/// Each queue pair that waits with a time-out gets an error when its time is over, and the
/// NIC says when that will be.
#[test]
fn waits_end_when_they_are_due() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let mut ends = waiting(&mut lab, (&a, &b), 10);
    for _ in 0..4 {
        let until = lab.nic.run(lab.now).until.expect("all of them wait for a while");
        lab.run();
        assert!(ends.iter_mut().all(|(x, _)| x.ended().is_empty()));
        assert!(until > lab.now);
        lab.now = until;
        lab.run();
    }
    for (x, _) in &mut ends {
        assert_eq!(x.ended(), [(1, RetryExceeded)]);
    }
}

/// Of the timers that are due at once, some end in each run.
#[test]
fn timers_that_are_due_at_once_end_some_in_each_run() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let mut ends = waiting(&mut lab, (&a, &b), 10);
    lab.now = lab.nic.run(lab.now).until.unwrap();
    let ran = lab.nic.run(lab.now);
    assert!(ran.more && ran.until == Some(lab.now), "{ran:?}");
    lab.run();
    assert!(lab.nic.run(lab.now).until.unwrap() > lab.now);
    assert!(ends.iter_mut().all(|(x, _)| x.ended().is_empty()));
}

/// Queue pairs that wait for receives, with the shortest timer, leave the NIC time to sleep.
#[test]
fn short_timers_let_the_nic_sleep() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let mut ends = waiting_for_receives(&mut lab, (&a, &b));
    let (before, end) = (lab.nic.counts().looks, lab.now + 10_000_000);
    while lab.now < end {
        assert!(!lab.run_before_sleep());
        lab.now = lab.nic.run(lab.now).until.unwrap();
    }
    // At some 50 ns each: a fifth of these 10 ms.
    let looks = lab.nic.counts().looks - before;
    assert!(looks < 40_000, "{looks}");
    // What came while it slept is found when a timer ends.
    let key = lab.region(&b, 4, 1, access::ALL);
    ends[MANY - 1].1.receive(&b, 5, &[sge(0x4000, 8, key)]);
    lab.run();
    assert_eq!(ends[MANY - 1].0.ended(), [(1, Success)]);
}

/// A program whose queue pairs all wait for receives gets so many looks a turn and no more;
/// each is found nevertheless, and the NIC may sleep.
#[test]
fn who_waits_for_receives_gets_so_many_looks_a_turn() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let kb = lab.region(&b, 4, 1, access::ALL);
    let mut ends = waiting_for_receives(&mut lab, (&a, &b));
    for run in 0..50 {
        let before = lab.nic.counts().looks;
        // Also in the runs before it sleeps.
        if run == 25 {
            lab.nic.declare_sleep();
        }
        lab.nic.run(lab.now);
        assert!(lab.nic.counts().looks - before <= 2 * LOOKS_A_TURN as u64);
    }
    // Before it sleeps, all are looked at.
    lab.run();
    ends[MANY - 1].1.receive(&b, 5, &[sge(0x4000, 8, kb)]);
    assert!(lab.run_before_sleep());
    for (_, y) in &mut ends[..MANY - 1] {
        y.receive(&b, 5, &[sge(0x4000, 8, kb)]);
    }
    for _ in 0..20 {
        lab.run();
        lab.now = lab.nic.run(lab.now).until.unwrap_or(lab.now);
    }
    for (x, y) in &mut ends {
        assert_eq!((x.ended(), y.ended()), (vec![(1, Success)], vec![(5, Success)]));
    }
}

type MadePair = Result<(QpId, u32, usize), Refused>;

/// A queue pair over a completion queue that there is.
fn shares(lab: &mut Lab, a: &App, cq: CqId) -> (MadePair, WorkProducer<Plain>) {
    let small = shape(SMALL, 0);
    let ((sends, s), (_, r)) = (lab.work(small), lab.work(small));
    let what = QueuePair {
        pd: a.pd,
        kind: QpType::Uc,
        send_cq: cq,
        receive_cq: cq,
        sends: (s, small),
        receives: Ok((r, small)),
        all_signaled: true,
    };
    (lab.nic.make_qp(a.program, what), sends)
}

/// Queue pairs of a completion queue without room fail, some in each turn. Until then they send
/// nothing.
#[test]
fn a_completion_queue_that_is_full_fails_some_in_each_turn() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let cq = lab.cq(&a, 2);
    let mut ends = vec![];
    for _ in 0..MANY {
        let (made, sends) = shares(&mut lab, &a, cq.id);
        ends.push((made.unwrap(), sends));
    }
    let peer = lab.qp(&b, QpType::Uc);
    let set = attributes(&b, &peer);
    for ((id, ..), _) in ends.iter().rev() {
        for (from, to) in [
            (QpState::Reset, QpState::Init),
            (QpState::Init, QpState::Rtr),
            (QpState::Rtr, QpState::Rts),
        ] {
            let mask = 1 | allowed(from, to, QpType::Uc).unwrap().required;
            lab.nic.modify(a.program, *id, (mask, to, &set)).unwrap();
        }
    }
    let ((_, _, bit), sends) = &mut ends[MANY - 1];
    for n in 0..3 {
        sends.post_send(&head(Write, n, 0, 0), SendBody::Gather(&[])).unwrap();
    }
    a.bells.posted(*bit);
    // The first one that is looked at after it, whose peer is ready.
    let ((_, qpn, bit), sends) = &mut ends[MANY - 2];
    let path = Path { gid: Some(a.address.gid), lid: 0 };
    lab.bring_up(&b, &peer, QpType::Uc, &Attributes { dest_qpn: *qpn, path, ..set });
    let key = lab.region(&b, 4, 1, access::ALL);
    sends.post_send(&head(Write, 7, 0x4000, key), SendBody::Inline(b"too late")).unwrap();
    a.bells.posted(*bit);
    let states = |lab: &Lab| {
        let state = |id: QpId| lab.nic.state(a.program, id).unwrap();
        ends.iter().filter(|((id, ..), _)| state(*id) == QpState::Error).count()
    };
    let mut failed = 0;
    while failed == 0 {
        lab.nic.run(lab.now);
        failed = states(&lab);
    }
    assert!(failed <= 2 * FAILS_A_TURN, "{failed} of {MANY} at once");
    lab.run();
    assert_eq!(states(&lab), MANY);
    assert_eq!(lab.bytes(0x4000, 8), [0; 8], "it sent although nobody can be told");
    let mut told = lab.told(AsyncKind::QpFatal);
    told.sort_unstable();
    let mut numbers: Vec<u32> = ends.iter().map(|((_, qpn, _), _)| *qpn).collect();
    numbers.sort_unstable();
    assert_eq!(told, numbers);

    // Nothing more can be done with the completion queue, nor with those.
    let (id, mask) = (ends[0].0.0, attribute::STATE);
    lab.nic.modify(a.program, id, (mask, QpState::Reset, &set)).unwrap();
    let required = allowed(QpState::Reset, QpState::Init, QpType::Uc).unwrap().required;
    let again = lab.nic.modify(a.program, id, (mask | required, QpState::Init, &set));
    assert!(matches!(again, Err(Refused::Invalid(_))), "{again:?}");
    let (made, _) = shares(&mut lab, &a, cq.id);
    assert!(matches!(made, Err(Refused::Invalid(_))), "{made:?}");
}

/// What a queue pair that fails has posted is flushed before the NIC sleeps.
#[test]
fn what_fails_in_the_run_before_sleep_is_flushed_before_it() {
    let mut lab = Lab::new();
    let ((a, mut x), _) = lab.pair(QpType::Rc);
    x.receive(&a, 5, &[]);
    lab.run();
    // An entry whose stamp makes no sense.
    let first = vfun_queue::layout::ENTRIES_OFF / size_of::<u64>();
    poke(&x.sends.queue().memory().mine.clone(), first, 0x7777);
    assert!(lab.run_before_sleep());
    assert_eq!(x.ended(), [(5, Flushed)]);
}

/// What ends while it waits leaves nothing behind.
#[test]
fn what_ends_while_it_waits_leaves_nothing() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let ends = waiting(&mut lab, (&a, &b), 10);
    for (x, _) in ends.iter().step_by(2) {
        lab.nic.end_qp(a.program, x.id).unwrap();
    }
    lab.run();
    lab.nic.end_program(a.program).unwrap();
    assert_eq!(lab.nic.run(u64::MAX), Ran { worked: false, more: false, until: None });
}
