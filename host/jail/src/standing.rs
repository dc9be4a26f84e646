//! Which layers a process really has, as the kernel tells.

use crate::constants::{FILE_BYTES, OPEN_FILES, SCRATCH};
use crate::{Layer, Missing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// The layers of one service.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Standing {
    /// In force.
    pub layers: BTreeSet<Layer>,
    /// Not there.
    pub missing: Vec<Missing>,
    /// The version of Landlock's interface, where it is in force.
    pub landlock: Option<u32>,
}

/// What was meant for a process, to compare with.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Meant {
    /// User of the host that should be its own.
    pub user: Option<u32>,
    /// Directories of its control groups, by layer.
    pub groups: Vec<(Layer, PathBuf)>,
    /// What is missing, as those who tried know.
    pub missing: Vec<Missing>,
    /// Landlock's version, by the launcher's word: the kernel tells nobody.
    pub landlock: Option<u32>,
    /// Folders in which it may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<PathBuf>,
}

fn own_namespace(pid: i32, kind: &str) -> bool {
    let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/{kind}"));
    matches!((of("self"), of(&pid.to_string())), (Ok(mine), Ok(its)) if mine != its)
}

/// The words of a line of /proc/PID/status.
fn words<'a>(status: &'a str, key: &str) -> Vec<&'a str> {
    let line = status.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'));
    line.map_or(vec![], |l| l.split_whitespace().collect())
}

/// Whether these are the mounts of a service that may write in these folders.
fn own_root(mounts: &str, writes: &[PathBuf]) -> bool {
    let mut roots = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>());
    // id parent dev root mountpoint options ... - type source options
    let own = roots.any(|f| {
        f.get(4) == Some(&"/")
            && f.get(5).is_some_and(|o| o.split(',').any(|o| o == "ro"))
            && f.iter().skip_while(|w| **w != "-").nth(1) == Some(&"tmpfs")
    });
    own && !mounts.lines().any(|l| {
        let words: Vec<_> = l.split(' ').collect();
        let own_memory = words.get(4) == Some(&SCRATCH)
            && words.iter().skip_while(|w| **w != "-").nth(1) == Some(&"tmpfs");
        let its = words.get(4).is_some_and(|p| writes.iter().any(|w| escaped(w) == *p));
        // Whatever else could be written to was meant for somebody else.
        !own_memory && !its && words.get(5).is_some_and(|o| o.split(',').any(|o| o == "rw"))
    })
}

