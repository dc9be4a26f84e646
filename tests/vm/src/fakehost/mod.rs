//! A host of one doorbell device, small enough to be made to lie: it speaks
//! QEMU's ivshmem protocol, lays a window out, and answers control requests and
//! calls either well or with nonsense.

mod links;
mod memory;
mod nonsense;
mod places;
pub mod ports;

pub use memory::BYTES;
pub use ports::{Came, LARGE, RING_BYTES, ring_of};

use memory::{Channel, Memory, Request, control, further};
use places::{Buffers, channel_at};
use ports::Wires;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun_testguest::Doorbell;
use vfun_window::{Bell, fdpass};
use vfun_wire::channel::{in_header, side_bytes};
use vfun_wire::header::{Role, WindowHeader};
use vfun_wire::kind::{CallsShape, ChannelKind};
use vfun_wire::limits::{HEARTBEAT_MS, SESSIONS};
use vfun_wire::message::*;
use vfun_wire::range::{Access, Range};
use vfun_wire::version::{Features, VERSION};
use vfun_wire::{Nack, NackCode};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// How often the host looks.
const LOOK: Duration = Duration::from_millis(1);
/// Cells of each channel, and the bytes of each.
const DEPTH: u16 = 4;
const CELL: u32 = 4096;

/// What the host answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// What the protocol asks for.
    Sane,
    /// Nothing at all.
    Silent,
    /// Anything, and it writes where it likes while it is read.
    Nonsense,
    /// It answers well, and writes anything into the rings of ports.
    BadPorts,
}

/// Changes the ranges of each ack of activate and buffer-get.
pub type Bend = fn(&mut Vec<Range>);

struct Shared {
    memory: Memory,
    mood: Mutex<Mood>,
    bend: Mutex<Bend>,
    lay_out: AtomicBool,
    stop: AtomicBool,
    requests: AtomicU64,
    resets: AtomicU64,
    buffers: AtomicU64,
    repeats: AtomicBool,
    /// Of tables of pages: where the last one is, whether a service has all of them, and how often one
    /// was asked back.
    table: AtomicU64,
    keeps: AtomicBool,
    puts: AtomicU64,
    here: Mutex<BTreeSet<u64>>,
    wires: Mutex<Wires>,
    /// Further peers that QEMU is to hear of.
    joining: Mutex<Vec<(i64, Bell)>>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host; it ends when dropped.
pub struct FakeHost {
    dir: tempfile::TempDir,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FakeHost {
    /// Serves one device with a control window, sanely.
    pub fn start() -> Self {
        Self::with(control())
    }

    /// Serves a further window with this key.
    pub fn further(role: Role, key: [u64; 2]) -> Self {
        Self::with(further(role, key))
    }

    /// Names a further window in the table of this one, a control window, by a number;
    /// 0 takes the entry back.
    pub fn names(&self, place: usize, index: u16, window: &FakeHost) {
        self.shared.memory.write_entry(place, index, window.shared.memory.header());
    }

    /// Writes a word of the window, as the peer of a link can.
    pub fn store(&self, off: usize, value: u64) {
        self.shared.memory.store(off, value);
    }

    /// The further windows that the guest said are there, by the first word of their keys.
    pub fn here(&self) -> Vec<u64> {
        locked(&self.shared.here).iter().copied().collect()
    }

    /// Serves a window of another layout.
    pub fn of_layout(layout: u16) -> Self {
        let none = U16::ZERO;
        Self::with(WindowHeader { layout: U16::new(layout), role: none, ..control() })
    }

    fn with(header: WindowHeader) -> Self {
        let dir = tempfile::Builder::new().prefix("vfun-").tempdir_in("/dev/shm").expect("shm");
        let listener = UnixListener::bind(dir.path().join("s")).expect("a fresh folder");
        listener.set_nonblocking(true).expect("a socket");
        let (memory, fd) = Memory::new(header);
        let shared = Arc::new(Shared {
            memory,
            mood: Mutex::new(Mood::Sane),
            bend: Mutex::new(|_| {}),
            lay_out: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            buffers: AtomicU64::new(0),
            repeats: AtomicBool::new(false),
            table: AtomicU64::new(0),
            keeps: AtomicBool::new(false),
            puts: AtomicU64::new(0),
            here: Mutex::default(),
            wires: Mutex::default(),
            joining: Mutex::default(),
        });
        let host = Host {
            shared: shared.clone(),
            channels: vec![],
            buffers: Buffers::default(),
            next: 0,
            generation: header.generation.get(),
            random: 1,
        };
        let thread = std::thread::spawn(move || host.run(&listener, &fd));
        FakeHost { dir, shared, thread: Some(thread) }
    }

    /// Where QEMU connects.
    pub fn doorbell(&self) -> Doorbell {
        Doorbell::new(self.socket())
    }
    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// Changes what it answers from now on.
    pub fn mood(&self, mood: Mood) {
        *locked(&self.shared.mood) = mood;
    }

    /// Changes where what it grants from now on lies.
    pub fn bend(&self, bend: Bend) {
        *locked(&self.shared.bend) = bend;
    }

    /// Lays the window out anew; returns when it is.
    pub fn lay_out_anew(&self) {
        self.shared.lay_out.store(true, Ordering::SeqCst);
        while self.shared.lay_out.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
        }
    }

