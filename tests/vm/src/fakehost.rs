//! A host of one doorbell device, small enough to be made to lie: it speaks
//! QEMU's ivshmem protocol, lays a window out, and answers control requests and
//! calls either well or with nonsense.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun_rim::window::{Bells, HostWindow, RawRequest};
use vfun_testguest::Doorbell;
use vfun_window::{Access, Bell, Mapping, WriteSpan, fdpass, memfd};
use vfun_wire::channel::{Word0, in_header, line_off, side_bytes};
use vfun_wire::control::{ANSWER_BODY, WORD_ANSWERED, WORD_GENERATION, answer_off};
use vfun_wire::header::{ANSWERS_OFF, HEAP_OFF, HOST_STATE_OFF, SESSIONS_OFF, WindowHeader};
use vfun_wire::limits::{HEARTBEAT_MS, SESSIONS};
use vfun_wire::message::{HelloAck, Kind, Negotiate, NegotiateAck};
use vfun_wire::version::Features;
use vfun_wire::{LINE, Nack, NackCode, PAGE};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Size of the windows here.
pub const BYTES: u64 = 4 << 20;
/// How often the host looks.
const LOOK: Duration = Duration::from_millis(1);

/// One channel there is room for at a time, in turn: offsets of the sides.
const CHANNELS: u64 = 8;

struct Channel {
    datain: u64,
    dataout: u64,
    last: u32,
    calls: u64,
}

/// What the host answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// What the protocol asks for.
    Sane,
    /// Nothing at all.
    Silent,
    /// Anything, and it writes where it likes while it is read.
    Nonsense,
}

struct Shared {
    memory: WriteSpan,
    to_host: Vec<Bell>,
    to_app: Vec<Bell>,
    mood: Mutex<Mood>,
    lay_out: AtomicBool,
    stop: AtomicBool,
    requests: AtomicU64,
    resets: AtomicU64,
}

