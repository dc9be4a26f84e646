//! A NIC with programs, whose queues lie in plain memory and whose registered memory is a
//! window. An address in these tests is a place in that window.
#![allow(dead_code, unused_imports)]

use vfun_queue::{Consumer, Memory, Shape};
use vfun_verbs::bells::ProgramBells;
use vfun_verbs::completions::Asker;
use vfun_verbs::flags::{access, attribute};
use vfun_verbs::*;
use vfun_verbs_nic::*;
use vfun_window::{Access, Mapping, WriteSpan, memfd};

pub mod hostile;
#[path = "../../../../protocol/window/tests/common/plain.rs"]
mod plain;

pub use plain::{Plain, Side, peek, poke, zeroed};

/// Bytes of the window.
pub const WINDOW: usize = 1 << 20;
pub const PAGE: u64 = 4096;
pub const ALL_ATTRIBUTES: u32 = !0;
/// Depth of work queues, unless a test says otherwise.
pub const DEPTH: u32 = 64;

pub type Nic = Engine<Plain, WriteSpan>;

pub struct Lab {
    pub nic: Nic,
    pub memory: WriteSpan,
    pub window: WindowId,
    pub now: u64,
}

/// A program and its domain.
pub struct App {
    pub program: ProgramId,
    pub pd: PdId,
    pub address: Address,
    pub bells: ProgramBells<Plain>,
    /// Its page of doorbell bits.
    pub page: Side,
}

/// The program's end of a completion queue.
pub struct CqEnd {
    pub id: CqId,
    pub queue: Consumer<Plain, 64>,
    pub asker: Asker,
}

/// The program's end of a queue pair.
pub struct End {
    pub id: QpId,
    pub qpn: u32,
    pub bit: usize,
    pub sends: WorkProducer<Plain>,
    pub receives: WorkProducer<Plain>,
    pub cq: CqEnd,
}

/// Both sides of something: the program's, the NIC's.
pub fn sides(program: u64, nic: u64) -> (Plain, Plain) {
    let (a, b) = (zeroed(program), zeroed(nic));
    (Plain { mine: a.clone(), theirs: b.clone() }, Plain { mine: b, theirs: a })
}

pub fn shape(depth: u32, extension: u32) -> WorkShape {
    WorkShape::new(depth, extension).unwrap()
}

pub fn random(seed: u64) -> impl FnMut() -> u64 + Send + 'static {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// The address of the program with this LID.
pub fn address(lid: u16) -> Address {
    let mut gid = [0xfe; 16];
    gid[15] = lid as u8;
    Address { gid, lid }
}

impl Lab {
    pub fn new() -> Self {
        let fd = memfd("t", WINDOW as u64).unwrap();
        let memory = Mapping::new(&fd, 0, WINDOW, Access::ReadWrite).unwrap().write().unwrap();
        let mut nic = Engine::new(random(1));
        let window = nic.add_window(memory.clone()).unwrap();
        Lab { nic, memory, window, now: 1 }
    }

    pub fn app(&mut self, lid: u16) -> App {
        let (mine, theirs) = sides(PAGE, PAGE);
        let address = address(lid);
        let program = self.nic.add_program(address, theirs).unwrap();
        let pd = self.nic.make_pd(program).unwrap();
        let page = mine.mine.clone();
        App { program, pd, address, bells: ProgramBells::new(mine), page }
    }

    pub fn cq(&mut self, app: &App, depth: u32) -> CqEnd {
        let shape = Shape::new(64, depth).unwrap();
        let (mine, memory) = sides(PAGE, shape.producer_bytes());
        let what = CompletionQueue { memory, depth, has_channel: true };
        let id = self.nic.make_cq(app.program, what).unwrap();
        CqEnd { id, queue: Consumer::new(mine, depth).unwrap(), asker: Asker::new() }
    }

    pub fn work(&self, shape: WorkShape) -> (WorkProducer<Plain>, Plain) {
        let (mine, theirs) = sides(shape.program_bytes(), shape.nic_bytes());
        (WorkProducer::new(mine, shape).unwrap(), theirs)
    }

    pub fn qp(&mut self, app: &App, kind: QpType) -> End {
        self.qp_of(app, kind, DEPTH, None)
    }

    /// A queue pair with a completion queue of so many entries, and perhaps a shared
    /// receive queue.
    pub fn qp_of(&mut self, app: &App, kind: QpType, cq: u32, srq: Option<SrqId>) -> End {
        self.qp_shaped(app, kind, (cq, shape(DEPTH, 256)), srq)
    }

    /// The same with work queues of a shape.
    pub fn qp_shaped(
        &mut self,
        app: &App,
        kind: QpType,
        (cq, shape): (u32, WorkShape),
        srq: Option<SrqId>,
    ) -> End {
        let cq = self.cq(app, cq);
        let ((sends, s), (receives, r)) = (self.work(shape), self.work(shape));
        let receives_of = srq.map_or(Ok((r, shape)), Err);
        let what = QueuePair {
            pd: app.pd,
            kind,
            send_cq: cq.id,
            receive_cq: cq.id,
            sends: (s, shape),
            receives: receives_of,
            all_signaled: false,
        };
        let (id, qpn, bit) = self.nic.make_qp(app.program, what).unwrap();
        End { id, qpn, bit, sends, receives, cq }
    }

