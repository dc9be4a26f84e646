//! Programs that use a NIC in this process: control calls by their bytes, queues in memory that
//! both map.
#![allow(dead_code)]

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vfun_queue::{Consumer, Entry};
use vfun_remoting::{AnswerHead, HEAD_BYTES, Name, Reader, Records, Refusal, Writer, numbers};
use vfun_remoting_host::Memory;
use vfun_remoting_host::trial::{Heard, Trial};
use vfun_verbs::bells::{self, ProgramBells};
use vfun_verbs::completions::Asker;
use vfun_verbs::flags::{access, attribute};
use vfun_verbs::limits::ENTRY_BYTES;
use vfun_verbs::*;
use vfun_verbsback::generated::{calls, vfun_nic_place, write_vfun_nic_qp_attr};
use vfun_verbsback::generated::{vfun_nic_path, vfun_nic_qp_attr};
use vfun_verbsback::{Nic, NicChannel, Quota, Verbs};
use vfun_window::{Access, Bell, Mapping, OutOfBounds, WindowMemory, WriteSpan, memfd};

pub const PAGE: usize = 4096;
/// Pages of each side of a channel, and of a lent buffer.
pub const SIDE: usize = 256;
pub const LENT: usize = 64;
/// Longest that a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until there is one.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} never came");
        std::thread::yield_now();
    }
}

/// Memory that is mapped twice, so that nothing is shared but its pages.
pub fn shared(pages: usize) -> [WriteSpan; 2] {
    let fd = memfd("verbs", (pages * PAGE) as u64).expect("memory");
    [0; 2].map(|at| {
        let map = Mapping::new(&fd, at, pages * PAGE, Access::ReadWrite).expect("mapped");
        map.write().expect("writable")
    })
}

