//! Limits of rings, each with its reason.

/// Bytes of the smallest ring: a page. It is for tests; ports have more.
pub const RING_MIN: u64 = 4096;
/// Bytes of the largest ring: a thousand of the longest frames. More would only wait.
pub const RING_MAX: u64 = 64 << 20;
/// Bytes of the longest frame: an IP packet of 65535 bytes, with an Ethernet header of 14
/// and two VLAN tags, and some to spare.
pub const FRAME_MAX: u32 = 65600;

/// Bytes of the smallest ring for frames with notes. Such a frame has up to 64 KiB: eight fit. A sender needs room for
/// two of them at a time, because as many bytes may be skipped at the end of the ring.
pub const NOTED_RING_MIN: u64 = 512 << 10;

/// How often an end of a link may die and leave counts that are wrong by a ring's frames. More
/// would be a VM that dies to be believed.
pub const LINK_STARTS: u64 = 16;

/// Bits of the number that a driver's half at a sender's port gives to a frame. Those above
/// say the how manieth half it is, so no number comes twice. With 10^8 frames a second they
/// are enough for a month, and 65,536 halves may come one after another.
pub const STAMP_BITS: u32 = 48;

/// How many frames a switch may let out before an earlier one: more than it takes at a time
/// (32, Open vSwitch and DPDK), and as many as a word has bits.
pub const OVERTAKES: u64 = 64;

/// How long a VM may take for a turn, if the manager says nothing else: twice what the switch
/// may need, so that a turn that waits for dropped frames is not late. A VM that is stopped for a
/// snapshot takes longer, and loses its link.
pub const SILENCE_MS: u64 = 2 * SWITCH_KEEPS_MS;
/// How long a switch keeps a frame at most, as drivers reckon: Open vSwitch was measured to
/// go on for 23 ms after a change of its rules, on a loaded machine.
pub const SWITCH_KEEPS_MS: u64 = 50;
