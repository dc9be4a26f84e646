//! Threads that a driver starts for itself, where no control group shares the
//! processors between services: they run at a lower priority, all of them
//! together as one thread of a neighbour's. The kernel shares processors
//! between threads, so that otherwise a driver with 64 of them would have 64
//! parts, and a neighbour one.
//!
//! A service's own threads, the main one, one for each channel and the porter's, keep
//! their priority. A driver could name a thread of its own like one of them: no more are
//! spared than the service has itself, so a driver gains one thread at most where no
//! porter runs yet. Nothing in a service can undo it: to raise a priority takes a
//! privilege that it does not have (`RLIMIT_NICE` is 0 and all capabilities are
//! gone).

use crate::Limits;
use rustix::process::{Pid, Resource, Rlimit, prlimit, setpriority_process};
use std::fs;
use std::io;
use vfun_supervise::{CHANNEL_THREAD, PORTER_THREAD};

/// The lowest priority.
const NICE_MAX: i64 = 19;

/// The priority at which so many threads together get what one gets: each step
/// takes a fifth of a thread's weight away, as the kernel has it.
fn nice_of(threads: usize) -> i64 {
    let mut together = threads as f64;
    let mut nice = 0;
    while together > 1.0 && nice < NICE_MAX {
        together *= 0.8;
        nice += 1;
    }
    nice
}

/// A field of a `stat` file, as proc(5) counts them; those before the fourth
/// are not asked for.
fn field(stat: &str, number: usize) -> Option<i64> {
    // The second, a name, may hold anything but ends with the last bracket.
    let after = stat.rsplit_once(')')?.1;
    after.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// Threads of the process that are neither its main thread, nor its porter's, nor serve
/// one of its `channels` (of more that say so, the oldest count).
fn extra(pid: i32, channels: usize) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut all: Vec<i32> = tasks
        .filter_map(|t| t.file_name().to_str()?.parse().ok())
        .filter(|tid| *tid != pid)
        .collect();
    all.sort_unstable();
    let (mut spared, mut porter) = (0, false);
    all.retain(|tid| {
        let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        let serves = spared < channels && name.starts_with(CHANNEL_THREAD);
        spared += usize::from(serves);
        let porters = !porter && name.trim_end() == PORTER_THREAD;
        porter |= porters;
        !serves && !porters
    });
    all
}

/// Lets a service whose limits are its own have threads for so many channels
/// from now on, and their stacks, if that is more than it may have.
pub fn allow(pid: i32, limits: &Limits, channels: u32) -> io::Result<()> {
    let text = fs::read_to_string(format!("/proc/{pid}/limits"))?;
    for (name, resource, most) in [
        ("Max processes", Resource::Nproc, limits.all_threads(channels).into()),
        ("Max data size", Resource::Data, limits.address_space(channels)),
    ] {
        let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
        let mut words = line.split_whitespace().map_while(|w| w.parse::<u64>().ok());
        // What is not limited, or more than it needs already, stays so.
        let (Some(now), Some(hard)) = (words.next(), words.next()) else { continue };
        if now < most.min(hard) {
            let limit = Rlimit { current: Some(most.min(hard)), maximum: Some(hard) };
            prlimit(Pid::from_raw(pid), resource, limit)?;
        }
    }
    Ok(())
}

/// Gives the threads that a service's driver has for itself the priority that
/// is theirs; `channels` is how many channels it has had at once. How many
/// there are. Priorities only ever sink.
pub fn give_way(pid: i32, channels: usize) -> io::Result<usize> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Field 20 is the number of threads. Most services have none of these.
    if field(&stat, 20).is_some_and(|n| n <= 1 + channels as i64) {
        return Ok(0);
    }
    let extra = extra(pid, channels);
    // Below whatever the service was started with.
    let nice = (field(&stat, 19).unwrap_or(0) + nice_of(extra.len())).min(NICE_MAX);
    for tid in &extra {
        let now = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
        // Field 19 is its priority. One that has ended has none.
        if field(&now, 19).is_none_or(|n| n >= nice) {
            continue;
        }
        match setpriority_process(Pid::from_raw(*tid), nice as i32) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(extra.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn many_threads_weigh_as_one() {
        assert_eq!([0, 1, 2, 4, 8, 16, 64, 100_000].map(nice_of), [0, 0, 4, 7, 10, 13, 19, 19]);
    }

    #[test]
    fn fields_are_counted_after_the_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 -3 20 21";
        assert_eq!(field(stat, 4), Some(1));
        assert_eq!(field(stat, 19), Some(16));
        assert_eq!(field(stat, 20), Some(-3));
        assert_eq!(field("nonsense", 4), None);
    }

    #[test]
    fn only_threads_that_serve_no_channel_give_way() {
        let (send, wait) = channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        let named = |name: &str| {
            let (wait, (tell, told)) = (wait.clone(), channel());
            let body = move || {
                tell.send(rustix::thread::gettid().as_raw_pid()).unwrap();
                let _ = wait.lock().unwrap().recv();
            };
            let thread = std::thread::Builder::new().name(name.into()).spawn(body).unwrap();
            (told.recv().unwrap(), thread)
        };
        let serving = [named("ch 1"), named("ch 2"), named(PORTER_THREAD)];
        let others = [named("x"), named("y"), named("ch 3"), named(PORTER_THREAD)];
        let me = std::process::id() as i32;
        // The test's harness has a thread of its own besides.
        let many = give_way(me, 2).unwrap();
        assert!(many >= 4, "{many}");
        let nice = |tid: i32| {
            let stat = fs::read_to_string(format!("/proc/{me}/task/{tid}/stat")).unwrap();
            field(&stat, 19).unwrap()
        };
        for (tid, _) in &serving {
            assert_eq!(nice(*tid), nice(me));
        }
        for (tid, _) in &others {
            assert!(nice(*tid) >= (nice(me) + nice_of(4)).min(NICE_MAX));
        }
        drop(send);
        for (_, thread) in serving.into_iter().chain(others) {
            thread.join().unwrap();
        }
    }
}
