//! QEMU's own control socket.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::limits;

/// Why a command has no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// QEMU is gone.
    Ended,
    /// No answer within [`limits::QMP_ANSWER`].
    Slow,
    /// Its class and its sentence.
    Refused(String, String),
}

#[derive(Default)]
struct State {
    closed: bool,
    ready: bool,
    last_id: u64,
    waiting: HashMap<u64, SyncSender<Value>>,
    events: VecDeque<Value>,
    shutdown: Option<String>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stream: Mutex<Option<UnixStream>>,
}

/// One connection, for any number of threads.
#[derive(Clone, Default)]
pub(crate) struct Qmp(Arc<Shared>);

impl Qmp {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.0.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects, as soon as QEMU has made the socket, and reads in a thread of
    /// its own; `on_reset` is called there when the machine was reset.
    pub fn open(socket: &Path, on_reset: impl Fn() + Send + 'static) -> (Qmp, JoinHandle<()>) {
        let qmp = Qmp::default();
        let (reader, socket) = (qmp.clone(), socket.to_owned());
        let thread = thread::spawn(move || {
            let start = Instant::now();
            while !reader.lock().closed && start.elapsed() < limits::QEMU_START {
                if let Ok(stream) = UnixStream::connect(&socket) {
                    let _ = reader.serve(stream, &on_reset);
                    break;
                }
                thread::sleep(Duration::from_millis(2));
            }
            reader.close();
        });
        (qmp, thread)
    }

    fn serve(&self, stream: UnixStream, on_reset: &impl Fn()) -> io::Result<()> {
        stream.set_write_timeout(Some(limits::QMP_ANSWER))?;
        let mut from = BufReader::new(stream.try_clone()?);
        *self.stream() = Some(stream);
        while let Some(message) = next(&mut from)? {
            if message.get("QMP").is_some() {
                self.send(&json!({"execute": "qmp_capabilities", "id": 0}));
            } else if let Some(id) = message.get("id").and_then(Value::as_u64) {
                let mut state = self.lock();
                if id == 0 {
                    state.ready = true;
                    self.0.changed.notify_all();
                } else if let Some(waiter) = state.waiting.remove(&id) {
                    let _ = waiter.try_send(message);
                }
            } else if let Some(name) = message.get("event").and_then(Value::as_str) {
                if name == "RESET" {
                    on_reset();
                }
                let mut state = self.lock();
                if name == "SHUTDOWN" {
                    state.shutdown = message["data"]["reason"].as_str().map(str::to_owned);
                }
                if state.events.len() == limits::MAX_QMP_EVENTS {
                    state.events.pop_front();
                }
                state.events.push_back(message);
                self.0.changed.notify_all();
            }
        }
        Ok(())
    }

    fn send(&self, message: &Value) {
        if let Some(stream) = self.stream().as_mut()
            && stream.write_all(format!("{message}\n").as_bytes()).is_err()
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// No more commands; all that wait are told.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        self.0.changed.notify_all();
        drop(state);
        if let Some(stream) = self.stream().take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn execute(&self, command: &str, arguments: Value) -> Result<Value, Failed> {
        let (tell, answer) = mpsc::sync_channel(1);
        let id = {
            let state = self.lock();
            let busy = |s: &mut State| !s.ready && !s.closed;
            let waited = self.0.changed.wait_timeout_while(state, limits::QEMU_START, busy);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.closed {
                return Err(Failed::Ended);
            }
            if !state.ready {
                return Err(Failed::Slow);
            }
            state.last_id += 1;
            let id = state.last_id;
            state.waiting.insert(id, tell);
            id
        };
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        self.send(&json!({"execute": command, "arguments": arguments, "id": id}));
        let mut answer = match answer.recv_timeout(limits::QMP_ANSWER) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Failed::Ended),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.lock().waiting.remove(&id);
                return Err(Failed::Slow);
            }
        };
        if let Some(error) = answer.get("error") {
            let part = |name: &str| error[name].as_str().unwrap_or("unknown").to_owned();
            return Err(Failed::Refused(part("class"), part("desc")));
        }
        Ok(answer["return"].take())
    }

    /// Takes the first event that `fits`, waiting for it if need be.
    pub fn wait_event(
        &self,
        fits: impl Fn(&Value) -> bool,
        at_most: Duration,
    ) -> Result<Value, Failed> {
        let end = Instant::now() + at_most;
        let mut state = self.lock();
        loop {
            if let Some(at) = state.events.iter().position(&fits) {
                return state.events.remove(at).ok_or(Failed::Ended);
            }
            if state.closed {
                return Err(Failed::Ended);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failed::Slow);
            }
            state =
                self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// QEMU's reason for its end, if it gave one.
    pub fn shutdown_reason(&self) -> Option<String> {
        self.lock().shutdown.clone()
    }
}

/// The next message, or none at the end.
fn next(from: &mut impl BufRead) -> io::Result<Option<Value>> {
    let mut line = Vec::new();
    from.by_ref().take(limits::MAX_QMP_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
}
