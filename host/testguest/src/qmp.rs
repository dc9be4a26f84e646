//! QEMU's own control socket.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use vfun_qmp::{Events, Message, Messages, Refusal, command};

use crate::limits;

/// Why a command has no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// QEMU is gone.
    Ended,
    /// No answer within [`limits::QMP_ANSWER`].
    Slow,
    /// QEMU did not run it.
    Refused(Refusal),
}

#[derive(Default)]
struct QmpState {
    closed: bool,
    ready: bool,
    last_id: u64,
    waiting: HashMap<u64, SyncSender<Result<Value, Refusal>>>,
    events: Events,
    shutdown: Option<String>,
}

#[derive(Default)]
struct QmpShared {
    state: Mutex<QmpState>,
    changed: Condvar,
    stream: Mutex<Option<UnixStream>>,
}

/// One connection, for any number of threads.
#[derive(Clone, Default)]
pub(crate) struct Qmp(Arc<QmpShared>);

impl Qmp {
    fn lock(&self) -> MutexGuard<'_, QmpState> {
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
        let mut from = stream.try_clone()?;
        *self.stream() = Some(stream);
        let (mut messages, mut room) = (Messages::default(), [0; 4096]);
        loop {
            match from.read(&mut room)? {
                0 => return Ok(()),
                n => messages.push(&room[..n]),
            }
            while let Some(message) = messages.take().map_err(io::Error::other)? {
                self.hear(message, on_reset);
            }
        }
    }

    fn hear(&self, message: Message, on_reset: &impl Fn()) {
        match message {
            Message::Greeting => self.send(&command("qmp_capabilities", Value::Null, Some(0))),
            Message::Answer { id: Some(0), .. } => {
                self.lock().ready = true;
                self.0.changed.notify_all();
            }
            Message::Answer { id, result } => {
                if let Some(waiter) = id.and_then(|id| self.lock().waiting.remove(&id)) {
                    let _ = waiter.try_send(result);
                }
            }
            Message::Event(event) => {
                if event["event"] == "RESET" {
                    on_reset();
                }
                let mut state = self.lock();
                if event["event"] == "SHUTDOWN" {
                    state.shutdown = event["data"]["reason"].as_str().map(str::to_owned);
                }
                state.events.keep(event);
                self.0.changed.notify_all();
            }
        }
    }

    fn send(&self, line: &str) {
        if let Some(stream) = self.stream().as_mut()
            && stream.write_all(line.as_bytes()).is_err()
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

    pub fn execute(&self, name: &str, arguments: Value) -> Result<Value, Failed> {
        let (tell, answer) = mpsc::sync_channel(1);
        let id = {
            let state = self.lock();
            let busy = |s: &mut QmpState| !s.ready && !s.closed;
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
        self.send(&command(name, arguments, Some(id)));
        match answer.recv_timeout(limits::QMP_ANSWER) {
            Ok(result) => result.map_err(Failed::Refused),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Failed::Ended),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.lock().waiting.remove(&id);
                Err(Failed::Slow)
            }
        }
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
            if let Some(event) = state.events.take(&fits) {
                return Ok(event);
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
