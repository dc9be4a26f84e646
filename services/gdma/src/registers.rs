//! The register map of an engine, as `rtl/vfun_dma_pkg.sv` has it; the test
//! `the_map_is_the_rtls` compares the two. Byte offsets in the engine's window;
//! all registers are 32 bits wide and little-endian.

/// What [`ID`] reads: "GDM1".
pub const ID_VALUE: u32 = 0x314D_4447;
/// What [`VERSION`] reads: `major << 16 | minor`.
pub const VERSION_VALUE: u32 = 0x0001_0000;

/// Read only: [`ID_VALUE`].
pub const ID: u32 = 0x000;
/// Read only: the map's version.
pub const VERSION: u32 = 0x004;
/// Read only: nodes of the address space << 16 | this engine's.
pub const NODE: u32 = 0x008;
/// Read only: entries of [`WINDOWS`] << 16 | descriptors at once.
pub const CAPACITY: u32 = 0x00C;
/// Write only: one of `CONTROL_*`.
pub const CONTROL: u32 = 0x010;
/// Read only: bits of `STATUS_*`.
pub const STATUS: u32 = 0x014;
/// Bit 0: whether a completion raises the interrupt.
pub const IRQ_ENABLE: u32 = 0x018;
/// Read only: bit 0: the interrupt's line is high.
pub const IRQ: u32 = 0x01C;
/// A global address, the low word first.
pub const SOURCE: u32 = 0x020;
/// A global address, the low word first.
pub const DESTINATION: u32 = 0x028;
/// Bytes to move.
pub const LENGTH: u32 = 0x030;
/// Comes back with the completion.
pub const TAG: u32 = 0x034;
/// Read only: descriptors that may be started now.
pub const ROOM: u32 = 0x038;
/// Read only: the tag of the oldest completion; 0 if there is none.
pub const DONE_TAG: u32 = 0x040;
/// Read only: how that one ended, `DONE_*`.
pub const DONE_STATUS: u32 = 0x044;
/// Read only: bytes that it moved.
pub const DONE_MOVED: u32 = 0x048;
/// Read only: clock cycles that it took.
pub const DONE_CYCLES: u32 = 0x04C;
/// Read only: the tag of the descriptor that is being moved; 0 if there is none.
pub const ACTIVE_TAG: u32 = 0x050;
/// Read only: its bytes up to now.
pub const MOVED: u32 = 0x054;
/// Read only: its clock cycles up to now.
pub const CYCLES: u32 = 0x058;
/// The table of windows: entries of four words, which are the base (two words),
/// the length in bytes, and whether the entry is valid. A valid entry must be
/// made invalid before its other words are written.
pub const WINDOWS: u32 = 0x800;

/// Queue the descriptor that SOURCE, DESTINATION, LENGTH and TAG are.
pub const CONTROL_START: u32 = 1;
/// Forget everything: as after power-on.
pub const CONTROL_RESET: u32 = 2;
/// Drop the oldest completion.
pub const CONTROL_TAKE: u32 = 4;

/// A descriptor is moved or waits for it.
pub const STATUS_BUSY: u32 = 1;
/// A completion waits.
pub const STATUS_DONE: u32 = 2;
/// And it is not [`DONE_OKAY`].
pub const STATUS_ERROR: u32 = 4;

/// All bytes were moved.
pub const DONE_OKAY: u32 = 0;
/// Neither end is on this engine's node.
pub const DONE_NODE: u32 = 1;
/// An end is outside all registered windows.
pub const DONE_WINDOW: u32 = 2;
/// The ends overlap.
pub const DONE_OVERLAP: u32 = 3;
/// The memory refused to be read.
pub const DONE_READ: u32 = 4;
/// The memory refused to be written.
pub const DONE_WRITE: u32 = 5;

/// In a global address the node stands above these bits, and the byte of its
/// memory in them.
pub const NODE_SHIFT: u32 = 40;
