//! A manager and its services as threads, over a real window, for tests: an
//! honest one, and one whose every answer a test may spoil.
#![allow(dead_code)]

mod gateway;
mod service;

#[allow(unused_imports)]
pub use gateway::{Gateway, SpoilFrame};

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun::{BreakReason, ConnectOptions, Endpoint, Features, Nack, NackCode};
use vfun_window::{Access, Bell, BellWaiter, Mapping, WriteSpan, fdpass, memfd};
use vfun_wire::attach::{ATTACH_MAGIC, Attach, AttachAck};
use vfun_wire::channel::{in_header, side_bytes};
use vfun_wire::control::*;
use vfun_wire::header::*;
use vfun_wire::kind::{Calls, CallsShape, ChannelKind, Shape};
use vfun_wire::limits::*;
use vfun_wire::message::*;
use vfun_wire::names;
use vfun_wire::place::ChannelPlace;
use vfun_wire::queues::QueuesShape;
use vfun_wire::range::{Access as Writes, Range};
use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// An answer on its way, for a test to spoil.
pub struct Reply {
    pub request: u16,
    pub seq: u32,
    pub kind: u16,
    pub body: Vec<u8>,
    /// Claimed instead of the body's length.
    pub len: Option<u16>,
    pub generation: u64,
    /// Not sent at all.
    pub swallow: bool,
}

pub type Spoil = Arc<dyn Fn(&mut Reply) + Send + Sync>;
pub type SpoilAttach = Arc<dyn Fn(&mut AttachAck, &mut usize) + Send + Sync>;

#[derive(Clone)]
pub struct Setup {
    pub doorbell: bool,
    /// By a made-up PCI device, whose registers ring the host if there is a doorbell.
    pub pci: bool,
    pub heartbeat_ms: u32,
    pub window_bytes: u64,
    pub deadline_ms: u32,
    pub spoil: Option<Spoil>,
    /// The answer to attach, and how many descriptors come along.
    pub spoil_attach: Option<SpoilAttach>,
    /// Functions beyond the built-in ones, for lists.
    pub more_functions: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            doorbell: true,
            pci: false,
            heartbeat_ms: 0,
            window_bytes: 16 << 20,
            deadline_ms: 60_000,
            spoil: None,
            spoil_attach: None,
            more_functions: 0,
        }
    }
}

/// The manager's side. Ends its threads when dropped.
pub struct Fake {
    pub host: Arc<Host>,
    dir: tempfile::TempDir,
    threads: Vec<JoinHandle<()>>,
}

pub struct Host {
    pub setup: Setup,
    pub window: WriteSpan,
    pub fd: OwnedFd,
    pub to_host: Vec<Bell>,
    pub to_app: Vec<Bell>,
    pub stop: AtomicBool,
    /// The manager does not look while this is set.
    pub hung: AtomicBool,
    /// Held calls are answered at once while this is set.
    pub let_go: AtomicBool,
    /// Services do not serve while this is set.
    pub idle_services: AtomicBool,
    pub served: AtomicU64,
    /// Rings that came through the device's registers.
    pub rings: AtomicU64,
    pub goodbyes: AtomicU32,
    pub releases: AtomicU32,
    pub heap: AtomicU64,
    pub grants: Mutex<Vec<(u64, Negotiate)>>,
    pub places: Mutex<Vec<(u64, ChannelPlace)>>,
    pub services: Mutex<Vec<Running>>,
    /// Whose each grant is: the session's handle.
    pub owners: Mutex<Vec<u64>>,
    /// Pages that were given back, and how many: they are given out again first.
    pub free: Mutex<Vec<(u64, u64)>>,
    /// Buffers that apps have, with what was asked, and how many there ever were.
    pub buffers: Mutex<Vec<(u64, BufferGet, Range)>>,
    pub buffers_given: AtomicU64,
    pub questions: Mutex<Vec<Attach>>,
    pub hellos: Mutex<Vec<Hello>>,
    peers: Mutex<Vec<UnixStream>>,
}

