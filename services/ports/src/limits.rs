//! Every limit of the function, with its reason.

use std::time::Duration;

/// Frames that a port has relayed each way in one turn. Enough that one publication and one
/// ring for all of them cost little, and few enough that the other ports' turn comes soon: 64
/// of 9018 bytes are copied in some 0.1 ms.
pub const BURST: usize = 64;

/// Bytes of a frame beyond its MTU: an Ethernet header of 14, and one VLAN tag of 4.
pub const FRAME_EXTRA: usize = 18;

/// Bytes of the thread's buffer: the longest frame of the largest MTU, and one more, by which
/// a frame that is longer is known.
pub(crate) const BUFFER_BYTES: usize = u16::MAX as usize + FRAME_EXTRA + 1;

/// While the thread spins, it asks the system once in so many looks which devices are
/// readable. That costs some 300 ns, as much as ten looks at a ring.
pub(crate) const DEVICES_EVERY: u32 = 8;

/// First and longest pause between two looks while a guest has no doorbell: as of a channel of
/// calls without one (services/sdk). The longest makes 125 looks a second.
pub(crate) const NAP_FIRST: Duration = Duration::from_micros(50);
/// The longest.
pub(crate) const NAP_LAST: Duration = Duration::from_millis(8);
