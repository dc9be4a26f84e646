//! The host's end of the command channel.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::frame::{self, Frame, RunOutput};
use crate::limits;

/// Why a command's answer will never come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// QEMU is gone.
    Ended,
    /// The guest has started again.
    Restarted,
    /// The guest broke the protocol.
    Broken(String),
    /// Too many at once.
    Full,
}

type Answer = Result<RunOutput, Lost>;

#[derive(Default)]
struct State {
    stream: Option<UnixStream>,
    boots: u64,
    broken: Option<String>,
    closed: bool,
    last_id: u64,
    waiting: HashMap<u64, SyncSender<Answer>>,
}

impl State {
    fn fail_all(&mut self, lost: &Lost) {
        for (_, waiter) in self.waiting.drain() {
            let _ = waiter.try_send(Err(lost.clone()));
        }
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a line is written, so that lines do not mix.
    writing: Mutex<()>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs commands in the guest, from any thread.
#[derive(Clone)]
pub(crate) struct Channel(Arc<Shared>);

impl Channel {
    /// Connects to QEMU's socket and reads it in a thread of its own until
    /// [`close`](Self::close) or until QEMU is gone.
    pub fn open(socket: &Path) -> (Channel, JoinHandle<()>) {
        let channel = Channel(Arc::default());
        let (reader, socket) = (channel.clone(), socket.to_owned());
        (channel, thread::spawn(move || reader.serve(&socket)))
    }

    fn serve(&self, socket: &PathBuf) {
        let mut start = Instant::now();
        while !self.0.lock().closed {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    self.attend(stream);
                    start = Instant::now();
                }
                // QEMU has not made it yet, or is gone.
                Err(_) if start.elapsed() > limits::QEMU_START => break,
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
        self.close();
    }

    /// Reads one connection to its end.
    fn attend(&self, stream: UnixStream) {
        let writer =
            stream.set_write_timeout(Some(limits::CHANNEL_WRITE)).and_then(|()| stream.try_clone());
        let Ok(mut writer) = writer else { return };
        // Ends a line that an earlier connection may have left unfinished.
        if writer.write_all(b"\n").is_err() {
            return;
        }
        {
            let mut state = self.0.lock();
            if state.closed {
                return;
            }
            state.stream = Some(writer);
            state.broken = None;
        }
        let mut from = BufReader::with_capacity(64 << 10, stream);
        loop {
            match frame::read(&mut from) {
                Ok(Some(frame)) => self.take(frame),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    let why = e.to_string();
                    let mut state = self.0.lock();
                    state.fail_all(&Lost::Broken(why.clone()));
                    state.broken = Some(why);
                    drop(state);
                    // Nothing more can be made out; read it away until a restart.
                    let _ = io::copy(&mut from, &mut io::sink());
                    break;
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.0.lock().stream = None;
    }

    fn take(&self, frame: Frame) {
        let mut state = self.0.lock();
        match frame {
            Frame::Hello => {
                state.boots += 1;
                state.fail_all(&Lost::Restarted);
                self.0.changed.notify_all();
            }
            // One that nobody waits for is of a command that was given up.
            Frame::Done(id, output) => {
                if let Some(waiter) = state.waiting.remove(&id) {
                    let _ = waiter.try_send(Ok(output));
                }
            }
        }
    }

    /// No more connections; all that wait are told.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.fail_all(&Lost::Ended);
        if let Some(stream) = state.stream.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.0.changed.notify_all();
    }

    /// The machine was reset: what was half read belongs to nobody now.
    pub fn restarted(&self) {
        let mut state = self.0.lock();
        state.fail_all(&Lost::Restarted);
        if let Some(stream) = state.stream.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How often the guest has come up.
    pub fn boots(&self) -> u64 {
        self.0.lock().boots
    }

    /// Waits a little for the guest to have come up more than `than` times.
    pub fn wait_boots(&self, than: u64, at_most: Duration) -> bool {
        let state = self.0.lock();
        let up = |s: &mut State| s.boots <= than && !s.closed;
        let (state, _) = self
            .0
            .changed
            .wait_timeout_while(state, at_most, up)
            .unwrap_or_else(PoisonError::into_inner);
        state.boots > than
    }

    /// Sends a script; its answer comes from the receiver.
    pub fn start(&self, script: &str) -> Result<(u64, Receiver<Answer>), Lost> {
        let (tell, answer) = mpsc::sync_channel(1);
        let id = {
            let mut state = self.0.lock();
            if state.closed {
                return Err(Lost::Ended);
            }
            if let Some(why) = &state.broken {
                return Err(Lost::Broken(why.clone()));
            }
            if state.waiting.len() >= limits::MAX_COMMANDS {
                return Err(Lost::Full);
            }
            state.last_id += 1;
            let id = state.last_id;
            state.waiting.insert(id, tell);
            id
        };
        self.write(&format!("R {id} {}\n", frame::word(script)));
        Ok((id, answer))
    }

    /// Asks the guest to kill a command.
    pub fn kill(&self, id: u64) {
        self.write(&format!("K {id}\n"));
    }

    /// Asks the guest to power off.
    pub fn power_off(&self) {
        self.write("Q\n");
    }

    /// Nobody waits for this command any more.
    pub fn forget(&self, id: u64) {
        self.0.lock().waiting.remove(&id);
    }

    /// A line that cannot be written is as good as lost by the guest: whoever
    /// waits for an answer to it has a time limit.
    fn write(&self, line: &str) {
        let _one = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = self.0.lock().stream.as_ref().and_then(|s| s.try_clone().ok());
        if let Some(mut stream) = stream
            && stream.write_all(line.as_bytes()).is_err()
        {
            // Part of it may have gone out; a new connection ends that line.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::os::unix::net::UnixListener;

    const SOON: Duration = Duration::from_secs(5);

    /// A guest that answers as told, at the other end of a real socket.
    fn pair() -> (tempfile::TempDir, UnixListener, Channel, JoinHandle<()>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("commands");
        let listener = UnixListener::bind(&path).unwrap();
        let (channel, thread) = Channel::open(&path);
        (dir, listener, channel, thread)
    }

    fn line(from: &mut BufReader<UnixStream>) -> String {
        let mut text = String::new();
        while text.trim().is_empty() {
            text.clear();
            assert_ne!(from.read_line(&mut text).unwrap(), 0, "the channel was closed");
        }
        text
    }

    #[test]
    fn answers_find_who_asked() {
        let (_dir, listener, channel, thread) = pair();
        let (mut guest, _) = listener.accept().unwrap();
        guest.write_all(b"H\n").unwrap();
        assert!(channel.wait_boots(0, SOON));
        let (_, one) = channel.start("one").unwrap();
        let (_, two) = channel.start("two").unwrap();
        guest.write_all(b"D 2 5 1 0 0\nxD 99 0 0 0 0\nD 1 0 0 0 0\n").unwrap();
        assert_eq!(two.recv_timeout(SOON).unwrap().unwrap().status, 5);
        assert_eq!(one.recv_timeout(SOON).unwrap().unwrap().status, 0);
        let (_, three) = channel.start("three").unwrap();
        channel.close();
        assert_eq!(three.recv_timeout(SOON).unwrap(), Err(Lost::Ended));
        assert_eq!(channel.start("x").err(), Some(Lost::Ended));
        thread.join().unwrap();
    }

    #[test]
    fn nonsense_breaks_it_until_a_restart() {
        let (_dir, listener, channel, thread) = pair();
        let (mut guest, _) = listener.accept().unwrap();
        guest.write_all(b"H\n").unwrap();
        assert!(channel.wait_boots(0, SOON));
        let (_, answer) = channel.start("x").unwrap();
        guest.write_all(b"D 1 0 99999999999 0 0\n").unwrap();
        assert!(
            matches!(answer.recv_timeout(SOON).unwrap(), Err(Lost::Broken(why)) if why.contains("limit"))
        );
        // A flood behind it is read away.
        for _ in 0..64 {
            guest.write_all(&[b'x'; 4096]).unwrap();
        }
        assert!(matches!(channel.start("x"), Err(Lost::Broken(_))));
        channel.restarted();
        let (mut guest, _) = listener.accept().unwrap();
        guest.write_all(b"H\n").unwrap();
        assert!(channel.wait_boots(1, SOON));
        let (id, answer) = channel.start("x").unwrap();
        let mut from = BufReader::new(guest.try_clone().unwrap());
        assert_eq!(line(&mut from), format!("R {id} x\n"));
        guest.write_all(format!("D {id} 0 0 0 0\n").as_bytes()).unwrap();
        assert!(answer.recv_timeout(SOON).unwrap().is_ok());
        channel.close();
        thread.join().unwrap();
    }

    #[test]
    fn too_many_at_once_are_refused() {
        let (_dir, listener, channel, thread) = pair();
        let _guest = listener.accept().unwrap();
        let some: Vec<_> = (0..limits::MAX_COMMANDS).map(|_| channel.start("x").unwrap()).collect();
        assert_eq!(channel.start("x").err(), Some(Lost::Full));
        channel.forget(some[0].0);
        assert!(channel.start("x").is_ok());
        channel.close();
        thread.join().unwrap();
    }
}
