//! What a service cannot do in its sandbox.
//!
//! One program for all files: linking is most of what a small one costs.

mod attempts;
mod launching;
mod limits;
mod ordinary;
mod words;
