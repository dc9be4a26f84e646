//! The simulated FPGA against the software.
//!
//! One program for all files: linking is most of what a small one costs.

mod against_software;
mod axi;
mod bar;
mod map;
mod vfs;