    pub fn srq(&mut self, app: &App) -> (SrqId, WorkProducer<Plain>) {
        let shape = shape(DEPTH, 256);
        let (mine, memory) = self.work(shape);
        let what = Shared { memory, shape };
        (self.nic.make_srq(app.program, app.pd, what).unwrap(), mine)
    }

    /// Registers whole pages under their places in the window.
    pub fn region(&mut self, app: &App, page: u64, pages: u64, access: u32) -> u32 {
        let run = [PageRun { window: self.window, page, pages }];
        let what = Registration { iova: page * PAGE, len: pages * PAGE, access, pages: &run };
        self.nic.register(app.program, app.pd, &what).unwrap()
    }

    pub fn modify(
        &mut self,
        app: &App,
        qp: &End,
        mask: u32,
        to: QpState,
        set: &Attributes,
    ) -> Result<(), Refused> {
        self.nic.modify(app.program, qp.id, (mask, to, set))
    }

    /// The way from RESET to RTS.
    pub fn bring_up(&mut self, app: &App, qp: &End, kind: QpType, set: &Attributes) {
        for (from, to) in [
            (QpState::Reset, QpState::Init),
            (QpState::Init, QpState::Rtr),
            (QpState::Rtr, QpState::Rts),
        ] {
            let mask = attribute::STATE | allowed(from, to, kind).unwrap().required;
            self.modify(app, qp, mask, to, set).unwrap();
        }
    }

    /// Two queue pairs that name each other, ready to send.
    pub fn connect(&mut self, kind: QpType, (a, x): (&App, &End), (b, y): (&App, &End)) {
        for (app, qp, other, to) in [(a, x, b, y), (b, y, a, x)] {
            let set = attributes(other, to);
            self.bring_up(app, qp, kind, &set);
        }
    }

    /// Two programs with a connected queue pair each.
    pub fn pair(&mut self, kind: QpType) -> ((App, End), (App, End)) {
        let (a, b) = (self.app(1), self.app(2));
        let (x, y) = (self.qp(&a, kind), self.qp(&b, kind));
        self.connect(kind, (&a, &x), (&b, &y));
        ((a, x), (b, y))
    }

    /// As the NIC does before it sleeps: whether it would not.
    pub fn run_before_sleep(&mut self) -> bool {
        self.nic.declare_sleep();
        let mut ran = self.nic.run(self.now);
        while ran.more && !ran.worked {
            ran = self.nic.run(self.now);
        }
        self.nic.declare_awake();
        ran.worked
    }

    /// Runs until there is nothing to do.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            let ran = self.nic.run(self.now);
            if !ran.worked && !ran.more {
                return;
            }
        }
        panic!("the NIC works without end");
    }

    pub fn fill(&self, at: u64, bytes: &[u8]) {
        self.memory.write(at as usize, bytes).unwrap();
    }

    pub fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut got = vec![0; len];
        Payload::read(&self.memory, at, &mut got).unwrap();
        got
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.nic.take_event()).collect()
    }

    /// Asynchronous events of one kind: the objects.
    pub fn told(&mut self, kind: AsyncKind) -> Vec<u32> {
        let of = |e: Event| match e {
            Event::Async { kind: k, object, .. } if k == kind => Some(object),
            _ => None,
        };
        self.events().into_iter().filter_map(of).collect()
    }
}

/// Attributes of a queue pair whose peer is this one.
pub fn attributes(peer: &App, qp: &End) -> Attributes {
    Attributes {
        access: access::ALL,
        qkey: 0x1234,
        path: Path { gid: Some(peer.address.gid), lid: 0 },
        dest_qpn: qp.qpn,
        timeout: 10,
        retry_cnt: 3,
        rnr_retry: 7,
        min_rnr_timer: 1,
        tell_drained: false,
    }
}

pub fn sge(addr: u64, len: u32, lkey: u32) -> Sge {
    Sge { addr, len, lkey }
}

pub fn head(op: SendOpcode, wr_id: u64, addr: u64, key: u32) -> SendHead {
    SendHead { op, flags: flags::send::SIGNALED, imm: 0x5566_7788, key, addr, wr_id }
}

impl End {
    pub fn send(&mut self, app: &App, head: &SendHead, body: SendBody<'_>) {
        self.sends.post_send(head, body).unwrap();
        app.bells.posted(self.bit);
    }

    pub fn receive(&mut self, app: &App, wr_id: u64, sges: &[Sge]) {
        self.receives.post_receive(&ReceiveEntry::new(wr_id, sges).unwrap()).unwrap();
        app.bells.posted_receive(self.bit, &self.receives);
    }

    /// Completions that are there: whose, and how they ended.
    pub fn ended(&mut self) -> Vec<(u64, Status)> {
        self.cq.poll().iter().map(|c| (c.wr_id, c.status)).collect()
    }
}

impl CqEnd {
    pub fn poll(&mut self) -> Vec<Completion> {
        let mut got = vec![];
        let mut entries = [vfun_queue::Entry::default(); 8];
        while let n @ 1.. = self.queue.consume(&mut entries).unwrap() {
            got.extend(entries[..n].iter().map(|e| Completion::of(e).unwrap()));
        }
        got
    }
}