    /// Gives each buffer the handle of the one before, from now on or no more.
    pub fn repeat_handles(&self, on: bool) {
        self.shared.repeats.store(on, Ordering::SeqCst);
    }

    /// Whether a service has all tables of pages, from now on or no more.
    pub fn keep_tables(&self, on: bool) {
        self.shared.keeps.store(on, Ordering::SeqCst);
    }

    /// How often a table of pages was asked back.
    pub fn table_puts(&self) -> u64 {
        self.shared.puts.load(Ordering::SeqCst)
    }

    /// A word of the table of pages that was given last.
    pub fn table_word(&self, n: usize) -> u64 {
        self.shared.memory.load(self.shared.table.load(Ordering::SeqCst) as usize + 8 * n)
    }

    /// Ends all grants by itself, as a host does that takes them away.
    pub fn end_channels(&self) {
        self.end_channels_unrung();
        self.shared.memory.to_app[1].ring();
    }

    /// The same, a moment before it rings.
    pub fn end_channels_unrung(&self) {
        let released = vfun_wire::status::BreakReason::Released.to_wire();
        for n in 0..places::CHANNELS {
            let (_, datain) = channel_at(n);
            self.shared.memory.store(datain + 8 * in_header::BROKEN, released.into());
        }
    }

    /// Control requests seen, and resets among them.
    pub fn requests(&self) -> (u64, u64) {
        (self.shared.requests.load(Ordering::SeqCst), self.shared.resets.load(Ordering::SeqCst))
    }

    /// Buffers that programs have now, as the host knows.
    pub fn buffers(&self) -> u64 {
        self.shared.buffers.load(Ordering::SeqCst)
    }

    /// How many words of the window have this value.
    pub fn count(&self, value: u64) -> usize {
        self.shared.memory.count(value)
    }

    /// The words of the session heartbeats, added up.
    pub fn heartbeats(&self) -> u64 {
        self.shared.memory.heartbeats()
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
    channels: Vec<Channel>,
    buffers: Buffers,
    next: u64,
    generation: u64,
    random: u64,
}

impl Host {
    fn run(mut self, listener: &UnixListener, fd: &OwnedFd) {
        let mut peers: Vec<UnixStream> = vec![];
        while !self.shared.stop.load(Ordering::SeqCst) {
            if let Ok((stream, _)) = listener.accept() {
                let id = peers.len() as i64 + 1;
                if self.welcome(&stream, id, fd).is_ok() {
                    peers.push(stream);
                }
            }
            self.introduce(&peers);
            if self.shared.lay_out.load(Ordering::SeqCst) {
                self.lay_out();
                self.shared.lay_out.store(false, Ordering::SeqCst);
            }
            let mood = *locked(&self.shared.mood);
            self.answer_all(mood);
            match mood {
                Mood::Sane => {
                    self.serve();
                    self.serve_ports();
                }
                Mood::Silent => {}
                Mood::Nonsense => self.scribble(),
                Mood::BadPorts => self.scribble_ports(),
            }
            self.shared.buffers.store(self.buffers.count(), Ordering::SeqCst);
            std::thread::sleep(LOOK);
        }
    }

