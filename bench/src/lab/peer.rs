//! The other end of a bare doorbell: a device of its own in the guest, whose host does
//! nothing but ring back. A thread of this process sleeps on the eventfd that the guest's
//! ring writes to, and writes to the one that becomes the guest's interrupt. There is no
//! manager, no service and no call: what remains is the way there and back.

use super::pin;
use crate::Result;
use crate::error::Doing;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun_rim::window::{Bells, HostWindow};
use vfun_testguest::Doorbell;
use vfun_window::{Bell, BellWaiter, fdpass, memfd};

/// Bytes of its window, of which only the header is used.
const BYTES: u64 = 4 << 20;
/// The guest's number among the peers of its ivshmem server.
const GUEST: i64 = 1;
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_secs(1);

/// It ends when dropped.
pub struct BarePeer {
    folder: tempfile::TempDir,
    end: Arc<AtomicBool>,
    bell: Bell,
    threads: Vec<JoinHandle<()>>,
}

impl BarePeer {
    /// Serves one device, its thread on a processor.
    pub fn start(cpu: Option<usize>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vfun-bench-").tempdir();
        let folder = folder.doing(|| "cannot make a folder for a doorbell".into())?;
        let listener = UnixListener::bind(folder.path().join("s"));
        let listener = listener.doing(|| "cannot listen for a guest's doorbell".into())?;
        let memory = memfd("vfun-bench", BYTES).doing(|| "cannot make a window".into())?;
        let (to_host, to_guest) = Bells::new_pair().doing(|| "cannot make doorbells".into())?;
        let own = memory.try_clone().doing(|| "cannot make a window".into())?;
        let bells = Bells::of_program(to_host.clone(), to_guest.clone());
        let window = HostWindow::lay_out(own, BYTES, 1, 1, "bench-bare", Some(bells));
        let mut window = window.map_err(|e| crate::BenchError::Manager(e.to_string()))?;
        let waiter = BellWaiter::new(&to_host[0]).doing(|| "cannot wait for a doorbell".into())?;
        let end = Arc::new(AtomicBool::new(false));
        let (bell, ended, back) = (to_host[0].clone(), end.clone(), to_guest[0].clone());
        let answers = std::thread::spawn(move || {
            pin::to(cpu);
            // The module's one request when it finds the device.
            let mut reset = false;
            while !ended.load(Ordering::Acquire) {
                if !waiter.wait(Some(LOOK)).unwrap_or(false) {
                    continue;
                }
                if !reset {
                    for request in window.requests() {
                        window.answer(request.cell, request.seq, &Ok(vec![0; 8]));
                        reset = true;
                    }
                }
                back.ring();
            }
        });
        let ended = end.clone();
        let serves = std::thread::spawn(move || {
            let mut guests = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if ended.load(Ordering::Acquire) {
                    break;
                }
                if welcome(&stream, &memory, &to_host, &to_guest).is_ok() {
                    guests.push(stream);
                }
            }
        });
        Ok(BarePeer { folder, end, bell, threads: vec![answers, serves] })
    }

    /// The socket to which QEMU connects for window and doorbells.
    pub fn doorbell(&self) -> Doorbell {
        Doorbell::new(self.folder.path().join("s"))
    }
}

fn welcome(
    stream: &UnixStream,
    memory: &OwnedFd,
    to_host: &[Bell],
    to_guest: &[Bell],
) -> std::io::Result<()> {
    let say = |value: i64, fds: &[_]| fdpass::send(stream, &value.to_le_bytes(), fds);
    say(0, &[])?;
    say(GUEST, &[])?;
    say(-1, &[memory.as_fd()])?;
    to_host.iter().try_for_each(|bell| say(0, &[bell.as_fd()]))?;
    to_guest.iter().try_for_each(|bell| say(GUEST, &[bell.as_fd()]))
}

impl Drop for BarePeer {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        self.bell.ring();
        let _ = UnixStream::connect(self.folder.path().join("s"));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_back_and_ends() {
        let peer = BarePeer::start(None).unwrap();
        let stream = UnixStream::connect(peer.folder.path().join("s")).unwrap();
        let mut bells = Vec::new();
        for _ in 0..3 + 2 * vfun_wire::limits::VECTORS {
            let mut value = [0; 8];
            bells.extend(fdpass::receive(&stream, &mut value).unwrap().1);
        }
        // The window, then the host's bells, then the guest's.
        assert_eq!(bells.len(), 1 + 2 * usize::from(vfun_wire::limits::VECTORS));
        let mut bells = bells.into_iter().skip(1).map(Bell::from_fd);
        let there = bells.next().unwrap();
        let here = bells.nth(usize::from(vfun_wire::limits::VECTORS) - 1).unwrap();
        let waiter = BellWaiter::new(&here).unwrap();
        there.ring();
        assert!(waiter.wait(Some(Duration::from_secs(10))).unwrap());
    }
}
