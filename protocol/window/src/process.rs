//! Which process this is, told by one load: a child of `fork` has none of its
//! parent's mappings, and none of its threads.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Forks between the first process of this program and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// Most mappings whose addresses stay empty in a child: a channel has two, a session
/// three, a manager one for each window. Of one beyond that a child may have something
/// else there.
pub(crate) const KEPT_EMPTY_MAX: usize = 4096;

/// A mapping's place in the table of those; [`FREE`], [`CHANGING`] or where it begins.
struct Place {
    at: AtomicUsize,
    len: AtomicUsize,
}

const FREE: usize = 0;
const CHANGING: usize = 1;

static PLACES: [Place; KEPT_EMPTY_MAX] =
    [const { Place { at: AtomicUsize::new(FREE), len: AtomicUsize::new(0) } }; KEPT_EMPTY_MAX];
/// One beyond the last place that was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// For as long as this lives, nothing else comes to lie in a child of `fork` where its
/// parent has a mapping. The child has the parent's pointers and buffers still: who
/// follows one is to end there, and neither read nor write what is somebody else's.
pub(crate) struct KeptEmpty(Option<&'static Place>);

impl KeptEmpty {
    /// Of the mapping of `len` bytes at `at`.
    pub fn new(at: usize, len: usize) -> Self {
        let free = PLACES.iter().enumerate().find(|(_, p)| {
            p.at.compare_exchange(FREE, CHANGING, Ordering::Acquire, Ordering::Relaxed).is_ok()
        });
        KeptEmpty(free.map(|(index, place)| {
            place.len.store(len, Ordering::Relaxed);
            place.at.store(at, Ordering::Release);
            USED.fetch_max(index + 1, Ordering::AcqRel);
            place
        }))
    }
}

impl Drop for KeptEmpty {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.at.store(FREE, Ordering::Release);
        }
    }
}

/// Runs in a child of `fork`, whose only thread this is.
extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for place in PLACES.iter().take(USED.load(Ordering::Acquire)) {
        let (at, len) = (place.at.load(Ordering::Acquire), place.len.load(Ordering::Relaxed));
        if at != FREE && at != CHANGING {
            // SAFETY: takes addresses at which nothing lies in this process, and
            // replaces nothing (a private mapping that was cut off, say); a system
            // call, which may be made here. Where it fails nothing is kept empty.
            unsafe {
                libc::mmap(
                    at as *mut libc::c_void,
                    len,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE
                        | libc::MAP_ANONYMOUS
                        | libc::MAP_NORESERVE
                        | libc::MAP_FIXED_NOREPLACE,
                    -1,
                    0,
                );
            }
        }
    }
}

/// A process, to be compared with the one that runs later. A copy made by
/// `fork` (also by Python's, and by `multiprocessing`'s) is told apart; one made
/// by the system calls `clone` and `vfork` themselves, past the C library, is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The one that runs now.
    pub fn current() -> Process {
        WATCH.call_once(|| {
            // SAFETY: the handler only adds to an atomic, which may be done at
            // any time; it stays in this program for as long as the program runs.
            // It fails only for want of memory: then a child is not told apart.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        });
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Whether it runs now, and not a child of it.
    #[inline(always)]
    pub fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Mapping, memfd};

    /// Runs in a child, which ends by what it says.
    fn child(run: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child does nothing but loads, stores and unmapping, and ends.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(if run() { 0 } else { 1 }),
                pid => {
                    let mut status = -1;
                    assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                    status
                }
            }
        }
    }

    #[test]
    fn a_child_is_another_process_and_leaves_mappings_of_its_parent_alone() {
        let me = Process::current();
        assert!(me.is_current() && me == Process::current());
        let fd = memfd("t", 4096).unwrap();
        let map = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap();
        let at = map.write().unwrap().as_mut_ptr();
        let kept = std::cell::Cell::new(Some(map));
        // Whether something of the child's own can come to lie there.
        let comes = || {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: replaces nothing.
            unsafe { libc::mmap(at.cast(), 4096, libc::PROT_READ, flags, -1, 0) == at.cast() }
        };
        let done = child(|| {
            if comes() || me.is_current() || Process::current() == me {
                return false;
            }
            drop(kept.take());
            !comes()
        });
        assert_eq!(done, 0);
        // Whoever follows a pointer of the parent's ends there.
        let read = child(|| {
            // SAFETY: ends the child, which is what is asked for.
            unsafe { at.read_volatile() };
            true
        });
        assert_ne!(read, 0);
        assert!(me.is_current());
        kept.take().unwrap().write().unwrap().store(0, 1, Ordering::Relaxed);
    }
}
