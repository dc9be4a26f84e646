//! Programs on a NIC in this process, whose thread runs, spins and sleeps as in its service.

mod common;

use common::*;
use std::sync::atomic::Ordering;
use vfun_remoting::{Name, Reader, Refusal, numbers};
use vfun_verbs::flags::{access, attribute};
use vfun_verbs::*;
use vfun_verbsback::Quota;
use vfun_verbsback::generated::{calls, vfun_nic_path, vfun_nic_qp_attr};

const INVALID: i32 = 22;
const BUSY: i32 = 16;
const LOST: i32 = 5;
const LIMIT: i32 = 12;
const QUOTA: i32 = 122;
const UNSUPPORTED: i32 = 95;

#[test]
fn two_programs_write_to_each_other() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    for round in 0..500u64 {
        pair.a.memory[0].write(0, &round.to_le_bytes()).unwrap();
        pair.write(round, 8192, 8);
        let done = pair.cqs[0].wait();
        assert_eq!((done.wr_id, done.status, done.qpn), (round, Status::Success, pair.qps[0].qpn));
        assert_eq!(pair.b.bytes(8192, 8), round.to_le_bytes());
    }
    // And back.
    pair.b.memory[0].write(100, b"from b").unwrap();
    let list = [sge(100, 6, pair.keys[1].1)];
    let head = write(7, 4096, pair.keys[0].1);
    pair.b.post(&mut pair.qps[1], &head, SendBody::Gather(&list));
    assert_eq!(pair.cqs[1].wait().status, Status::Success);
    assert_eq!(pair.a.bytes(4096, 6), b"from b");
}

#[test]
fn a_nic_that_sleeps_is_woken_by_a_post_and_by_nothing_else() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    for round in 0..20 {
        wait_for("the NIC's sleep", || pair.a.sides.nic_sleeps().then_some(()));
        wait_for("the NIC's sleep", || pair.b.sides.nic_sleeps().then_some(()));
        pair.write(round, 0, 64);
        assert_eq!(pair.cqs[0].wait().wr_id, round);
    }
}

#[test]
fn a_program_without_a_doorbell_is_looked_at_now_and_then() {
    let running = RunningNic::new();
    let [a, b] = [false, true].map(|has_bell| Program::with_bell(&running.nic, has_bell));
    let mut pair = Pair::of(a, b);
    for round in 0..3 {
        wait_for("the NIC's sleep", || pair.a.sides.nic_sleeps().then_some(()));
        pair.write(round, 0, 64);
        assert_eq!(pair.cqs[0].wait().wr_id, round);
    }
}

#[test]
fn a_program_that_asks_for_an_event_is_rung_once() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    pair.write(1, 0, 8);
    pair.cqs[0].wait();
    assert_eq!(pair.a.sides.rings.load(Ordering::SeqCst), 0, "it has not asked");
    for round in 1..=5 {
        let cq = &mut pair.cqs[0];
        cq.asker.ask(&cq.queue, false);
        assert!(cq.poll().is_none());
        pair.write(round, 0, 8);
        pair.write(round, 0, 8);
        let rings = || pair.a.sides.rings.load(Ordering::SeqCst);
        wait_for("a ring", || (rings() == round as usize).then_some(()));
        let cq = &mut pair.cqs[0];
        assert!(cq.asker.take(&cq.queue) && !cq.asker.take(&cq.queue));
        assert_eq!([cq.wait().wr_id, cq.wait().wr_id], [round; 2]);
        assert_eq!(pair.a.sides.rings.load(Ordering::SeqCst), round as usize);
    }
    assert_eq!(pair.b.sides.rings.load(Ordering::SeqCst), 0);
}

#[test]
fn large_messages_and_scattered_pages_arrive_whole() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    // B's pages in reverse, so that each lies apart from the one before.
    let pages = LENT as u64;
    let all: Vec<_> = (0..pages).rev().map(|page| (HANDLE, page, 1)).collect();
    let base = 1 << 40;
    let bytes = pages * PAGE as u64;
    let (_, key) = pair.b.region_of(base, bytes, access::ALL, &all).unwrap();
    let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    pair.a.memory[0].write(0, &data).unwrap();
    let list = [sge(0, bytes as u32, pair.keys[0].1)];
    pair.a.post(&mut pair.qps[0], &write(1, base, key), SendBody::Gather(&list));
    assert_eq!(pair.cqs[0].wait().status, Status::Success);
    for (page, part) in data.chunks(PAGE).enumerate() {
        let at = (pages - 1 - page as u64) * PAGE as u64;
        assert!(pair.b.bytes(at, PAGE) == part, "page {page}");
    }
}

