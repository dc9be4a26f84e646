//! Boots tiny real guests under stock QEMU, for tests, benches and people.
//!
//! A guest is a Debian cloud kernel (`packaging/guest-kernel.sh` fetches it) and
//! an initramfs made on the spot: a static busybox, the modules that are needed,
//! and the files that the test names, with the libraries they link to. It needs
//! no root, no image, no network and no KVM, and is up in about two seconds.
//!
//! ```no_run
//! use std::time::Duration;
//! use vfun_testguest::{Guest, GuestConfig};
//!
//! let guest = Guest::boot(&GuestConfig::new("hello"))?;
//! let out = guest.run("uname -r; exit 3", Duration::from_secs(10))?;
//! assert_eq!(out.status, 3);
//! # Ok::<(), vfun_testguest::GuestError>(())
//! ```
//!
//! **Nothing stays behind.** All that a guest has on the host lies in one folder,
//! and QEMU is the child of a small shell (the keeper) that ends QEMU and removes
//! the folder when the pipe from this process closes, be it by `Drop` or because
//! this process was killed. The keeper also ends a guest that outlives
//! [`GuestConfig::max_life`].
//!
//! **What the guest says is not believed.** Everything that comes from it is
//! bounded (see [`limits`]) and checked, and a guest that breaks the protocol
//! loses its channel, with an error that says so.

mod accel;
mod adopted;
mod channel;
mod config;
mod console;
mod cpio;
mod elf;
mod error;
mod frame;
mod guest;
mod initramfs;
mod interactive;
mod keeper;
mod kernel;
pub mod limits;
mod modules;
mod qemu;
mod qmp;

pub use accel::Accel;
pub use adopted::{Adopted, BootFiles};
pub use config::{Disk, Doorbell, GuestConfig, Window};
pub use error::GuestError;
pub use frame::RunOutput;
pub use guest::Guest;
pub use interactive::interactive;
pub use kernel::Kernel;

/// What fallible functions here return.
pub type Result<T> = std::result::Result<T, GuestError>;
