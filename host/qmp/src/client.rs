//! QEMU's control socket (QMP), one question after the other.

use crate::limits::{ANSWER, CONNECT_AGAIN, NEXT};
use crate::{Events, Fault, Message, Messages, Refusal, Wrong, command};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A connection to a QEMU's control socket.
pub struct Qmp {
    socket: PathBuf,
    stream: UnixStream,
    messages: Messages,
    events: Events,
    /// The connection was reset.
    broke: bool,
}

impl Qmp {
    /// Connects and says hello.
    pub fn open(socket: &Path) -> Result<Self, Fault> {
        let until = Instant::now() + NEXT;
        loop {
            let mut broke = false;
            match Self::attempt(socket, &mut broke) {
                // QEMU is not done with whoever was connected a moment ago.
                Err(_) if broke && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                done => return done,
            }
        }
    }

    /// Connects and says hello; `broke` becomes true if QEMU was not ready for it.
    fn attempt(socket: &Path, broke: &mut bool) -> Result<Self, Fault> {
        let stream = connect(socket, ANSWER).map_err(|e| {
            // It does not listen while it serves somebody.
            *broke = e.kind() == io::ErrorKind::ConnectionRefused;
            Fault::unreachable(format!("QEMU does not answer on {}: {e}", socket.display()))
            .advise("give QEMU a control socket with `-qmp unix:FILE,server=on,wait=off`, and name that file")
        })?;
        let mut qmp = Qmp {
            socket: socket.to_owned(),
            stream,
            messages: Messages::default(),
            events: Events::default(),
            broke: false,
        };
        let greeting = qmp.message(Instant::now() + ANSWER);
        *broke = qmp.broke;
        let greeting = greeting?.ok_or_else(|| {
            // QEMU takes one connection at a time and lets others wait.
            qmp.failure(
                "it does not greet: is another program (libvirt?) connected to this socket?",
            )
        })?;
        if greeting != Message::Greeting {
            return Err(qmp.failure("what greets there is not QEMU's control socket"));
        }
        let hello = qmp.ask("qmp_capabilities", json!({}));
        *broke = qmp.broke;
        hello.map(|_| qmp)
    }

    fn failure(&self, why: &str) -> Fault {
        Fault::unreachable(format!("QEMU's socket {}: {why}", self.socket.display()))
    }

    fn broken(&mut self, e: &io::Error) -> Fault {
        self.broke = true;
        self.failure(&format!("the connection broke: {e}"))
    }

    /// The next message; none if there was none in time.
    fn message(&mut self, until: Instant) -> Result<Option<Message>, Fault> {
        let mut room = [0; 16 << 10];
        loop {
            match self.messages.take() {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {}
                Err(Wrong::NotQemus) => {
                    return Err(self.failure("what answers there is not QEMU's control socket"));
                }
                Err(wrong) => return Err(self.failure(&wrong.to_string())),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left)).map_err(|e| self.broken(&e))?;
            match self.stream.read(&mut room) {
                Ok(0) => return Err(self.failure("QEMU hung up: did it end?")),
                Ok(n) => self.messages.push(&room[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.broken(&e)),
            }
        }
    }

    /// Runs a command; QEMU may refuse it.
    pub fn try_ask(
        &mut self,
        name: &str,
        arguments: Value,
    ) -> Result<Result<Value, Refusal>, Fault> {
        let text = command(name, arguments, None);
        self.stream.set_write_timeout(Some(ANSWER)).map_err(|e| self.broken(&e))?;
        self.stream.write_all(text.as_bytes()).map_err(|e| self.broken(&e))?;
        let until = Instant::now() + ANSWER;
        loop {
            match self.message(until)? {
                Some(Message::Answer { result, .. }) => return Ok(result),
                // Events without end are no answer, either.
                Some(Message::Event(event)) if Instant::now() < until => self.events.keep(event),
                Some(Message::Greeting) => {}
                Some(Message::Event(_)) | None => {
                    return Err(self.failure(&format!("no answer to {name} within {ANSWER:?}")));
                }
            }
        }
    }

