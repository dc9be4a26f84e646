//! How soon a thread that wakes gets a processor.
//!
//! Linux's scheduler (EEVDF) runs the thread whose slice ends first, and since 6.12 a
//! thread may say how long its own slices are: with shorter ones it gets its
//! share of the processor in smaller pieces, and sooner when it wakes, since it
//! may then interrupt one whose slices are longer. Its share stays the same,
//! and no right is needed for it. (`Documentation/scheduler/sched-eevdf.rst`;
//! `sched_setattr(2)`, field `sched_runtime`.)

use std::io::{Error, Result};
use std::time::Duration;

/// The shortest slice that the kernel takes; it makes more of less.
pub const SHORTEST_SLICE: Duration = Duration::from_micros(100);

/// Asks for slices of this length, for this thread and those that it starts
/// from now on. It keeps its policy and its nice value. A kernel before 6.12
/// says yes and does nothing; a thread with a real-time policy is left alone.
///
/// # Errors
/// What the kernel says: `EPERM` under a filter of system calls that has it so.
pub fn ask_for_slices(of: Duration) -> Result<()> {
    // SAFETY: all zeros is a value of this struct of numbers.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes into the struct, which has so many.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) } != 0 {
        return Err(Error::last_os_error());
    }
    if !matches!(attr.sched_policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH) {
        return Ok(());
    }
    attr.sched_runtime = u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the kernel reads the struct, whose first field says how long it is.
    if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } != 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This thread's policy and slice.
    fn slice() -> (i32, u64) {
        // SAFETY: as above.
        unsafe {
            let mut attr: libc::sched_attr = std::mem::zeroed();
            let size = size_of::<libc::sched_attr>() as u32;
            assert_eq!(libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0), 0);
            (attr.sched_policy as i32, attr.sched_runtime)
        }
    }

    #[test]
    fn a_thread_and_those_it_starts_have_what_it_asked_for() {
        std::thread::spawn(|| {
            let before = slice();
            ask_for_slices(Duration::from_micros(300)).unwrap();
            let (mine, child) = (slice(), std::thread::spawn(slice).join().unwrap());
            match mine {
                // 0: a kernel that knows no slices.
                (libc::SCHED_OTHER | libc::SCHED_BATCH, of) => {
                    assert!(matches!(of, 0 | 300_000), "{of}");
                }
                // Left alone, as where the tests run at the lowest priority.
                _ => assert_eq!(mine, before),
            }
            assert_eq!(mine, child);
        })
        .join()
        .unwrap();
    }
}
