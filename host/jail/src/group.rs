//! Control groups: a directory for each service, with its share of the
//! processors, its memory and its threads.
//!
//! They lie under `virtfun/ROOT/CLIENT/`, where ROOT stands for the manager's
//! root. With v1 the controllers are mounted one by one, and that is below the
//! manager's own group. With v2 a group whose controllers its groups use may
//! have no process itself, so it is beside the manager's: below the group that
//! was delegated to it, if it is in one named `manager` there (systemd from 254
//! on puts it there); else below its slice, if that is `virtfun.slice`, as in
//! the unit that ships; else below the first group of all.
//!
//! A manager that an older systemd starts anew while services of the one before
//! still run must not find groups below the unit's own: systemd could not put it
//! there. The slice is beside that.

use crate::constants::{CPU_PERIOD_US, CPU_SHARES, KERNEL_BYTES};
use crate::{Layer, Limits, Missing};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const CONTROLLERS: [(Layer, &str); 3] =
    [(Layer::CgroupCpu, "cpu"), (Layer::CgroupMemory, "memory"), (Layer::CgroupPids, "pids")];
/// The group that holds all services of all managers of this machine.
const OURS: &str = "virtfun";
/// The manager's own group where v2 demands one.
const MANAGERS: &str = "manager";
/// The slice of the unit that ships: root's, and nobody else's units are in it.
const SLICE: &str = "virtfun.slice";

/// Where one controller's groups are made.
#[derive(Clone, Debug)]
struct Base {
    layer: Layer,
    controller: &'static str,
    v2: bool,
    dir: PathBuf,
}

/// Where the groups of one manager's services are made.
#[derive(Clone, Debug)]
pub struct Groups {
    bases: Vec<Base>,
    missing: Vec<Missing>,
    /// Where an older manager of the same root made them.
    older: Vec<PathBuf>,
}

/// The groups of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Group {
    /// Directories by layer; with v2 several layers have the same.
    pub dirs: Vec<(Layer, PathBuf)>,
    /// Whether they are of v2.
    pub v2: bool,
}

/// A mounted hierarchy: its options or "" for v2, the path that is mounted, and where.
struct Mounted {
    options: Option<String>,
    root: PathBuf,
    at: PathBuf,
}

fn mounted() -> Vec<Mounted> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut found = vec![];
    for line in text.lines() {
        let Some((head, tail)) = line.split_once(" - ") else { continue };
        let (head, tail): (Vec<_>, Vec<_>) = (head.split(' ').collect(), tail.split(' ').collect());
        let (Some(root), Some(at), Some(kind)) = (head.get(3), head.get(4), tail.first()) else {
            continue;
        };
        let options = match *kind {
            "cgroup" => Some(tail.get(2).unwrap_or(&"").to_string()),
            "cgroup2" => None,
            _ => continue,
        };
        found.push(Mounted { options, root: root.into(), at: at.into() });
    }
    found
}

/// The group of this process in a hierarchy, from /proc/self/cgroup.
fn own(controller: Option<&str>) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|l| {
        let mut f = l.splitn(3, ':');
        let (id, names, path) = (f.next()?, f.next()?, f.next()?);
        let is = match controller {
            Some(c) => names.split(',').any(|n| n == c),
            None => id == "0" && names.is_empty(),
        };
        is.then(|| PathBuf::from(path))
    })
}

impl Mounted {
    /// The directory of a group, if this mount shows it.
    fn dir(&self, group: &Path) -> PathBuf {
        let below = group.strip_prefix(&self.root).unwrap_or(group);
        self.at.join(below.strip_prefix("/").unwrap_or(below))
    }
}

fn write(dir: &Path, file: &str, value: impl ToString) -> io::Result<()> {
    fs::write(dir.join(file), value.to_string())
}

fn has(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|t| t.split_whitespace().any(|w| w == word))
}

fn v1_base(mounts: &[Mounted], controller: &str, root: &str) -> Result<PathBuf, String> {
    let mount = mounts
        .iter()
        .find(|m| m.options.as_ref().is_some_and(|o| o.split(',').any(|o| o == controller)))
        .ok_or_else(|| format!("no controller '{controller}' is mounted"))?;
    let own = own(Some(controller)).unwrap_or_else(|| "/".into());
    let top = mount.dir(&own).join(OURS);
    let dir = top.join(root);
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    if controller == "cpu" {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        // As much as that many busy threads beside it; the default is one.
        let _ = write(&top, "cpu.shares", CPU_SHARES * processors);
    }
    Ok(dir)
}