/// Where a program is: its VM, and the address that a manifest gives it.
pub type Home = (Option<&'static str>, Option<IpAddr>);

/// A channel of queues in this process.
pub struct Sides {
    handle: u64,
    token: [u64; 2],
    /// The program's side, and the NIC's: as the program has them, and as the NIC has.
    program: [WriteSpan; 2],
    nic: [WriteSpan; 2],
    bell: Option<Bell>,
    /// What the manager says of the program.
    pub home: Home,
    pub rings: AtomicUsize,
}

impl Sides {
    pub fn new(handle: u64, has_bell: bool) -> Arc<Sides> {
        Sides::at((None, None), handle, has_bell)
    }

    pub fn at(home: Home, handle: u64, has_bell: bool) -> Arc<Sides> {
        let bell = has_bell.then(|| Bell::new().expect("a bell"));
        let token = [handle.wrapping_mul(0x9e37_79b9_7f4a_7c15), 77];
        let (program, nic) = (shared(SIDE), shared(SIDE));
        Arc::new(Sides { handle, token, program, nic, bell, home, rings: AtomicUsize::new(0) })
    }

    /// What the program sees of these parts.
    pub fn of_program(&self, place: &vfun_nic_place) -> WindowMemory {
        let at = |at: u64| at as usize;
        let (bytes, nic_bytes) = (at(place.program_bytes), at(place.nic_bytes));
        let mine = self.program[0].part(at(place.program_at), bytes).expect("inside");
        let theirs = self.nic[0].part(at(place.nic_at), nic_bytes).expect("inside");
        WindowMemory::of_sides(mine, theirs.reader())
    }

    /// What names it in a call.
    pub fn named(&self) -> (u64, [u64; 2]) {
        (self.handle, self.token)
    }

    fn bells(&self) -> WindowMemory {
        let bytes = PAGE as u64;
        self.of_program(&vfun_nic_place {
            program_at: bytes,
            program_bytes: bytes,
            nic_at: bytes,
            nic_bytes: bytes,
        })
    }

    /// Whether the NIC has declared that it sleeps.
    pub fn nic_sleeps(&self) -> bool {
        self.bells().theirs().load(bells::SLEEPS, Ordering::SeqCst) != 0
    }

    /// The program writes a word anywhere in its side.
    pub fn scribble(&self, word: usize, value: u64) {
        self.program[0].store(word, value, Ordering::Relaxed);
    }

    pub fn ring_nic(&self) {
        self.bell.iter().for_each(Bell::ring);
    }
}

impl NicChannel for Sides {
    fn is_named(&self, handle: u64, token: [u64; 2]) -> bool {
        (handle, token) == (self.handle, self.token)
    }
    fn sides(&self) -> (usize, usize) {
        (SIDE * PAGE, SIDE * PAGE)
    }
    fn memory(
        &self,
        nic: Range<usize>,
        program: Range<usize>,
    ) -> Result<WindowMemory, OutOfBounds> {
        let mine = self.nic[1].part(nic.start, nic.len())?;
        let theirs = self.program[1].part(program.start, program.len())?;
        Ok(WindowMemory::of_sides(mine, theirs.reader()))
    }
    fn vm(&self) -> Option<&str> {
        self.home.0
    }
    fn address(&self) -> Option<IpAddr> {
        self.home.1
    }
    fn ring(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
    }
    fn rung(&self) -> Option<&Bell> {
        self.bell.as_ref()
    }
}

/// A completion queue, the program's end.
pub struct ProgramCq {
    pub name: Name,
    pub number: u32,
    pub queue: Consumer<WindowMemory, ENTRY_BYTES>,
    pub asker: Asker,
}

impl ProgramCq {
    /// The next completion, if it is there.
    pub fn poll(&mut self) -> Option<Completion> {
        let mut one = [Entry::default(); 1];
        let got = self.queue.consume(&mut one).expect("good");
        (got == 1).then(|| Completion::of(&one[0]).expect("makes sense"))
    }

    pub fn wait(&mut self) -> Completion {
        wait_for("a completion", || self.poll())
    }
}

/// A queue pair, the program's end.
pub struct ProgramQp {
    pub name: Name,
    pub qpn: u32,
    pub bell: usize,
    /// Where its queue of sends lies.
    pub place: vfun_nic_place,
    pub sends: WorkProducer<WindowMemory>,
    pub receives: Option<WorkProducer<WindowMemory>>,
}

/// A program: its control calls, its channel, and memory that it lent.
pub struct Program {
    pub trial: Trial<Verbs>,
    pub nic: Nic,
    pub key: u64,
    pub sides: Arc<Sides>,
    bells: ProgramBells<WindowMemory>,
    names: usize,
    pub context: Name,
    pub pd: Name,
    /// What it lent, by this handle: as the program sees it, and as the host does.
    pub memory: [WriteSpan; 2],
    pub lid: u16,
}

/// The handle of the buffer that a program lends.
pub const HANDLE: u64 = 3 << 32;

static HANDLES: AtomicU64 = AtomicU64::new(1);

pub type Answered = Result<Vec<u8>, i32>;

/// The answer's bytes after the status, or the status.
pub fn answered(heard: Heard) -> Answered {
    let Heard::Answer(answer) = heard else { panic!("{heard:?}") };
    let (head, body) = AnswerHead::split(&answer).expect("a head");
    assert_eq!(head.refusal, None);
    let mut r = Reader::new(body);
    match r.i32().expect("a status") {
        0 => Ok(r.rest().to_vec()),
        errno => Err(errno),
    }
}

pub fn read_place(r: &mut Reader<'_>) -> vfun_nic_place {
    let mut word = || r.u64().expect("a number");
    vfun_nic_place { program_at: word(), program_bytes: word(), nic_at: word(), nic_bytes: word() }
}

/// The address of a run's bytes in a call.
pub fn runs(all: &[(u64, u64, u64)]) -> Vec<u8> {
    let words = all.iter().flat_map(|(buffer, page, pages)| [*buffer, *page, *pages]);
    words.flat_map(u64::to_le_bytes).collect()
}

impl Program {
    pub fn new(nic: &Nic) -> Program {
        Program::with_bell(nic, true)
    }

    pub fn with_bell(nic: &Nic, has_bell: bool) -> Program {
        Program::over(nic, Sides::new(HANDLES.fetch_add(1, Ordering::Relaxed), has_bell))
    }

    /// A program that is there.
    pub fn at(nic: &Nic, home: Home) -> Program {
        Program::over(nic, Sides::at(home, HANDLES.fetch_add(1, Ordering::Relaxed), true))
    }

    fn over(nic: &Nic, sides: Arc<Sides>) -> Program {
        let key = nic.add_channel(sides.clone());
        let bells = ProgramBells::new(sides.bells());
        let mut program = Program {
            trial: Trial::over(Verbs::over(nic.clone()), 4096),
            nic: nic.clone(),
            key,
            sides,
            bells,
            names: 0,
            context: Name::NONE,
            pd: Name::NONE,
            memory: shared(LENT),
            lid: 0,
        };
        program.open();
        program
    }

    fn open(&mut self) {
        let memory = Memory { start: self.memory[1].as_mut_ptr(), len: LENT * PAGE };
        self.trial.lend(HANDLE, memory);
        let (handle, token) = (self.sides.handle, self.sides.token);
        self.context = self.try_open(handle, token).expect("opened");
        let context = self.context;
        self.pd = self.make(calls::VFUN_NIC_PD_MAKE, |w| w.name(context)).expect("a domain").0;
        let port = self.call(calls::VFUN_NIC_PORT, |w| w.name(context)).expect("a port");
        self.lid = Reader::new(&port[11 * 8..]).u16().expect("a number");
    }

    pub fn try_open(&mut self, handle: u64, token: [u64; 2]) -> Result<Name, i32> {
        let made = self.make(calls::VFUN_NIC_OPEN, |w| {
            w.u32(1);
            w.u64(handle);
            token.into_iter().for_each(|half| w.u64(half));
        });
        made.map(|(name, _)| name)
    }

    pub fn call(&mut self, call: u16, write: impl FnOnce(&mut Writer<'_>)) -> Answered {
        answered(self.trial.make(call, write))
    }

    /// A call that makes an object, whose name comes last.
    pub fn make(
        &mut self,
        call: u16,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(Name, Vec<u8>), i32> {
        let name = Name::new(self.names, 1);
        self.names += 1;
        let made = self.call(call, |w| {
            write(w);
            w.name(name);
        });
        made.map(|answer| (name, answer))
    }

    /// A call with one object.
    pub fn of(&mut self, call: u16, object: Name) -> Answered {
        self.call(call, |w| w.name(object))
    }

    /// Why a call was not made.
    pub fn refusal(&mut self, call: u16, write: impl FnOnce(&mut Writer<'_>)) -> Option<Refusal> {
        let Heard::Answer(answer) = self.trial.make(call, write) else { panic!("open") };
        AnswerHead::split(&answer).expect("a head").0.refusal
    }

    /// Registers pages of what it lent; addresses are places in it.
    pub fn region(&mut self, page: u64, pages: u64, rights: u32) -> (Name, u32) {
        self.region_of(page * PAGE as u64, pages * PAGE as u64, rights, &[(HANDLE, page, pages)])
            .expect("a region")
    }

    pub fn region_of(
        &mut self,
        iova: u64,
        length: u64,
        rights: u32,
        all: &[(u64, u64, u64)],
    ) -> Result<(Name, u32), i32> {
        let pd = self.pd;
        let made = self.make(calls::VFUN_NIC_MR_MAKE, |w| {
            w.name(pd);
            w.u64(iova);
            w.u64(length);
            w.u32(rights);
            w.blob(Some(&runs(all)));
        });
        made.map(|(name, answer)| (name, Reader::new(&answer).u32().expect("a key")))
    }

    pub fn cq(&mut self, depth: u32) -> ProgramCq {
        let context = self.context;
        let (name, answer) = self
            .make(calls::VFUN_NIC_CQ_MAKE, |w| {
                w.name(context);
                w.u32(depth);
                w.u32(1);
            })
            .expect("a queue");
        let mut r = Reader::new(&answer);
        let (place, number) = (read_place(&mut r), r.u32().expect("a number"));
        let memory = self.sides.of_program(&place);
        memory.mine().zero();
        let queue = Consumer::new(memory, depth).expect("a shape");
        ProgramCq { name, number, queue, asker: Asker::new() }
    }

    pub fn qp(&mut self, kind: QpType, cqs: [&ProgramCq; 2], srq: Name) -> ProgramQp {
        self.try_qp(kind, cqs.map(|cq| cq.name), srq).expect("a queue pair")
    }

    pub fn try_qp(&mut self, kind: QpType, cqs: [Name; 2], srq: Name) -> Result<ProgramQp, i32> {
        let pd = self.pd;
        let (name, answer) = self.make(calls::VFUN_NIC_QP_MAKE, |w| {
            w.name(pd);
            w.u32(kind.to_wire().into());
            [0, 16, 64, 16, 64].into_iter().for_each(|n| w.u32(n));
            cqs.into_iter().for_each(|cq| w.name(cq));
            w.name(srq);
        })?;
        let mut r = Reader::new(&answer);
        let places = [read_place(&mut r), read_place(&mut r)];
        let (qpn, bell) = (r.u32().expect("a number"), r.u32().expect("a bit") as usize);
        let shape = WorkShape::new(16, 64).expect("a shape");
        let mut queues = places.iter().map(|place| {
            (place.program_bytes > 0).then(|| {
                assert_eq!(place.program_bytes, shape.program_bytes());
                assert_eq!(place.nic_bytes, shape.nic_bytes());
                let memory = self.sides.of_program(place);
                memory.mine().zero();
                WorkProducer::new(memory, shape).expect("a shape")
            })
        });
        let sends = queues.next().flatten().expect("sends");
        let receives = queues.next().flatten();
        let [place, _] = places;
        Ok(ProgramQp { name, qpn, bell, place, sends, receives })
    }

    pub fn modify(&mut self, qp: Name, mask: u32, attr: &vfun_nic_qp_attr) -> Answered {
        self.call(calls::VFUN_NIC_QP_MODIFY, |w| {
            w.name(qp);
            w.u32(mask);
            write_vfun_nic_qp_attr(w, attr);
        })
    }

    /// Brings a reliable queue pair into the state RTS, with this peer.
    pub fn connect(&mut self, qp: &ProgramQp, peer: (u32, u16)) {
        self.connect_by(qp, &attr_to(peer));
    }

    /// The same with these attributes.
    pub fn connect_by(&mut self, qp: &ProgramQp, attr: &vfun_nic_qp_attr) {
        use attribute::*;
        let steps = [
            (QpState::Init, PKEY_INDEX | PORT | ACCESS_FLAGS),
            (QpState::Rtr, AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER),
            (QpState::Rts, TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC),
        ];
        for (state, mask) in steps {
            let attr = vfun_nic_qp_attr { state: state.to_wire().into(), ..*attr };
            self.modify(qp.name, STATE | mask, &attr).expect("a change");
        }
    }

    /// Takes away what is posted; the queue pair may be connected anew.
    pub fn reset(&mut self, qp: &ProgramQp) {
        self.modify(qp.name, attribute::STATE, &attr_to((0, 0))).expect("reset");
    }

    /// The address by which peers reach it.
    pub fn gid(&mut self) -> [u8; 16] {
        let context = self.context;
        let answer = self.call(calls::VFUN_NIC_GID, |w| {
            w.name(context);
            w.u32(0);
        });
        answer.expect("an address").try_into().expect("sixteen bytes")
    }

    /// Tells the NIC of what was posted.
    pub fn tell(&mut self, qp: &ProgramQp) {
        if self.bells.posted(qp.bell) {
            self.sides.ring_nic();
        }
    }

    /// Posts a send, and rings if it must.
    pub fn post(&mut self, qp: &mut ProgramQp, head: &SendHead, body: SendBody<'_>) {
        qp.sends.post_send(head, body).expect("room");
        self.tell(qp);
    }

    /// Posts a receive, and rings if it must.
    pub fn receive(&mut self, qp: &mut ProgramQp, entry: &ReceiveEntry) {
        let receives = qp.receives.as_mut().expect("its own");
        receives.post_receive(entry).expect("room");
        if self.bells.posted_receive(qp.bell, receives) {
            self.sides.ring_nic();
        }
    }

    /// Waits for an asynchronous event: kind, about, number. A call of the remoting core waits
    /// for it already if `opened`.
    pub fn event(&mut self) -> (u32, u32, u32) {
        assert_eq!(self.trial.make(numbers::EVENTS, |_| ()), Heard::Open);
        let answer = wait_for("an event", || self.trial.events().pop());
        let answer = answer.expect("events");
        let record = Records::new(&answer[HEAD_BYTES..]).next().expect("one").expect("good");
        assert_eq!(record.call, 64);
        let mut r = Reader::new(record.body);
        let mut number = || r.u32().expect("a number");
        (number(), number(), number())
    }

    pub fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory[0].read(at as usize, &mut bytes).expect("inside");
        bytes
    }
}

/// Attributes of a queue pair with this peer, by its number and its address.
pub fn attr_to((dest_qpn, lid): (u32, u16)) -> vfun_nic_qp_attr {
    vfun_nic_qp_attr {
        path: vfun_nic_path {
            gid: [0; 16],
            flow_label: 0,
            lid,
            is_global: 0,
            sgid_index: 0,
            hop_limit: 0,
            traffic_class: 0,
            sl: 0,
            src_path_bits: 0,
            static_rate: 0,
            port: 1,
        },
        state: 0,
        current_state: 0,
        path_mtu: 5,
        qkey: 0,
        rq_psn: 0,
        sq_psn: 0,
        dest_qpn,
        access: access::ALL,
        pkey_index: 0,
        port: 1,
        sqd_notify: 0,
        sq_draining: 0,
        reads: 1,
        reads_of_peer: 1,
        min_rnr_timer: 12,
        timeout: 14,
        retry_count: 7,
        rnr_retry: 7,
        reserved: 0,
    }
}

/// A write of what `from` says to an address of the peer.
pub fn write(wr_id: u64, addr: u64, key: u32) -> SendHead {
    let flags = vfun_verbs::flags::send::SIGNALED;
    SendHead { op: SendOpcode::Write, flags, imm: 0, key, addr, wr_id }
}

pub fn sge(addr: u64, len: u32, lkey: u32) -> Sge {
    Sge { addr, len, lkey }
}

/// A NIC whose thread runs until this is dropped.
pub struct RunningNic {
    pub nic: Nic,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RunningNic {
    pub fn new() -> RunningNic {
        RunningNic::with(Quota::default())
    }

    /// Where a VM may have no more than this.
    pub fn with(quota: Quota) -> RunningNic {
        let nic = Nic::new("tenant", quota).expect("a bell");
        let thread = Some(nic.start().expect("a thread"));
        RunningNic { nic, thread }
    }
}

impl Drop for RunningNic {
    fn drop(&mut self) {
        self.nic.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ended well");
        }
    }
}

/// Two programs with a connected queue pair each, and a region of all that each lent.
pub struct Pair {
    pub a: Program,
    pub b: Program,
    pub keys: [(Name, u32); 2],
    pub cqs: [ProgramCq; 2],
    pub qps: [ProgramQp; 2],
}

impl Pair {
    pub fn new(nic: &Nic) -> Pair {
        Pair::of(Program::new(nic), Program::new(nic))
    }

    pub fn of(mut a: Program, mut b: Program) -> Pair {
        let keys = [&mut a, &mut b].map(|p| p.region(0, LENT as u64, access::ALL));
        let cqs = [&mut a, &mut b].map(|p| p.cq(64));
        let qps = [
            a.qp(QpType::Rc, [&cqs[0], &cqs[0]], Name::NONE),
            b.qp(QpType::Rc, [&cqs[1], &cqs[1]], Name::NONE),
        ];
        let lids = [a.lid, b.lid];
        a.connect(&qps[0], (qps[1].qpn, lids[1]));
        b.connect(&qps[1], (qps[0].qpn, lids[0]));
        Pair { a, b, keys, cqs, qps }
    }

    /// A writes so many bytes from the beginning of its memory to a place of B's.
    pub fn write(&mut self, wr_id: u64, to: u64, len: u32) {
        let list = [sge(0, len, self.keys[0].1)];
        let head = write(wr_id, to, self.keys[1].1);
        self.a.post(&mut self.qps[0], &head, SendBody::Gather(&list));
    }
}