    /// Runs a command that QEMU has to accept.
    pub fn ask(&mut self, command: &str, arguments: Value) -> Result<Value, Fault> {
        self.try_ask(command, arguments)?
            .map_err(|r| Fault::failed(format!("QEMU refused {command}: {}", r.sentence)))
    }

    /// Waits for an event that fits, be it one that has come already; none if
    /// it does not come in time.
    pub fn event(
        &mut self,
        name: &str,
        fits: impl Fn(&Value) -> bool,
        at_most: Duration,
    ) -> Result<Option<Value>, Fault> {
        let until = Instant::now() + at_most;
        let wanted = |e: &Value| e["event"] == name && fits(&e["data"]);
        loop {
            if let Some(event) = self.events.take(wanted) {
                return Ok(Some(event));
            }
            match self.message(until)? {
                Some(Message::Event(event)) => self.events.keep(event),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

/// Connects, and waits so long for a QEMU that takes nobody now: one that is stopped lets
/// its queue fill.
fn connect(socket: &Path, at_most: Duration) -> io::Result<UnixStream> {
    let until = Instant::now() + at_most;
    let address = SocketAddrUnix::new(socket)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let end = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match rustix::net::connect(&end, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) if Instant::now() < until => {
                std::thread::sleep(CONNECT_AGAIN);
            }
            Err(Errno::AGAIN) => {
                let why = format!("it has taken no connection within {at_most:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let stream = UnixStream::from(end);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl Drop for Qmp {
    /// Waits until QEMU has let go of the connection: QEMU 7.2 may crash if the
    /// next one comes in the middle of that (every second run of a test did).
    fn drop(&mut self) {
        let until = Instant::now() + NEXT;
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let mut room = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return;
            }
            match self.stream.read(&mut room) {
                Ok(n) if n > 0 => {}
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    /// A QEMU that says these lines, each after one that it was sent.
    fn qemu(
        greeting: &'static str,
        lines: &'static [&'static str],
    ) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qmp");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = BufReader::new(stream.try_clone().unwrap()).lines();
            stream.write_all(greeting.as_bytes()).unwrap();
            for line in lines {
                if asked.next().is_none() {
                    return;
                }
                stream.write_all(line.as_bytes()).unwrap();
            }
        });
        (dir, path)
    }

    #[test]
    fn answers_and_events_are_told_apart() {
        let (_dir, path) = qemu(
            "{\"QMP\": {}}\n",
            &[
                "{\"return\": {}}\n",
                "{\"event\": \"X\", \"data\": {\"device\": \"a\"}}\n{\"return\": 7}\n",
                "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}\n",
            ],
        );
        let mut q = Qmp::open(&path).unwrap();
        assert_eq!(q.ask("one", json!({})).unwrap(), 7);
        let refused = q.ask("two", json!({})).unwrap_err();
        assert_eq!(
            (refused.kind, refused.what.as_str()),
            (crate::FaultKind::Refused, "QEMU refused two: no")
        );
        assert!(q.event("X", |d| d["device"] == "b", Duration::ZERO).is_ok_and(|e| e.is_none()));
        assert!(q.event("X", |d| d["device"] == "a", Duration::ZERO).unwrap().is_some());
    }

    #[test]
    fn a_qemu_that_takes_nobody_is_not_waited_for_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qmp");
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::STREAM);
        let stopped = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::bind(&stopped, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&stopped, 0).unwrap();
        // Its queue is full.
        let _first = connect(&path, Duration::ZERO).unwrap();
        let full = connect(&path, Duration::from_millis(50)).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::TimedOut);
        assert!(full.to_string().contains("has taken no connection"), "{full}");
    }

    #[test]
    fn strangers_are_named() {
        let why = |path: &Path| Qmp::open(path).err().unwrap();
        assert!(why(Path::new("/nowhere")).advice.unwrap().contains("-qmp unix:"));
        let (_dir, path) = qemu("{\"hello\": 1}\n", &[]);
        assert!(why(&path).what.contains("not QEMU's"));
        let (_dir, path) = qemu("SSH-2.0\n", &[]);
        assert!(why(&path).what.contains("not JSON"));
        let (_dir, path) = qemu("", &[]);
        assert!(why(&path).what.contains("hung up"));
    }
}
