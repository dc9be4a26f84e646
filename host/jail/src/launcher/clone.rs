//! The process itself: made by `clone3`, which the standard library does not
//! offer.
#![allow(unsafe_code)]

use super::Teller;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use vfun_jail::{Layer, Plan};
use vfun_supervise::EXIT_CANNOT_START;

/// Which namespaces of its own it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    pub user: bool,
    pub pid: bool,
    pub mount: bool,
    pub network: bool,
    pub ipc: bool,
    /// The machine's name and the control groups' paths: no layers of their
    /// own, they only tell less.
    pub names: bool,
}

/// Where one is after the call.
pub enum Made {
    /// In the new process.
    Child,
    /// In the launcher.
    Parent { pid: i32 },
}

#[repr(C)]
#[derive(Default)]
struct Arguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const INTO_CGROUP: u64 = 0x2_0000_0000;
const LAYERS: [Layer; 5] = [Layer::User, Layer::Pid, Layer::Mount, Layer::Network, Layer::Ipc];

impl Namespaces {
    fn slot(&mut self, layer: Layer) -> Option<&mut bool> {
        Some(match layer {
            Layer::User => &mut self.user,
            Layer::Pid => &mut self.pid,
            Layer::Mount => &mut self.mount,
            Layer::Network => &mut self.network,
            Layer::Ipc => &mut self.ipc,
            _ => return None,
        })
    }

    /// All that the plan does not leave out.
    fn wanted(plan: &Plan) -> Self {
        let mut spaces = Namespaces { names: true, ..Namespaces::default() };
        for layer in LAYERS {
            if let Some(slot) = spaces.slot(layer) {
                *slot = !plan.without.contains(&layer);
            }
        }
        spaces
    }

    fn flags(self) -> libc::c_int {
        let mut flags = 0;
        for (on, flag) in [
            (self.user, libc::CLONE_NEWUSER),
            (self.pid, libc::CLONE_NEWPID),
            (self.mount, libc::CLONE_NEWNS),
            (self.network, libc::CLONE_NEWNET),
            (self.ipc, libc::CLONE_NEWIPC),
            (self.names, libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP),
        ] {
            if on {
                flags |= flag;
            }
        }
        flags
    }

    /// Those that this host gives; the others are told of.
    /// A host that is short of something lacks none: that is an error.
    pub fn obtainable(plan: &Plan, teller: &Teller<'_>) -> io::Result<Self> {
        let wanted = Self::wanted(plan);
        match try_out(wanted) {
            Ok(()) => return Ok(wanted),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM)) => {
                return Err(e);
            }
            Err(_) => {}
        }
        // Rare, so it may take a while: which of them is it?
        let mut found = Namespaces::default();
        for layer in LAYERS {
            let mut with = found;
            if let (true, Some(slot)) =
                (wanted.flags() != 0 && !plan.without.contains(&layer), with.slot(layer))
            {
                *slot = true;
                match try_out(with) {
                    Ok(()) => found = with,
                    Err(e) => teller.without(layer, format!("the kernel refuses one: {e}")),
                }
            }
        }
        let with = Namespaces { names: true, ..found };
        Ok(if try_out(with).is_ok() { with } else { found })
    }
}

/// Whether the kernel makes a process with these.
fn try_out(spaces: Namespaces) -> io::Result<()> {
    if spaces.flags() == 0 {
        return Ok(());
    }
    // SAFETY: no pointer is passed, so the kernel writes nothing; the new
    // process, a copy of this single-threaded one, only ends.
    let made = unsafe {
        let mut a = Arguments {
            flags: spaces.flags() as u64,
            exit_signal: libc::SIGCHLD as u64,
            ..Arguments::default()
        };
        libc::syscall(libc::SYS_clone3, &raw mut a, size_of::<Arguments>())
    };
    match made {
        0 => end(),
        pid if pid > 0 => {
            let pid = rustix::process::Pid::from_raw(pid as i32);
            let _ = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty());
            Ok(())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the process: its parent is the launcher's parent, the manager, which
/// so learns how it ends.
pub fn make(spaces: Namespaces, group: Option<&Path>) -> io::Result<Made> {
    let group = group.map(std::fs::File::open).transpose()?;
    let mut a =
        Arguments { flags: (libc::CLONE_PARENT | spaces.flags()) as u64, ..Arguments::default() };
    if let Some(group) = &group {
        a.flags |= INTO_CGROUP;
        a.cgroup = group.as_raw_fd() as u64;
    }
    // SAFETY: `a` is what the kernel expects of this size and it lives through
    // the call; no pointer in it is written to. Without CLONE_VM the new process is a
    // copy of this one, which has a single thread, so that no lock of its libraries is
    // held by a thread that is not there.
    let made = unsafe { libc::syscall(libc::SYS_clone3, &raw mut a, size_of::<Arguments>()) };
    match made {
        0 => Ok(Made::Child),
        pid if pid > 0 => Ok(Made::Parent { pid: pid as i32 }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends this process at once, without what the launcher would do at its end.
pub fn end() -> ! {
    // SAFETY: always sound; it does not return.
    unsafe { libc::_exit(EXIT_CANNOT_START) }
}

/// Closes all descriptors but the first three when another program begins.
pub fn close_others_with_exec() -> io::Result<()> {
    // SAFETY: the flag only marks descriptors; nothing is closed here.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a mount, and with `below` all mounts below it, these attributes.
pub fn set_attributes(
    mount: impl std::os::fd::AsFd,
    attributes: u64,
    below: bool,
) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let a = Attributes { set: attributes, clear: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if below { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open, the path a string, and `a` of the size
    // that is said; the kernel only reads them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const a,
            size_of::<Attributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
