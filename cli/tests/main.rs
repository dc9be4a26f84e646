//! The command `vfun`.
//!
//! One program for all files: linking is most of what a small one costs.

mod bindgen;
mod help;
mod manager;