#[test]
fn a_region_may_come_in_many_calls() {
    let running = RunningNic::new();
    let mut program = Program::new(&running.nic);
    let bytes = 5 * PAGE as u64;
    let (name, key) = program.region_of(0, bytes, access::ALL, &[(HANDLE, 0, 2)]).unwrap();
    assert_eq!(key, 0, "it is not complete");
    let pd = program.pd;
    assert_eq!(program.of(calls::VFUN_NIC_PD_END, pd), Err(BUSY));
    let mut add = |all: &[(u64, u64, u64)]| {
        let added = program.call(calls::VFUN_NIC_MR_ADD, |w| {
            w.name(name);
            w.blob(Some(&runs(all)));
        });
        added.map(|answer| Reader::new(&answer).u32().unwrap())
    };
    assert_eq!(add(&[(HANDLE, 2, 1)]), Ok(0));
    for wrong in [&[(HANDLE, 2, 3)][..], &[(HANDLE, 63, 2)], &[(9, 0, 1)], &[(HANDLE, 0, u64::MAX)]]
    {
        assert_eq!(add(wrong), Err(INVALID), "{wrong:?}");
    }
    assert_eq!(add(&[(HANDLE, 0, 1); 129]), Err(LIMIT), "more than a call takes");
    let key = add(&[(HANDLE, 9, 1), (HANDLE, 4, 1)]).unwrap();
    assert_ne!(key, 0);
    assert_eq!(add(&[]), Err(INVALID), "it is complete");
    assert_eq!(program.of(calls::VFUN_NIC_MR_END, name), Ok(vec![]));
    let pd = program.pd;
    assert_eq!(program.of(calls::VFUN_NIC_PD_END, pd), Ok(vec![]));
}

#[test]
fn runs_that_are_no_region_take_no_memory_for_ever() {
    let running = RunningNic::new();
    let mut program = Program::new(&running.nic);
    let many = vec![(HANDLE, 0, 1); 128];
    let mut made = vec![];
    let errno = loop {
        match program.region_of(0, 1 << 40, access::ALL, &many) {
            Ok((name, key)) => {
                assert_eq!(key, 0);
                made.push(name);
            }
            Err(errno) => break errno,
        }
        assert!(made.len() <= 1000, "no limit");
    };
    assert_eq!((errno, made.len()), (LIMIT, 65_536 / 128));
    assert_eq!(program.of(calls::VFUN_NIC_MR_END, made[0]), Ok(vec![]));
    assert!(program.region_of(0, 1 << 40, access::ALL, &many).is_ok(), "there is room again");
}

#[test]
fn a_lent_buffer_is_the_nics_until_its_last_region_ends() {
    let running = RunningNic::new();
    let mut program = Program::new(&running.nic);
    let regions = [0, 3].map(|page| program.region(page, 3, access::LOCAL_WRITE).0);
    let (staged, _) = program.region_of(0, 1 << 30, 0, &[(HANDLE, 0, 1)]).unwrap();
    for region in regions.into_iter().chain([staged]) {
        let taken_back = program.refusal(numbers::DETACH, |w| w.u64(HANDLE));
        assert_eq!(taken_back, Some(Refusal::Argument), "in use");
        assert_eq!(program.of(calls::VFUN_NIC_MR_END, region), Ok(vec![]));
    }
    assert_eq!(program.refusal(numbers::DETACH, |w| w.u64(HANDLE)), None);
    assert_eq!(program.region_of(0, 4096, 0, &[(HANDLE, 0, 1)]), Err(INVALID), "taken back");
}

