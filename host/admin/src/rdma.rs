//! RDMA, for people: what clients' manifests say of it, and what programs have of their NIC.

use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// The NIC that programs of a client see. What has no bound but those of the NIC is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RdmaView {
    /// What does the work.
    pub backend: String,
    /// Where the addresses of its VMs lie.
    pub network: Option<String>,
    /// Programs of one VM.
    pub programs: Option<u64>,
    /// Queue pairs of one VM.
    pub queue_pairs: Option<u64>,
    /// Memory regions of one VM.
    pub regions: Option<u64>,
    /// Bytes of these regions.
    pub memory: Option<u64>,
}

/// What a program has of its NIC. The NIC says so each second; what was done is in the grant's counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaRow {
    /// Where peers reach it.
    pub gid: Ipv6Addr,
    /// Where peers reach it that know no GID.
    pub lid: u16,
    pub queue_pairs: u32,
    /// Memory regions.
    pub regions: u32,
    /// Its memory is pinned, and the NIC reaches it where it is. Else it moves into the window.
    #[serde(default)]
    pub pinned: bool,
    /// Bytes of them; memory that is in two of them counts twice.
    pub registered_bytes: u64,
    /// Ids of librdmacm.
    pub connections: u32,
    /// Accesses to peers that no key allowed.
    pub wrong_keys: u64,
    /// Messages without an answer that nobody took.
    pub dropped: u64,
}
