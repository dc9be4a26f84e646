//! What becomes of modules on the host, and the ways by which they come there.

mod disk;
mod late;
mod names;
mod ways;
