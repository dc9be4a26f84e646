//! Which processor does what: the caller (or its guest) one, the service another.

use crate::Result;
use crate::error::Doing;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::sync::OnceLock;

/// The two processors, where there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The caller's processor and the service's.
    cpus: Option<(usize, usize)>,
}

impl Plan {
    /// The first two processors that this process might use when this was
    /// first asked, or none: a thread that is pinned since then makes the same plan.
    pub fn new(wanted: bool) -> Self {
        static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
        let cpus = match ALLOWED.get_or_init(allowed)[..] {
            [caller, service, ..] if wanted => Some((caller, service)),
            _ => None,
        };
        Plan { cpus }
    }

    /// The processor of the caller; none: wherever the system puts it.
    pub fn caller(&self) -> Option<usize> {
        self.cpus.map(|(caller, _)| caller)
    }

    /// The processor of the service; none: wherever the system puts it.
    pub fn service(&self) -> Option<usize> {
        self.cpus.map(|(_, service)| service)
    }

    /// Both processors; none if the system is left to choose.
    pub fn both(&self) -> Vec<usize> {
        self.cpus.map(|(caller, service)| vec![caller, service]).unwrap_or_default()
    }

    /// In words; `None` if the system is left to choose.
    pub fn words(&self) -> Option<String> {
        let (caller, service) = self.cpus?;
        let siblings = format!("/sys/devices/system/cpu/cpu{caller}/topology/thread_siblings_list");
        let siblings = fs::read_to_string(siblings).unwrap_or_default();
        let shared = siblings
            .trim()
            .split([',', '-'])
            .filter_map(|c| c.parse().ok())
            .any(|c: usize| c == service);
        let note = if shared { " (two threads of one core)" } else { "" };
        Some(format!(
            "caller or guest on processor {caller}, services and in-process work on {service}{note}, gateway on any"
        ))
    }
}

/// The processors that this thread may use; none if the system does not say.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

fn one(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// Moves this thread for good. Best effort: where it fails, nothing is wrong with what
/// is measured, only with its spread.
pub fn to(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let _ = sched_setaffinity(None, &one(cpu));
    }
}

/// This thread on one processor, as are all threads and processes that it starts; back
/// where it was when dropped.
pub struct Pinned(Option<CpuSet>);

impl Pinned {
    /// Lets this thread run on some processors; none leaves it where it is.
    pub fn among(cpus: &[usize]) -> Self {
        let before = sched_getaffinity(None).ok().filter(|_| !cpus.is_empty());
        if before.is_some() {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|&cpu| set.set(cpu));
            let _ = sched_setaffinity(None, &set);
        }
        Pinned(before)
    }

    /// Moves this thread; `None` leaves it.
    pub fn to(cpu: Option<usize>) -> Self {
        let before = sched_getaffinity(None).ok().filter(|_| cpu.is_some());
        to(cpu);
        Pinned(before)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

fn tasks(pid: u32) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let ids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    ids.filter_map(Pid::from_raw).collect()
}

/// Moves all threads of a process to one processor, or lets them run on any.
///
/// # Errors
/// The system's, such as that the process is another user's.
pub fn process(pid: u32, cpu: Option<usize>) -> Result<()> {
    let set = match cpu {
        Some(cpu) => one(cpu),
        None => {
            let mut any = CpuSet::new();
            (0..CpuSet::MAX_CPU).for_each(|cpu| any.set(cpu));
            any
        }
    };
    for task in tasks(pid) {
        sched_setaffinity(Some(task), &set)
            .doing(|| format!("cannot choose the processor of process {pid}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_comes_back() {
        let before = allowed();
        let plan = Plan::new(true);
        {
            let _pinned = Pinned::to(before.first().copied());
            assert_eq!(allowed(), before[..1]);
            assert_eq!(Plan::new(true), plan, "from one processor too");
            let inherited = std::thread::spawn(allowed).join().unwrap();
            assert_eq!(inherited, before[..1]);
        }
        assert_eq!(allowed(), before);
        assert_eq!(Plan::new(false).words(), None);
        assert_eq!(plan.words().is_some(), before.len() > 1);
        process(std::process::id(), None).unwrap();
    }
}
