//! What a manager sees of a VM, without one: its QEMU's connection, and files that look
//! like its PCI device.

use crate::Stand;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfun_window::{Access, Mapping, fdpass};

/// A QEMU of a VM's client: its connection, and what it was told with it.
pub struct Qemu {
    /// Its connection: the end of it is the VM's.
    pub socket: UnixStream,
    /// The first number: the protocol's version, or why there is no window.
    pub first: i64,
    /// The window's memory, the bells that ring the host, those that ring the VM.
    pub fds: Vec<OwnedFd>,
}

/// Connects to a client's socket.
pub fn qemu(stand: &Stand, client: &str) -> Qemu {
    let socket = stand.root().join(format!("ivshmem/{client}.sock"));
    let socket = UnixStream::connect(socket).expect("the manager listens");
    let (mut first, mut fds) = (None, vec![]);
    while fds.len() < 17 {
        let mut word = [0; 8];
        let (n, more) = fdpass::receive(&socket, &mut word).expect("an answer");
        let said = if n == 8 { i64::from_le_bytes(word) } else { i64::MIN };
        first.get_or_insert(said);
        if said < -1 {
            break;
        }
        fds.extend(more);
    }
    Qemu { socket, first: first.expect("at least one"), fds }
}

impl Qemu {
    /// The window's memory, for any process of this machine.
    pub fn memory(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.fds[0].as_raw_fd()).into()
    }
}

/// A made-up PCI device of a VM, whose memory is `window`.
pub fn device(folder: &Path, window: &Path) -> PathBuf {
    let device = folder.join("0000:00:04.0");
    let made = std::fs::create_dir_all(&device)
        .and_then(|()| std::fs::write(device.join("vendor"), "0x1af4\n"))
        .and_then(|()| std::fs::write(device.join("device"), "0x1110\n"))
        .and_then(|()| std::fs::write(device.join("resource0"), vec![0xff; 4096]))
        .and_then(|()| std::os::unix::fs::symlink(window, device.join("resource2")));
    made.expect("a folder of the test's own");
    device
}

/// What such a device does: rings the host when its doorbell's register is written.
pub fn pass_rings_on(device: &Path, bells: &[OwnedFd], stop: &AtomicBool) {
    let mut options = std::fs::File::options();
    let file = options.read(true).write(true).open(device.join("resource0")).expect("made");
    let page = Mapping::new(&file, 0, 4096, Access::ReadWrite).expect("a page").write();
    let page = page.expect("mapped for writing");
    let word = vfun_wire::ivshmem::REG_DOORBELL / 8;
    while !stop.load(Ordering::Relaxed) {
        if page.load(word, Ordering::Acquire) == u64::MAX {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        // All of them, after the word is free again: a ring between is not lost.
        page.store(word, u64::MAX, Ordering::SeqCst);
        for bell in bells {
            rustix::io::write(bell, &1u64.to_ne_bytes()).expect("an eventfd");
        }
    }
}
