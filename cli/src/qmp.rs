//! QEMU's control socket (QMP), one question after the other.

use crate::fail::{Exit, Failure, Result};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest message, bytes: `query-pci` of a large machine is some 100 KB.
const MESSAGE_MAX: usize = 4 << 20;
/// How long QEMU may take to answer: it does so at once, unless it is stopped.
const ANSWER: Duration = Duration::from_secs(10);
/// How long QEMU may take to let go of the connection before.
const NEXT: Duration = Duration::from_secs(2);
/// Events kept while another is waited for.
const EVENTS_MAX: usize = 256;

/// Why QEMU did not do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// QEMU's class of error, such as `DeviceNotFound`.
    pub class: String,
    /// QEMU's sentence.
    pub sentence: String,
}

/// A connection.
pub struct Qmp {
    socket: PathBuf,
    stream: UnixStream,
    bytes: Vec<u8>,
    events: VecDeque<Value>,
    /// The connection was reset.
    broke: bool,
}

impl Qmp {
    /// Connects and says hello.
    pub fn open(socket: &Path) -> Result<Self> {
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
    fn attempt(socket: &Path, broke: &mut bool) -> Result<Self> {
        let stream = UnixStream::connect(socket).map_err(|e| {
            // It does not listen while it serves somebody.
            *broke = e.kind() == io::ErrorKind::ConnectionRefused;
            Failure::new(
                Exit::Unreachable,
                format!("QEMU does not answer on {}: {e}", socket.display()),
            )
            .advise("give QEMU a control socket with `-qmp unix:FILE,server=on,wait=off`, and name that file")
        })?;
        let mut qmp = Qmp {
            socket: socket.to_owned(),
            stream,
            bytes: vec![],
            events: VecDeque::new(),
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
        if greeting.get("QMP").is_none() {
            return Err(qmp.failure("what greets there is not QEMU's control socket"));
        }
        let hello = qmp.ask("qmp_capabilities", json!({}));
        *broke = qmp.broke;
        hello.map(|_| qmp)
    }

    fn failure(&self, why: &str) -> Failure {
        Failure::new(Exit::Unreachable, format!("QEMU's socket {}: {why}", self.socket.display()))
    }

    fn broken(&mut self, e: &io::Error) -> Failure {
        self.broke = true;
        self.failure(&format!("the connection broke: {e}"))
    }

    /// The next message; none if there was none in time.
    fn message(&mut self, until: Instant) -> Result<Option<Value>> {
        let mut room = [0; 16 << 10];
        loop {
            if let Some(end) = self.bytes.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(|e| self.failure(&format!("a message that is not JSON: {e}")));
            }
            if self.bytes.len() > MESSAGE_MAX {
                return Err(self.failure(&format!("a message of more than {MESSAGE_MAX} bytes")));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left)).map_err(|e| self.broken(&e))?;
            match self.stream.read(&mut room) {
                Ok(0) => return Err(self.failure("QEMU hung up: did it end?")),
                Ok(n) => self.bytes.extend_from_slice(&room[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.broken(&e)),
            }
        }
    }

    fn keep(&mut self, event: Value) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Runs a command; QEMU may refuse it.
    pub fn try_ask(
        &mut self,
        command: &str,
        arguments: Value,
    ) -> Result<std::result::Result<Value, Refusal>> {
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        let text = format!("{}\n", json!({ "execute": command, "arguments": arguments }));
        self.stream.set_write_timeout(Some(ANSWER)).map_err(|e| self.broken(&e))?;
        self.stream.write_all(text.as_bytes()).map_err(|e| self.broken(&e))?;
        let until = Instant::now() + ANSWER;
        loop {
            let Some(mut message) = self.message(until)? else {
                return Err(self.failure(&format!("no answer to {command} within {ANSWER:?}")));
            };
            if message.get("event").is_some() {
                self.keep(message);
            } else if let Some(error) = message.get("error") {
                let part = |name: &str| error[name].as_str().unwrap_or("unknown").to_owned();
                return Ok(Err(Refusal { class: part("class"), sentence: part("desc") }));
            } else {
                return Ok(Ok(message["return"].take()));
            }
        }
    }

    /// Runs a command that QEMU has to accept.
    pub fn ask(&mut self, command: &str, arguments: Value) -> Result<Value> {
        self.try_ask(command, arguments)?.map_err(|r| {
            Failure::new(Exit::Failed, format!("QEMU refused {command}: {}", r.sentence))
        })
    }

    /// Waits for an event that fits, be it one that has come already; none if
    /// it does not come in time.
    pub fn event(
        &mut self,
        name: &str,
        fits: impl Fn(&Value) -> bool,
        at_most: Duration,
    ) -> Result<Option<Value>> {
        let until = Instant::now() + at_most;
        let wanted = |e: &Value| e["event"] == name && fits(&e["data"]);
        loop {
            if let Some(at) = self.events.iter().position(wanted) {
                return Ok(self.events.remove(at));
            }
            match self.message(until)? {
                Some(message) if message.get("event").is_some() => self.keep(message),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
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
        assert_eq!((refused.exit, refused.what.as_str()), (Exit::Failed, "QEMU refused two: no"));
        assert!(q.event("X", |d| d["device"] == "b", Duration::ZERO).is_ok_and(|e| e.is_none()));
        assert!(q.event("X", |d| d["device"] == "a", Duration::ZERO).unwrap().is_some());
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
