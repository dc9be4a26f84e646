//! The sandbox's own limits, with their reasons. Those that depend on the
//! client are in [`Limits`](crate::Limits).

use std::time::Duration;

/// The host's user and group of client N is this number plus N. It lies between
/// the users of containers, which by convention end at 1,879,048,191, and 2^31,
/// from where on programs mistake users for negative numbers; nobody else's
/// files are there.
pub const USER_BASE: u32 = 1_900_000_000;
/// Clients that get a user each: what is left below 2^31.
pub const USERS: u32 = (1 << 31) - USER_BASE;
/// The user and group that a service sees itself as: any but 0, so that exec
/// takes all capabilities away.
pub const INSIDE_ID: u32 = 1000;

/// Open files of a service. A channel with a bell takes five descriptors, and
/// a client has at most a thousand channels.
pub const OPEN_FILES: u64 = 8192;
/// How long a launcher may take to be gone once its service runs: it has
/// closed everything then and only has to end, which takes it microseconds. One
/// that is still there is killed.
pub const LAUNCHER_ENDS: Duration = Duration::from_secs(2);
/// Bytes to which a service may make a file grow. It writes to its log, and what
/// compiles kernels to files of some hundred KiB in memory.
pub const FILE_BYTES: u64 = 1 << 20;
/// Threads of a service besides those of its channels and of its driver: the
/// main thread, the porter, and the launcher while it makes it.
pub const OWN_THREADS: u32 = 4;
/// Channels of one service at once, for its threads: as many as policy lets a
/// client have by itself, and as descriptors last for.
pub const CHANNELS: u32 = 1024;
/// Stack of a channel's thread, which counts as used where memory is bounded
/// by address space because no control group bounds it.
pub const STACK_BYTES: u64 = 1 << 20;
/// What the kernel keeps for a service (page tables, sockets, its program) and
/// counts as the service's memory.
pub const KERNEL_BYTES: u64 = 32 << 20;
/// Period of the processor quota, microseconds: the kernel's own default.
pub const CPU_PERIOD_US: u64 = 100_000;
/// Weight of all services together for each processor of the machine, as many
/// as a busy thread outside has (v1's `cpu.shares`).
pub const CPU_SHARES: u64 = 1024;
/// The root's file system holds directories and empty files only.
pub const ROOT_BYTES: &str = "64k";
/// Inodes of it: some ten a path.
pub const ROOT_INODES: &str = "1024";
/// Where a service's file system in memory is, if it gets one: where no host
/// has anything that it would hide.
pub const SCRATCH: &str = "/.vfun-scratch";
/// Where it writes if it has no root directory of its own.
pub const SHARED_SCRATCH: &str = "/tmp";
/// Inodes of that one: a kernel takes ten.
pub const SCRATCH_INODES: &str = "1024";
/// Added to a service's score when the kernel looks for a process to end for
/// want of memory: services go before the manager and its VMs.
pub const OOM_SCORE: &str = "300";
/// Devices of one manifest: an accelerator has some four nodes.
pub const DEVICES_MAX: usize = 16;
/// Bytes of a device's path: the longest name that a file has. The manager notes
/// what each service was given, in at most 32 KiB.
pub const DEVICE_PATH_BYTES: usize = 255;
/// Entries of all its `ioctls` together: each takes six instructions of a list.
pub const REQUESTS_MAX: usize = 64;
/// A device's group as a service sees it: this number and its place in the
/// manifest. Any will do that is not [`INSIDE_ID`].
pub const INSIDE_GROUPS: u32 = 2000;
/// Paths of one `reads` in a manifest.
pub const READS_MAX: usize = 64;
/// Folders of one `writes` in a manifest: a driver keeps its state in one place, or in two.
pub const WRITES_MAX: usize = 4;
/// Files and folders in one such folder: a token of a thousand keys has some three thousand.
pub const WRITES_FILES: u64 = 4096;
/// Bytes on the disk of all in one such folder: a file of a few KiB for each object.
pub const WRITES_BYTES: u64 = 64 << 20;
/// Variables of one `environment` in a manifest.
pub const ENVIRONMENT_MAX: usize = 16;
/// Bytes of a variable's name or value: the longest path of a file has so many.
pub const VARIABLE_BYTES: usize = 4096;
