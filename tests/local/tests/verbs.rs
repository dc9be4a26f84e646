//! Programs that use the software NIC of their client: control calls over a channel of calls,
//! work and completions over a channel of queues, in one real service.

mod trouble;

use std::sync::atomic::Ordering;
use std::time::Duration;
use vfun::queue::{Consumer, Entry};
use vfun::{BufferRequest, Function, FunctionRequest, OwnedPending, Queues, Session};
use vfun_admin::{Ask, Reply, ServiceRow};
use vfun_remoting::{AnswerHead, CallHead, Name, Reader, Writer, numbers};
use vfun_tests_local::{Stand, programs, repo};
use vfun_verbs::bells::ProgramBells;
use vfun_verbs::completions::Asker;
use vfun_verbs::flags::{access, attribute, send};
use vfun_verbs::{
    Completion, QpState, QpType, SendBody, SendHead, SendOpcode, Sge, Status, WorkProducer,
    WorkShape,
};
use vfun_verbsback::generated::{
    FINGERPRINT, calls, vfun_nic_path, vfun_nic_qp_attr, write_vfun_nic_qp_attr,
};
use vfun_window::WindowMemory;

const PAGE: usize = 4096;
/// Pages of each side of a program's queues, and of its buffer.
const SIDE: u32 = 64;
const LENT: usize = 16;
/// Longest that a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);
const DEPTH: u32 = 16;
const EXTENSION: u32 = 64;

fn stand() -> Stand {
    let program = programs().join("vfun-service-verbs");
    assert!(program.is_file(), "{} is not built: `make build`", program.display());
    let folder = repo().join("services/verbsback/functions");
    Stand::with(&["--functions", folder.to_str().expect("utf-8")])
}

/// What a peer must know of a program's queue pair and of its memory.
#[derive(Clone, Copy)]
struct Peer {
    qpn: u32,
    lid: u16,
    key: u32,
}

/// A program with a queue pair that is ready to be connected.
struct App {
    _session: Session,
    calls: Function,
    queues: Queues,
    buffer: vfun::Buffer,
    _lent: OwnedPending,
    at: Peer,
    bells: ProgramBells<WindowMemory>,
    cq: Consumer<WindowMemory, 64>,
    asker: Asker,
    qp: Name,
    bell: usize,
    sends: WorkProducer<WindowMemory>,
    _receives: WorkProducer<WindowMemory>,
}

/// A call that is answered: what stands behind the status.
fn answered(calls: &Function, call: u16, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![];
    write(&mut Writer::call(&mut bytes, CallHead { sequence: 0, call }));
    let answer = calls.call(&bytes).expect("answered");
    let (head, body) = AnswerHead::split(&answer).expect("a head");
    assert_eq!(head.refusal, None, "call {call}");
    body.to_vec()
}

fn part(queues: &Queues, r: &mut Reader<'_>) -> WindowMemory {
    let mut word = || usize::try_from(r.u64().expect("a number")).expect("inside");
    let (program, program_bytes, nic, nic_bytes) = (word(), word(), word(), word());
    let memory = queues.memory(program..program + program_bytes, nic..nic + nic_bytes);
    let memory = memory.expect("parts lie inside their sides");
    memory.mine().zero();
    memory
}

impl App {
    fn new(stand: &Stand, app: &str) -> App {
        App::of(stand.connect(app))
    }

