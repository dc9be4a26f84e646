//! An RDMA write of 8 bytes: what the program does to post it and to take its completion, and what
//! the NIC does in the run that finds it. Both on one thread, over real windows.

use crate::scenario;
use vfun_queue::{Consumer, Entry};
use vfun_verbs::bells::ProgramBells;
use vfun_verbs::flags::{access, attribute, send};
use vfun_verbs::{
    Completion, QpState, QpType, SendBody, SendHead, SendOpcode, Sge, Status, WorkProducer,
    WorkShape,
};
use vfun_verbs_nic::{
    Address, Attributes, CompletionQueue, Engine, PageRun, Path, PdId, ProgramId, QpId, QueuePair,
    Registration, WindowId, allowed,
};
use vfun_window::{Access, Mapping, WindowMemory, WriteSpan, memfd};

const PAGE: usize = 4096;
const DEPTH: u32 = 64;
/// Writes that the NIC does in one turn.
const BATCH: usize = 16;
/// Pages of each side of a queue: more than any here needs.
const SIDE: usize = 8 * PAGE;

type Nic = Engine<WindowMemory, WriteSpan>;

fn mapped(fd: &std::os::fd::OwnedFd, bytes: usize) -> WriteSpan {
    let map = Mapping::new(fd, 0, bytes, Access::ReadWrite).expect("mapped");
    map.write().expect("writable")
}

/// A queue's memory, as the program has it and as the NIC has it.
fn sides() -> [WindowMemory; 2] {
    let fds = ["program", "nic"].map(|name| memfd(name, SIDE as u64).expect("memory"));
    let [[mine, nics], [programs, own]] = [(); 2].map(|()| fds.each_ref().map(|f| mapped(f, SIDE)));
    [WindowMemory::of_sides(mine, nics.reader()), WindowMemory::of_sides(own, programs.reader())]
}

struct Program {
    id: ProgramId,
    pd: PdId,
    bells: ProgramBells<WindowMemory>,
    key: u32,
}

struct Pair {
    id: QpId,
    qpn: u32,
    bit: usize,
    sends: WorkProducer<WindowMemory>,
    done: Consumer<WindowMemory, 64>,
}

const fn address(lid: u16) -> Address {
    Address { gid: [lid as u8; 16], lid }
}

fn program(nic: &mut Nic, lid: u16, window: WindowId) -> Program {
    let [mine, theirs] = sides();
    let id = nic.add_program(address(lid), theirs).expect("room");
    let pd = nic.make_pd(id).expect("room");
    let pages = [PageRun { window, page: 0, pages: 1 }];
    let what = Registration { iova: 0, len: PAGE as u64, access: access::ALL, pages: &pages };
    let key = nic.register(id, pd, &what).expect("a region");
    Program { id, pd, bells: ProgramBells::new(mine), key }
}

fn pair(nic: &mut Nic, of: &Program) -> Pair {
    let shape = WorkShape::new(DEPTH, 0).expect("a shape");
    let [cq, sends, receives] = [sides(), sides(), sides()];
    let [mine, memory] = cq;
    let what = CompletionQueue { memory, depth: DEPTH, has_channel: true };
    let cq = nic.make_cq(of.id, what).expect("room");
    let [to_nic, memory] = sends;
    let what = QueuePair {
        pd: of.pd,
        kind: QpType::Rc,
        send_cq: cq,
        receive_cq: cq,
        sends: (memory, shape),
        receives: Ok((receives.into_iter().nth(1).expect("the NIC's"), shape)),
        all_signaled: false,
    };
    let (id, qpn, bit) = nic.make_qp(of.id, what).expect("room");
    let sends = WorkProducer::new(to_nic, shape).expect("a shape");
    Pair { id, qpn, bit, sends, done: Consumer::new(mine, DEPTH).expect("a shape") }
}

fn connect(nic: &mut Nic, of: &Program, pair: &Pair, (qpn, lid): (u32, u16)) {
    let set = Attributes {
        access: access::ALL,
        path: Path { gid: None, lid },
        dest_qpn: qpn,
        ..Attributes::default()
    };
    let way = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
    for step in way.windows(2) {
        let mask = attribute::STATE | allowed(step[0], step[1], QpType::Rc).expect("one").required;
        nic.modify(of.id, pair.id, (mask, step[1], &set)).expect("a change");
    }
}

/// Posts a write of 8 bytes; whether the NIC must be rung.
#[inline(never)]
fn post(pair: &mut Pair, bells: &ProgramBells<WindowMemory>, head: &SendHead, from: Sge) -> bool {
    pair.sends.post_send(head, SendBody::Gather(&[from])).expect("room");
    bells.posted(pair.bit)
}

/// One run of the NIC.
#[inline(never)]
fn run(nic: &mut Nic) -> bool {
    nic.run(1).worked
}

/// Takes the completion.
#[inline(never)]
fn poll(pair: &mut Pair) -> Completion {
    let mut one = [Entry::default(); 1];
    assert_eq!(pair.done.consume(&mut one), Ok(1));
    Completion::of(&one[0]).expect("it makes sense")
}

pub fn all() {
    let mut seed = 1u64;
    let mut nic: Nic = Engine::new(move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 20
    });
    let memory = [1, 2].map(|_| mapped(&memfd("data", PAGE as u64).expect("memory"), PAGE));
    let windows = memory.each_ref().map(|span| nic.add_window(span.clone()).expect("room"));
    let [a, b] = [(1, windows[0]), (2, windows[1])].map(|(lid, w)| program(&mut nic, lid, w));
    let (mut x, y) = (pair(&mut nic, &a), pair(&mut nic, &b));
    connect(&mut nic, &a, &x, (y.qpn, 2));
    connect(&mut nic, &b, &y, (x.qpn, 1));
    let flags = send::SIGNALED;
    let head = SendHead { op: SendOpcode::Write, flags, imm: 0, key: b.key, addr: 64, wr_id: 7 };
    let from = Sge { addr: 0, len: 8, lkey: a.key };
    let mut round = 0u64;
    scenario("verbs, a write of 8 bytes", || {
        round += 1;
        memory[0].write(0, &round.to_le_bytes()).expect("inside");
        post(&mut x, &a.bells, &head, from);
        assert!(run(&mut nic), "it found the write");
        let done = poll(&mut x);
        assert_eq!((done.wr_id, done.status), (7, Status::Success));
        let mut got = [0; 8];
        memory[1].read(64, &mut got).expect("inside");
        assert_eq!(u64::from_le_bytes(got), round);
    });
    scenario("verbs, 16 writes of 8 bytes under way", || {
        (0..BATCH).for_each(|_| assert!(!post(&mut x, &a.bells, &head, from), "the NIC is awake"));
        assert!(run(&mut nic), "it found the writes");
        (0..BATCH).for_each(|_| assert_eq!(poll(&mut x).status, Status::Success));
    });
}
