//! What follows from how things are: the next step of a VM, and of a VF.

mod vf;
mod vm;
