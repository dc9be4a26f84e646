//! The sockets around [`Detector`]: a thread for each, which blocks, and one that judges.

mod database;
mod json;
mod switch;
mod tracer;

use crate::detect::{Action, Detector, Event, OurPort, Peer, Verdict};
use crate::limits::{ANSWER, CHANGES_WAITING, CONNECT_LOOK, END_LOOK, MESSAGES_WAITING};
use crate::limits::{RETRY_MAX, RETRY_MIN, SILENCE_MAX};
use crate::passed::Passed;
use crate::trace::shown;
use rustix::io::Errno;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Where the switch's sockets are, and which bridge is meant.
#[derive(Clone, Debug)]
pub struct Places {
    /// The folder with `BRIDGE.mgmt` and `ovs-vswitchd.pid`.
    pub run: PathBuf,
    /// The database's socket, mostly `db.sock` in the same folder.
    pub database: PathBuf,
    /// The bridge's name.
    pub bridge: String,
}

/// Time, ms, by the clock that runs since the host was started: other processes have the same.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1000
        + u64::try_from(time.tv_nsec / 1_000_000).unwrap_or(0)
}

/// The verdict about frames of an interface is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The interface that sends them.
    pub from: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Of one that is joined: the rules that its frames pass.
    pub passed: Option<Passed>,
}

