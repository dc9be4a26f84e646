//! A connection to QEMU: bounded in time, and in what QEMU may say.

use crate::limits::{QMP_ANSWER, QMP_BURST, QMP_MESSAGES_PER_S};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use vfun_qmp::{Message, Messages, Refusal, command};

/// No QEMU listens there.
pub struct Absent;

/// Why a connection is of no more use.
#[derive(Debug)]
pub struct QmpTrouble(String);

impl fmt::Display for QmpTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for QmpTrouble {
    fn from(e: io::Error) -> Self {
        QmpTrouble(format!("the connection broke: {e}"))
    }
}

/// The process that listens on the socket.
pub struct Process {
    pub pid: i32,
    started: String,
}

impl Process {
    /// The QEMU of this process id. Another program may only have made the socket for it.
    fn of(pid: i32) -> Option<Self> {
        let (name, started) = stat(pid)?;
        name.starts_with("qemu").then_some(Process { pid, started })
    }

    pub fn runs(&self) -> bool {
        stat(self.pid).is_some_and(|(_, started)| started == self.started)
    }
}

/// A process's name, and its start as the kernel counts it. None once it has ended.
fn stat(pid: i32) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(") ")?;
    let mut fields = after.split(' ');
    let state = fields.next()?;
    // The start is field 22; the state is field 3.
    let started = fields.nth(18)?;
    let ended = ["Z", "X"].contains(&state);
    (!ended).then(|| (before.split_once('(').unwrap_or_default().1.into(), started.into()))
}

/// An open connection that QEMU has greeted.
pub struct Connection {
    stream: UnixStream,
    messages: Messages,
    events: Vec<Value>,
    next_id: u64,
    /// Messages that QEMU may still send now.
    allowed: f64,
    counted: Instant,
}

impl Connection {
    /// Connects and says hello.
    pub fn open(path: &Path) -> Result<Result<Self, Absent>, QmpTrouble> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(io::Error::from)?;
        let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
        match connect(&fd, &address).map_err(io::Error::from) {
            Ok(()) => {}
            Err(e) if is_absent(&e) => return Ok(Err(Absent)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(QmpTrouble(
                    "QEMU does not accept connections; it may be stopped".into(),
                ));
            }
            Err(e) => return Err(e.into()),
        }
        let mut connection = Connection {
            stream: fd.into(),
            messages: Messages::default(),
            events: vec![],
            next_id: 1,
            allowed: f64::from(QMP_BURST),
            counted: Instant::now(),
        };
        match connection.message(Instant::now() + QMP_ANSWER)? {
            Some(Message::Greeting) => {}
            Some(_) => return Err(QmpTrouble("what greets there is not QEMU".into())),
            None => {
                return Err(QmpTrouble(
                    "QEMU does not greet: is another program connected? Give QEMU a control socket (-qmp unix:FILE,server=on,wait=off) for VirtFun alone".into(),
                ));
            }
        }
        let hello = connection.ask("qmp_capabilities", json!({}), QMP_ANSWER)?;
        hello.map_err(|r| QmpTrouble(format!("QEMU refused qmp_capabilities: {}", r.sentence)))?;
        Ok(Ok(connection))
    }

    /// The QEMU at the other end, if it is one.
    pub fn process(&self) -> Option<Process> {
        let peer = rustix::net::sockopt::socket_peercred(&self.stream).ok()?;
        Process::of(peer.pid.as_raw_nonzero().get())
    }

    pub fn line(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Runs a command; QEMU may refuse it.
    pub fn ask(
        &mut self,
        name: &str,
        arguments: Value,
        at_most: Duration,
    ) -> Result<Result<Value, Refusal>, QmpTrouble> {
        let number = self.next_id;
        self.next_id += 1;
        let until = Instant::now() + at_most;
        self.send(command(name, arguments, Some(number)).as_bytes(), until)?;
        loop {
            match self.message(until)? {
                Some(Message::Answer { id: Some(id), result }) if id == number => {
                    return Ok(result);
                }
                Some(Message::Answer { id: None, result: Err(refusal) }) => {
                    return Ok(Err(refusal));
                }
                Some(Message::Event(event)) => self.keep(event),
                Some(_) => {}
                None => {
                    let s = at_most.as_secs();
                    return Err(QmpTrouble(format!("no answer to {name} within {s} s")));
                }
            }
        }
    }

    /// Takes what has come. Does not wait.
    pub fn hear(&mut self) -> Result<(), QmpTrouble> {
        while let Some(message) = self.message(Instant::now())? {
            if let Message::Event(event) = message {
                self.keep(event);
            }
        }
        Ok(())
    }

    /// The events that have come.
    pub fn events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    fn keep(&mut self, event: Value) {
        // Others say nothing here.
        if event["event"] == "DEVICE_DELETED" {
            self.events.push(event);
        }
    }

    fn send(&mut self, mut bytes: &[u8], until: Instant) -> Result<(), QmpTrouble> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::OUT, until)? {
                        return Err(QmpTrouble("QEMU takes no commands".into()));
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// The next message; none if there was none in time. What has come already counts.
    fn message(&mut self, until: Instant) -> Result<Option<Message>, QmpTrouble> {
        let mut room = [0; 16 << 10];
        loop {
            match self.messages.take() {
                Ok(Some(message)) => return self.count().map(|()| Some(message)),
                Ok(None) => {}
                Err(wrong) => return Err(QmpTrouble(wrong.to_string())),
            }
            match self.stream.read(&mut room) {
                Ok(0) => return Err(QmpTrouble("QEMU hung up".into())),
                Ok(n) => self.messages.push(&room[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::IN, until)? {
                        return Ok(None);
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn wait(&self, for_what: PollFlags, until: Instant) -> Result<bool, QmpTrouble> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let mut fds = [PollFd::new(&self.stream, for_what)];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
            Err(e) => Err(io::Error::from(e).into()),
        }
    }

    /// Counts a message against what QEMU may send.
    fn count(&mut self) -> Result<(), QmpTrouble> {
        let now = Instant::now();
        let more = (now - self.counted).as_secs_f64() * f64::from(QMP_MESSAGES_PER_S);
        self.allowed = (self.allowed + more).min(f64::from(QMP_BURST)) - 1.0;
        self.counted = now;
        match self.allowed < 0.0 {
            true => Err(QmpTrouble("QEMU talks without end; it is disconnected".into())),
            false => Ok(()),
        }
    }
}

fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}
