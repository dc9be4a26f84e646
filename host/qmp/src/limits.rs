//! The limits of what speaks with QEMU, each with its reason.

use std::time::Duration;

/// Longest message, bytes: `query-pci` of a large machine is some 100 KB.
pub const MESSAGE_MAX: usize = 4 << 20;
/// Events kept while another is waited for; the oldest goes first.
pub const EVENTS_MAX: usize = 1024;
/// How long QEMU may take to answer: it does so at once, unless it is stopped.
pub const ANSWER: Duration = Duration::from_secs(10);
/// How long QEMU may take to let go of the connection before.
pub const NEXT: Duration = Duration::from_secs(2);
/// Pause before a QEMU whose queue is full is connected again.
pub const CONNECT_AGAIN: Duration = Duration::from_millis(20);
/// How long `virsh` may take to look at something.
pub const VIRSH_LOOK: Duration = Duration::from_secs(10);
/// How long `virsh` may take to plug or unplug. libvirt itself waits 30 s for a domain that
/// is busy with something else.
pub const VIRSH_CHANGE: Duration = Duration::from_secs(45);
/// Between two looks whether a domain has let go of a device: each is a process.
pub const VIRSH_AGAIN: Duration = Duration::from_millis(50);
/// How long QEMU may take to forget memory of a device that went out: milliseconds, or seconds where other work keeps its
/// threads off the processors.
pub const FORGETS: Duration = Duration::from_secs(10);
/// Between two looks whether it has.
pub const FORGETS_LOOK: Duration = Duration::from_millis(20);