/// v2: the group below which those of services are, for a manager in `own`.
fn v2_parent(mount: &Mounted, own: &Path) -> PathBuf {
    let slice = || own.ancestors().find(|a| a.ends_with(SLICE));
    match own.parent().filter(|_| own.ends_with(MANAGERS)).or_else(slice) {
        Some(group) => mount.dir(group),
        // Its own group has a process, the manager: only the first group of all
        // may have both processes and groups with controllers.
        None => mount.at.clone(),
    }
}

/// Makes the directory of all managers while this process may still write where
/// root may only by a privilege: the first group of all is closed to writing.
/// What cannot be made is found missing later, with the reason.
pub fn prepare() {
    let mounts = mounted();
    for (_, controller) in CONTROLLERS {
        if v1_base(&mounts, controller, "").is_err() {
            let _ = v2_base(&mounts, controller, "");
        }
    }
}

/// v2: where groups may be made, with this controller switched on below.
fn v2_base(mounts: &[Mounted], controller: &str, root: &str) -> Result<PathBuf, String> {
    let none = || format!("no controller '{controller}' is there, neither of v1 nor of v2");
    let mount = mounts.iter().find(|m| m.options.is_none()).ok_or_else(none)?;
    let own = own(None).unwrap_or_else(|| "/".into());
    let parent = v2_parent(mount, &own);
    if !has(&parent.join("cgroup.controllers"), controller) {
        return Err(none());
    }
    let dir = parent.join(OURS).join(root);
    let made = (|| {
        let on = format!("+{controller}");
        let mut at = parent.clone();
        write(&at, "cgroup.subtree_control", &on)?;
        for step in [OURS, root] {
            at.push(step);
            fs::create_dir_all(&at)?;
            write(&at, "cgroup.subtree_control", &on)?;
        }
        Ok::<_, io::Error>(())
    })();
    made.map_err(|e| {
        format!(
            "{}: {e} (the manager needs a group of its own named '{MANAGERS}' in one that was delegated to it, or as root the slice '{SLICE}': packaging/vfund.service has both)",
            dir.display()
        )
    })?;
    Ok(dir)
}

/// A name as a directory's: nothing of it leads elsewhere.
fn plain(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let text: String = name.chars().map(safe).take(64).collect();
    if text.starts_with('.') { format!("_{text}") } else { text }
}

impl Groups {
    /// Finds out where groups can be made for the manager of this root, and
    /// takes away what an earlier one left.
    pub fn find(root: &str) -> Self {
        let (mounts, root) = (mounted(), plain(root));
        let mut groups = Groups { bases: vec![], missing: vec![], older: vec![] };
        for (layer, controller) in CONTROLLERS {
            let base = match v1_base(&mounts, controller, &root) {
                Ok(dir) => Ok((false, dir)),
                Err(v1) => match v2_base(&mounts, controller, &root) {
                    Ok(dir) => Ok((true, dir)),
                    Err(v2) if v1.starts_with("no ") => Err(v2),
                    Err(_) => Err(v1),
                },
            };
            match base {
                Ok((v2, dir)) => groups.bases.push(Base { layer, controller, v2, dir }),
                Err(why) => groups.missing.push(Missing::new(layer, why)),
            }
        }
        groups.sweep(&BTreeSet::new());
        groups
    }

    /// An older manager of this root had this name for it: what it left there is
    /// taken away, too, as soon as nothing runs in it.
    pub fn also_sweep(&mut self, older: &str) {
        let older = plain(older);
        self.older = self.bases.iter().map(|b| b.dir.with_file_name(&older)).collect();
        self.sweep(&BTreeSet::new());
    }

