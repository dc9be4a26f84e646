//! FPGA functions: a **high-level driver** ([`DeviceDriver`]) that knows the
//! device's registers, over a **BSP** ([`Bsp`]) that knows how to reach them on
//! one kind of board.
//!
//! | BSP | where the registers are |
//! |---|---|
//! | [`sim::SimulatedVf`] | in a simulation: the SystemVerilog of `rtl/`, run by Verilator. No hardware |
//! | [`bar::Bar`] | in memory: a PCI BAR (`resourceN`), a UIO device, or a file standing in for one |
//!
//! A driver library is one crate with one line, [`export_fpga_driver!`]; those
//! in `drivers/` have the simulated device under them. docs/fpga.md is the guide.
//!
//! Unsafe code is only in `sim/ffi.rs`, where the simulation's C++ is called.

pub mod bar;
mod bsp;
mod driver;
mod error;
mod export;
pub mod limits;
pub mod registers;
mod settings;
pub mod sim;

pub use bsp::{Bsp, BspError, OpenBsp};
pub use driver::{DeviceDriver, Function, device_driver_exit, device_driver_init};
pub use error::{BUS_ERROR, CONFUSED, FpgaError, HUNG, NO_DEVICE, NO_VF};
#[doc(hidden)]
pub use export::Exported;
pub use settings::answer_within;
#[doc(hidden)]
pub use vfun_sdk;
