//! Every limit of a test guest, each with its reason.

use std::time::Duration;

/// Least RAM: below this the kernel and a bare initramfs do not fit.
pub const MIN_MEMORY_MIB: u32 = 96;
/// Most RAM: a test guest is meant to be tiny, and several share one machine.
pub const MAX_MEMORY_MIB: u32 = 8192;
/// RAM that must stay for the kernel when the initramfs has been unpacked.
pub const KERNEL_MEMORY_MIB: u64 = 80;
/// Host RAM that must be left when a guest has taken all of its own.
pub const HOST_RESERVE_MIB: u64 = 128;
/// Most virtual CPUs: more only slow an emulated guest down.
pub const MAX_CPUS: u32 = 16;
/// Most windows, each with a fixed PCI slot (0x10 and on).
pub const MAX_WINDOWS: usize = 8;
/// Smallest window: a page, the least that can be mapped.
pub const MIN_WINDOW_BYTES: u64 = 4096;
/// Largest window: what the 64-bit range of a small guest surely has room for.
pub const MAX_WINDOW_BYTES: u64 = 1 << 30;
/// Most persistent memories, each with a fixed PCI slot (0x1c to 0x1e).
pub const MAX_PMEMS: usize = 3;
/// Linux maps persistent memory in units of this many bytes.
pub const PMEM_UNIT_BYTES: u64 = 2 << 20;
/// What all persistent memory of a guest may take of its address space, MiB.
pub const PMEM_ROOM_MIB: u32 = 4096;
/// Most doorbell devices, each with a fixed PCI slot (0x18 to 0x1b).
pub const MAX_DOORBELLS: usize = 4;
/// Vectors of a doorbell device, unless told otherwise: those of a VirtFun window.
pub const DOORBELL_VECTORS: u32 = 8;
/// Most vectors of a doorbell device: QEMU's limit for ivshmem is far beyond it.
pub const MAX_VECTORS: u32 = 64;
/// Most ports for hot-plug, each with a fixed PCI slot (0x08 to 0x0f).
pub const MAX_HOTPLUG_PORTS: u32 = 8;
/// Most bytes of the files (with their libraries) that go into an initramfs.
pub const MAX_FILE_BYTES: u64 = 1 << 30;
/// Most files that go into an initramfs: a whole disk named by mistake stops here.
pub const MAX_FILES: usize = 20_000;
/// Longest name of a guest: it is part of the path of a UNIX socket.
pub const MAX_NAME_BYTES: usize = 32;
/// Longest path of a UNIX socket, by the kernel's `sockaddr_un`.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Time for a boot with KVM: a second is usual; ten guests at once, on a host
/// whose processors are taken away from it for seconds, are slow.
pub const BOOT_TIMEOUT_KVM: Duration = Duration::from_secs(90);
/// Time for a boot by emulation: two seconds are usual on an idle machine.
pub const BOOT_TIMEOUT_TCG: Duration = Duration::from_secs(180);
/// A probe of KVM that has not reached user space by now has failed.
pub const KVM_PROBE: Duration = Duration::from_secs(20);
/// A probe of KVM that has not printed one byte by now hangs before its first
/// line, as on hosts whose KVM does not really work.
pub const KVM_PROBE_SILENCE: Duration = Duration::from_secs(8);
/// How long a guest may live, unless its configuration says otherwise.
pub const MAX_LIFE: Duration = Duration::from_secs(30 * 60);

/// Longest script for [`run`](crate::Guest::run): it is read a byte at a time.
pub const MAX_SCRIPT_BYTES: usize = 256 << 10;
/// Most bytes of a command's stdout that are kept.
pub const MAX_STDOUT_BYTES: u64 = 8 << 20;
/// Most bytes of a command's stderr that are kept.
pub const MAX_STDERR_BYTES: u64 = 1 << 20;
/// Most commands at once in one guest: each has its own small tmpfs there.
pub const MAX_COMMANDS: usize = 16;
/// How long a guest has to kill a command that ran past its time.
pub const KILL_GRACE: Duration = Duration::from_secs(15);
/// How long one write to the guest's command channel may block.
pub const CHANNEL_WRITE: Duration = Duration::from_secs(10);

/// Most bytes of console output that are kept: the latest.
pub const MAX_CONSOLE_BYTES: usize = 4 << 20;
/// Lines of the console that go into an error.
pub const TAIL_LINES: usize = 20;
/// Most bytes of QEMU's own stderr that are kept: the first say why it failed.
pub const MAX_QEMU_STDERR_BYTES: u64 = 64 << 10;

/// How long QEMU has to answer a QMP command.
pub const QMP_ANSWER: Duration = Duration::from_secs(30);
/// How long QEMU has to open its sockets, and how long it is looked for at them
/// before it is taken to be gone.
pub const QEMU_START: Duration = Duration::from_secs(15);
/// How long the keeper has to end QEMU and to remove the folder.
pub const KEEPER_END: Duration = Duration::from_secs(60);
