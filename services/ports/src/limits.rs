//! Every limit of the function, with its reason.

use crate::tap::FRAME_AT;
use std::time::Duration;

/// Frames that a port has relayed each way in one turn. Enough that one publication and one
/// ring for all of them cost little, and few enough that the other ports' turn comes soon: 64
/// of 9018 bytes are copied in some 0.1 ms.
pub const BURST: usize = 64;

/// Bytes in the same turn after which no further frame follows, for the same reason: frames that are to be cut are
/// longer.
pub(crate) const BURST_BYTES: usize = 64 * 9018;

/// Bytes of a frame beyond its MTU: an Ethernet header of 14, and one VLAN tag of 4.
pub const FRAME_EXTRA: usize = 18;

/// Bytes of the longest frame that is to be cut: an IP packet of 65535 bytes, and what is before it.
pub(crate) const CUT_BYTES: usize = u16::MAX as usize + FRAME_EXTRA;

/// Bytes of the thread's buffer: the longest frame with a note, and one more, by which
/// a frame that is longer is known.
pub(crate) const BUFFER_BYTES: usize = FRAME_AT + CUT_BYTES + 1;

/// How often at most a device is told which offloads its guest takes: each time the kernel looks at the features
/// of the interface under its lock of all interfaces.
pub(crate) const OFFLOADS_EVERY: Duration = Duration::from_secs(1);

/// While the thread spins, it asks the system once in so many looks which devices are
/// readable. That costs some 300 ns, as much as ten looks at a ring.
pub(crate) const DEVICES_EVERY: u32 = 8;

/// First and longest pause between two looks while a guest has no doorbell: as of a channel of
/// calls without one (services/sdk). The longest makes 125 looks a second.
pub(crate) const NAP_FIRST: Duration = Duration::from_micros(50);
/// The longest.
pub(crate) const NAP_LAST: Duration = Duration::from_millis(8);
