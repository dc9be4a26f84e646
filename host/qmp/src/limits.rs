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
/// How long QEMU may take to forget memory of a device that went out: milliseconds, or seconds where other work keeps its
/// threads off the processors.
pub const FORGETS: Duration = Duration::from_secs(10);
/// Between two looks whether it has.
pub const FORGETS_LOOK: Duration = Duration::from_millis(20);