    fn of(session: Session) -> App {
        let wish = FunctionRequest::new("verbs").cell_bytes(4096).depth(8);
        let calls = session.negotiate(&wish).and_then(|g| g.activate()).expect("calls");
        let wish = FunctionRequest::new("verbs").queues(SIDE, SIDE);
        let grant = session.negotiate(&wish).expect("granted");
        let queues = grant.activate_queues().expect("queues");
        answered(&calls, numbers::HELLO, |w| w.u64(FINGERPRINT));
        let (buffer, lent) = lend(&calls);
        let mut names = 0;
        let (opened, context) = made(&calls, &mut names, calls::VFUN_NIC_OPEN, |w| {
            w.u32(1);
            w.u64(queues.handle());
            queues.token().into_iter().for_each(|half| w.u64(half));
        });
        let mut r = Reader::new(&opened);
        let [program, nic] = [0; 2].map(|_| r.u64().expect("a number") as usize);
        let bells = queues.memory(program..program + PAGE, nic..nic + PAGE).expect("inside");
        let (_, pd) = made(&calls, &mut names, calls::VFUN_NIC_PD_MAKE, |w| w.name(context));
        let runs = [buffer.handle(), 0, LENT as u64].map(u64::to_le_bytes).concat();
        let (key, _) = made(&calls, &mut names, calls::VFUN_NIC_MR_MAKE, |w| {
            w.name(pd);
            w.u64(0);
            w.u64((LENT * PAGE) as u64);
            w.u32(access::ALL);
            w.blob(Some(&runs));
        });
        let (answer, cq_name) = made(&calls, &mut names, calls::VFUN_NIC_CQ_MAKE, |w| {
            w.name(context);
            w.u32(DEPTH);
            w.u32(1);
        });
        let cq = part(&queues, &mut Reader::new(&answer));
        let (answer, qp) = made(&calls, &mut names, calls::VFUN_NIC_QP_MAKE, |w| {
            w.name(pd);
            w.u32(QpType::Rc.to_wire().into());
            [0, DEPTH, EXTENSION, DEPTH, EXTENSION].into_iter().for_each(|n| w.u32(n));
            [cq_name, cq_name, Name::NONE].into_iter().for_each(|name| w.name(name));
        });
        let mut r = Reader::new(&answer);
        let shape = WorkShape::new(DEPTH, EXTENSION).expect("a shape");
        let [sends, receives] =
            [0; 2].map(|_| WorkProducer::new(part(&queues, &mut r), shape).expect("a shape"));
        let (qpn, bell) = (r.u32().expect("a number"), r.u32().expect("a bit") as usize);
        let port = answered(&calls, calls::VFUN_NIC_PORT, |w| w.name(context));
        // The status, and eleven numbers.
        let lid = Reader::new(&port[12 * 8..]).u16().expect("a number");
        let key = Reader::new(&key).u32().expect("a key");
        App {
            at: Peer { qpn, lid, key },
            bells: ProgramBells::new(bells),
            cq: Consumer::new(cq, DEPTH).expect("a shape"),
            asker: Asker::new(),
            qp,
            bell,
            sends,
            _receives: receives,
            buffer,
            _lent: lent,
            queues,
            calls,
            _session: session,
        }
    }

    fn connect(&self, peer: Peer) {
        use attribute::*;
        let steps = [
            (QpState::Init, PKEY_INDEX | PORT | ACCESS_FLAGS),
            (QpState::Rtr, AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER),
            (QpState::Rts, TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC),
        ];
        for (state, mask) in steps {
            let attr = vfun_nic_qp_attr { state: state.to_wire().into(), ..attr_to(peer) };
            let body = answered(&self.calls, calls::VFUN_NIC_QP_MODIFY, |w| {
                w.name(self.qp);
                w.u32(STATE | mask);
                write_vfun_nic_qp_attr(w, &attr);
            });
            assert_eq!(Reader::new(&body).i32(), Ok(0), "to {state}");
        }
    }

    /// Writes `len` bytes from the beginning of this program's buffer to a place in the peer's.
    fn write(&mut self, wr_id: u64, peer: Peer, to: usize, len: usize) {
        let (flags, op) = (send::SIGNALED, SendOpcode::Write);
        let head = SendHead { op, flags, imm: 0, key: peer.key, addr: to as u64, wr_id };
        let from = Sge { addr: 0, len: len as u32, lkey: self.at.key };
        self.sends.post_send(&head, SendBody::Gather(&[from])).expect("room");
        if self.bells.posted(self.bell) {
            self.queues.ring();
        }
    }

    /// Whether one more may be posted.
    fn has_room(&mut self) -> bool {
        self.sends.queue().room(1).is_ok_and(|room| room > 0)
    }

    fn poll(&mut self) -> Option<Completion> {
        let mut one = [Entry::default(); 1];
        let got = self.cq.consume(&mut one).expect("a good queue");
        (got == 1).then(|| Completion::of(&one[0]).expect("it makes sense"))
    }

    /// Asks for an event, sleeps until it comes, and takes the completion.
    fn wait(&mut self) -> Completion {
        self.try_wait().expect("a good channel")
    }

    /// The same; what the channel's end says if it has ended.
    fn try_wait(&mut self) -> Result<Completion, vfun::Error> {
        self.asker.ask(&self.cq, false);
        loop {
            if let Some(done) = self.poll() {
                return Ok(done);
            }
            let (asker, cq) = (&mut self.asker, &self.cq);
            let came = self.queues.wait(Some(PATIENCE), || asker.take(cq))?;
            assert!(came, "no event came");
        }
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.buffer.write(at, bytes).expect("inside");
    }

    fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        let mut got = vec![0; len];
        self.buffer.read(at, &mut got).expect("inside");
        got
    }
}

/// A new buffer that the NIC may use.
fn lend(calls: &Function) -> (vfun::Buffer, OwnedPending) {
    let buffer = calls.buffer(BufferRequest::new(LENT * PAGE)).expect("a buffer");
    let mut bytes = vec![];
    let head = CallHead { sequence: 0, call: numbers::ATTACH };
    Writer::call(&mut bytes, head).u64(buffer.handle());
    let lent = calls.submit_parts(&[&bytes[..]]).expect("posted");
    let is_there = || {
        let answer = answered(calls, numbers::ATTACHED, |w| w.u64(buffer.handle()));
        Reader::new(&answer).bool() == Ok(true)
    };
    assert!((0..10_000).any(|_| is_there()), "the NIC took no buffer");
    (buffer, lent)
}

/// A call that makes an object: what stands behind the status, and the object's name.
fn made(
    calls: &Function,
    names: &mut usize,
    call: u16,
    write: impl FnOnce(&mut Writer<'_>),
) -> (Vec<u8>, Name) {
    let name = Name::new(*names, 1);
    *names += 1;
    let body = answered(calls, call, |w| {
        write(w);
        w.name(name);
    });
    assert_eq!(Reader::new(&body).i32(), Ok(0), "call {call}");
    (body[8..].to_vec(), name)
}

fn attr_to(peer: Peer) -> vfun_nic_qp_attr {
    vfun_nic_qp_attr {
        path: vfun_nic_path {
            gid: [0; 16],
            flow_label: 0,
            lid: peer.lid,
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
        dest_qpn: peer.qpn,
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

/// The services that are NICs.
fn nics(stand: &Stand) -> Vec<ServiceRow> {
    let Reply::Services { services } = stand.ask(&Ask::Services) else { panic!("services") };
    services.into_iter().filter(|s| s.function == "verbs").collect()
}

fn pair(stand: &Stand) -> (App, App) {
    let (a, b) = (App::new(stand, "one"), App::new(stand, "two"));
    a.connect(b.at);
    b.connect(a.at);
    (a, b)
}

#[test]
fn two_programs_of_a_client_write_to_each_other() {
    let stand = stand();
    let (mut a, mut b) = pair(&stand);
    for round in 0..200u64 {
        a.put(0, &round.to_le_bytes());
        a.write(round, b.at, 8192, 8);
        let done = a.wait();
        assert_eq!((done.wr_id, done.status), (round, Status::Success));
        assert_eq!(b.bytes(8192, 8), round.to_le_bytes());
        b.put(0, &(round * 3).to_le_bytes());
        b.write(round, a.at, 4096, 8);
        assert_eq!(b.wait().status, Status::Success);
        assert_eq!(a.bytes(4096, 8), (round * 3).to_le_bytes());
    }
    let all: Vec<u8> = (0..LENT * PAGE).map(|i| (i % 251) as u8).collect();
    a.put(0, &all);
    a.write(1, b.at, 0, all.len());
    assert_eq!(a.wait().status, Status::Success);
    assert!(b.bytes(0, all.len()) == all, "a large write arrives whole");
}

#[test]
fn a_nic_that_sleeps_is_woken_and_wakes_its_program() {
    let stand = stand();
    let (mut a, b) = pair(&stand);
    let bells = a.queues.memory(PAGE..2 * PAGE, PAGE..2 * PAGE).expect("inside");
    for round in 0..20 {
        let sleeps = || bells.theirs().load(vfun_verbs::bells::SLEEPS, Ordering::SeqCst) != 0;
        stand.until("the NIC sleeps", |_| sleeps());
        a.write(round, b.at, 0, 64);
        assert_eq!(a.wait().wr_id, round);
    }
}

#[test]
fn another_clients_programs_are_not_reached() {
    let stand = stand();
    stand.add_client("name = \"other\"\nkind = \"host\"\n").expect("a second client");
    let mut mine = App::new(&stand, "mine");
    let theirs = App::of(stand.options("theirs").client("other").connect().expect("connected"));
    mine.connect(theirs.at);
    theirs.connect(mine.at);
    mine.write(1, theirs.at, 0, 8);
    assert_eq!(mine.wait().status, Status::RetryExceeded);
    assert_eq!(theirs.bytes(0, 8), [0; 8]);
    assert_eq!(nics(&stand).len(), 2);
}
