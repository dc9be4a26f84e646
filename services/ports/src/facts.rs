//! What the function says of a port: the eight words *facts* of the host's head page
//! (`vfun_wire::queues::host_head::FACTS`). *In* is to the VM, *out* is from the VM. Each
//! number is since the channel was made, and wraps.
//!
//! Of the words beside them *done* is all frames that were relayed, both ways, *bytes* is
//! theirs, and *failed* is what was dropped, for whatever reason.

/// Frames that were put into the VM's window.
pub const FRAMES_IN: usize = 0;
/// Their bytes, Ethernet headers included.
pub const BYTES_IN: usize = 1;
/// Frames of the VM that the device took.
pub const FRAMES_OUT: usize = 2;
/// Their bytes, Ethernet headers included.
pub const BYTES_OUT: usize = 3;
/// Frames to the VM that were dropped because the ring had no room: the VM did not take
/// earlier ones in time.
pub const FULL: usize = 4;
/// Frames of the VM that were dropped because the device did not take them (it is down or
/// gone, has no room, or they are no Ethernet frames), or because they were longer than the
/// port allows.
pub const REFUSED: usize = 5;
/// How often what the VM put into its ring made no sense (R-PKT-5).
pub const BAD: usize = 6;
/// Frames to the VM that were dropped because its driver was not ready, or does not take
/// frames so long.
pub const AWAY: usize = 7;

/// A word for each of them, for people.
pub const NAMES: [&str; 8] = [
    "frames in",
    "bytes in",
    "frames out",
    "bytes out",
    "dropped, ring full",
    "refused",
    "bad",
    "dropped, VM not ready",
];
