//! `libgdma.so` for programs in VMs: the same C symbols as the library on the host
//! (services/gdma), with the engine and its memory there. `generated.rs` is made of the API's
//! description; `hand.rs` has what a description cannot say.

mod callbacks;
mod counts;
mod generated;
mod hand;
mod pools;
#[path = "../../../protocol/remoting/apis/gdma.rs"]
mod text;

pub use generated::*;