#[test]
fn two_contexts_of_a_connection_share_its_buffers_and_its_address() {
    let running = RunningNic::new();
    let mut program = Program::new(&running.nic);
    let (region, _) = program.region(0, 1, 0);
    let sides = Sides::new(1 << 50, true);
    running.nic.add_channel(sides.clone());
    let (handle, token) = sides.named();
    let second = program.try_open(handle, token).expect("a second context");
    let port = program.of(calls::VFUN_NIC_PORT, second).unwrap();
    assert_eq!(Reader::new(&port[11 * 8..]).u16(), Ok(program.lid));
    let pd = program.make(calls::VFUN_NIC_PD_MAKE, |w| w.name(second)).unwrap().0;
    let first = std::mem::replace(&mut program.pd, pd);
    program.region(0, 1, 0);
    program.pd = first;
    assert_eq!(program.of(calls::VFUN_NIC_MR_END, region), Ok(vec![]));
    let taken_back = program.refusal(numbers::DETACH, |w| w.u64(HANDLE));
    assert_eq!(taken_back, Some(Refusal::Argument), "the other context has it");
    assert_eq!(program.of(calls::VFUN_NIC_CLOSE, second), Ok(vec![]));
    assert_eq!(program.refusal(numbers::DETACH, |w| w.u64(HANDLE)), None);
}

#[test]
fn a_channel_is_named_by_handle_and_token_and_used_once() {
    let running = RunningNic::new();
    let mut program = Program::new(&running.nic);
    let sides = Sides::new(1 << 51, true);
    running.nic.add_channel(sides.clone());
    let (handle, token) = sides.named();
    assert_eq!(program.try_open(handle, [1, token[1]]), Err(INVALID));
    assert_eq!(program.try_open(5, token), Err(INVALID));
    let context = program.try_open(handle, token).unwrap();
    assert_eq!(program.try_open(handle, token), Err(INVALID), "it is used");
    assert_eq!(program.of(calls::VFUN_NIC_CLOSE, context), Ok(vec![]));
    assert_eq!(program.try_open(handle, token), Err(INVALID), "it was used");
    let version = program.make(calls::VFUN_NIC_OPEN, |w| {
        w.u32(2);
        (0..3).for_each(|_| w.u64(0));
    });
    assert_eq!(version.map(|_| ()), Err(UNSUPPORTED));
}

#[test]
fn what_is_in_use_is_not_ended_and_what_is_ended_is_gone() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let (cq, qp, pd) = (pair.cqs[0].name, pair.qps[0].name, pair.a.pd);
    assert_eq!(pair.a.of(calls::VFUN_NIC_CQ_END, cq), Err(BUSY));
    assert_eq!(pair.a.of(calls::VFUN_NIC_PD_END, pd), Err(BUSY));
    assert_eq!(pair.a.of(calls::VFUN_NIC_QP_END, qp), Ok(vec![]));
    let again = pair.a.refusal(calls::VFUN_NIC_QP_END, |w| w.name(qp));
    assert_eq!(again, Some(Refusal::Object));
    assert_eq!(pair.a.of(calls::VFUN_NIC_CQ_END, cq), Ok(vec![]));
    let key = pair.keys[0].0;
    assert_eq!(pair.a.of(calls::VFUN_NIC_MR_END, key), Ok(vec![]));
    assert_eq!(pair.a.of(calls::VFUN_NIC_PD_END, pd), Ok(vec![]));
}

#[test]
fn parts_of_a_side_are_used_again_and_begin_anew() {
    let running = RunningNic::new();
    let mut program = Program::new(&running.nic);
    let mut cq = program.cq(64);
    for round in 0..300 {
        // More than fit at once: 256 pages of each side, of which a queue pair takes six.
        let mut qp = program.qp(QpType::Rc, [&cq, &cq], Name::NONE);
        let lid = program.lid;
        program.connect(&qp, (qp.qpn, lid));
        let (region, key) = program.region(0, 2, access::ALL);
        let list = [sge(0, 8, key)];
        program.post(&mut qp, &write(round, 4096, key), SendBody::Gather(&list));
        let done = cq.wait();
        assert_eq!((done.wr_id, done.status), (round, Status::Success));
        program.of(calls::VFUN_NIC_QP_END, qp.name).unwrap();
        program.of(calls::VFUN_NIC_MR_END, region).unwrap();
    }
}

#[test]
fn a_side_that_is_full_is_an_error_and_no_end() {
    let running = RunningNic::new();
    let mut program = Program::new(&running.nic);
    let cq = program.cq(64);
    let mut all = vec![];
    let errno = loop {
        match program.try_qp(QpType::Ud, [cq.name; 2], Name::NONE) {
            Ok(qp) => all.push(qp),
            Err(errno) => break errno,
        }
    };
    assert_eq!(errno, LIMIT);
    assert!(all.len() > 20, "{}", all.len());
    let one = all.pop().expect("some");
    program.of(calls::VFUN_NIC_QP_END, one.name).unwrap();
    assert!(program.try_qp(QpType::Ud, [cq.name; 2], Name::NONE).is_ok());
}

