//! VirtFun's measurements.
//!
//! - [`report`]: what a measurement says and how it is shown. It measures nothing.
//! - [`measure`]: takes the figures: one piece of work, in the place where it runs.
//! - [`method`]: how two things are compared on a machine that is not quiet.
//! - [`place`]: where work runs: in this process, from the host, from a guest.
//! - [`lab`]: a manager and a guest of one's own, which leave nothing behind.
//! - [`leases`]: many clients and few VFs, in simulated time.
//! - [`nics`]: many VMs and few network VFs, in simulated time.
//! - [`runs`]: the experiments: which work in which place how often, and their reports.
//! - [`cli`]: `vfun bench`.
//!
//! A guest is measured by the same code as the host: the host sends it a [`measure::Job`]
//! as JSON and gets a [`measure::Outcome`] back.

#![forbid(unsafe_code)]

pub mod cli;
mod error;
pub mod lab;
pub mod leases;
pub mod measure;
pub mod method;
pub mod nics;
pub mod place;
pub mod remoting;
pub mod report;
pub mod runs;

pub use error::{BenchError, Result};
