//! Serves vFunctions that are OpenCL kernels.
//!
//! A kernel's source or binary is compiled once, when the service starts, for
//! the device that the manifest chooses ([`Loaded`]); a trial call makes the
//! device's compiler finish its work before the sandbox closes. Each channel
//! then has a queue and a kernel of its own. What a call's bytes mean to the
//! kernel is [`vfun_kernelmap`]'s to say.
//!
//! Arguments and results stay in the window where the device works on the
//! host's memory; elsewhere they are copied, and the service says so.
//!
//! `docs/opencl.md` is for those who write kernels.

pub mod cl;
mod error;
pub mod limits;
mod loaded;

pub use cl::{forget_files, prepare_process};
pub use error::LoadError;
pub use loaded::{Channel, Loaded};