#[test]
fn wrong_shapes_and_objects_of_another_context_are_refused() {
    let running = RunningNic::new();
    let mut program = Program::new(&running.nic);
    let context = program.context;
    for depth in [0, 1, 3, 1 << 17] {
        let made = program.make(calls::VFUN_NIC_CQ_MAKE, |w| {
            w.name(context);
            w.u32(depth);
            w.u32(0);
        });
        assert_eq!(made.map(|_| ()), Err(INVALID), "{depth}");
    }
    let pd = program.pd;
    for (depth, extension) in [(16, 1), (16, 320), (15, 0)] {
        let made = program.make(calls::VFUN_NIC_SRQ_MAKE, |w| {
            w.name(pd);
            w.u32(depth);
            w.u32(extension);
        });
        assert_eq!(made.map(|_| ()), Err(INVALID), "{depth} {extension}");
    }
    let sides = Sides::new(1 << 52, true);
    running.nic.add_channel(sides.clone());
    let (handle, token) = sides.named();
    let other = program.try_open(handle, token).unwrap();
    let mine = program.cq(16);
    program.context = other;
    let theirs = program.cq(16);
    let made = program.try_qp(QpType::Rc, [mine.name, theirs.name], Name::NONE);
    assert_eq!(made.map(|_| ()), Err(INVALID));
    assert!(program.try_qp(QpType::Rc, [mine.name; 2], Name::NONE).is_ok());
}

#[test]
fn an_srq_feeds_its_queue_pairs_and_says_when_it_runs_low() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let pd = pair.b.pd;
    let (srq, answer) = pair
        .b
        .make(calls::VFUN_NIC_SRQ_MAKE, |w| {
            w.name(pd);
            w.u32(16);
            w.u32(0);
        })
        .unwrap();
    let mut r = Reader::new(&answer);
    let (place, number) = (read_place(&mut r), r.u32().unwrap());
    let memory = pair.b.sides.of_program(&place);
    memory.mine().zero();
    let mut receives = WorkProducer::new(memory, WorkShape::new(16, 0).unwrap()).unwrap();
    for id in 0..2 {
        let entry = ReceiveEntry::new(id, &[sge(0, 4096, pair.keys[1].1)]).unwrap();
        receives.post_receive(&entry).unwrap();
    }
    let limit = |p: &mut Program| {
        let answer = p.of(calls::VFUN_NIC_SRQ_QUERY, srq).unwrap();
        Reader::new(&answer).u32().unwrap()
    };
    pair.b
        .call(calls::VFUN_NIC_SRQ_LIMIT, |w| {
            w.name(srq);
            w.u32(2);
        })
        .unwrap();
    assert_eq!(limit(&mut pair.b), 2);
    let (x, y) = (
        pair.a.qp(QpType::Rc, [&pair.cqs[0]; 2], Name::NONE),
        pair.b.qp(QpType::Rc, [&pair.cqs[1]; 2], srq),
    );
    let mut x = x;
    assert!(y.receives.is_none());
    let lids = [pair.a.lid, pair.b.lid];
    pair.a.connect(&x, (y.qpn, lids[1]));
    pair.b.connect(&y, (x.qpn, lids[0]));
    let head = SendHead { op: SendOpcode::Send, ..write(5, 0, 0) };
    pair.a.post(&mut x, &head, SendBody::Inline(b"to the shared queue"));
    assert_eq!(pair.cqs[1].wait().opcode, CompletionOpcode::Receive);
    // The queue pair says that it is established, too; the limit's event is among them.
    let event = wait_for("the limit's event", || {
        let event = pair.b.event();
        (event.0 == AsyncKind::SrqLimit.to_wire()).then_some(event)
    });
    assert_eq!(event, (AsyncKind::SrqLimit.to_wire(), 3, number));
    assert_eq!(limit(&mut pair.b), 0, "it was armed once");
    assert_eq!(pair.b.of(calls::VFUN_NIC_SRQ_END, srq), Err(BUSY));
}

