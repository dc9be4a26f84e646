//! What the manager asks of the launcher, and what it hears back: packets of
//! JSON over a `SOCK_SEQPACKET` pair that is closed when the service's program
//! begins to run. Until then everything in these processes is ours.

use crate::{Layer, Limits};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What a service is to get.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Plan {
    /// The program to run.
    pub program: PathBuf,
    /// Arguments of the program, without its name.
    pub arguments: Vec<String>,
    /// Files and directories it may read, besides the system's libraries.
    pub reads: Vec<PathBuf>,
    /// Folders in which it may write.
    #[serde(default)]
    pub writes: Vec<PathBuf>,
    /// Its environment: nothing else is in it.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Devices that it may open.
    pub devices: Vec<PathBuf>,
    /// Groups of the host that these belong to, where it needs them.
    pub groups: Vec<u32>,
    /// Bytes of a file system in memory that it may write to and run code
    /// from, at [`SCRATCH`](crate::constants::SCRATCH); 0 for none.
    pub scratch_bytes: u64,
    /// User and group of the host to run as; `None`: those of the manager.
    pub user: Option<u32>,
    pub limits: Limits,
    /// Layers to leave out.
    pub without: BTreeSet<Layer>,
    /// `tasks` files of control groups (v1) to be in.
    pub tasks: Vec<PathBuf>,
    /// Directory of a control group (v2) to be in.
    pub group: Option<PathBuf>,
    /// Whether one of them bounds memory.
    pub memory_grouped: bool,
}

/// A layer that is not there, and why.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Missing {
    pub layer: Layer,
    /// Why, for people.
    pub why: String,
}

impl Missing {
    /// That `layer` is missing because of `why`.
    pub fn new(layer: Layer, why: impl ToString) -> Self {
        Missing { layer, why: why.to_string() }
    }
}

/// What the launcher, and the process that becomes the service, say.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The process is there, a child of the manager's.
    Made {
        /// Its process id, as the manager sees it.
        pid: i32,
    },
    /// A layer could not be had; it goes on without.
    Without(Missing),
    /// The process is in its jail and about to run the program.
    Entered {
        /// The version of Landlock's interface in force.
        landlock: Option<u32>,
    },
    /// It cannot go on.
    Failed {
        /// The layer that failed half way, if it is one: another try may do without it.
        layer: Option<Layer>,
        /// A sentence for people.
        reason: String,
        /// The error of the system behind it, if there was one: a host that is
        /// short of something now may have it later.
        #[serde(default)]
        errno: Option<i32>,
    },
}
