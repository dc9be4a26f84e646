//! A connection to a gateway, shared by threads. Whoever waits and finds
//! nobody reading reads for all (leader and followers), so that there is no
//! thread of its own and a lone caller hands nothing over.

use super::reader::{Frame, Patience, Reader, wait_for};
use crate::error::{Error, Result};
use crate::tls::TlsFiles;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::collections::HashMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use vfun_tls::Line;
use vfun_window::Bell;
use vfun_wire::attach::{Attach, AttachAck};
use vfun_wire::frame::{ACK, ATTACH, FrameHead, NACK};
use vfun_wire::limits::FRAME_BYTES_MAX;
use vfun_wire::message::Kind;
use vfun_wire::nack::{Nack, NackCode};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// How long connecting and the first answer may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Frames up to this are sent in one piece, larger ones without a copy.
const ONE_PIECE: usize = 64 << 10;
/// Frames that one [`Connection::poll`] reads at most, so that it stays short.
const POLL_FRAMES: usize = 64;

/// A TCP or TLS connection to a gateway that has let this client in.
pub(crate) struct Connection {
    line: Line,
    writing: Mutex<()>,
    shared: Mutex<Shared>,
    arrived: Condvar,
    next_id: AtomicU64,
}

/// Frames in flight of one function.
pub(crate) type Load = Arc<AtomicUsize>;

struct Shared {
    /// By id: what was asked and not taken yet.
    asked: HashMap<u64, AwaitedAnswer>,
    /// Here while nobody reads.
    reader: Option<Reader>,
    dead: Option<String>,
    /// Who is to look when somebody has read.
    listening: Vec<Weak<Bell>>,
}

struct AwaitedAnswer {
    state: AnswerState,
    load: Option<Load>,
}

enum AnswerState {
    Waiting,
    Abandoned,
    Arrived(Frame),
}