#[test]
fn an_access_that_no_key_allows_fails_both_and_is_told() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let list = [sge(0, 8, pair.keys[0].1)];
    let head = write(1, 0, pair.keys[1].1 ^ 1);
    pair.a.post(&mut pair.qps[0], &head, SendBody::Gather(&list));
    assert_eq!(pair.cqs[0].wait().status, Status::RemoteAccess);
    assert_eq!(pair.b.event(), (AsyncKind::QpAccess.to_wire(), 1, pair.qps[1].qpn));
    let qp = pair.qps[0].name;
    let answer = pair.a.of(calls::VFUN_NIC_QP_QUERY, qp).unwrap();
    // Behind the path: 16 bytes of an address and ten numbers.
    let state = Reader::new(&answer[16 + 10 * 8..]).u32().unwrap();
    assert_eq!(state, u32::from(QpState::Error.to_wire()));
}

#[test]
fn a_datagram_goes_by_an_address_handle() {
    let running = RunningNic::new();
    let (mut a, mut b) = (Program::new(&running.nic), Program::new(&running.nic));
    let mut cqs = [a.cq(16), b.cq(16)];
    let mut qps =
        [a.qp(QpType::Ud, [&cqs[0]; 2], Name::NONE), b.qp(QpType::Ud, [&cqs[1]; 2], Name::NONE)];
    for (program, qp) in [(&mut a, &qps[0]), (&mut b, &qps[1])] {
        let attr = vfun_nic_qp_attr { qkey: 42, ..attr_to((0, 0)) };
        use attribute::*;
        for (state, mask) in
            [(QpState::Init, PKEY_INDEX | PORT | QKEY), (QpState::Rtr, 0), (QpState::Rts, SQ_PSN)]
        {
            let attr = vfun_nic_qp_attr { state: state.to_wire().into(), ..attr };
            program.modify(qp.name, STATE | mask, &attr).unwrap();
        }
    }
    let (pd, path) = (a.pd, attr_to((0, b.lid)).path);
    let (ah, answer) = a
        .make(calls::VFUN_NIC_AH_MAKE, |w| {
            w.name(pd);
            vfun_verbsback::generated::write_vfun_nic_path(w, &path);
        })
        .unwrap();
    let number = Reader::new(&answer).u32().unwrap();
    let key = b.region(0, 1, access::LOCAL_WRITE).1;
    b.receive(&mut qps[1], &ReceiveEntry::new(9, &[sge(0, 4096, key)]).unwrap());
    let head = SendHead {
        op: SendOpcode::Send,
        key: number,
        addr: SendHead::datagram(qps[1].qpn, 42),
        ..write(3, 0, 0)
    };
    a.post(&mut qps[0], &head, SendBody::Inline(b"hello"));
    assert_eq!(cqs[0].wait().status, Status::Success);
    let done = cqs[1].wait();
    assert_eq!((done.wr_id, done.src_qp, done.slid), (9, qps[0].qpn, a.lid));
    assert_eq!(b.bytes(40, 5), b"hello");
    assert_eq!(a.of(calls::VFUN_NIC_AH_END, ah), Ok(vec![]));
}

#[test]
fn a_channel_that_ends_takes_its_programs_things_and_leaves_the_peer() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    running.nic.end_channel(pair.b.key);
    // Nothing of it is mapped by the NIC any more: this is the last who has it.
    assert_eq!(std::sync::Arc::strong_count(&pair.b.sides), 1);
    let context = pair.b.context;
    assert_eq!(pair.b.make(calls::VFUN_NIC_PD_MAKE, |w| w.name(context)).map(|_| ()), Err(LOST));
    let taken_back = pair.b.refusal(numbers::DETACH, |w| w.u64(HANDLE));
    assert_eq!(taken_back, Some(Refusal::Argument), "until the context is closed");
    assert_eq!(pair.b.of(calls::VFUN_NIC_CLOSE, context), Ok(vec![]));
    assert_eq!(pair.b.refusal(numbers::DETACH, |w| w.u64(HANDLE)), None);
    // The peer is told that nobody answers.
    pair.write(1, 0, 8);
    assert_eq!(pair.cqs[0].wait().status, Status::RetryExceeded);
}

#[test]
fn a_connection_that_ends_takes_all_that_it_made() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let sides = pair.b.sides.clone();
    drop(pair.b);
    // The channel is there still, and nobody uses it.
    assert_eq!(std::sync::Arc::strong_count(&sides), 2, "the NIC's list, and this test");
    let list = [sge(0, 8, pair.keys[0].1)];
    let head = write(1, 0, pair.keys[1].1);
    pair.a.post(&mut pair.qps[0], &head, SendBody::Gather(&list));
    assert_eq!(pair.cqs[0].wait().status, Status::RetryExceeded);
}

