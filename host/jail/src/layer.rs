//! The layers of the sandbox, by name: each works by itself, and each may be
//! missing on some host.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// A user namespace: root in it is nobody outside.
    User,
    /// A user of the host for each client, which owns nothing.
    OwnUser,
    /// A process namespace: it sees and signals nobody else.
    Pid,
    /// A mount namespace with the program, its libraries, and nothing else.
    Mount,
    /// A network namespace without an interface.
    Network,
    /// A namespace of System V and POSIX message queues.
    Ipc,
    /// `no_new_privs`: no program it starts gains anything.
    NoNewPrivileges,
    /// An empty capability set, bounding set included.
    Capabilities,
    /// A list of the system calls it may make.
    Seccomp,
    /// Landlock: a list of the files it may read.
    Landlock,
    /// Limits of descriptors, processes, file sizes, locked memory and core dumps.
    Rlimits,
    /// A share of the processors, kept by a control group.
    CgroupCpu,
    /// A bound on memory, kept by a control group.
    CgroupMemory,
    /// A bound on processes and threads, kept by a control group.
    CgroupPids,
}

impl Layer {
    /// All of them, in the order in which people read them.
    pub const ALL: [Layer; 14] = [
        Layer::User,
        Layer::OwnUser,
        Layer::Pid,
        Layer::Mount,
        Layer::Network,
        Layer::Ipc,
        Layer::NoNewPrivileges,
        Layer::Capabilities,
        Layer::Seccomp,
        Layer::Landlock,
        Layer::Rlimits,
        Layer::CgroupCpu,
        Layer::CgroupMemory,
        Layer::CgroupPids,
    ];

    /// Its name in policies and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Layer::User => "user",
            Layer::OwnUser => "own-user",
            Layer::Pid => "pid",
            Layer::Mount => "mount",
            Layer::Network => "network",
            Layer::Ipc => "ipc",
            Layer::NoNewPrivileges => "no-new-privileges",
            Layer::Capabilities => "capabilities",
            Layer::Seccomp => "seccomp",
            Layer::Landlock => "landlock",
            Layer::Rlimits => "rlimits",
            Layer::CgroupCpu => "cgroup-cpu",
            Layer::CgroupMemory => "cgroup-memory",
            Layer::CgroupPids => "cgroup-pids",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no layer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLayer(pub String);

impl fmt::Display for UnknownLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = Layer::ALL.iter().map(|l| l.name()).collect();
        write!(f, "'{}' is no layer of the sandbox; they are {}", self.0, all.join(", "))
    }
}

impl std::error::Error for UnknownLayer {}

impl FromStr for Layer {
    type Err = UnknownLayer;
    fn from_str(s: &str) -> Result<Self, UnknownLayer> {
        Layer::ALL.into_iter().find(|l| l.name() == s).ok_or_else(|| UnknownLayer(s.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_layers() {
        for layer in Layer::ALL {
            assert_eq!(layer.name().parse(), Ok(layer));
            let json = serde_json::to_string(&layer).unwrap();
            assert_eq!(json, format!("\"{layer}\""));
        }
        let e = "sec".parse::<Layer>().unwrap_err().to_string();
        assert!(e.contains("'sec'") && e.contains("seccomp, landlock"), "{e}");
    }
}