    /// Layers that no service can have.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Makes the groups of a service. `shared` is memory that others share with
    /// it and that may be counted as its own, bytes.
    pub fn make(
        &self,
        client: &str,
        name: &str,
        limits: &Limits,
        shared: u64,
        without: &std::collections::BTreeSet<Layer>,
    ) -> (Group, Vec<Missing>) {
        let (mut group, mut missing) = (Group::default(), vec![]);
        for base in self.bases.iter().filter(|b| !without.contains(&b.layer)) {
            let client_dir = base.dir.join(plain(client));
            let dir = client_dir.join(plain(name));
            let made = fs::create_dir_all(&dir)
                .and_then(|()| match base.v2 {
                    true => write(
                        &client_dir,
                        "cgroup.subtree_control",
                        format!("+{}", base.controller),
                    ),
                    false => Ok(()),
                })
                .and_then(|()| bound(&dir, base.layer, base.v2, limits, shared));
            match made {
                Ok(()) => {
                    group.v2 |= base.v2;
                    group.dirs.push((base.layer, dir));
                }
                Err(e) => {
                    let _ = fs::remove_dir(&dir);
                    missing.push(Missing::new(base.layer, format!("{}: {e}", dir.display())));
                }
            }
        }
        (group, missing)
    }

    /// Takes away all groups in which nothing runs but those of `keep`, into
    /// which something may be about to move; true if no others are left.
    pub fn sweep(&self, keep: &BTreeSet<&Path>) -> bool {
        let mut clean = true;
        for dir in self.bases.iter().map(|b| &b.dir).chain(&self.older) {
            for client in subdirs(dir) {
                for service in subdirs(&client) {
                    clean &= keep.contains(service.as_path()) || fs::remove_dir(service).is_ok();
                }
                let _ = fs::remove_dir(client);
            }
        }
        for dir in &self.older {
            let _ = fs::remove_dir(dir);
        }
        clean
    }

    /// Takes all of it away: no service is left. True if it is gone.
    pub fn end(&self) -> bool {
        let clean = self.sweep(&BTreeSet::new());
        for base in &self.bases {
            let _ = fs::remove_dir(&base.dir);
            if let Some(ours) = base.dir.parent() {
                let _ = fs::remove_dir(ours);
            }
        }
        clean
    }
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

fn bound(dir: &Path, layer: Layer, v2: bool, limits: &Limits, shared: u64) -> io::Result<()> {
    match (layer, v2) {
        (Layer::CgroupCpu, false) => {
            let quota = limits.cpu_percent.map(|p| u64::from(p.max(1)) * CPU_PERIOD_US / 100);
            write(dir, "cpu.cfs_period_us", CPU_PERIOD_US)?;
            write(dir, "cpu.cfs_quota_us", quota.map_or("-1".into(), |q| q.to_string()))
        }
        (Layer::CgroupCpu, true) => {
            let quota = limits.cpu_percent.map(|p| u64::from(p.max(1)) * CPU_PERIOD_US / 100);
            let quota = quota.map_or("max".into(), |q| q.to_string());
            write(dir, "cpu.max", format!("{quota} {CPU_PERIOD_US}"))
        }
        (Layer::CgroupMemory, _) => bound_memory(dir, v2, limits, shared),
        (Layer::CgroupPids, _) => write(dir, "pids.max", limits.all_threads(0)),
        _ => Ok(()),
    }
}

fn bound_memory(dir: &Path, v2: bool, limits: &Limits, shared: u64) -> io::Result<()> {
    let bytes = limits.memory_bytes.saturating_add(shared).saturating_add(KERNEL_BYTES);
    if v2 {
        write(dir, "memory.max", bytes)?;
        // All of it at once: half a service is none. And no swap beyond.
        let _ = write(dir, "memory.oom.group", 1);
        let _ = write(dir, "memory.swap.max", 0);
        return Ok(());
    }
    // Memory together with swap may not be less than memory alone, whichever
    // of the two grows; without swap accounting the second file is not there.
    let both = "memory.memsw.limit_in_bytes";
    let swap_first = dir.join(both).exists() && write(dir, both, bytes).is_ok();
    write(dir, "memory.limit_in_bytes", bytes)?;
    if dir.join(both).exists() && !swap_first {
        write(dir, both, bytes)?;
    }
    Ok(())
}

impl Group {
    /// Files in which a process of one thread enters the groups of v1.
    pub fn tasks(&self) -> Vec<PathBuf> {
        self.v1_dirs().map(|d| d.join("tasks")).collect()
    }

