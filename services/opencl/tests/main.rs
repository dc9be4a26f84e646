//! OpenCL kernels as functions.
//!
//! One program for all files: linking is most of what a small one costs.

mod common;
mod kernels;
mod refused;
