//! The measurements end to end, and their reports.
//!
//! One program for all files: linking is most of what a small one costs.

mod end_to_end;
mod guest;
mod leases;
mod nics;
mod ports;
mod remoting;
mod report;
mod sample;