    fn v1_dirs(&self) -> impl Iterator<Item = &PathBuf> {
        self.dirs.iter().map(|(_, d)| d).filter(|d| d.join("tasks").exists())
    }

    /// The group of v2, if there is one.
    pub fn unified(&self) -> Option<PathBuf> {
        self.dirs.iter().map(|(_, d)| d).find(|d| !d.join("tasks").exists()).cloned()
    }

    /// Whether it bounds memory.
    pub fn bounds_memory(&self) -> bool {
        self.dirs.iter().any(|(l, _)| *l == Layer::CgroupMemory)
    }

    /// More memory is shared with the service than before.
    pub fn share(&self, limits: &Limits, shared: u64) -> io::Result<()> {
        match self.dirs.iter().find(|(l, _)| *l == Layer::CgroupMemory) {
            Some((_, dir)) => bound_memory(dir, !dir.join("tasks").exists(), limits, shared),
            None => Ok(()),
        }
    }

    /// The service has so many channels now, each with a thread.
    pub fn serve(&self, limits: &Limits, channels: u32) -> io::Result<()> {
        match self.dirs.iter().find(|(l, _)| *l == Layer::CgroupPids) {
            Some((_, dir)) => write(dir, "pids.max", limits.all_threads(channels)),
            None => Ok(()),
        }
    }

    /// Whether the kernel ended a process of it for want of memory.
    pub fn starved(&self) -> bool {
        let Some((_, dir)) = self.dirs.iter().find(|(l, _)| *l == Layer::CgroupMemory) else {
            return false;
        };
        ["memory.events", "memory.oom_control"].iter().any(|f| {
            fs::read_to_string(dir.join(f))
                .unwrap_or_default()
                .lines()
                .any(|l| l.strip_prefix("oom_kill ").is_some_and(|n| n.trim() != "0"))
        })
    }

    /// Removes what can be removed: true when nothing is left.
    pub fn remove(&self) -> bool {
        let mut gone = true;
        for (_, dir) in &self.dirs {
            match fs::remove_dir(dir) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => gone = false,
                _ => {
                    // Its client's, if this was the last of it.
                    if let Some(client) = dir.parent() {
                        let _ = fs::remove_dir(client);
                    }
                }
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_beside_the_managers_own() {
        let mount = Mounted { options: None, root: "/".into(), at: "/cg".into() };
        let parent = |own: &str| v2_parent(&mount, Path::new(own));
        let unit = "/virtfun.slice/vfund.service";
        assert_eq!(parent(&format!("{unit}/manager")), Path::new("/cg").join(&unit[1..]));
        assert_eq!(parent(unit), Path::new("/cg/virtfun.slice"), "systemd before 254");
        assert_eq!(parent("/user.slice/x.service/manager"), Path::new("/cg/user.slice/x.service"));
        assert_eq!(parent("/system.slice/vfund.service"), Path::new("/cg"));
        assert_eq!(parent("/"), Path::new("/cg"));
    }

    #[test]
    fn names_lead_nowhere_else() {
        assert_eq!(plain("../x/y"), "_.._x_y");
        assert_eq!(plain("vm-1"), "vm-1");
        assert!(plain(&"a".repeat(300)).len() <= 65);
    }

    #[test]
    fn what_an_older_manager_left_under_its_name_of_the_root_is_swept() {
        let top = std::env::temp_dir().join(format!("vfun-groups-{}", std::process::id()));
        let made = |path: &str| {
            let dir = top.join(path);
            fs::create_dir_all(&dir).unwrap();
            dir
        };
        let base = |dir| Base { layer: Layer::CgroupPids, controller: "pids", v2: false, dir };
        let bases = vec![base(made("new"))];
        let mut groups = Groups { bases, missing: vec![], older: vec![] };
        let (service, other) = (made("old/vm1/add-1-1"), made("other/vm1/add-1-1"));
        // Something runs in this one.
        let busy = made("old/vm2/add-1-2/process");
        groups.also_sweep("old");
        assert!(!service.parent().unwrap().exists() && busy.exists() && other.exists());
        fs::remove_dir(&busy).unwrap();
        assert!(groups.sweep(&BTreeSet::new()), "nothing is left");
        assert!(!top.join("old").exists() && top.join("new").exists() && other.exists());
        fs::remove_dir_all(&top).unwrap();
    }
}