    fn answer_all(&mut self, mood: Mood) {
        for request in self.shared.memory.requests() {
            self.shared.requests.fetch_add(1, Ordering::SeqCst);
            match mood {
                Mood::Sane | Mood::BadPorts => {
                    let answer = self.answer(&request);
                    self.shared.memory.answer(&request, self.generation, &answer);
                }
                Mood::Silent => {}
                Mood::Nonsense => self.nonsense(&request),
            }
        }
    }

    fn welcome(&self, stream: &UnixStream, id: i64, fd: &OwnedFd) -> std::io::Result<()> {
        let say = |value: i64, fds: &[_]| fdpass::send(stream, &value.to_le_bytes(), fds);
        say(0, &[])?;
        say(id, &[])?;
        say(-1, &[fd.as_fd()])?;
        for bell in &self.shared.memory.to_host {
            say(0, &[bell.as_fd()])?;
        }
        for bell in &self.shared.memory.to_app {
            say(id, &[bell.as_fd()])?;
        }
        Ok(())
    }

    fn lay_out(&mut self) {
        self.generation += 1;
        self.channels.clear();
        self.buffers = Buffers::default();
        self.end_ports(|_| true);
        locked(&self.shared.here).clear();
        self.shared.memory.lay_out(self.generation);
        self.shared.memory.to_app[0].ring();
    }

    fn answer(&mut self, r: &Request) -> Result<Vec<u8>, Nack> {
        let size = |m: &MessageRow| m.request_bytes == r.body.len();
        let kind = Kind::from_wire(r.kind).filter(|&k| size(row(k)));
        let kind = kind.ok_or_else(|| Nack::new(NackCode::Malformed, "not a request"))?;
        self.next += 1;
        Ok(match kind {
            Kind::Hello => {
                let mut ack = HelloAck::new_zeroed();
                ack.version = U16::new(VERSION);
                ack.session_line = U16::new((self.next % SESSIONS as u64) as u16);
                let features =
                    [Features::DOORBELL, Features::MODULE, Features::BUFFERS, Features::PAGES];
                ack.features = U64::new(features.iter().fold(0, |all, f| all | f.0));
                ack.session = U64::new(0x100 + self.next);
                self.greet(&r.body, &mut ack);
                ack.heartbeat_ms = U32::new(HEARTBEAT_MS as u32);
                ack.as_bytes().to_vec()
            }
            Kind::Negotiate => {
                let n = Negotiate::read_from_bytes(&r.body).expect("its size was checked");
                let mut ack = NegotiateAck::new_zeroed();
                ack.grant = U64::new(0x1000 + self.next);
                self.grant(r, &n, ack.grant.get())?;
                (ack.kind, ack.shape) = (n.kind, n.shape);
                ack.location = 1;
                ack.as_bytes().to_vec()
            }
            Kind::Activate => match self.granted(word(&r.body)) {
                Some(shape) => return self.activate_port(r, &shape),
                None => self.activate(r),
            },
            Kind::Release => {
                self.channels.retain(|c| c.grant != word(&r.body));
                self.end_ports(|w| w.grant == word(&r.body));
                self.buffers.end(|b| b.grant == word(&r.body));
                vec![0; size_of::<Stats>()]
            }
            Kind::Stats => vec![0; size_of::<Stats>()],
            Kind::Reset => {
                self.shared.resets.fetch_add(1, Ordering::SeqCst);
                self.channels.clear();
                self.end_ports(|_| true);
                self.buffers.end(|b| !b.pages);
                locked(&self.shared.here).clear();
                vec![0; 8]
            }
            Kind::Window => {
                let w = WindowHere::read_from_bytes(&r.body).expect("its size was checked");
                let mut here = locked(&self.shared.here);
                match w.here.get() {
                    1 => here.insert(w.key[0].get()),
                    _ => here.remove(&w.key[0].get()),
                };
                vec![0; 8]
            }
            Kind::Goodbye => {
                self.channels.retain(|c| c.session != r.session);
                self.end_ports(|w| w.session == r.session);
                // A table is over when the module has asked for it.
                self.buffers.end(|b| b.session == r.session && !b.pages);
                vec![0; 8]
            }
            Kind::KeepAlive | Kind::List | Kind::Codes => vec![0; 8],
            Kind::BufferGet => return self.buffer_get(r),
            Kind::BufferPut => return self.buffer_put(r),
            _ => return Err(Nack::new(NackCode::Unsupported, "not here")),
        })
    }

