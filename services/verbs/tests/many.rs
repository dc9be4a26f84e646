//! What many queue pairs of one program cost the others: looks, failures, events.

mod common;

use common::*;
use vfun_verbs::flags::access;
use vfun_verbs::*;
use vfun_verbs_nic::limits::{FAILS_A_TURN, LOOKS_A_TURN};
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

/// Queue pairs that wait for peers for ever are not looked at, and go on when a peer comes.
#[test]
fn who_waits_for_a_peer_costs_no_looks() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let mut ends = waiting(&mut lab, (&a, &b), 0);
    let before = lab.nic.counts().looks;
    for _ in 0..100 {
        assert_eq!(lab.nic.run(1), Ran { worked: false, until: None });
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

/// A program whose queue pairs all wait for receives gets so many looks a turn and no more;
/// each is found nevertheless, and the NIC may sleep.
#[test]
fn who_waits_for_receives_gets_so_many_looks_a_turn() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let ka = lab.region(&a, 1, 1, access::ALL);
    let kb = lab.region(&b, 4, 1, access::ALL);
    let mut ends = vec![];
    for _ in 0..MANY {
        let mut x = lab.qp_shaped(&a, QpType::Rc, (SMALL, shape(SMALL, 0)), None);
        let y = lab.qp_shaped(&b, QpType::Rc, (SMALL, shape(SMALL, 0)), None);
        lab.connect(QpType::Rc, (&a, &x), (&b, &y));
        x.send(&a, &head(Send, 1, 0, 0), SendBody::Gather(&[sge(0x1000, 8, ka)]));
        ends.push((x, y));
    }
    lab.run();
    for _ in 0..50 {
        let before = lab.nic.counts().looks;
        lab.nic.run(lab.now);
        assert!(lab.nic.counts().looks - before <= 2 * LOOKS_A_TURN as u64);
    }
    // Before it sleeps, all are looked at: what was posted is found by one run.
    lab.run();
    ends[MANY - 1].1.receive(&b, 5, &[sge(0x4000, 8, kb)]);
    lab.nic.declare_sleep();
    assert!(lab.nic.run(lab.now).worked);
    lab.nic.declare_awake();
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

/// Queue pairs of a completion queue without room fail, some in each turn.
#[test]
fn a_completion_queue_that_is_full_fails_some_in_each_turn() {
    let mut lab = Lab::new();
    let (a, b) = (lab.app(1), lab.app(2));
    let cq = lab.cq(&a, 2);
    let mut ends = vec![];
    for _ in 0..MANY {
        let small = shape(SMALL, 0);
        let ((sends, s), (_, r)) = (lab.work(small), lab.work(small));
        let what = QueuePair {
            pd: a.pd,
            kind: QpType::Uc,
            send_cq: cq.id,
            receive_cq: cq.id,
            sends: (s, small),
            receives: Ok((r, small)),
            all_signaled: true,
        };
        let made = lab.nic.make_qp(a.program, what).unwrap();
        ends.push((made, sends));
    }
    let peer = lab.qp(&b, QpType::Uc);
    for ((id, ..), _) in &ends {
        let set = attributes(&b, &peer);
        for (from, to) in [
            (QpState::Reset, QpState::Init),
            (QpState::Init, QpState::Rtr),
            (QpState::Rtr, QpState::Rts),
        ] {
            let mask = 1 | allowed(from, to, QpType::Uc).unwrap().required;
            lab.nic.modify(a.program, *id, (mask, to, &set)).unwrap();
        }
    }
    let ((_, _, bit), sends) = &mut ends[0];
    for n in 0..3 {
        sends.post_send(&head(Write, n, 0, 0), SendBody::Gather(&[])).unwrap();
    }
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
    let mut told = lab.told(AsyncKind::QpFatal);
    told.sort_unstable();
    let mut numbers: Vec<u32> = ends.iter().map(|((_, qpn, _), _)| *qpn).collect();
    numbers.sort_unstable();
    assert_eq!(told, numbers);
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
    assert_eq!(lab.nic.run(u64::MAX), Ran { worked: false, until: None });
}
