//! `libvfunverbs.so`: the functions of libibverbs for programs in VMs, which have no RDMA device. It is preloaded
//! into a program. Control calls go to the software NIC of the host (`services/verbsback`) by
//! `generated.rs`; work and completions go through queues in the window, without a call.
//!
//! - `abi`: the structs of `infiniband/verbs.h`.
//! - `context`, `domains`, `cq`, `qp`, `srq`, `channel`: the objects.
//! - `post`, `wr`, `poll`: what runs often.
//! - `memory`: how the program's memory is reached.
//! - `refused`: what is not offered, and why.
//!
//! The program is trusted as the C library trusts it; nothing that the host writes is.

pub mod abi;
/// Hooks that `generated.rs` looks for: there are none.
mod hand {}
mod answers;
mod asynchronous;
mod channel;
mod context;
#[doc(hidden)]
pub mod coverage;
mod cq;
mod device;
mod domains;
mod errno;
mod generated;
mod limits;
#[doc(hidden)]
pub mod loopback;
mod memory;
mod modify;
mod pairs;
mod poll;
mod post;
mod progress;
mod qp;
mod query;
pub mod rdmacm;
mod refused;
mod registry;
mod shape;
mod sleep;
mod srq;
mod told;
mod wr;