/// A path as the kernel writes it there.
fn escaped(path: &Path) -> String {
    let text = path.display().to_string();
    [('\\', "\\134"), (' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")]
        .into_iter()
        .fold(text, |text, (of, is)| text.replace(of, is))
}

fn rlimits(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let hard = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    hard("Max core file size") == Some(0)
        && hard("Max open files").is_some_and(|n| n <= OPEN_FILES)
        && hard("Max file size").is_some_and(|n| n <= FILE_BYTES)
}

/// Whether the process is in the group with this directory.
fn grouped(cgroups: &str, dir: &Path) -> bool {
    cgroups.lines().filter_map(|l| l.splitn(3, ':').nth(2)).any(|path| {
        // The directory is where the hierarchy is mounted, and this path.
        path.len() > 1 && dir.ends_with(path.trim_start_matches('/'))
    })
}

/// Whether the process of this descriptor has ended.
fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
}

impl Standing {
    /// Looks at the process with this number and descriptor. One that has ended
    /// has no layer: its number may be somebody else's by then.
    pub fn of(pid: i32, pidfd: BorrowedFd<'_>, meant: &Meant) -> Self {
        let seen = Self::seen(pid, meant);
        // After the look: as long as it had not ended, the number was its own.
        match has_ended(pidfd) {
            false => seen,
            true => {
                let why = |layer| Missing::new(layer, "its process has ended");
                let missing = Layer::ALL.into_iter().map(why).collect();
                Standing { layers: BTreeSet::new(), missing, landlock: None }
            }
        }
    }

    fn seen(pid: i32, meant: &Meant) -> Self {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let users = words(&status, "Uid");
        let holds = |layer: Layer| match layer {
            Layer::User => own_namespace(pid, "user"),
            Layer::OwnUser => meant
                .user
                .is_some_and(|u| users.len() == 4 && users.iter().all(|w| w.parse() == Ok(u))),
            Layer::Pid => own_namespace(pid, "pid"),
            Layer::Mount => own_namespace(pid, "mnt") && own_root(&mounts, &meant.writes),
            Layer::Network => own_namespace(pid, "net"),
            Layer::Ipc => own_namespace(pid, "ipc"),
            Layer::NoNewPrivileges => words(&status, "NoNewPrivs") == ["1"],
            Layer::Capabilities => ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
                .iter()
                .all(|k| words(&status, k).first().is_some_and(|w| w.bytes().all(|b| b == b'0'))),
            // Two: a filter, installed by the service before it loads its driver.
            Layer::Seccomp => words(&status, "Seccomp") == ["2"],
            Layer::Landlock => meant.landlock.is_some(),
            Layer::Rlimits => rlimits(pid),
            Layer::CgroupCpu | Layer::CgroupMemory | Layer::CgroupPids => {
                meant.groups.iter().any(|(l, dir)| *l == layer && grouped(&cgroups, dir))
            }
        };
        let layers: BTreeSet<Layer> = Layer::ALL.into_iter().filter(|l| holds(*l)).collect();
        let why = |layer: Layer| {
            let said = meant.missing.iter().find(|m| m.layer == layer).map(|m| m.why.clone());
            Missing::new(layer, said.unwrap_or_else(|| "the kernel does not show it".into()))
        };
        let missing = Layer::ALL.into_iter().filter(|l| !layers.contains(l)).map(why).collect();
        Standing { landlock: meant.landlock, layers, missing }
    }

    /// The first of `required` that is missing, in a sentence.
    pub fn lacks(&self, required: &BTreeSet<Layer>, but: &[Layer]) -> Option<String> {
        let layer = required.iter().find(|l| !self.layers.contains(l) && !but.contains(l))?;
        let why = self.why(*layer);
        Some(format!(
            "policy requires the sandbox's layer '{layer}' and this host does not give it ({why})"
        ))
    }

    /// Why a driver that opens devices, or files in folders of its own, may not run in it, if
    /// so. Its list of system calls lets it open for writing, and these two layers alone say
    /// what: with neither it could write to every file that its user may write to.
    pub fn lacks_for_writing(&self) -> Option<String> {
        let (one, other) = (Layer::Mount, Layer::Landlock);
        if self.layers.contains(&one) || self.layers.contains(&other) {
            return None;
        }
        Some(format!(
            "its driver opens devices or files for writing, and this host gives neither of the sandbox's layers that would keep it to these: '{one}' ({}), '{other}' ({}); one of them is enough",
            self.why(one),
            self.why(other)
        ))
    }

    fn why(&self, layer: Layer) -> &str {
        self.missing.iter().find(|m| m.layer == layer).map_or("", |m| &m.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_process_without_a_jail_has_no_layer() {
        use rustix::process::{PidfdFlags, getpid, pidfd_open};
        let me = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let s = Standing::of(std::process::id() as i32, me.as_fd(), &Meant::default());
        for layer in [Layer::User, Layer::Mount, Layer::Pid, Layer::Landlock, Layer::OwnUser] {
            assert!(!s.layers.contains(&layer), "{layer}");
        }
        assert_eq!(s.layers.len() + s.missing.len(), Layer::ALL.len());
        let required = BTreeSet::from([Layer::Mount]);
        assert!(s.lacks(&required, &[]).unwrap().contains("'mount'"));
        assert_eq!(s.lacks(&required, &[Layer::Mount]), None);
    }

    #[test]
    fn a_driver_of_devices_takes_one_of_two_layers() {
        let why = |layer| Missing::new(layer, format!("no {layer} here"));
        let of = |layers: &[Layer]| {
            let layers = BTreeSet::from_iter(layers.iter().copied());
            let missing = Layer::ALL.into_iter().filter(|l| !layers.contains(l)).map(why).collect();
            Standing { layers, missing, landlock: None }.lacks_for_writing()
        };
        assert_eq!((of(&[Layer::Mount]), of(&[Layer::Landlock])), (None, None));
        let said = of(&[Layer::Seccomp, Layer::OwnUser]).unwrap();
        assert!(said.contains("no mount here") && said.contains("no landlock here"), "{said}");
    }

    #[test]
    fn a_number_that_may_be_anothers_tells_nothing() {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        let meant = Meant { landlock: Some(6), ..Meant::default() };
        // This process stands for whoever got the number.
        let s = Standing::of(std::process::id() as i32, pidfd.as_fd(), &meant);
        assert_eq!((s.layers.len(), s.landlock), (0, None));
        assert!(s.missing.iter().all(|m| m.why.contains("has ended")));
    }

    #[test]
    fn only_what_it_may_write_in_is_mounted_for_writing() {
        let root = "1 0 0:1 / / ro - tmpfs none rw\n";
        let folder = |path: &str| format!("{root}2 1 8:1 /x {path} rw,nosuid - ext4 /dev/x rw\n");
        let writes = [PathBuf::from("/var/lib/a b/c")];
        assert!(own_root(root, &[]) && own_root(root, &writes));
        assert!(own_root(&folder("/var/lib/a\\040b/c"), &writes));
        assert!(!own_root(&folder("/var/lib/a\\040b/c"), &[]));
        assert!(!own_root(&folder("/var/lib/a\\040b"), &writes));
        assert!(!own_root("1 0 8:1 / / ro - ext4 /dev/x rw\n", &writes));
    }

    #[test]
    fn groups_are_known_by_the_end_of_their_directory() {
        let text = "3:cpu:/a/virtfun/r/c/s\n0::/\n";
        assert!(grouped(text, "/sys/fs/cgroup/cpu/a/virtfun/r/c/s".as_ref()));
        assert!(!grouped(text, "/sys/fs/cgroup/cpu/a/virtfun/r/c/t".as_ref()));
        assert!(!grouped("0::/\n", "/sys/fs/cgroup".as_ref()));
    }
}