#[test]
fn control_calls_get_in_while_the_nic_never_rests() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Program::new(&running.nic);
            let context = other.context;
            for _ in 0..300 {
                let pd = other.make(calls::VFUN_NIC_PD_MAKE, |w| w.name(context)).unwrap().0;
                other.of(calls::VFUN_NIC_PD_END, pd).unwrap();
            }
            stop.store(true, Ordering::SeqCst);
        });
        // The other one may be through before this one begins.
        loop {
            (0..8).for_each(|id| pair.write(id, 0, 65_536));
            (0..8).for_each(|_| assert_eq!(pair.cqs[0].wait().status, Status::Success));
            if stop.load(Ordering::SeqCst) {
                break;
            }
        }
    });
}

#[test]
fn attributes_are_kept_and_alternate_paths_are_not_offered() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let qp = pair.qps[0].name;
    let answer = pair.a.of(calls::VFUN_NIC_QP_QUERY, qp).unwrap();
    let mut r = Reader::new(&answer[16 + 8..]);
    assert_eq!(r.u16(), Ok(pair.b.lid), "of its peer");
    let attr = attr_to((0, 0));
    assert_eq!(pair.a.modify(qp, attribute::ALT_PATH, &attr), Err(UNSUPPORTED));
    assert_eq!(pair.a.modify(qp, attribute::PORT, &attr), Err(INVALID), "not in this state");
    let sqd = vfun_nic_qp_attr { state: QpState::Sqd.to_wire().into(), sqd_notify: 1, ..attr };
    let mask = attribute::STATE | attribute::EN_SQD_ASYNC_NOTIFY;
    pair.a.modify(qp, mask, &sqd).unwrap();
    assert_eq!(pair.a.event(), (AsyncKind::Drained.to_wire(), 1, pair.qps[0].qpn));
}

#[test]
fn a_vm_gets_no_more_than_its_clients_manifest_says() {
    let quota = Quota { programs: 2, queue_pairs: 3, regions: 3, memory: Some(3 * PAGE as u64) };
    let running = RunningNic::with(quota);
    let one = (Some("one"), None);
    let [mut a, mut b] = [(); 2].map(|()| Program::at(&running.nic, one));
    let mut other = Program::at(&running.nic, (Some("two"), None));
    let third = Sides::at(one, 99, true);
    running.nic.add_channel(third.clone());
    let (handle, token) = third.named();
    assert_eq!(a.try_open(handle, token), Err(QUOTA), "a third program");

    let cqs = [&mut a, &mut b, &mut other].map(|p| p.cq(16).name);
    let pair = |p: &mut Program, cq| p.try_qp(QpType::Rc, [cq; 2], Name::NONE).map(|qp| qp.name);
    let first = pair(&mut a, cqs[0]).unwrap();
    assert!(pair(&mut a, cqs[0]).is_ok() && pair(&mut b, cqs[1]).is_ok());
    assert_eq!(pair(&mut b, cqs[1]), Err(QUOTA), "those of both programs count");
    assert!(pair(&mut other, cqs[2]).is_ok(), "another VM has its own");
    a.of(calls::VFUN_NIC_QP_END, first).unwrap();
    assert!(pair(&mut b, cqs[1]).is_ok(), "what ended counts no more");

    let [two, one] = [a.region(0, 2, access::ALL), b.region(0, 1, access::ALL)];
    let refused =
        |p: &mut Program| p.region_of(0, PAGE as u64, access::ALL, &[(HANDLE, 0, 1)]).map(drop);
    assert_eq!(refused(&mut b), Err(QUOTA), "bytes");
    assert!(refused(&mut other).is_ok());
    a.of(calls::VFUN_NIC_MR_END, two.0).unwrap();
    b.region(0, 1, access::ALL);
    assert!(one.1 != 0 && refused(&mut a).is_ok() && refused(&mut a) == Err(QUOTA));
}

