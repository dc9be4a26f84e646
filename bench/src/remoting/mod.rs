//! Remoted APIs, in the process that uses them: the library of the API gdma that does the work
//! (*native*) and the one that asks the host for it (*remoted*), in turns.

mod job;
mod moves;
mod pkcs11;
mod short;
mod side;
mod slice;
mod taken;

pub use job::{RemotingJob, work};
pub use pkcs11::Modules;
