//! Every limit of the agent, with its reason.

use std::time::Duration;

/// How often the bond's ports are looked at by the kernel, ms. A bond without it does not
/// notice a port without carrier.
pub const MIIMON_MS: u32 = 100;
/// For how long the bond sends gratuitous ARPs and neighbour advertisements after a move, one
/// each `miimon`, ms. The kernel leaves them out while the state of a new port is not
/// settled, a second, and longer on a busy machine: a bond with only two says nothing at all
/// then, and the switch goes on sending to the old port.
pub const PEER_NOTICES_MS: u32 = 4000;

/// Pause after a step that did not do what it should, doubled each time.
pub const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Longest pause of that kind: the host waits for the bond for 10 s.
pub const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A bond that is as it should be for so long has no trouble: pauses begin anew.
pub const CALM: Duration = Duration::from_secs(5);

/// How often we look if the kernel tells of nothing. Its messages can be lost.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same while an order is not carried out yet.
pub const LOOK_WHILE_WAITING: Duration = Duration::from_millis(500);
/// Least time between two looks because of the kernel's messages. A machine with
/// containers makes many interfaces, and each is a message.
pub const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// The same while packets do not take the path that the host wants: the host waits for it, and
/// it is soon over, or there is trouble.
pub const LOOK_PAUSE_MOVING: Duration = Duration::from_millis(10);
/// A VF whose carrier takes longer is reported as trouble. Emulated ones take 1.5 s.
pub const CARRIER_PATIENCE: Duration = Duration::from_secs(5);

/// First and longest pause before the host is asked for `bond` again.
pub const HOST_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A channel that lived for so long was good: the next pause is the first one again.
pub const HOST_GOOD: Duration = Duration::from_secs(60);
/// Least time between two questions for an order, so that a host that answers each at
/// once makes no tight loop.
pub const NEXT_PAUSE: Duration = Duration::from_millis(100);
/// Longest sleep of the thread that talks with the host.
pub const HOST_SLEEP: Duration = Duration::from_secs(5);
/// Calls at once: one for the next order, one for a report, and as many in reserve.
pub const CELLS: u16 = 4;

/// How often an address is asked how long packets take: a packet more each 200 ms is
/// nothing beside the traffic of a VM that wants a VF.
pub const PROBE_EVERY: Duration = Duration::from_millis(200);
/// How long an answer may take. What is later is no latency, but loss.
pub const PROBE_PATIENCE: Duration = Duration::from_secs(1);
/// Answers whose median is reported: what comes in 1.8 s, and a few odd ones change nothing.
pub const PROBES: usize = 9;

/// Longest answer of the kernel in one piece. It makes them of 32 KiB at most.
pub const NETLINK_BYTES: usize = 64 << 10;
/// How long an answer of the kernel may take. It may wait for another who changes the network.
pub const NETLINK_PATIENCE: Duration = Duration::from_secs(10);
/// Times that a list which changed while it was read is read again.
pub const DUMPS: usize = 8;
/// Interfaces, addresses or routes that are read at most; more are left out.
pub const ENTRIES: usize = 100_000;
/// Different lines of the log that are remembered, so as not to repeat them.
pub const CAUSES: usize = 64;

/// `convert`: how long the new bond may take to have a carrier.
pub const CONVERT_CARRIER: Duration = Duration::from_secs(10);
/// `convert`: how long a route is tried. One of IPv6 needs an address that is ready.
pub const CONVERT_ROUTE: Duration = Duration::from_secs(3);
/// Pause between two tries.
pub const CONVERT_PAUSE: Duration = Duration::from_millis(100);

/// How long another agent of the same bond may take to end.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// Longest file of a status, bytes.
pub const STATUS_BYTES: u64 = 16 << 10;
