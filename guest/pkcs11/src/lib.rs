//! A PKCS#11 module for programs in VMs, whose tokens are on the host. `generated.rs` is made of the
//! API's description; `hand.rs` has what a description cannot say.

mod generated;
mod hand;
mod waits;

pub use generated::*;
