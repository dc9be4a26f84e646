//! The sandbox of services: what keeps a driver that was taken over by its
//! arguments inside the process it runs in.
//!
//! The manager says in a [`Plan`] what a service is to get, and starts the
//! launcher program `vfun-jail` with it ([`Launch`]). The launcher makes the
//! service as the manager's own child, in namespaces of its own, with a root
//! directory that holds the program and its libraries and nothing else, and
//! ends. The service itself installs its list of system calls ([`seccomp`]).
//! What of all that really holds is read from the kernel ([`standing`]).

#![deny(unsafe_code)]

pub mod constants;
pub mod devices;
pub mod folders;
pub mod group;
pub mod places;
pub mod probe;
pub mod seccomp;
pub mod standing;
pub mod threads;

mod launch;
mod layer;
mod limits;
mod plan;

pub use devices::Device;
pub use launch::{Failure, Launch, Launched, Progress, Remains};
pub use layer::{Layer, UnknownLayer};
pub use limits::Limits;
pub use plan::{Missing, Plan, Report};
pub use standing::Standing;

/// Why there is no user for each client where there is none.
pub const NO_OTHER_USERS: &str =
    "the manager runs as an ordinary user and cannot give services another one";

/// Whether this process may map and become any user.
pub fn may_become_others() -> bool {
    use rustix::thread::CapabilitySet;
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID))
}
