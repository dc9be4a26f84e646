//! The status file: what `vfun-agent status` shows, and what an agent that is started
//! again knows of the paravirtual NIC.

use crate::counters::Counters;
use crate::limits::{LOCK_PATIENCE, STATUS_BYTES};
use crate::paravirtual::Known;
use crate::sysfs;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;
use vfun_bond::{Mode, Report};

/// Where status files are. A file for each bond, named after it.
pub const FOLDER: &str = "/run/vfun-agent";

/// How things are, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub pid: u32,
    /// How it goes with the host.
    pub host: String,
    pub paravirtual: Option<Known>,
    /// The path that the host wants.
    pub wanted: Option<vfun_bond::Path>,
    pub fail_over_mac: Option<String>,
    #[serde(flatten)]
    pub report: Report,
}

/// The status file of an agent, which it alone writes.
pub struct StatusFile {
    path: PathBuf,
    written: Option<Status>,
    /// Held while the agent lives; none if the folder cannot be written.
    _lock: Option<File>,
}

fn file_of(folder: &Path, bond: &str, end: &str) -> PathBuf {
    folder.join(format!("{bond}.{end}"))
}

fn read(path: &Path) -> Option<Status> {
    let mut text = String::new();
    File::open(path).ok()?.take(STATUS_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

impl StatusFile {
    /// Opens it. Where the folder cannot be written there is no status, and the agent
    /// works without.
    ///
    /// # Errors
    /// A sentence, if another agent looks after this bond.
    pub fn open(folder: &Path, bond: &str) -> Result<Self, String> {
        let _ = fs::create_dir_all(folder);
        let lock = file_of(folder, bond, "lock");
        let lock = OpenOptions::new().create(true).append(true).open(lock).ok();
        if let Some(file) = &lock {
            let end = Instant::now() + LOCK_PATIENCE;
            // `vfun-agent status` holds it for a moment.
            while flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
                if Instant::now() >= end {
                    return Err(format!("another vfun-agent looks after {bond}: end it first"));
                }
                std::thread::sleep(LOCK_PATIENCE / 20);
            }
        }
        Ok(StatusFile { path: file_of(folder, bond, "json"), written: None, _lock: lock })
    }

    /// What the agent before this one knew of the paravirtual NIC.
    pub fn known(&self) -> Option<Known> {
        read(&self.path)?.paravirtual
    }

    /// Writes it, if something else is so.
    ///
    /// # Errors
    /// A sentence.
    pub fn write(&mut self, status: &Status) -> Result<(), String> {
        if self.written.as_ref() == Some(status) {
            return Ok(());
        }
        let new = self.path.with_extension("new");
        let text = serde_json::to_vec(status).expect("plain data");
        let wrote = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path));
        self.written = Some(status.clone());
        wrote.map_err(|e| format!("there is no status: {} cannot be written: {e}", new.display()))
    }
}

/// A bond's status, and whether its agent lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub running: bool,
    #[serde(flatten)]
    pub status: Status,
}

/// All bonds that have or had an agent since the machine's start.
pub fn all(folder: &Path) -> Vec<Shown> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<PathBuf> = files.map(|f| f.path()).collect();
    names.retain(|p| p.extension().is_some_and(|e| e == "json"));
    names.sort();
    names.iter().filter_map(|p| show(p)).collect()
}

fn show(path: &Path) -> Option<Shown> {
    let mut status = read(path)?;
    let lock = File::open(path.with_extension("lock")).ok();
    let free = |f: &File| flock(f, FlockOperation::NonBlockingLockShared).is_ok();
    let running = lock.as_ref().is_some_and(|f| !free(f));
    let bond = &status.report.bond;
    if !bond.contains('/') {
        status.report.packets =
            Counters::new(Path::new(sysfs::NET), bond).packets().unwrap_or_default();
    }
    Some(Shown { running, status })
}

fn path_name(path: Option<vfun_bond::Path>) -> &'static str {
    match path {
        Some(vfun_bond::Path::Paravirtual) => "paravirtual",
        Some(vfun_bond::Path::Vf) => "vf",
        None => "none",
    }
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (s, r) = (&self.status, &self.status.report);
        let agent = match self.running {
            true => format!("runs (process {}, version {})", s.pid, r.agent),
            false => "does not run; this is how it left things".into(),
        };
        let known = s.paravirtual.as_ref().map_or("not found yet", |k| &k.name);
        let vf = r.vf.as_deref().unwrap_or("none");
        let wanted = s.wanted.map_or("nothing", |path| path_name(Some(path)));
        writeln!(f, "{}", r.bond)?;
        writeln!(f, "  agent          {agent}")?;
        writeln!(f, "  host           {}", s.host)?;
        writeln!(f, "  packets take   {} (the host wants: {wanted})", path_name(r.path))?;
        writeln!(f, "  paravirtual    {known}")?;
        writeln!(f, "  VF             {vf}")?;
        writeln!(f, "  MAC address    {}", r.mac)?;
        match &s.fail_over_mac {
            Some(how) => writeln!(f, "  held by        a bond, fail_over_mac {how}")?,
            None if r.mode == Mode::NetFailover => {
                writeln!(f, "  held by        net_failover (packets may be lost when a VF goes)")?;
            }
            None => {}
        }
        write!(f, "  packets        {}", r.packets)?;
        match &r.trouble {
            Some(why) => write!(f, "\n  trouble        {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let report = Report {
            order: 1,
            agent: "0".into(),
            bond: "nobond".into(),
            mode: Mode::Bond,
            mac: "?".into(),
            path: None,
            vf: None,
            packets: 0,
            latency_us: None,
            trouble: Some("cable".into()),
        };
        let known = Known { name: "eth0".into(), mac: None, pci: Some("0000:00:05.0".into()) };
        Status {
            pid: 1,
            host: "gives orders".into(),
            paravirtual: Some(known),
            wanted: None,
            fail_over_mac: Some("none".into()),
            report,
        }
    }

    #[test]
    fn a_second_agent_is_refused_and_the_next_one_knows_the_paravirtual_nic() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = StatusFile::open(dir.path(), "nobond").unwrap();
        assert_eq!(file.known(), None);
        file.write(&status()).unwrap();
        assert!(StatusFile::open(dir.path(), "nobond").is_err());
        let shown = all(dir.path());
        assert!(shown[0].running && shown[0].to_string().contains("cable"));
        drop(file);
        assert!(!all(dir.path())[0].running);
        let next = StatusFile::open(dir.path(), "nobond").unwrap();
        assert_eq!(next.known(), status().paravirtual);
    }

    #[test]
    fn without_a_folder_there_is_no_status_and_an_agent_all_the_same() {
        let mut file = StatusFile::open(Path::new("/proc/none"), "nobond").unwrap();
        assert!(file.write(&status()).is_err());
    }
}