/// What runs; it ends with this.
pub struct Watch {
    ends: Arc<AtomicBool>,
    events: SyncSender<Event>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads that own a socket have in common.
#[derive(Clone)]
struct Link {
    peer: Peer,
    places: Places,
    events: SyncSender<Event>,
    ends: Arc<AtomicBool>,
}

/// What to do about a process that does not answer.
const HANGS: &str = "see whether it hangs, and its log";

/// A connection's other half, while there is one: for all who write.
#[derive(Clone, Default)]
struct Writer(Arc<Mutex<Option<UnixStream>>>);

impl Writer {
    fn hold(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn set(&self, stream: Option<UnixStream>) {
        *self.hold() = stream;
    }

    /// Writes to who is there. If that fails, the thread that reads says that it is lost.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut held = self.hold();
        let Some(stream) = &mut *held else { return Ok(()) };
        let written = io::Write::write_all(stream, bytes);
        if written.is_err() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        written
    }
}

/// Watches a bridge. Changes of verdicts come until [`Watch`] is dropped. A port of ours begins
/// with [`Verdict::Not`]. If the channel ends before, nothing is known any more: then no port is
/// joined. So it is for who does not take the changes: it ends behind [`CHANGES_WAITING`] of them.
pub fn watch(places: Places, ours: Vec<OurPort>) -> (Watch, Receiver<Change>) {
    let ends = Arc::new(AtomicBool::new(false));
    let (events, heard) = sync_channel(MESSAGES_WAITING);
    let (changes, changed) = sync_channel(CHANGES_WAITING);
    let (traces, to_trace) = channel();
    let (switch, rows) = (Writer::default(), Writer::default());
    let link =
        |peer| Link { peer, places: places.clone(), events: events.clone(), ends: ends.clone() };
    let (openflow, database, tracer) = (link(Peer::OpenFlow), link(Peer::Ovsdb), link(Peer::Trace));
    let detector = Detector::default();
    let judge = Judge { detector, switch: switch.clone(), rows: rows.clone(), traces, changes };
    let threads = vec![
        thread::spawn(move || openflow.keep(|link| switch::run(link, &switch))),
        thread::spawn(move || database.keep(|link| database::run(link, &rows))),
        thread::spawn(move || tracer.keep(|link| tracer::run(link, &to_trace))),
        thread::spawn({
            let ends = ends.clone();
            move || judge.run(&heard, &ends)
        }),
    ];
    let watch = Watch { ends, events, threads };
    watch.ours(ours);
    (watch, changed)
}

impl Watch {
    /// These are our ports from now on.
    pub fn ours(&self, ports: Vec<OurPort>) {
        // It only fails when the judge is gone, and he goes with this.
        let _ = self.events.send(Event::Ours(ports));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Link {
    fn ended(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn connect(&self, path: &Path) -> io::Result<UnixStream> {
        connect(path, ANSWER, || self.ended())
    }

    fn tell(&self, event: Event) -> io::Result<()> {
        self.events.send(event).map_err(|_| io::Error::other("nobody judges any more"))
    }

    /// Makes a connection again and again, and says each time what was lost.
    fn keep(&self, run: impl Fn(&Link) -> io::Result<()>) {
        let mut pause = RETRY_MIN;
        while !self.ended() {
            let began = Instant::now();
            let error = run(self).err();
            let why = error.map_or_else(|| "it ended".to_owned(), |e| shown(&e.to_string()));
            if self.tell(Event::Lost(self.peer, why)).is_err() {
                return;
            }
            // One that soon ends again is a failure as well.
            let lasted = began.elapsed() > RETRY_MAX;
            if lasted {
                pause = RETRY_MIN;
            }
            self.rest(pause);
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// Waits so long, or until all ends.
    fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.ended() && Instant::now() < until {
            thread::sleep(END_LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

/// Makes a connection, or says what is wrong. One that does not take what is written is given
/// up, too.
fn connect(path: &Path, at_most: Duration, ended: impl Fn() -> bool) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let named = |e: Errno| connect_error(path, e.into());
    let address = SocketAddrUnix::new(path).map_err(named)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(named)?;
    let until = Instant::now() + at_most;
    // A full queue is no error of the path: a listener that hangs would keep a thread for ever.
    while let Err(error) = rustix::net::connect(&socket, &address) {
        match error {
            Errno::INTR => {}
            Errno::AGAIN if ended() => return Err(io::Error::other("nobody asks any more")),
            Errno::AGAIN if Instant::now() < until => thread::sleep(CONNECT_LOOK),
            Errno::AGAIN => {
                let why = format!("{} takes no connection: {HANGS}", path.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            other => return Err(named(other)),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(END_LOOK))?;
    stream.set_write_timeout(Some(ANSWER))?;
    Ok(stream)
}

fn connect_error(path: &Path, error: io::Error) -> io::Error {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "run this as root or as the switch's user",
        io::ErrorKind::NotFound => {
            "start Open vSwitch, and see that the bridge and its folder have these names"
        }
        _ => "see whether Open vSwitch runs",
    };
    io::Error::new(error.kind(), format!("{}: {error}: {remedy}", path.display()))
}

/// Reads some bytes. Nothing: none came for a moment.
fn read_some(from: &mut impl io::Read, into: &mut [u8]) -> io::Result<Option<usize>> {
    match from.read(into) {
        Ok(0) => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it closed the connection: see whether it runs",
        )),
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

fn silent() -> io::Error {
    let why = format!("it has said nothing for {} s: {HANGS}", SILENCE_MAX.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, why)
}

struct Judge {
    detector: Detector,
    switch: Writer,
    rows: Writer,
    traces: Sender<tracer::Question>,
    changes: SyncSender<Change>,
}

impl Judge {
    fn run(mut self, heard: &Receiver<Event>, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            let wait = self.detector.wake().map(|at| at.saturating_sub(now()));
            let wait = wait.map_or(END_LOOK, Duration::from_millis).min(END_LOOK);
            let event = match heard.recv_timeout(wait) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => Event::Tick,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let all_act = self.detector.handle(now(), event).into_iter().all(|a| self.act(a));
            if !all_act {
                break;
            }
        }
        // Who still has something to say does not wait for ever.
        while heard.try_recv().is_ok() {}
    }

    /// Whether somebody still follows the changes.
    fn act(&mut self, action: Action) -> bool {
        match action {
            // Where a question cannot be written, the thread that reads loses the connection.
            Action::Ask(request) => drop(self.switch.send(&request.bytes())),
            Action::AskDatabase(id) => drop(self.rows.send(&database::echo(id))),
            Action::Trace { id, in_port, packets } => {
                let _ = self.traces.send(tracer::Question { id, in_port, packets });
            }
            Action::Changed { from, verdict, passed } => {
                return self.changes.try_send(Change { from, verdict, passed }).is_ok();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
