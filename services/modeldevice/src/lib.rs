//! A device that is only **modelled**: how long a call takes on it, and how long
//! the same call takes in software, are settings. It stands in for hardware that
//! is fast, where there is none, in experiments with leases. It is no device and
//! measures none: everything that names it says "simulated".
//!
//! What is real: the result, a checksum of the arguments, which is the same in
//! both places; the software's time, which is work that keeps a processor busy
//! (so it takes longer where processors are short); and that a VF keeps
//! something of its calls, which is scrubbed before anybody else gets it.
//!
//! What is modelled: the device's time. Waiting for it takes no processor but
//! for the last of it: who sleeps wakes up late, and so sleeps less and spins
//! the rest ([`Waiter`]).
//!
//! The two drivers are in `drivers/`; docs/leases.md shows the experiments.

#![forbid(unsafe_code)]

mod arguments;
mod device;
pub mod limits;
mod settings;
mod software;
mod sum;
mod wait;

pub use arguments::{MAX_ARGS, MAX_RESULT, TELL, Told, arguments, read_result};
pub use device::{DEVICE_RESET, Device, NO_VF};
pub use settings::{Fault, Times};
pub use software::{Software, rounds_per_us};
pub use sum::checksum;
pub use wait::Waiter;

/// The vFunction's name.
pub const NAME: &str = "model";
/// The manifest that ships.
pub const MANIFEST: &str = include_str!("../functions/model/function.toml");
