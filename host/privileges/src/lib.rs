//! How a program of the host gives up what root may do.
//!
//! Each thread has capabilities of its own, and hands them on to those that it starts: call
//! this before there is a second one.

#![forbid(unsafe_code)]

use rustix::thread::{CapabilitySet, CapabilitySets};
use std::io;

/// Empties this thread's permitted, effective, inheritable and ambient capabilities.
pub fn empty_sets() -> io::Result<()> {
    let none = CapabilitySet::empty();
    // Kernels before 4.3 have no ambient ones.
    let _ = rustix::thread::clear_ambient_capability_set();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// The same, and no program that this thread runs ever gains any, also as root.
pub fn give_up_all() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    empty_sets()
}