    /// Channels of 4 cells of 4096 bytes, at the first of a few places that is
    /// free; where none is, at the place of the oldest.
    fn activate(&mut self, r: &Request) -> Vec<u8> {
        let side = side_bytes(DEPTH, CELL).expect("possible");
        if self.channels.len() as u64 == places::CHANNELS {
            self.channels.remove(0);
        }
        let free = |&(out, _): &(usize, usize)| self.channels.iter().all(|c| c.dataout != out);
        let place = (0..places::CHANNELS).map(channel_at).find(free).expect("one was removed");
        let (dataout, datain) = place;
        for side_at in [dataout, datain] {
            self.shared.memory.all.part(side_at, side as usize).expect("inside").zero();
        }
        self.channels.push(Channel::new(word(&r.body), r.session, place));
        let mut ranges = vec![
            Range::new(0, Access::AppWrites, dataout as u64, side),
            Range::new(0, Access::HostWrites, datain as u64, side),
        ];
        locked(&self.shared.bend)(&mut ranges);
        let head = ActivateAck {
            channel: U64::new(0x10000 + self.next),
            kind: U16::new(ChannelKind::Calls.to_wire()),
            count: U16::new(ranges.len() as u16),
            vector_out: U16::new(1),
            vector_in: U16::new(1),
            shape: CallsShape::new(DEPTH, CELL).shape(),
            reserved: U64::ZERO,
        };
        [head.as_bytes(), ranges.as_bytes()].concat()
    }

    fn buffer_get(&mut self, r: &Request) -> Result<Vec<u8>, Nack> {
        let asked = BufferGet::read_from_bytes(&r.body).expect("its size was checked");
        let before = self.buffers.last().filter(|_| self.shared.repeats.load(Ordering::SeqCst));
        let handle = before.unwrap_or(0x100_0000 + self.next);
        let range = self.buffers.get(handle, r.session, &asked);
        let range = range.ok_or_else(|| Nack::new(NackCode::NoCapacity, "no room"))?;
        let (offset, bytes) = (range.offset.get() as usize, range.bytes.get() as usize);
        self.shared.memory.all.part(offset, bytes).expect("inside").zero();
        if asked.flags.get() & BUFFER_PAGES != 0 {
            self.shared.table.store(offset as u64, Ordering::SeqCst);
        }
        let mut ranges = vec![range];
        locked(&self.shared.bend)(&mut ranges);
        let ack = BufferAck { buffer: U64::new(handle), range: ranges[0] };
        Ok(ack.as_bytes().to_vec())
    }

    fn buffer_put(&mut self, r: &Request) -> Result<Vec<u8>, Nack> {
        if self.buffers.is_table(r.session, word(&r.body)) {
            self.shared.puts.fetch_add(1, Ordering::SeqCst);
            if self.shared.keeps.load(Ordering::SeqCst) {
                return Err(Nack::new(NackCode::Starting, "a service has it: ask again"));
            }
        }
        let own = |b: &places::Buffer| (b.session, b.handle) == (r.session, word(&r.body));
        match self.buffers.end(own) {
            0 => Err(Nack::new(NackCode::BadHandle, "no such buffer")),
            _ => Ok(vec![0; 8]),
        }
    }

    /// Answers what stands in the first cell of each channel.
    fn serve(&mut self) {
        let memory = &self.shared.memory;
        let mut news = false;
        for c in &mut self.channels {
            news |= c.serve(memory);
        }
        if news {
            memory.to_app[1].ring();
        }
    }
}

/// The handle that a body begins with.
fn word(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().expect("its size was checked"))
}
