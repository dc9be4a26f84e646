//! What the host was before an attack, and whether it still is after.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use vfun_admin::{Client, GrantRow};

/// A process of the host, by what the kernel says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Start time in clock ticks: the same id is the same process.
    pub started: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
    /// Resident memory, KiB: its own, and pages of files and windows that it touched.
    pub resident_kib: u64,
    /// Of that, memory that belongs to this process alone (heap, stacks), KiB.
    pub own_kib: u64,
    /// Mappings of files: programs, libraries, windows, channels. Memory without a file is in
    /// `own_kib`; in how many pieces the allocator keeps it says nothing.
    pub maps: usize,
}

impl Process {
    /// What it is now, if it is there (a zombie is not).
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        if *fields.first()? == "Z" {
            return None;
        }
        let count = |folder: &str| {
            std::fs::read_dir(format!("/proc/{pid}/{folder}")).map_or(0, Iterator::count)
        };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let kib = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().strip_suffix(" kB")?.parse().ok()
        };
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        Some(Process {
            pid,
            started: fields.get(19)?.parse().ok()?,
            descriptors: count("fd"),
            threads: count("task"),
            resident_kib: kib("VmRSS")?,
            own_kib: kib("RssAnon")?,
            maps: maps.lines().filter(|line| line.contains(" /")).count(),
        })
    }
}

/// The helpers of the manager with this root, by name: `vfun-keeper`,
/// `vfun-gateway`, and `vfund` itself.
pub fn processes(root: &Path) -> BTreeMap<String, Process> {
    let mut found = BTreeMap::new();
    let root = root.display().to_string();
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()) {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut words = line.split('\0');
        let program = words.next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let ours = words.any(|w| w == root || w.starts_with(&format!("{root}/")));
        if ours
            && matches!(program, "vfund" | "vfund-faulty" | "vfun-keeper" | "vfun-gateway")
            && let Some(process) = Process::of(pid)
        {
            // The oldest: a child that has not become its own program yet is
            // called as its parent is.
            let oldest = found.entry(program.to_owned()).or_insert_with(|| process.clone());
            if process.started < oldest.started {
                *oldest = process;
            }
        }
    }
    found
}

/// The manager at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Windows.
    pub windows: usize,
    /// Sessions.
    pub sessions: usize,
    /// Grants.
    pub grants: usize,
    /// Service processes.
    pub services: usize,
    /// Bytes of windows given out.
    pub window_bytes: u64,
}

/// Asks the manager of this root.
pub fn totals(root: &Path) -> Result<Totals, String> {
    let s = Client::at(root).status().map_err(|e| e.to_string())?;
    Ok(Totals {
        windows: s.windows,
        sessions: s.sessions,
        grants: s.grants,
        services: s.services,
        window_bytes: s.window_bytes_used,
    })
}

/// Grants of one client.
pub fn grants(root: &Path, client: &str) -> Result<Vec<GrantRow>, String> {
    let grants = Client::at(root).grants().map_err(|e| e.to_string())?;
    Ok(grants.into_iter().filter(|g| g.client == client).collect())
}

/// The host before an attack.
pub struct Before {
    root: std::path::PathBuf,
    neighbour: String,
    processes: BTreeMap<String, Process>,
    totals: Totals,
    services: Vec<(String, Option<u32>, u32)>,
}

/// The neighbour's services: function, process, restarts. What it negotiates in
/// passing is served by one of them, and by none while it is not active.
fn services(root: &Path, client: &str) -> Result<Vec<(String, Option<u32>, u32)>, String> {
    let mut rows: Vec<_> = grants(root, client)?
        .into_iter()
        .filter(|g| g.pid.is_some() || g.restarts > 0)
        .map(|g| (g.function, g.pid, g.restarts))
        .collect();
    rows.sort();
    rows.dedup();
    Ok(rows)
}

/// How long the host may take to give back what an attacker had: the grace of
/// a channel that is closed over a call, services that linger, and a session of
/// a window without a connection, whose app falls silent (30 s).
pub const GIVES_BACK: Duration = Duration::from_secs(60);

impl Before {
    /// Looks, once the host is at rest but for the neighbour.
    pub fn look(root: &Path, neighbour: &str) -> Result<Self, String> {
        let until = Instant::now() + GIVES_BACK;
        loop {
            let rows = grants(root, neighbour)?;
            let served = services(root, neighbour)?;
            let now = totals(root)?;
            // Without a passing grant, and with nobody else's.
            let quiet = rows.len() == served.len()
                && now.grants == rows.len()
                && now.services == served.len()
                && served.iter().all(|(_, pid, _)| pid.is_some());
            if quiet {
                return Ok(Before {
                    root: root.to_owned(),
                    neighbour: neighbour.to_owned(),
                    processes: processes(root),
                    totals: now,
                    services: served,
                });
            }
            if Instant::now() > until {
                return Err(format!("the host does not come to rest: {now:?} {rows:#?}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Says what is not as it was: nothing may have died, been started again or
    /// been kept. Waits for what takes a while to be given back.
    ///
    /// # Errors
    /// What is different.
    pub fn compare(&self) -> Result<(), String> {
        let until = Instant::now() + GIVES_BACK;
        loop {
            let wrong = self.different()?;
            match wrong {
                None => return Ok(()),
                Some(what) if Instant::now() > until => return Err(what),
                Some(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// `Err`: for good. `Some`: perhaps not yet.
    fn different(&self) -> Result<Option<String>, String> {
        let now = processes(&self.root);
        for (name, was) in &self.processes {
            match now.get(name) {
                Some(is) if (is.pid, is.started) == (was.pid, was.started) => {}
                other => return Err(format!("{name} was {was:?} and is {other:?}")),
            }
        }
        let served = services(&self.root, &self.neighbour)?;
        if served != self.services {
            return Err(format!(
                "the neighbour's services were {:?} and are {served:?}",
                self.services
            ));
        }
        let totals = totals(&self.root)?;
        // The neighbour's passing grant may be there.
        let passing = totals.grants == self.totals.grants + 1;
        if totals.windows != self.totals.windows
            || totals.sessions != self.totals.sessions
            || totals.services != self.totals.services
            || (totals.grants != self.totals.grants && !passing)
            || (totals.window_bytes != self.totals.window_bytes && !passing)
        {
            return Ok(Some(format!("totals were {:?} and are {totals:?}", self.totals)));
        }
        for (name, was) in &self.processes {
            let is = &now[name];
            // The neighbour's passing channels and this question come and go with some.
            if is.descriptors > was.descriptors + 6 || is.threads > was.threads + 1 {
                return Ok(Some(format!("{name} was {was:?} and is {is:?}")));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_its_own_is_seen_to_grow() {
        const KIB: u64 = 64 << 10;
        let me = || Process::of(std::process::id()).unwrap();
        let before = me();
        let kept = std::hint::black_box(vec![1u8; (KIB << 10) as usize]);
        let after = me();
        assert!(after.own_kib > before.own_kib + KIB * 9 / 10, "{before:?} {after:?}");
        assert!(after.own_kib < after.resident_kib && after.maps > 10, "{after:?}");
        drop(kept);
        assert!(me().own_kib < after.own_kib - KIB * 9 / 10);
    }
}