/// A service's thread, and what ends it.
pub struct Running {
    grant: u64,
    end: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

pub const GENERATION: u64 = 7;
pub const FUNCTIONS: [&str; 2] = ["echo", "floor"];

impl Fake {
    pub fn new(setup: Setup) -> Fake {
        let bells = || (0..VECTORS).map(|_| Bell::new().unwrap()).collect::<Vec<_>>();
        let dir = tempfile::tempdir().unwrap();
        // A VM's window is a file; it also serves as the BAR of a made-up device.
        let pci = setup.pci || !setup.doorbell;
        let fd = if !pci {
            memfd("window", setup.window_bytes).unwrap()
        } else {
            let path = dir.path().join("pci/0000:00:04.0");
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("vendor"), "0x1af4\n").unwrap();
            std::fs::write(path.join("device"), "0x1110\n").unwrap();
            // The registers lie in the middle of their page.
            let text = "0x00000000febf1100 0x00000000febf11ff 0x0000000000040200\n";
            std::fs::write(path.join("resource"), text).unwrap();
            std::fs::write(path.join("resource0"), vec![0xff; 4096]).unwrap();
            let mut o = std::fs::OpenOptions::new();
            o.read(true).write(true).create(true).truncate(true);
            let file = o.open(path.join("resource2")).unwrap();
            file.set_len(setup.window_bytes).unwrap();
            file.into()
        };
        let map = Mapping::new(&fd, 0, setup.window_bytes as usize, Access::ReadWrite).unwrap();
        let window = map.write().unwrap();
        lay_out(&window, &setup, GENERATION);
        let host = Arc::new(Host {
            window,
            fd,
            to_host: bells(),
            to_app: bells(),
            setup,
            stop: AtomicBool::new(false),
            hung: AtomicBool::new(false),
            let_go: AtomicBool::new(false),
            idle_services: AtomicBool::new(false),
            served: AtomicU64::new(0),
            rings: AtomicU64::new(0),
            goodbyes: AtomicU32::new(0),
            releases: AtomicU32::new(0),
            heap: AtomicU64::new(HEAP_OFF as u64),
            grants: Mutex::default(),
            places: Mutex::default(),
            services: Mutex::default(),
            owners: Mutex::default(),
            free: Mutex::default(),
            buffers: Mutex::default(),
            buffers_given: AtomicU64::new(0),
            questions: Mutex::default(),
            hellos: Mutex::default(),
            peers: Mutex::default(),
        });
        let listener = UnixListener::bind(dir.path().join("host.sock")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (a, b) = (host.clone(), host.clone());
        let mut threads = vec![
            std::thread::spawn(move || a.accept(listener)),
            std::thread::spawn(move || b.control()),
        ];
        if pci {
            let host = host.clone();
            let path = dir.path().join("pci/0000:00:04.0/resource0");
            let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
            threads.push(std::thread::spawn(move || host.device(&file)));
        }
        Fake { host, dir, threads }
    }

    pub fn honest() -> Fake {
        Fake::new(Setup::default())
    }

    pub fn spoiled(spoil: impl Fn(&mut Reply) + Send + Sync + 'static) -> Fake {
        Fake::new(Setup { spoil: Some(Arc::new(spoil)), ..Setup::default() })
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("host.sock")
    }
    pub fn pci(&self) -> PathBuf {
        self.dir.path().join("pci")
    }

    /// Options that lead here: by the socket, or (without a doorbell) by PCI.
    pub fn options(&self) -> ConnectOptions {
        let options = ConnectOptions::new("test");
        match self.host.setup.doorbell && !self.host.setup.pci {
            true => options.endpoint(Endpoint::Host(Some(self.socket()))),
            false => options.endpoint(Endpoint::Ivshmem(None)).pci_devices(self.pci()),
        }
    }

    pub fn connect(&self) -> vfun::Session {
        self.options().connect().unwrap()
    }

