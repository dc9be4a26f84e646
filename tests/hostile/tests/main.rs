//! Attacks, chaos and crashes without a guest.
//!
//! One program for all files: linking is most of what a small one costs.

mod attacks;
mod chaos;
mod matrix;
