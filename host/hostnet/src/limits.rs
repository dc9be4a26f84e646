//! Every limit of asking the host about its network, with its reason.

use std::time::Duration;

/// How long Open vSwitch may take to answer what it knows.
pub const OVS_LOOK: Duration = Duration::from_secs(10);
/// How long Open vSwitch may take to make or remove a port. The first port without huge pages
/// took 5.7 s: DPDK fills its memory.
pub const OVS_CHANGE: Duration = Duration::from_secs(30);
/// How much later `ovs-vsctl` is killed, which should have given up by itself.
pub const OVS_MARGIN: Duration = Duration::from_secs(2);
/// Most that is kept of what a child process says, bytes. A domain's description has some
/// 20 KB, all links of a host with 1,000 taps some 1 MB.
pub const CHILD_BYTES: usize = 8 << 20;
/// How long a killed child process is waited for. One that hangs in the kernel is left.
pub const CHILD_KILLED: Duration = Duration::from_secs(2);
/// Interfaces that stand on each other: the kernel allows 8.
pub const STACKED_MAX: u32 = 8;
/// Longest sentence about trouble that is passed on, bytes.
pub const SENTENCE_BYTES: usize = 500;
