//! What the kernel knows of a process.

use std::fs;
use std::time::Duration;

/// Resident memory in bytes, shared pages included; `None` if there is no such process.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Memory of a process in bytes, each page that is shared counted by the part of one who
/// shares it (PSS); `None` if there is no such process, or it is not ours to look at.
pub fn proportional_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Time that all threads of a process have run so far. From the scheduler, to the
/// nanosecond, where the kernel keeps that; else in ticks of 10 ms.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut sum = Duration::ZERO;
    for task in tasks.flatten() {
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else {
            return ticks(pid, OWN);
        };
        let ns = text.split_whitespace().next().and_then(|n| n.parse().ok())?;
        sum += Duration::from_nanos(ns);
    }
    Some(sum)
}

/// Time that programs which a process started, and which have ended, have run. In ticks of 10 ms.
pub fn children_time(pid: u32) -> Option<Duration> {
    ticks(pid, CHILDREN)
}

/// Fields of `/proc/PID/stat` behind the program's name: before a process's own times, and
/// before those of its children.
const OWN: usize = 11;
const CHILDREN: usize = 13;

fn ticks(pid: u32, before: usize) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(before);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Duration::from_millis((user + system) * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_is_resident() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 500_000);
        assert!(proportional_bytes(pid).unwrap() > 100_000);
        let before = cpu_time(pid).unwrap();
        let start = std::time::Instant::now();
        // On a busy machine it may wait for its turn.
        while cpu_time(pid).unwrap() <= before {
            assert!(start.elapsed() < Duration::from_secs(30), "no time was counted");
        }
        assert!(ticks(pid, OWN).is_some());
        let before = children_time(pid).unwrap();
        while children_time(pid).unwrap() <= before {
            // Enough work that a tick falls into it.
            let child = std::process::Command::new("sh")
                .args(["-c", "for i in $(seq 20000); do :; done"])
                .status();
            assert!(child.unwrap().success());
            assert!(start.elapsed() < Duration::from_secs(60), "no child's time was counted");
        }
        assert_eq!((resident_bytes(u32::MAX), cpu_time(u32::MAX)), (None, None));
        assert_eq!(proportional_bytes(u32::MAX), None);
    }
}