/// The host; it ends when dropped.
pub struct FakeHost {
    dir: tempfile::TempDir,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FakeHost {
    /// Serves one device, sanely.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("vfun-").tempdir_in("/dev/shm").expect("shm");
        let listener = UnixListener::bind(dir.path().join("s")).expect("a fresh folder");
        listener.set_nonblocking(true).expect("a socket");
        let fd = memfd("fake", BYTES).expect("memory");
        let map = Mapping::new(&fd, 0, BYTES as usize, Access::ReadWrite).expect("memory");
        let (to_host, to_app) = Bells::new_pair().expect("eventfds");
        let shared = Arc::new(Shared {
            memory: map.write().expect("for writing"),
            to_host: to_host.clone(),
            to_app: to_app.clone(),
            mood: Mutex::new(Mood::Sane),
            lay_out: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            resets: AtomicU64::new(0),
        });
        let fd2 = fd.try_clone().expect("a descriptor");
        let bells = Bells::of_program(to_host, to_app);
        let window = HostWindow::lay_out(fd2, BYTES, 1, 1, "vm1", Some(bells)).expect("memory");
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || {
                Host { shared, window, channels: vec![], next: 0, generation: 1, random: 1 }
                    .run(&listener, &fd)
            }
        });
        FakeHost { dir, shared, thread: Some(thread) }
    }

    /// Where QEMU connects.
    pub fn doorbell(&self) -> Doorbell {
        Doorbell::new(self.socket())
    }
    fn socket(&self) -> PathBuf {
        self.path().join("s")
    }
    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Changes what it answers from now on.
    pub fn mood(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }

    /// Lays the window out anew; returns when it is.
    pub fn lay_out_anew(&self) {
        self.shared.lay_out.store(true, Ordering::SeqCst);
        while self.shared.lay_out.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
        }
    }

    /// Control requests seen, and resets among them.
    pub fn requests(&self) -> (u64, u64) {
        (self.shared.requests.load(Ordering::SeqCst), self.shared.resets.load(Ordering::SeqCst))
    }

    /// How many words of the window have this value.
    pub fn count(&self, value: u64) -> usize {
        let all = self.shared.memory.reader();
        (0..BYTES as usize / 8).filter(|&i| all.load(i, Ordering::Relaxed) == value).count()
    }

    /// The words of the session heartbeats, added up.
    pub fn heartbeats(&self) -> u64 {
        let all = self.shared.memory.reader();
        let at = |i| all.load((SESSIONS_OFF + i * LINE) / 8, Ordering::Relaxed);
        (0..SESSIONS).map(at).fold(0, u64::wrapping_add)
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Host {
    shared: Arc<Shared>,
    window: HostWindow,
    channels: Vec<Channel>,
    next: u64,
    generation: u64,
    random: u64,
}

impl Host {
    fn run(mut self, listener: &UnixListener, fd: &impl AsFd) {
        let mut peers: Vec<UnixStream> = vec![];
        while !self.shared.stop.load(Ordering::SeqCst) {
            if let Ok((stream, _)) = listener.accept() {
                let id = peers.len() as i64 + 1;
                if self.welcome(&stream, id, fd).is_ok() {
                    peers.push(stream);
                }
            }
            if self.shared.lay_out.load(Ordering::SeqCst) {
                self.lay_out(fd);
                self.shared.lay_out.store(false, Ordering::SeqCst);
            }
            let mood = *self.shared.mood.lock().unwrap_or_else(PoisonError::into_inner);
            for request in self.window.requests() {
                self.shared.requests.fetch_add(1, Ordering::SeqCst);
                match mood {
                    Mood::Sane => {
                        let answer = self.answer(&request);
                        self.window.answer(request.cell, request.seq, &answer);
                    }
                    Mood::Silent => {}
                    Mood::Nonsense => self.nonsense(&request),
                }
            }
            match mood {
                Mood::Sane => self.serve(),
                Mood::Silent => {}
                Mood::Nonsense => {
                    self.scribble();
                    // Cells with a wrong number stay stuck otherwise.
                    if self.any().is_multiple_of(200) {
                        self.lay_out(fd);
                    }
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    fn welcome(&self, stream: &UnixStream, id: i64, fd: &impl AsFd) -> std::io::Result<()> {
        let say = |value: i64, fds: &[_]| fdpass::send(stream, &value.to_le_bytes(), fds);
        say(0, &[])?;
        say(id, &[])?;
        say(-1, &[fd.as_fd()])?;
        for bell in &self.shared.to_host {
            say(0, &[bell.as_fd()])?;
        }
        for bell in &self.shared.to_app {
            say(id, &[bell.as_fd()])?;
        }
        Ok(())
    }

    fn lay_out(&mut self, fd: &impl AsFd) {
        self.generation += 1;
        self.channels.clear();
        let (to_host, to_app) = (self.shared.to_host.clone(), self.shared.to_app.clone());
        let bells = Bells::of_program(to_host, to_app);
        let fd = fd.as_fd().try_clone_to_owned().expect("a descriptor");
        self.window =
            HostWindow::lay_out(fd, BYTES, self.generation, 1, "vm1", Some(bells)).expect("memory");
        self.shared.to_app[0].ring();
    }

    /// A number that nobody can foresee, but the same in each run.
    fn any(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn answer(&mut self, r: &RawRequest) -> Result<Vec<u8>, Nack> {
        let body = r.body.as_ref().map_err(Clone::clone)?;
        self.next += 1;
        Ok(match Kind::from_wire(r.kind) {
            Some(Kind::Hello) => {
                let mut ack = HelloAck::new_zeroed();
                ack.version = U16::new(1);
                ack.session_line = U16::new((self.next % SESSIONS as u64) as u16);
                ack.features = U64::new(Features::DOORBELL.0 | Features::MODULE.0);
                ack.session = U64::new(0x100 + self.next);
                ack.heartbeat_ms = U32::new(HEARTBEAT_MS as u32);
                ack.as_bytes().to_vec()
            }
            Some(Kind::Negotiate) => {
                let n = Negotiate::read_from_bytes(body).expect("its size was checked");
                let mut ack = NegotiateAck::new_zeroed();
                ack.grant = U64::new(0x1000 + self.next);
                ack.depth = n.depth;
                ack.cell_bytes = n.cell_bytes;
                ack.location = 1;
                ack.as_bytes().to_vec()
            }
            Some(Kind::Activate) => self.activate(),
            Some(Kind::Release | Kind::Stats) => vec![0; 64],
            Some(Kind::Reset) => {
                self.shared.resets.fetch_add(1, Ordering::SeqCst);
                vec![0; 8]
            }
            Some(Kind::KeepAlive | Kind::Goodbye | Kind::List) => vec![0; 8],
            _ => return Err(Nack::new(NackCode::Unsupported, "not here")),
        })
    }

    /// Channels of 4 cells of 4096 bytes, at one of a few places in turn.
    fn activate(&mut self) -> Vec<u8> {
        let side = side_bytes(4, 4096).expect("possible");
        let dataout = HEAP_OFF as u64 + (self.next % CHANNELS) * 2 * side;
        let datain = dataout + side;
        self.channels.retain(|c| c.dataout != dataout);
        let part = |off| self.shared.memory.part(off as usize, side as usize).expect("inside");
        part(dataout).zero();
        part(datain).zero();
        self.channels.push(Channel { datain, dataout, last: 0, calls: 0 });
        let mut ack: Vec<u8> = vec![];
        ack.extend((0x10000 + self.next).to_le_bytes());
        ack.extend(dataout.to_le_bytes());
        ack.extend(datain.to_le_bytes());
        ack.extend(side.to_le_bytes());
        ack.extend(4096u32.to_le_bytes());
        for n in [4u16, 1, 1, 1] {
            ack.extend(n.to_le_bytes());
        }
        ack.extend(0u32.to_le_bytes());
        ack
    }

    /// Answers what stands in the first cell of each channel.
    fn serve(&mut self) {
        let mut news = false;
        for c in &mut self.channels {
            let memory = &self.shared.memory;
            let at = |off: u64, n| (off as usize + n) / 8;
            let asked =
                Word0::unpack(memory.reader().load(at(c.dataout, line_off(0)), Ordering::Acquire));
            if asked.seq == c.last {
                continue;
            }
            c.last = asked.seq;
            c.calls += 1;
            let done = Word0 { seq: asked.seq, op: 2, flags: 0, reserved: 0 };
            memory.store(at(c.datain, line_off(0)) + 1, 0, Ordering::Relaxed);
            memory.store(at(c.datain, line_off(0)), done.pack(), Ordering::Release);
            memory.store(at(c.datain, 0) + in_header::CALLS, c.calls, Ordering::Release);
            news = true;
        }
        if news {
            self.shared.to_app[1].ring();
        }
    }

    /// An answer with something wrong: any length, number, kind, generation,
    /// and a body that is right, cut, or anything.
    fn nonsense(&mut self, r: &RawRequest) {
        let mut body = self.answer(r).unwrap_or_default();
        for _ in 0..self.any() % 4 {
            if let Some(n) = (self.any() as usize).checked_rem(body.len()) {
                body[n] = self.any() as u8;
            }
        }
        if self.any().is_multiple_of(4) {
            body = (0..self.any() as usize % ANSWER_BODY).map(|_| self.any() as u8).collect();
        }
        let at = answer_off(r.cell);
        self.shared.memory.write(at + LINE, &body[..body.len().min(ANSWER_BODY)]).expect("inside");
        let len = match self.any() % 4 {
            0 => self.any() as u16,
            1 => 0xffff,
            _ => body.len() as u16,
        };
        let seq = if self.any().is_multiple_of(8) { self.any() as u32 } else { r.seq };
        let kind = if self.any().is_multiple_of(4) { self.any() as u16 } else { 0 };
        let generation = if self.any().is_multiple_of(8) { self.any() } else { self.generation };
        self.shared.memory.store(at / 8 + WORD_GENERATION, generation, Ordering::Relaxed);
        let answered = u64::from(seq) | u64::from(kind) << 32 | u64::from(len) << 48;
        self.shared.memory.store(at / 8 + WORD_ANSWERED, answered, Ordering::Release);
        self.shared.to_app[0].ring();
    }

    /// Writes at random where a host writes, and rings at random.
    fn scribble(&mut self) {
        for _ in 0..20 {
            let word = match self.any() % 8 {
                0 => HOST_STATE_OFF / 8,
                1 => self.any() as usize % (size_of::<WindowHeader>() / 8),
                2..=4 => (ANSWERS_OFF + self.any() as usize % (HEAP_OFF - ANSWERS_OFF)) / 8,
                _ => {
                    // The first page of some channel's datain.
                    let side = side_bytes(4, 4096).expect("possible") as usize;
                    let at = HEAP_OFF + (self.any() % CHANNELS) as usize * 2 * side + side;
                    (at + self.any() as usize % PAGE) / 8
                }
            };
            let value = if self.any().is_multiple_of(2) { self.any() % 8 } else { self.any() };
            self.shared.memory.store(word, value, Ordering::Relaxed);
            // Mostly a window that could be one, or nothing gets far.
            if self.any().is_multiple_of(4) {
                self.restore();
            }
        }
        for _ in 0..10 {
            let vector = self.any() as usize % self.shared.to_app.len();
            self.shared.to_app[vector].ring();
        }
    }

    fn restore(&mut self) {
        let name = vfun_wire::names::encode("vm1").expect("a name");
        let header = WindowHeader::new(BYTES, self.generation, Features::OFFERED, 1, name);
        self.shared.memory.write(0, header.as_bytes()).expect("inside");
        self.shared.memory.store(HOST_STATE_OFF / 8, 1, Ordering::Release);
    }
}
