//! The limits of `vfun-nics`, each with its reason.

use std::time::Duration;

/// What threads have heard and the main loop has not taken yet. A thread that finds it full
/// waits, so that nothing grows.
pub const HEARD_WAITING: usize = 256;
/// Jobs that wait for the thread of a VM or of a pool. The allocator asks for one thing a VF
/// at a time, so a pool has at most as many as it has VFs.
pub const JOBS_WAITING: usize = 1024;
/// How often the main loop looks at the clock while nothing happens.
pub const TICK: Duration = Duration::from_secs(1);
/// How soon an order that the manager did not take is sent again.
pub const SEND_AGAIN: Duration = Duration::from_millis(20);

/// Programs that ask at once. Each has a thread, and none waits for something that takes long.
pub const ADMIN_CONNECTIONS: usize = 16;
/// How long a connection may be silent.
pub const ADMIN_SILENCE: Duration = Duration::from_secs(10);
/// How long the main loop may take to answer: it waits for nothing but small files.
pub const ADMIN_ANSWER: Duration = Duration::from_secs(10);
/// Longest request, bytes: a VM's declaration with long paths has some 10 KB.
pub const ADMIN_LINE_BYTES: usize = 32 << 10;

/// VMs that are declared: as many as a manager knows. Each has a thread.
pub const VMS_MAX: usize = 1024;
/// Pools that are declared: a host has few cards. Each has a thread.
pub const POOLS_MAX: usize = 64;
/// VFs of an emulated pool: they are for tests.
pub const EMULATED_MAX: u16 = 64;
/// VFs of a pool that are ports of Open vSwitch. One processor serves all that it polls.
pub const VHOST_USER_MAX: u16 = 64;
/// Largest file that is read, bytes: notes and declarations of all VMs have 1 MB.
pub const FILE_BYTES: u64 = 16 << 20;

/// How long `ip`, `tc` and `bridge` may take: they ask the kernel.
pub const IP_TIME: Duration = Duration::from_secs(10);
/// How long Open vSwitch may take to learn that a VM has left its VF. The VM's agent says so
/// for 4 s; after that nobody says it any more.
pub const OVS_LEARNS: Duration = Duration::from_secs(5);
/// How often it is asked whether it has.
pub const OVS_LEARNS_LOOK: Duration = Duration::from_millis(100);
/// How long Open vSwitch may take to connect to a VM: it tries once a second.
pub const OVS_CONNECTS: Duration = Duration::from_secs(10);
/// How often QEMU is asked whether it has.
pub const OVS_CONNECTS_LOOK: Duration = Duration::from_millis(50);
/// How long `virsh` may take to look at something.
pub const VIRSH_LOOK: Duration = Duration::from_secs(10);
/// How long `virsh` may take to plug or unplug. libvirt itself waits 30 s for a domain that
/// is busy with something else.
pub const VIRSH_CHANGE: Duration = Duration::from_secs(45);
/// How long libvirt may go on with a plug whose `virsh` was killed. It gives up after the
/// 30 s that a domain may be busy; twice that, to be sure.
pub const VIRSH_DOUBT: Duration = Duration::from_secs(60);

/// How long QEMU may take to answer: it does so at once unless it is stopped.
pub const QMP_ANSWER: Duration = Duration::from_secs(10);
/// How long QEMU may take to plug in: vfio pins the VM's memory first, which takes 0.1 s a GB.
pub const QMP_PLUG: Duration = Duration::from_secs(60);
/// First and longest pause before QEMU is connected again.
pub const QMP_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Messages that QEMU may send a second, on average over [`QMP_BURST`] of them. A QEMU that
/// sends more is disconnected: it would keep a thread busy.
pub const QMP_MESSAGES_PER_S: u32 = 200;
/// Messages that QEMU may send at once.
pub const QMP_BURST: u32 = 2000;
/// Attempts that find no QEMU behind a VM's socket, one after the other, before the VM counts
/// as ended. QEMU refuses a moment long while it is busy with who was connected before.
pub const QMP_ABSENT: u32 = 4;
/// Pause between these attempts.
pub const QMP_ABSENT_PAUSE: Duration = Duration::from_millis(500);

/// How often a VM's thread asks its hypervisor by itself.
pub const LOOK_AT_VM: Duration = Duration::from_secs(10);
/// The same, while a VF is to leave the VM and the hypervisor does not say when it has.
pub const LOOK_AT_LEAVING: Duration = Duration::from_millis(250);
/// How often a pool's VFs are listed.
pub const LIST_VFS: Duration = Duration::from_secs(5);
/// How often packets are counted.
pub const COUNT: Duration = Duration::from_secs(1);
/// How often the filters of the VMs' ports are looked at: they change when people change them.
pub const LOOK_AT_FILTERS: Duration = Duration::from_secs(10);
/// Lines of one kind in the log a minute: those about VMs, which guests and QEMU can cause; those
/// about the host, such as quarantines and what operators do; those about one pool.
pub const LINES_A_MINUTE: u32 = 60;
