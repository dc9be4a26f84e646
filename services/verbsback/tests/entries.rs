//! Entries that break the rules, or that name what is another's: each ends with the status that
//! verbs have for it, and those beside go on.

mod common;

use common::*;
use vfun_queue::layout::ENTRIES_OFF;
use vfun_remoting::Name;
use vfun_verbs::flags::access;
use vfun_verbs::limits::ENTRY_BYTES;
use vfun_verbs::*;
use vfun_verbsback::generated::calls;

const DEPTH: usize = 16;

/// The first word of the line of a send, by the entry's position.
fn line(qp: &ProgramQp, position: usize) -> usize {
    (qp.place.program_at as usize + ENTRIES_OFF + position % DEPTH * ENTRY_BYTES) / 8
}

fn reconnect(pair: &mut Pair) {
    pair.a.reset(&pair.qps[0]);
    pair.b.reset(&pair.qps[1]);
    let lids = [pair.a.lid, pair.b.lid];
    pair.a.connect(&pair.qps[0], (pair.qps[1].qpn, lids[1]));
    pair.b.connect(&pair.qps[1], (pair.qps[0].qpn, lids[0]));
}

/// The two go on.
fn goes_on(pair: &mut Pair) {
    pair.a.memory[0].write(0, b"go on").unwrap();
    pair.write(77, 4096, 5);
    assert_eq!(pair.cqs[0].wait().status, Status::Success);
    assert_eq!(pair.b.bytes(4096, 5), b"go on");
}

/// Waits for an event of this kind, past others.
fn event(program: &mut Program, kind: AsyncKind) -> (u32, u32) {
    wait_for("the event", || {
        let (of, about, number) = program.event();
        (of == kind.to_wire()).then_some((about, number))
    })
}

#[test]
fn an_entry_that_changes_after_the_bell_is_what_it_was_or_what_it_is() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let mut neighbour = Program::new(&running.nic);
    let foreign = neighbour.region(0, LENT as u64, access::ALL).1;
    let list = [sge(0, 8, pair.keys[0].1)];
    pair.a.memory[0].write(0, &[9; 8]).unwrap();
    let mut failed = 0;
    for position in 0..400 {
        let head = write(position as u64, 8192, pair.keys[1].1);
        // Some change before the NIC looks, the others at the same time.
        let sleeps = position % 50 == 0;
        if sleeps {
            wait_for("the NIC's sleep", || pair.a.sides.nic_sleeps().then_some(()));
        }
        pair.qps[0].sends.post_send(&head, SendBody::Gather(&list)).unwrap();
        if !sleeps {
            pair.a.tell(&pair.qps[0]);
        }
        // Another key, and no immediate value.
        pair.a.sides.scribble(line(&pair.qps[0], position) + 1, u64::from(foreign) << 32);
        if sleeps {
            pair.a.tell(&pair.qps[0]);
        }
        let done = pair.cqs[0].wait();
        assert_eq!(done.wr_id, position as u64);
        match done.status {
            Status::Success => {}
            Status::RemoteAccess => {
                failed += 1;
                reconnect(&mut pair);
            }
            status => panic!("{status:?}"),
        }
        assert_eq!(neighbour.bytes(8192, 8), [0; 8]);
    }
    assert!(failed > 0, "no change was ever seen");
    goes_on(&mut pair);
}

#[test]
fn a_number_that_jumps_ends_its_queue_pair_and_no_other() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let cq = pair.a.cq(16);
    let bad = pair.a.qp(QpType::Rc, [&cq; 2], Name::NONE);
    let lid = pair.a.lid;
    pair.a.connect(&bad, (bad.qpn, lid));
    pair.a.sides.scribble(line(&bad, 0), 7);
    pair.a.tell(&bad);
    assert_eq!(event(&mut pair.a, AsyncKind::QpFatal), (1, bad.qpn));
    goes_on(&mut pair);
    assert_eq!(pair.a.of(calls::VFUN_NIC_QP_END, bad.name), Ok(vec![]));
}

#[test]
fn a_completion_queue_without_room_ends_what_uses_it_and_no_more() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let mut small = pair.a.cq(4);
    let mut qp = pair.a.qp(QpType::Rc, [&small; 2], Name::NONE);
    let lid = pair.a.lid;
    pair.a.connect(&qp, (qp.qpn, lid));
    let list = [sge(0, 8, pair.keys[0].1)];
    for id in 0..6 {
        pair.a.post(&mut qp, &write(id, 4096, pair.keys[0].1), SendBody::Gather(&list));
    }
    assert_eq!(event(&mut pair.a, AsyncKind::CqError), (2, small.number));
    for id in 0..4 {
        assert_eq!(small.wait().wr_id, id);
    }
    assert!(small.poll().is_none());
    goes_on(&mut pair);
}

#[test]
fn what_is_anothers_is_refused() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let mut other = Program::new(&running.nic);
    let foreign = other.region(0, LENT as u64, access::ALL).1;
    // A domain of A's own, in which its queue pair is not.
    let first = pair.a.pd;
    let context = pair.a.context;
    pair.a.pd = pair.a.make(calls::VFUN_NIC_PD_MAKE, |w| w.name(context)).unwrap().0;
    let apart = pair.a.region(0, 1, access::ALL).1;
    pair.a.pd = first;
    let end = (LENT * PAGE) as u64;
    let [mine, theirs] = [pair.keys[0].1, pair.keys[1].1];
    for (from, to, status) in [
        (sge(0, 8, apart), (0, theirs), Status::LocalProtection),
        (sge(0, 8, foreign), (0, theirs), Status::LocalProtection),
        (sge(end - 4, 8, mine), (0, theirs), Status::LocalProtection),
        (sge(u64::MAX - 3, 8, mine), (0, theirs), Status::LocalProtection),
        (sge(0, 8, mine), (0, foreign), Status::RemoteAccess),
        (sge(0, 8, mine), (0, apart), Status::RemoteAccess),
        (sge(0, 8, mine), (0, mine), Status::RemoteAccess),
        (sge(0, 8, mine), (end - 4, theirs), Status::RemoteAccess),
        (sge(0, 8, mine), (u64::MAX - 3, theirs), Status::RemoteAccess),
    ] {
        pair.a.post(&mut pair.qps[0], &write(1, to.0, to.1), SendBody::Gather(&[from]));
        assert_eq!(pair.cqs[0].wait().status, status, "{from:?} {to:?}");
        reconnect(&mut pair);
    }
    // A queue pair that names another one, which does not name it.
    let cq = other.cq(16);
    let mut stranger = other.qp(QpType::Rc, [&cq; 2], Name::NONE);
    other.connect(&stranger, (pair.qps[1].qpn, pair.b.lid));
    let (mut cq, list) = (cq, [sge(0, 8, foreign)]);
    other.post(&mut stranger, &write(1, 0, theirs), SendBody::Gather(&list));
    assert_eq!(cq.wait().status, Status::RetryExceeded);
    goes_on(&mut pair);
}