/// A region that is not complete is what its program says of it.
#[test]
fn who_claims_all_memory_takes_none_from_others() {
    let running = RunningNic::new();
    let one = (Some("one"), None);
    let [mut a, mut b] = [(); 2].map(|()| Program::at(&running.nic, one));
    let most = u64::MAX - PAGE as u64;
    for _ in 0..2 {
        let (_, key) = a.region_of(0, most, access::ALL, &[(HANDLE, 0, 1)]).unwrap();
        assert_eq!(key, 0, "most of its pages are to come");
    }
    b.region(0, 1, access::ALL);
    let facts = running.nic.counts_of_channel(a.key).unwrap().facts;
    assert_eq!(ProgramFacts::of(&facts).unwrap().registered_bytes, 0);
}

#[test]
fn what_a_program_did_and_has_is_told_of_its_channel() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let counts = |p: &Program| {
        let counts = running.nic.counts_of_channel(p.key).unwrap();
        (counts, ProgramFacts::of(&counts.facts).unwrap())
    };
    pair.write(1, 0, 64);
    assert_eq!(pair.cqs[0].wait().status, Status::Success);
    let (own, facts) = counts(&pair.a);
    assert_eq!((own.done, own.failed, own.bytes), (1, 0, 64));
    assert_eq!((facts.lid, facts.gid), (pair.a.lid, pair.a.gid()));
    assert_eq!((facts.queue_pairs, facts.regions, facts.wrong_keys), (1, 1, 0));
    assert_eq!(facts.registered_bytes, (LENT * PAGE) as u64);
    assert_eq!(counts(&pair.b).0.done, 0, "who was written to did nothing");
    let list = [sge(0, 8, pair.keys[0].1)];
    let head = write(2, 0, pair.keys[1].1 ^ 0x100);
    pair.a.post(&mut pair.qps[0], &head, SendBody::Gather(&list));
    assert_eq!(pair.cqs[0].wait().status, Status::RemoteAccess);
    let (own, facts) = counts(&pair.a);
    assert_eq!((own.done, own.failed, facts.wrong_keys), (2, 1, 1));
}

#[test]
fn the_device_says_what_it_is() {
    let running = RunningNic::new();
    let (mut a, mut b) = (Program::new(&running.nic), Program::new(&running.nic));
    assert_ne!(a.lid, b.lid);
    let gids = [&mut a, &mut b].map(Program::gid);
    assert!(gids[0] != gids[1] && gids.iter().all(|gid| gid[..2] == [0xfe, 0x80]));
    let infos = [&mut a, &mut b].map(|p| {
        let context = p.context;
        p.of(calls::VFUN_NIC_INFO, context).unwrap()
    });
    assert_eq!(infos[0], infos[1]);
    let context = a.context;
    let gid = a.call(calls::VFUN_NIC_GID, |w| {
        w.name(context);
        w.u32(1);
    });
    assert_eq!(gid, Err(INVALID));
}

#[test]
fn a_manifests_address_is_that_of_a_vms_programs_and_leads_to_no_other() {
    let running = RunningNic::new();
    let one = (Some("one"), "10.0.0.5".parse().ok());
    let two = (Some("two"), "10.0.0.6".parse().ok());
    let [mut a, mut same, mut b] = [one, one, two].map(|home| Program::at(&running.nic, home));
    let gids = [&mut a, &mut same, &mut b].map(Program::gid);
    assert_eq!(gids[0], "::ffff:10.0.0.5".parse::<std::net::Ipv6Addr>().unwrap().octets());
    assert_eq!(gids[0], gids[1]);
    let cqs = [&mut a, &mut b].map(|p| p.cq(16));
    let mut x = a.qp(QpType::Rc, [&cqs[0]; 2], Name::NONE);
    let y = b.qp(QpType::Rc, [&cqs[1]; 2], Name::NONE);
    let keys = [&mut a, &mut b].map(|p| p.region(0, 1, access::ALL).1);
    let by = |qpn, gid| {
        let attr = attr_to((qpn, 0));
        vfun_nic_qp_attr { path: vfun_nic_path { gid, is_global: 1, ..attr.path }, ..attr }
    };
    let [mut done, _] = cqs;
    // B names A by an address that is not A's, and then by the right one.
    for (named, status) in [(gids[2], Status::RetryExceeded), (gids[0], Status::Success)] {
        a.connect_by(&x, &by(y.qpn, gids[2]));
        b.connect_by(&y, &by(x.qpn, named));
        let list = [sge(0, 8, keys[0])];
        a.post(&mut x, &write(1, 0, keys[1]), SendBody::Gather(&list));
        assert_eq!(done.wait().status, status);
        a.reset(&x);
        b.reset(&y);
    }
}
