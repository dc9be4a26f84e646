//! User-mode code in a bare KVM virtual machine, without a guest kernel.
//!
//! [`Machine`] is a virtual machine of one processor that has no firmware, no kernel and
//! no devices. Its processor begins in user mode (ring 3, 64 bits, paging), in code of
//! this program: the machine's memory is this program's own, windows included, in KVM's
//! memory slots, and each page has the address there that it has here. So what calls from
//! inside the machine is VirtFun's own ring code ([`vfun_ring::Caller`]), as it was
//! compiled for the host.
//!
//! What runs there is a [`Job`], of which this crate has all: code in the machine can do
//! no system call, so it is small and known. It leaves the machine when it is done or when
//! it needs the host, such as to ring a service that sleeps; the host runs it again then,
//! and it goes on where it was.
//!
//! This shows what a call costs a processor that is virtualized by hardware. It is no
//! guest: no interrupt comes, no kernel takes turns, no device is in between.

#[cfg(not(target_arch = "x86_64"))]
#[path = "elsewhere.rs"]
mod machine;
#[cfg(target_arch = "x86_64")]
mod machine;

mod jobs;
#[cfg(target_arch = "x86_64")]
mod memory;

pub use jobs::{Calls, Count, Job, Lines, Stop};
pub use machine::Machine;

use std::time::Duration;

/// How long a machine is tried for.
const TRIED: Duration = Duration::from_secs(10);

/// Whether machines run on this host, found out by a try.
///
/// # Errors
/// Why they do not. KVM on some hosts never comes back from code that it cannot run: such
/// a try is given up after ten seconds, and its thread is left where it is.
pub fn tried() -> Result<(), NoMachine> {
    let (done, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let ran = Machine::new().and_then(|mut machine| machine.run(&mut Count::new(1)));
        // Nobody listens any more if this was given up.
        let _ = done.send(ran.map(drop));
    });
    answer
        .recv_timeout(TRIED)
        .unwrap_or_else(|_| Err(NoMachine::Stopped("it did not come back within 10 s".to_owned())))
}

/// Why code could not be run in a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoMachine {
    /// There is no KVM for this program.
    #[error("{0}")]
    NoKvm(String),
    /// KVM refused a step; `why` is its word.
    #[error("KVM: {doing}: {why}")]
    Refused {
        /// What was being done.
        doing: &'static str,
        why: String,
    },
    /// The processor stopped, and not because its code had left the machine.
    #[error(
        "the virtual machine stopped ({0}): either KVM on this host does not run user-mode code without a guest kernel, or that code did what it cannot do there"
    )]
    Stopped(String),
}
