//! A DMA engine that moves data between the nodes of a global address space, and
//! its library: `libgdma.so` with the C interface of `include/gdma.h`, and the
//! same for Rust ([`Context`]).
//!
//! There is no hardware: the engine is the SystemVerilog of `rtl/`, run by
//! Verilator in this process. docs/fpga.md has its registers.
//!
//! Unsafe code is only in `edge/`.

mod context;
pub mod edge;
pub mod engine;
mod flow;
mod handles;
pub mod limits;
mod options;
mod places;
pub mod registers;
mod state;
mod status;
#[path = "../../../protocol/remoting/apis/gdma.rs"]
mod text;
mod worker;

pub use context::Context;
pub use options::Options;
pub use state::{Buffer, Done, End, Progress};
pub use status::{BUSY, GdmaError, OK};
pub use text::text;