impl Connection {
    /// Connects, encrypted if there is anything to do so by, and attaches.
    pub fn open(address: &str, tls: Option<&TlsFiles>, question: &Attach) -> Result<Arc<Self>> {
        let tls = tls.map(|files| files.read(address)).transpose()?;
        let failed = |source| Error::Gateway { address: address.to_string(), source };
        let mut last = std::io::Error::other("the name has no address");
        let mut stream = None;
        for addr in address.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT) {
                Ok(s) => {
                    stream = Some(s);
                    break;
                }
                Err(e) => last = e,
            }
        }
        let Some(stream) = stream else { return Err(failed(last)) };
        stream.set_nodelay(true).map_err(failed)?;
        // A peer that vanished without a word is found out in the end.
        let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
        let line = match &tls {
            None => Line::plain(stream),
            Some(client) => Line::connect(stream, client, Instant::now() + CONNECT_TIMEOUT)
                .map_err(|e| refused_by_tls(address, vfun_tls::of_gateway(&e)))?,
        };
        let connection = Arc::new(Connection {
            line,
            writing: Mutex::new(()),
            shared: Mutex::new(Shared {
                asked: HashMap::new(),
                reader: Some(Reader::new()),
                dead: None,
                listening: vec![],
            }),
            arrived: Condvar::new(),
            next_id: AtomicU64::new(1),
        });
        // A gateway that does not take this caller's certificate says so only now.
        let body = connection
            .exchange(ATTACH, "attach", &[question.as_bytes()], CONNECT_TIMEOUT)
            .map_err(|e| match e {
            Error::ConnectionLost(why) if tls.is_some() => refused_by_tls(address, why),
            other => other,
        })?;
        // The gateway may pass the manager's own answer on.
        if let Ok((ack, _)) = AttachAck::ref_from_prefix(&body)
            && let Some(code) = NackCode::from_wire(ack.code.get())
        {
            let text = ack.sentence.get(..usize::from(ack.sentence_len.get())).unwrap_or_default();
            return Err(Error::Refused(Nack::new(code, String::from_utf8_lossy(text))));
        }
        Ok(connection)
    }

    /// Makes a control request and waits for its ack.
    pub fn request(&self, kind: Kind, body: &[u8], timeout: Duration) -> Result<Vec<u8>> {
        self.exchange(kind.to_wire(), kind.text(), &[body], timeout)
    }

    fn exchange(
        &self,
        kind: u16,
        what: &'static str,
        body: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        let id = self.ask(kind, body, None)?;
        match self.wait(id, Some(Instant::now() + timeout))? {
            Some(Frame { kind: ACK, body, .. }) => Ok(body),
            Some(Frame { kind: NACK, body, .. }) => Err(Error::Refused(Nack::decode(&body))),
            Some(frame) => Err(Error::HostNonsense(format!(
                "the answer to '{what}' is of unknown kind {:#x}",
                frame.kind
            ))),
            None => {
                self.abandon(id);
                Err(Error::ControlTimeout { request: what, waited: timeout })
            }
        }
    }

    /// Sends a frame; its id, to wait for. `load` counts it until its answer arrives.
    pub fn ask(&self, kind: u16, body: &[&[u8]], load: Option<Load>) -> Result<u64> {
        let bytes: usize = body.iter().map(|part| part.len()).sum();
        if bytes > FRAME_BYTES_MAX as usize {
            return Err(Error::ArgumentsTooLong { len: bytes, max: FRAME_BYTES_MAX as usize });
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let head = FrameHead {
            body_bytes: U32::new(bytes as u32),
            kind: U16::new(kind),
            reserved: U16::ZERO,
            id: U64::new(id),
        };
        {
            let mut shared = self.lock();
            check_alive(&shared)?;
            shared.asked.insert(id, AwaitedAnswer { state: AnswerState::Waiting, load });
        }
        let sent = self.send(&head, body, bytes);
        if let Err(e) = sent {
            let mut shared = self.lock();
            shared.die(e.to_string());
            shared.asked.remove(&id);
            self.arrived.notify_all();
            return Err(Error::ConnectionLost(e.to_string()));
        }
        Ok(id)
    }

    /// Waits for an answer and takes it; `None` if it does not arrive in time.
    pub fn wait(&self, id: u64, until: Option<Instant>) -> Result<Option<Frame>> {
        if !self.ready(id, until) {
            return Ok(None);
        }
        let mut shared = self.lock();
        match shared.asked.remove(&id).map(|a| a.state) {
            Some(AnswerState::Arrived(frame)) => Ok(Some(frame)),
            _ => match check_alive(&shared) {
                Err(e) => Err(e),
                Ok(()) => Err(Error::HostNonsense(format!("answer {id} was taken already"))),
            },
        }
    }

    /// Waits until an answer is there or never will be.
    pub fn ready(&self, id: u64, until: Option<Instant>) -> bool {
        let patience = until.map_or(Patience::Always, Patience::Until);
        let mut shared = self.lock();
        while !shared.settled(id) {
            if until.is_some_and(|u| Instant::now() >= u) {
                return false;
            }
            shared = self.pump(shared, patience);
        }
        true
    }

    /// Whether an answer is there or never will be; reads what has come.
    pub fn poll(&self, id: u64) -> bool {
        let mut shared = self.lock();
        for _ in 0..POLL_FRAMES {
            if shared.settled(id) || shared.reader.is_none() {
                break;
            }
            let before = shared.arrivals();
            shared = self.pump(shared, Patience::Now);
            if shared.arrivals() == before && !shared.settled(id) {
                break;
            }
        }
        shared.settled(id)
    }

    /// Shows an answer that is there, and leaves it; `None` if it is not. What `read`
    /// saw stays where it is until the answer is taken or abandoned.
    pub fn peek<T>(&self, id: u64, read: impl FnOnce(&Frame) -> T) -> Option<Result<T>> {
        if !self.poll(id) {
            return None;
        }
        let shared = self.lock();
        match shared.asked.get(&id).map(|a| &a.state) {
            Some(AnswerState::Arrived(frame)) => Some(Ok(read(frame))),
            _ => check_alive(&shared).err().map(Err),
        }
    }

    /// Has `bell` rung whenever a thread of this process has read something, as the
    /// socket shows it to nobody then; for as long as it lives.
    pub fn listen(&self, bell: &Arc<Bell>) {
        let mut shared = self.lock();
        shared.listening.retain(|b| b.strong_count() > 0);
        shared.listening.push(Arc::downgrade(bell));
    }

    /// The socket, for those who sleep until something comes.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.line.tcp().as_fd()
    }

    /// Reads one frame, or waits for whoever reads; then look again.
    pub fn wait_for_any(&self, until: Instant) -> Result<()> {
        let shared = self.lock();
        check_alive(&shared)?;
        drop(self.pump(shared, Patience::Until(until)));
        Ok(())
    }

    /// Nobody will take this answer.
    pub fn abandon(&self, id: u64) {
        let mut shared = self.lock();
        if let Some(asked) = shared.asked.get_mut(&id) {
            match asked.state {
                AnswerState::Arrived(_) => {
                    shared.asked.remove(&id);
                }
                _ => asked.state = AnswerState::Abandoned,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// One step: reads a frame for whom it may concern if nobody reads, else
    /// waits for the one who does.
    fn pump<'a>(
        &'a self,
        mut shared: MutexGuard<'a, Shared>,
        patience: Patience,
    ) -> MutexGuard<'a, Shared> {
        let Some(mut reader) = shared.reader.take() else {
            let step = match patience {
                Patience::Now => return shared,
                Patience::Until(until) => until.saturating_duration_since(Instant::now()),
                Patience::Always => Duration::from_secs(1),
            };
            return match self.arrived.wait_timeout(shared, step) {
                Ok((shared, _)) => shared,
                Err(e) => e.into_inner().0,
            };
        };
        drop(shared);
        let read = reader.read(&self.line, patience);
        let mut shared = self.lock();
        shared.reader = Some(reader);
        match read {
            Ok(Some(frame)) => shared.deliver(frame),
            Ok(None) => return self.done_reading(shared),
            Err(e) => shared.die(vfun_tls::of_line(&e)),
        }
        shared.listening.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
        self.done_reading(shared)
    }

    fn done_reading<'a>(&'a self, shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        self.arrived.notify_all();
        shared
    }

    fn send(&self, head: &FrameHead, body: &[&[u8]], bytes: usize) -> std::io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(|e| e.into_inner());
        if bytes <= ONE_PIECE {
            let mut piece = Vec::with_capacity(size_of::<FrameHead>() + bytes);
            piece.extend_from_slice(head.as_bytes());
            body.iter().for_each(|part| piece.extend_from_slice(part));
            return self.send_all(&piece, SendFlags::empty());
        }
        self.send_all(head.as_bytes(), SendFlags::MORE)?;
        for (i, part) in body.iter().enumerate() {
            let more = if i + 1 < body.len() { SendFlags::MORE } else { SendFlags::empty() };
            self.send_all(part, more)?;
        }
        Ok(())
    }

    /// Sends all bytes. While the gateway takes none because it is itself
    /// writing answers, those are read: otherwise each would wait for the other.
    fn send_all(&self, bytes: &[u8], more: SendFlags) -> std::io::Result<()> {
        self.line.sealed(bytes).try_for_each(|piece| self.send_piece(&piece?, more))
    }

    fn send_piece(&self, mut bytes: &[u8], more: SendFlags) -> std::io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | more;
        while !bytes.is_empty() {
            match send(self.line.tcp(), bytes, flags) {
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let nobody_reads = self.lock().reader.is_some();
                    let read = if nobody_reads { PollFlags::IN } else { PollFlags::empty() };
                    let ready =
                        wait_for(&self.line, PollFlags::OUT | read, Duration::from_millis(50))?;
                    if ready.contains(PollFlags::IN) {
                        let shared = self.lock();
                        drop(self.pump(shared, Patience::Now));
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

fn refused_by_tls(address: &str, why: String) -> Error {
    Error::Tls { address: address.to_string(), why }
}

fn check_alive(shared: &Shared) -> Result<()> {
    match &shared.dead {
        None => Ok(()),
        Some(why) => Err(Error::ConnectionLost(why.clone())),
    }
}

impl Shared {
    fn settled(&self, id: u64) -> bool {
        self.dead.is_some()
            || !matches!(
                self.asked.get(&id),
                Some(AwaitedAnswer { state: AnswerState::Waiting, .. })
            )
    }

    fn arrivals(&self) -> usize {
        self.asked.values().filter(|a| matches!(a.state, AnswerState::Arrived(_))).count()
    }

    fn deliver(&mut self, frame: Frame) {
        let id = frame.id;
        match self.asked.get_mut(&id) {
            Some(asked) if !matches!(asked.state, AnswerState::Arrived(_)) => {
                if let Some(load) = asked.load.take() {
                    load.fetch_sub(1, Ordering::Release);
                }
                match asked.state {
                    AnswerState::Abandoned => drop(self.asked.remove(&id)),
                    _ => asked.state = AnswerState::Arrived(frame),
                }
            }
            _ => self.die(format!("it answered {id}, which was not asked or was answered before")),
        }
    }

    fn die(&mut self, why: String) {
        self.dead.get_or_insert(why);
    }
}
