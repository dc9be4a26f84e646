//! The simulated device's pins, as `model/shim.cpp` has them.

/// What goes into the device in a cycle. All AXI4-Lite's, by its names, but for
/// the last two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Inputs {
    pub wdata: u32,
    pub awaddr: u16,
    pub araddr: u16,
    pub awvalid: u8,
    pub wvalid: u8,
    pub wstrb: u8,
    pub bready: u8,
    pub arvalid: u8,
    pub rready: u8,
    /// 0: the whole device is reset.
    pub resetn: u8,
    /// [`FAULT_CORES`], [`FAULT_PORT`].
    pub fault: u8,
}

/// What comes out of it in a cycle, before the clock's rising edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Outputs {
    pub rdata: u32,
    pub awready: u8,
    pub wready: u8,
    pub bvalid: u8,
    pub bresp: u8,
    pub arready: u8,
    pub rvalid: u8,
    pub rresp: u8,
    /// Bit n: the interrupt of VF n.
    pub irq: u8,
}

/// A fault: the cores stand still, so that no computation ends.
pub const FAULT_CORES: u8 = 1;
/// A fault: the port takes and answers nothing.
pub const FAULT_PORT: u8 = 2;

/// AXI: done.
pub const OKAY: u8 = 0;
/// AXI: refused.
pub const SLVERR: u8 = 2;

const _: () = assert!(size_of::<Inputs>() == 16 && size_of::<Outputs>() == 12);
