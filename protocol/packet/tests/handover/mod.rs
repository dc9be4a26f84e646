//! Direct links: the handover of a flow of frames between the switch and a link.

mod hostile;
mod memory;
mod mutant;
mod random;
mod rest;
mod runs;
mod threads;
mod world;
