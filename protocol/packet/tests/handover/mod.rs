//! Direct links: the handover of a flow of frames between the switch and a link.

mod cases;
mod counts;
mod deaths;
mod director;
mod hostile;
mod memory;
mod mutant;
mod place;
mod random;
mod runs;
mod threads;
mod verdict;
mod world;
