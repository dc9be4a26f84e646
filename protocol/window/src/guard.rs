//! What happens when the pages behind a mapping go away: a file that somebody
//! truncates, a file system that runs full. The kernel sends SIGBUS to whoever
//! touches such a page, which ends a process that has nothing to say about it.
//!
//! A **guarded** mapping is in a table. The handler looks the address up there
//! and maps pages of zeros over the whole mapping, so that the access goes on;
//! the mapping counts as *lost* from then on. It is for its owner to see that
//! and to take it down. Any other SIGBUS goes to whoever handled it before:
//! without anybody, it ends the process as ever.
//!
//! The handler takes no lock and allocates nothing. An entry of the table is
//! read as under a sequence lock: one that changes meanwhile is some other
//! mapping's, since the one that faulted is in use and stays where it is. It is
//! for processes of this project (manager, services), not for a library in somebody
//! else's program.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

/// Most guarded mappings at once: a manager has one a window, of which there
/// are some hundreds; a service two a channel of a window in a file, of which policy
/// lets a client have 1024 unless it says otherwise, and one a buffer there, of which it
/// maps 1024.
pub const GUARDED_MAX: usize = 3072;

/// A place in the table.
struct Entry {
    /// 0: free. Odd: changing. Even: in use, and different with each use.
    version: AtomicUsize,
    base: AtomicUsize,
    len: AtomicUsize,
    writable: AtomicBool,
    lost: AtomicBool,
    /// Who has it, in the table's own order.
    taken: AtomicBool,
}

static TABLE: [Entry; GUARDED_MAX] = [const {
    Entry {
        version: AtomicUsize::new(0),
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        writable: AtomicBool::new(false),
        lost: AtomicBool::new(false),
        taken: AtomicBool::new(false),
    }
}; GUARDED_MAX];
/// One beyond the last place that was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Who handled SIGBUS before; set once, before the handler can run.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();

/// A mapping's place in the table, as long as the mapping is there.
pub(crate) struct Guard(&'static Entry);

impl Guard {
    /// Guards the mapping of `len` bytes at `base`.
    pub fn new(base: usize, len: usize, writable: bool) -> io::Result<Self> {
        install()?;
        let free = TABLE.iter().enumerate().find(|(_, e)| {
            e.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        let Some((index, entry)) = free else {
            return Err(io::Error::other(format!("{GUARDED_MAX} windows are mapped already")));
        };
        let version = entry.version.load(Ordering::Relaxed);
        entry.version.store(version | 1, Ordering::Relaxed);
        // The mark is seen before the changes, these before the next mark.
        fence(Ordering::Release);
        entry.base.store(base, Ordering::Relaxed);
        entry.len.store(len, Ordering::Relaxed);
        entry.writable.store(writable, Ordering::Relaxed);
        entry.lost.store(false, Ordering::Relaxed);
        entry.version.store((version | 1) + 1, Ordering::Release);
        USED.fetch_max(index + 1, Ordering::AcqRel);
        Ok(Guard(entry))
    }

    /// Whether its pages went away.
    pub fn lost(&self) -> bool {
        self.0.lost.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.version.fetch_or(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.0.len.store(0, Ordering::Relaxed);
        self.0.version.fetch_add(1, Ordering::Release);
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Lets this process's SIGBUS come to [`handle`], once.
fn install() -> io::Result<()> {
    let done = INSTALLED.get_or_init(|| {
        // SAFETY: an all-zero sigaction is a valid one (SIG_DFL, no flags).
        let mut before: Box<libc::sigaction> =
            Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
        // SAFETY: reads the action in force into memory of its type.
        if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut *before) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
        }
        // Known before the first signal can come here, and never freed.
        BEFORE.store(Box::into_raw(before), Ordering::Release);
        // SAFETY: as above.
        let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        ours.sa_sigaction = handle as *const () as usize;
        // A thread that the runtime gave a stack for signals uses it.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `handle` has the signature that SA_SIGINFO asks for and does
        // only what a handler may do (see there).
        if unsafe { libc::sigaction(libc::SIGBUS, &ours, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
        }
        Ok(())
    });
    done.map_err(io::Error::from_raw_os_error)
}

/// Finds the guarded mapping that `address` is in.
fn find(address: usize) -> Option<(&'static Entry, usize, usize, bool)> {
    for entry in TABLE.iter().take(USED.load(Ordering::Acquire)) {
        let version = entry.version.load(Ordering::Acquire);
        let base = entry.base.load(Ordering::Relaxed);
        let len = entry.len.load(Ordering::Relaxed);
        let writable = entry.writable.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let same = entry.version.load(Ordering::Relaxed) == version;
        if version & 1 == 0 && same && address.wrapping_sub(base) < len {
            return Some((entry, base, len, writable));
        }
    }
    None
}

/// The handler. Only loads, stores, `mmap`, and at the end the former action:
/// all of it may be done in a signal handler.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid siginfo.
    let code = unsafe { (*info).si_code };
    // What a process sends, or a broken memory chip, is not for this.
    if code == libc::BUS_ADRERR {
        // SAFETY: as above; with this code the address is there.
        let address = unsafe { (*info).si_addr() } as usize;
        if let Some((entry, base, len, writable)) = find(address)
            && cover(base, len, writable)
        {
            entry.lost.store(true, Ordering::Release);
            return;
        }
    }
    hand_on(signal, info, context);
}

/// Puts pages of zeros over a mapping of ours.
fn cover(base: usize, len: usize, writable: bool) -> bool {
    let prot = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is a mapping of this crate's that the interrupted
    // access is using, so it is still there and nobody else's; all access to
    // it is by atomic words and raw copies, which zeros satisfy like any bytes.
    // errno is put back, so that the interrupted code does not see a change.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let at = libc::mmap(base as *mut libc::c_void, len, prot, flags, -1, 0);
        *errno = before;
        at == base as *mut libc::c_void
    }
}

/// Not ours: a fault is for whoever handled SIGBUS before. Without anybody, and
/// for one that a process sent (Rust's own handler would let that pass and take
/// ours away), the default is put back, and ends this process.
fn hand_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: `info` is the kernel's; `before` was set before this handler was,
    // and is never changed nor freed; the former handler is called as its flags
    // say it wants to be.
    unsafe {
        let sent = (*info).si_code <= 0;
        let action = (*before).sa_sigaction;
        if !sent && action != libc::SIG_DFL && action != libc::SIG_IGN {
            if (*before).sa_flags & libc::SA_SIGINFO != 0 {
                let f: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(action);
                f(signal, info, context);
            } else {
                let f: extern "C" fn(libc::c_int) = std::mem::transmute(action);
                f(signal);
            }
            return;
        }
        let mut default: libc::sigaction = MaybeUninit::zeroed().assume_init();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &default, std::ptr::null_mut());
        if sent {
            libc::raise(signal); // nothing is tried again; comes when this returns
        }
    }
}
