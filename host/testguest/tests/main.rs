//! What a test guest can do.
//!
//! One program for all files: linking is most of what a small one costs.

mod commands;
mod common;
mod control;
mod devices;
mod ends;