    /// The manager dies; services live on.
    pub fn kill_manager(&mut self) {
        self.host.hung.store(true, Ordering::SeqCst);
        self.host.peers.lock().unwrap().clear();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.host.stop.store(true, Ordering::SeqCst);
        for bell in &self.host.to_host {
            bell.ring();
        }
        let services = std::mem::take(&mut *self.host.services.lock().unwrap());
        for t in self.threads.drain(..).chain(services.into_iter().map(|s| s.thread)) {
            t.join().unwrap();
        }
    }
}

pub fn lay_out(window: &WriteSpan, setup: &Setup, generation: u64) {
    window.part(0, HEAP_OFF).unwrap().zero();
    let features = match setup.doorbell {
        true => Features::OFFERED,
        false => Features(Features::OFFERED.0 & !Features::DOORBELL.0),
    };
    let client = names::encode("vm1").unwrap();
    let header = WindowHeader::new(setup.window_bytes, generation, features, 3, client);
    window.write(8, &header.as_bytes()[8..]).unwrap();
    window.store(HOST_STATE_OFF / 8, u64::from(host_state::SERVING), Ordering::Relaxed);
    window.store(HOST_SLEEPS_OFF / 8, setup.doorbell.into(), Ordering::Relaxed);
    window.store(0, MAGIC, Ordering::Release);
}

impl Host {
    /// Has all services answer the calls that they hold.
    pub fn let_go(&self) {
        self.let_go.store(true, Ordering::SeqCst);
        self.to_host.iter().for_each(Bell::ring);
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The device: passes on what is written to its doorbell register.
    fn device(&self, registers: &std::fs::File) {
        let page = Mapping::new(registers, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
        let word = (0x100 + vfun_wire::ivshmem::REG_DOORBELL) / 8;
        let none = page.load(word, Ordering::Relaxed);
        while !self.stopped() {
            std::thread::sleep(Duration::from_micros(200));
            let written = page.load(word, Ordering::Acquire);
            if written == none {
                continue;
            }
            page.store(word, none, Ordering::Release);
            // The upper half of the word: peer and vector.
            let (peer, vector) = (written >> 48, (written >> 32) as u16);
            assert_eq!(peer, 0, "the host is peer 0");
            self.rings.fetch_add(1, Ordering::Relaxed);
            self.to_host[usize::from(vector)].ring();
        }
    }

    fn accept(&self, listener: UnixListener) {
        while !self.stopped() {
            let Ok((socket, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            socket.set_nonblocking(false).unwrap();
            let mut raw = [0; size_of::<Attach>()];
            let (n, _) = fdpass::receive(&socket, &mut raw).unwrap();
            assert_eq!(n, raw.len());
            self.questions.lock().unwrap().push(Attach::read_from_bytes(&raw).unwrap());
            let mut ack = AttachAck::new_zeroed();
            ack.magic = U64::new(ATTACH_MAGIC);
            ack.vectors = U16::new(if self.setup.doorbell { VECTORS } else { 0 });
            ack.window_bytes = U64::new(self.setup.window_bytes);
            let mut fds = vec![self.fd.as_fd()];
            if self.setup.doorbell {
                fds.extend(self.to_host.iter().chain(&self.to_app).map(|b| b.as_fd()));
            }
            let mut count = fds.len();
            if let Some(spoil) = &self.setup.spoil_attach {
                spoil(&mut ack, &mut count);
            }
            if count == usize::MAX {
                continue; // hangs up without a word
            }
            // Kept first: with the answer a test goes on, and may kill the manager.
            let mut peers = self.peers.lock().unwrap();
            fdpass::send(&socket, ack.as_bytes(), &fds[..count]).unwrap();
            peers.push(socket);
        }
    }

    fn control(self: Arc<Self>) {
        let mut taken = [0u32; CONTROL_CELLS];
        let waiter = BellWaiter::new(&self.to_host[0]).unwrap();
        let mut beat = 0;
        while !self.stopped() {
            match self.setup.doorbell {
                true => drop(waiter.wait(Some(Duration::from_millis(100))).unwrap()),
                false => std::thread::sleep(Duration::from_micros(500)),
            }
            if self.hung.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            if !self.setup.doorbell {
                beat += 1;
                self.window.store(HOST_BEAT_OFF / 8, beat, Ordering::Relaxed);
            }
            for (cell, taken) in taken.iter_mut().enumerate() {
                let at = request_off(cell) / 8;
                let posted = Posted::unpack(self.window.load(at + WORD_POSTED, Ordering::Acquire));
                if posted.seq == *taken {
                    continue;
                }
                assert_eq!(posted.seq, taken.wrapping_add(1), "the library posts in order");
                *taken = posted.seq;
                let session = self.window.load(at + WORD_SESSION, Ordering::Relaxed);
                let mut body = vec![0; posted.len.into()];
                self.window.read(at * 8 + 64, &mut body).unwrap();
                let result = self.serve(posted.kind, session, &body);
                self.answer(cell, posted, result);
            }
        }
    }

    fn answer(&self, cell: usize, posted: Posted, result: Result<Vec<u8>, Nack>) {
        let (kind, body) = match result {
            Ok(body) => (ANSWER_ACK, body),
            Err(nack) => (ANSWER_NACK, nack.encode().as_bytes().to_vec()),
        };
        let mut r = Reply {
            request: posted.kind,
            seq: posted.seq,
            kind,
            body,
            len: None,
            generation: GENERATION,
            swallow: false,
        };
        if let Some(spoil) = &self.setup.spoil {
            spoil(&mut r);
        }
        if r.swallow {
            return;
        }
        let at = answer_off(cell);
        self.window.write(at + 64, &r.body).unwrap();
        self.window.store(at / 8 + WORD_GENERATION, r.generation, Ordering::Relaxed);
        let len = r.len.unwrap_or(r.body.len() as u16);
        let word = Posted { seq: r.seq, kind: r.kind, len }.pack();
        self.window.store(at / 8 + WORD_ANSWERED, word, Ordering::Release);
        self.served.fetch_add(1, Ordering::Relaxed);
        self.to_app[0].ring();
    }

    /// Serves a request; the gateway uses this too.
    pub fn serve(self: &Arc<Self>, kind: u16, session: u64, body: &[u8]) -> Result<Vec<u8>, Nack> {
        let kind = Kind::from_wire(kind).expect("a known kind");
        assert_eq!(body.len(), row(kind).request_bytes, "{kind}");
        assert_eq!(session == 0, kind == Kind::Hello, "the session's handle in {kind}");
        match kind {
            Kind::Hello => Ok(self.hello(body)),
            Kind::Negotiate => {
                let ack = self.negotiate(body)?;
                self.owners.lock().unwrap().push(session);
                Ok(ack)
            }
            Kind::Activate => self.activate(OfGrant::read_from_bytes(body).unwrap().grant.get()),
            Kind::Release | Kind::Stats => {
                if kind == Kind::Release {
                    self.releases.fetch_add(1, Ordering::SeqCst);
                    let grant = OfGrant::read_from_bytes(body).unwrap().grant.get();
                    self.give_back(grant);
                    self.end_buffers(|b| b.1.grant.get() == grant);
                }
                let mut stats = Stats::new_zeroed();
                stats.calls = U64::new(42);
                stats.age_ms = U64::new(1500);
                Ok(stats.as_bytes().to_vec())
            }
            Kind::List => Ok(self.list(List::read_from_bytes(body).unwrap().start.get())),
            Kind::Codes => Ok(codes(Codes::read_from_bytes(body).unwrap().start.get())),
            Kind::Goodbye | Kind::KeepAlive => {
                if kind == Kind::Goodbye {
                    self.goodbyes.fetch_add(1, Ordering::SeqCst);
                    let owners = self.owners.lock().unwrap().clone();
                    (1..).zip(owners).filter(|o| o.1 == session).for_each(|o| self.give_back(o.0));
                    self.end_buffers(|_| true);
                }
                Ok(vec![0; 8])
            }
            Kind::BufferGet => self.buffer_get(&BufferGet::read_from_bytes(body).unwrap()),
            Kind::BufferPut => {
                let handle = BufferPut::read_from_bytes(body).unwrap().buffer.get();
                match self.end_buffers(|b| b.0 == handle) {
                    0 => Err(Nack::new(NackCode::Stale, "it is gone")),
                    _ => Ok(vec![0; 8]),
                }
            }
            other => Err(Nack::new(NackCode::Unsupported, other.text())),
        }
    }

    fn buffer_get(&self, asked: &BufferGet) -> Result<Vec<u8>, Nack> {
        let (bytes, align) = (asked.bytes.get().next_multiple_of(4096), asked.align.get());
        if asked.flags.get() == BUFFER_CONTIGUOUS && bytes > 2 << 20 {
            return Err(Nack::new(NackCode::BeyondLimit, "2 MiB at most are contiguous"));
        }
        let mut free = self.free.lock().unwrap();
        let fits = |f: &(u64, u64)| f.1 == bytes && f.0.is_multiple_of(align);
        let at = match free.iter().position(fits) {
            Some(i) => free.remove(i).0,
            None => self.heap.load(Ordering::SeqCst).next_multiple_of(align),
        };
        if at + bytes > self.setup.window_bytes {
            return Err(Nack::new(NackCode::NoCapacity, "the window is full"));
        }
        self.heap.fetch_max(at + bytes, Ordering::SeqCst);
        self.window.part(at as usize, bytes as usize).unwrap().zero();
        let handle = 0xb000 + self.buffers_given.fetch_add(1, Ordering::SeqCst);
        let range = Range::new(0, Writes::Both, at, bytes);
        self.buffers.lock().unwrap().push((handle, *asked, range));
        Ok(BufferAck { buffer: U64::new(handle), range }.as_bytes().to_vec())
    }

    /// Takes buffers back, and gives their pages to the next; how many they were.
    pub fn end_buffers(&self, which: impl Fn(&(u64, BufferGet, Range)) -> bool) -> usize {
        let mut buffers = self.buffers.lock().unwrap();
        let (over, left): (Vec<_>, Vec<_>) = buffers.drain(..).partition(which);
        *buffers = left;
        let pages = over.iter().map(|b| (b.2.offset.get(), b.2.bytes.get()));
        self.free.lock().unwrap().extend(pages);
        over.len()
    }

    fn hello(&self, body: &[u8]) -> Vec<u8> {
        let hello = Hello::read_from_bytes(body).unwrap();
        let mut all = self.hellos.lock().unwrap();
        all.push(hello);
        let mut ack = HelloAck::new_zeroed();
        ack.version = U16::new(2);
        ack.session_line = U16::new(all.len() as u16 - 1);
        ack.client_id = U32::new(3);
        ack.features = hello.features;
        ack.session = U64::new(0x1_0000_0000 + all.len() as u64);
        ack.heartbeat_ms = U32::new(self.setup.heartbeat_ms);
        ack.app_id = U32::new(9);
        ack.client = names::encode("vm1").unwrap();
        ack.as_bytes().to_vec()
    }

    fn negotiate(&self, body: &[u8]) -> Result<Vec<u8>, Nack> {
        let n = Negotiate::read_from_bytes(body).unwrap();
        let name = names::decode(&n.function).unwrap();
        if !FUNCTIONS.contains(&name) && name != "factorial" {
            return Err(Nack::new(
                NackCode::UnknownFunction,
                format!("no function '{name}' is offered"),
            ));
        }
        if n.preference == Preference::Hardware.to_wire() {
            return Err(Nack::new(NackCode::DeviceBusy, "all are taken").offering_software());
        }
        let mut n = n;
        if n.kind.get() != ChannelKind::Queues.to_wire() {
            n.shape = cells(&n.shape);
        }
        let mut ack = NegotiateAck::new_zeroed();
        let mut grants = self.grants.lock().unwrap();
        ack.grant = U64::new(grants.len() as u64 + 1);
        ack.function_id = U32::new(5);
        ack.version = U32::new(0x1_0002);
        ack.location = Location::Software.to_wire();
        ack.kind = n.kind;
        ack.shape = n.shape;
        ack.deadline_ms = U32::new(if n.deadline_ms.get() == 0 {
            self.setup.deadline_ms
        } else {
            n.deadline_ms.get()
        });
        grants.push((ack.grant.get(), n));
        Ok(ack.as_bytes().to_vec())
    }

    fn activate(self: &Arc<Self>, grant: u64) -> Result<Vec<u8>, Nack> {
        let n = self.grants.lock().unwrap()[grant as usize - 1].1;
        if n.kind.get() == ChannelKind::Queues.to_wire() {
            return Ok(self.lay_queues_out(grant, &n.shape));
        }
        let shape = CallsShape::read(&n.shape).unwrap();
        let (depth, cell_bytes) = (shape.depth.get(), shape.cell_bytes.get());
        let side = side_bytes(depth, cell_bytes).unwrap();
        let mut free = self.free.lock().unwrap();
        let at = match free.iter().position(|f| f.1 == side) {
            Some(i) => free.remove(i).0,
            None => self.heap.fetch_add(2 * side, Ordering::SeqCst),
        };
        if at + 2 * side > self.setup.window_bytes {
            return Err(Nack::new(NackCode::NoCapacity, "the window is full"));
        }
        self.window.part(at as usize, 2 * side as usize).unwrap().zero();
        // A bell of its own for each service, while there are some: two on one bell
        // wake each other. Bell 0 is the manager's.
        let mut places = self.places.lock().unwrap();
        let vector_out = 1 + places.len() as u16 % (VECTORS - 1);
        let calls = Calls { dataout: at, datain: at + side, side_bytes: side, depth, cell_bytes };
        let kind = ChannelKind::from_wire(n.kind.get()).unwrap();
        let place = calls.place(kind, (vector_out, 2)).unwrap();
        places.push((grant, place));
        let (host, factorial) = (self.clone(), names::decode(&n.function) == Ok("factorial"));
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let run = move || service::run(&host, &place, factorial, &ended);
        self.services.lock().unwrap().push(Running { grant, end, thread: std::thread::spawn(run) });
        Ok(place.ack(grant))
    }

    /// A channel of queues, of which the test plays the service.
    fn lay_queues_out(&self, grant: u64, shape: &Shape) -> Vec<u8> {
        let s = QueuesShape::read(shape).unwrap();
        let [program, host] = [s.program_pages, s.host_pages].map(|n| u64::from(n.get()) << 12);
        let at = self.heap.fetch_add(program + host, Ordering::SeqCst);
        let ranges = [
            Range::new(0, Writes::AppWrites, at, program),
            Range::new(0, Writes::HostWrites, at + program, host),
        ];
        let place = ChannelPlace::new(ChannelKind::Queues, *shape, (1, 2), &ranges).unwrap();
        self.places.lock().unwrap().push((grant, place));
        place.ack(grant)
    }

    /// Gives a channel's pages to whoever asks next.
    fn give_back(&self, grant: u64) {
        let place = self.places.lock().unwrap().iter().find(|p| p.0 == grant).map(|p| p.1);
        let mut services = self.services.lock().unwrap();
        let service = services.iter().position(|s| s.grant == grant);
        let (Some(g), Some(service)) = (place, service) else { return };
        let service = services.remove(service);
        service.end.store(true, Ordering::SeqCst);
        self.to_host[usize::from(g.vector_out())].ring();
        service.thread.join().unwrap();
        let broken = g.head().offset.get() as usize / 8 + in_header::BROKEN;
        let released = u64::from(BreakReason::Released.to_wire());
        self.window.store(broken, released, Ordering::Release);
        self.to_app[usize::from(g.vector_in())].ring();
        self.free.lock().unwrap().push((Calls::of(&g).unwrap().dataout, g.head().bytes.get()));
    }

    fn list(&self, start: u32) -> Vec<u8> {
        let mut names: Vec<String> = FUNCTIONS.iter().map(|s| s.to_string()).collect();
        names.extend((0..self.setup.more_functions).map(|i| format!("f{i}")));
        let part: Vec<_> = names.iter().skip(start as usize).take(LIST_ENTRIES).collect();
        let head =
            ListAck { count: U32::new(part.len() as u32), total: U32::new(names.len() as u32) };
        let mut body = head.as_bytes().to_vec();
        for name in part {
            let mut e = ListEntry::new_zeroed();
            e.function = vfun_wire::names::encode(name).unwrap();
            e.version = U32::new(0x1_0000);
            e.locations = U32::new(1 << 1 | 1 << 3 | 1 << 31);
            body.extend_from_slice(e.as_bytes());
        }
        body
    }
}

/// The shape that is granted, with the defaults of what is left out.
fn cells(asked: &Shape) -> Shape {
    let asked = CallsShape::read(asked).unwrap();
    let depth = if asked.depth.get() == 0 { DEPTH_DEFAULT } else { asked.depth.get() };
    let cell_bytes = match asked.cell_bytes.get() {
        u32::MAX => CELL_BYTES_DEFAULT,
        bytes => bytes.next_multiple_of(64),
    };
    CallsShape::new(depth, cell_bytes).shape()
}

/// Two codes, one an answer.
fn codes(start: u32) -> Vec<u8> {
    let all = [(-3, "too short"), (7, "too late")];
    let head = ListAck { count: U32::new(1), total: U32::new(2) };
    let (code, text) = all[start as usize];
    let mut entry = CodeEntry { code: I32::new(code), ..CodeEntry::new_zeroed() };
    entry.meaning[..text.len()].copy_from_slice(text.as_bytes());
    [head.as_bytes(), entry.as_bytes()].concat()
}
