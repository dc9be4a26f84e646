//! Which process this is, told by one load: a child of `fork` has none of its
//! parent's mappings, and none of its threads.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Forks between the first process of this program and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// Runs in a child of `fork`, whose only thread this is.
extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
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
        let done = child(|| {
            // Something of the child's own, where its parent has the window.
            // SAFETY: nothing is mapped there in a child, so nothing is replaced.
            let own = unsafe {
                libc::mmap(
                    at.cast(),
                    4096,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                    -1,
                    0,
                )
            };
            drop(kept.take());
            // SAFETY: the page that was just mapped; were it gone, this would be seen.
            unsafe { at.write_volatile(7) };
            own == at.cast() && !me.is_current() && Process::current() != me
        });
        assert_eq!(done, 0);
        assert!(me.is_current());
        kept.take().unwrap().write().unwrap().store(0, 1, Ordering::Relaxed);
    }
}
