//! The limits of who holds which VF, with their reasons.

/// Pools on one host: a server has a few cards.
pub const POOLS_MAX: usize = 64;
/// VFs of one pool: an SR-IOV card has at most 256 a port.
pub const POOL_VFS_MAX: u16 = 256;
/// VMs on one host, some more than ten thousand.
pub const VMS_MAX: usize = 16_384;
/// Agents of VMs that are not declared (yet): what they said last is kept, so that
/// declaring a VM needs no new word of its agent.
pub const AGENTS_MAX: usize = VMS_MAX * 2;
/// From the plug until the agent says that packets go through the VF, ms. A guest that was
/// emulated inside an emulated one took 22 s, 86 s on a busy host.
pub const JOIN_MS: u64 = 90_000;
/// From the order to leave until the agent says that packets go the paravirtual way, ms.
/// An agent needs some milliseconds; one that needs more is not there or does not want.
pub const LEAVE_MS: u64 = 10_000;
/// From then, and from when the switch has learned it, until the unplug, ms: packets that
/// the switch still sent to the VF arrive in that time.
pub const SETTLE_MS: u64 = 500;
/// Between two requests to unplug the same VF, ms. A guest that is booting drops them.
pub const UNPLUG_AGAIN_MS: u64 = 10_000;
/// Requests to unplug before a VF is quarantined: a minute in all.
pub const UNPLUG_TRIES: u32 = 6;
/// Between two requests to unplug a VF that is quarantined, ms: the VM may have booted.
pub const EVICT_AGAIN_MS: u64 = 60_000;
/// How long a VM keeps its VF without an agent that carries the order out, ms: longer than
/// an agent's new start, or the manager's.
pub const AGENT_GONE_MS: u64 = 30_000;
/// First and longest time that a VM gets no VF after it failed to take or keep one, ms.
/// Each failure doubles it.
pub const BACK_OFF_MS_MIN: u64 = 30_000;
pub const BACK_OFF_MS_MAX: u64 = 3_600_000;
/// First and longest time until a reset that failed is tried again, ms.
pub const RESET_AGAIN_MS_MIN: u64 = 10_000;
pub const RESET_AGAIN_MS_MAX: u64 = 600_000;
/// Between two questions to a hypervisor while a VF is on its way out, ms.
pub const INSPECT_MS: u64 = 2_000;
/// The same while all is well, and for VMs that hold a VF: an end of QEMU that nobody
/// told of is seen so late.
pub const INSPECT_MS_CALM: u64 = 30_000;
/// Longest time between two questions to a hypervisor that does not answer, ms.
pub const INSPECT_MS_MAX: u64 = 60_000;
/// Lines about one VM in the audit log: so many at once, then one each so many ms. A
/// guest decides how often its agent comes and goes.
pub const AUDIT_BURST: u64 = 8;
pub const AUDIT_EACH_MS: u64 = 20_000;
/// Packets a second that each VM is taken to send beyond what it does: among VMs that
/// send nothing but a few ARP requests no VF moves, and one that is idle keeps a VF that
/// nobody else wants.
pub const IDLE_PER_S: u64 = 10;
/// Decisions in a row at which a challenger must be better.
pub const CONFIRM: u32 = 2;
/// Longest latency of a VM that counts, µs: only the VM itself knows it, so a VM that lies
/// is worth so much a packet and no more. Published switches of busy hosts reach 10 ms.
pub const LATENCY_US_MAX: u32 = 10_000;
/// How often an agent reports, ms.
pub const REPORT_MS: u32 = 1_000;
/// How long counts of packets wait until the manager passes them on with those of other
/// VMs, ms: a hundred VMs report a hundred times a second, and a decision is made each
/// second at most.
pub const COUNTS_TOGETHER_MS: u64 = 500;
/// Sentences about one port, and bytes of a sentence from outside.
pub const FILTERS_MAX: usize = 16;
pub const SENTENCE_BYTES: usize = 240;
/// VFs that a hypervisor may name in one VM.
pub const PLUGGED_MAX: usize = 64;
/// Longest name of a bus in QEMU, bytes: people choose them, and write a few letters.
pub const BUS_BYTES: usize = 128;
/// Longest name of a domain of libvirt, bytes: its file's name has 255.
pub const DOMAIN_BYTES: usize = 256;
/// Longest path of a UNIX socket, bytes: the kernel takes no longer one.
pub const SOCKET_BYTES: usize = 107;
/// Times of VMs with VFs that are remembered, for all pools together: with 128 VFs that
/// move each tenure of 30 s, those of the last quarter of an hour; some 200 bytes each.
pub const HOLDS_KEPT: usize = 4096;
/// Intervals whose rate is remembered, of each VM: an hour of 10 s each; some 9 KB.
pub const RATES_KEPT: usize = 360;
/// Rates in one answer, of all VMs together: some 80 bytes each, so 4 MB. With more VMs than
/// 138 the oldest of each are left out.
pub const RATES_SHOWN: usize = 50_000;
