//! The register map of a VF, as `rtl/vfun_fpga_pkg.sv` has it; the test
//! `the_map_is_the_rtls` compares the two. Byte offsets in the VF's window; all
//! registers are 32 bits wide and little-endian.

/// What [`ID`] reads: "VFN1".
pub const ID_VALUE: u32 = 0x314E_4656;
/// What [`VERSION`] reads: `major << 16 | minor`.
pub const VERSION_VALUE: u32 = 0x0001_0000;

/// Read only: [`ID_VALUE`].
pub const ID: u32 = 0x000;
/// Read only: the map's version.
pub const VERSION: u32 = 0x004;
/// Read only: VFs of the device << 16 | this one's number.
pub const VF: u32 = 0x008;
/// Read only: bit f is set if the device has function f.
pub const FUNCTIONS: u32 = 0x00C;
/// Write only: [`CONTROL_START`] or [`CONTROL_RESET`].
pub const CONTROL: u32 = 0x010;
/// Read only: [`STATUS_BUSY`], [`STATUS_DONE`].
pub const STATUS: u32 = 0x014;
/// Which function; written while idle.
pub const FUNCTION: u32 = 0x018;
/// Bit 0: whether the end of a computation raises the interrupt.
pub const IRQ_ENABLE: u32 = 0x01C;
/// Bit 0: the interrupt is pending; writing 1 clears it.
pub const IRQ: u32 = 0x020;
/// Read only: words that [`STREAM`] takes now.
pub const ROOM: u32 = 0x024;
/// Read only: clock cycles of this or the last computation, its low 32 bits.
pub const CYCLES: u32 = 0x028;
/// Two 64-bit numbers, low words first; written while idle.
pub const ARGUMENT: u32 = 0x040;
/// Read only: a 64-bit number, low word first.
pub const RESULT: u32 = 0x080;
/// Read only: 32 bytes, the first of them lowest in the first word.
pub const DIGEST: u32 = 0x0C0;
/// Write only: data of the computation under way, the first byte lowest.
pub const STREAM: u32 = 0x100;

/// Bit of CONTROL: begin to compute.
pub const CONTROL_START: u32 = 1;
/// Forget everything: every bit of the VF is as after power-on.
pub const CONTROL_RESET: u32 = 2;
/// Bit of STATUS: the core computes.
pub const STATUS_BUSY: u32 = 1;
/// It has computed; the results are there.
pub const STATUS_DONE: u32 = 2;

/// What a device that is not there any more reads, on PCI.
pub const GONE: u32 = u32::MAX;
