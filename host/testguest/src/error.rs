//! What can go wrong, each as a sentence that says what to do.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::RunOutput;

/// Why a guest could not be started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// No kernel for guests was found.
    #[error(
        "there is no guest kernel in {looked}: run packaging/guest-kernel.sh, \
         or set VFUN_GUEST_KERNEL_DIR to the folder that it printed"
    )]
    NoKernel {
        /// The folders that were looked at.
        looked: String,
    },
    /// The folder of the kernel is there but is not complete.
    #[error(
        "the guest kernel in {dir} is of no use ({why}): run packaging/guest-kernel.sh --refresh"
    )]
    BadKernel {
        /// The kernel's folder.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A program of the host is missing.
    #[error("{program} is missing on this machine: run packaging/setup.sh (package {package})")]
    MissingProgram {
        /// What is missing.
        program: String,
        /// The Debian package that has it.
        package: String,
    },
    /// A kernel module that was asked for does not exist.
    #[error(
        "the guest kernel has no module '{name}' (neither as a file nor built in): \
         look for its name under lib/modules in the kernel's folder"
    )]
    NoModule {
        /// The module's name.
        name: String,
    },
    /// The configuration asks for something that cannot be.
    #[error("guest '{guest}' cannot be made: {why}")]
    Config {
        /// The guest's name.
        guest: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A program for the guest needs a library that this host does not have.
    #[error(
        "'{program}' needs the library {library}, which is not on this machine: install it, or set LD_LIBRARY_PATH"
    )]
    MissingLibrary {
        /// The program that needs it.
        program: PathBuf,
        library: String,
    },
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The guest did not reach user space in time.
    #[error(
        "guest '{guest}' was not up {after:?} after its start with {accel}: if this machine is only busy, \
         raise boot_timeout or start fewer guests at once. {tail}"
    )]
    BootTimeout {
        /// The guest's name.
        guest: String,
        /// `kvm` or `tcg`.
        accel: &'static str,
        /// The time it had.
        after: Duration,
        /// The last lines of its console.
        tail: String,
    },
    /// The guest's kernel panicked.
    #[error("the kernel of guest '{guest}' panicked: reset() or boot it again. {tail}")]
    Panicked {
        /// The guest's name.
        guest: String,
        /// The last lines of its console.
        tail: String,
    },
    /// QEMU is not running any more.
    #[error("guest '{guest}' has ended{why}. {tail}")]
    Ended {
        /// The guest's name.
        guest: String,
        /// Why, as far as it is known, and what QEMU said.
        why: String,
        /// The last lines of its console.
        tail: String,
    },
    /// The guest started again while something was asked of it.
    #[error(
        "guest '{guest}' started again before the command had ended: run the command again once it is up"
    )]
    Restarted {
        /// The guest's name.
        guest: String,
    },
    /// A command ran past its time. It was killed, and the guest can be used on.
    #[error(
        "the command ran longer than {after:?} in guest '{guest}' and was killed; \
         the guest is still usable. Its output so far: {}",
        brief(output)
    )]
    CommandTimeout {
        /// The guest's name.
        guest: String,
        /// The time it had.
        after: Duration,
        /// What it had printed.
        output: Box<RunOutput>,
    },
    /// A command ran past its time, and the guest could not even kill it.
    #[error(
        "guest '{guest}' does not answer: the command ran longer than {after:?}, and asking the guest to kill it \
         brought no reply. It may hang: look at its console, reset() or kill() it. {tail}"
    )]
    NoAnswer {
        /// The guest's name.
        guest: String,
        /// The time the command had.
        after: Duration,
        /// The last lines of its console.
        tail: String,
    },
    /// A command that had to succeed did not.
    #[error("'{command}' ended with status {} in guest '{guest}': {}", output.status, brief(output))]
    CommandFailed {
        /// The guest's name.
        guest: String,
        /// The command, shortened.
        command: String,
        /// What it printed.
        output: Box<RunOutput>,
    },
    /// The guest wrote what is no answer into its command channel.
    #[error(
        "the command channel of guest '{guest}' is broken ({why}): nothing can be run until reset()"
    )]
    Channel {
        /// The guest's name.
        guest: String,
        /// What came.
        why: String,
    },
    /// QEMU refused a QMP command.
    #[error("QEMU refused '{command}' for guest '{guest}': {desc} ({class})")]
    Qmp {
        /// The guest's name.
        guest: String,
        /// The command that ended so.
        command: String,
        /// QEMU's class of error.
        class: String,
        /// QEMU's sentence.
        desc: String,
    },
    /// QEMU did not do what it should in time.
    #[error(
        "QEMU of guest '{guest}' {what} within {after:?}: the machine may be overloaded, or QEMU hangs"
    )]
    QemuSlow {
        /// The guest's name.
        guest: String,
        /// What it did not do.
        what: String,
        /// The time it had.
        after: Duration,
    },
}

/// The start of what a command printed, for an error.
fn brief(output: &RunOutput) -> String {
    let cut = |bytes: &[u8]| {
        let from = bytes.len().saturating_sub(600);
        String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
    };
    format!("stdout '{}', stderr '{}'", cut(&output.stdout), cut(&output.stderr))
}

/// Adds what was being done to an [`io::Error`].
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, GuestError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, GuestError> {
        self.map_err(|source| GuestError::Io { doing: what(), source })
    }
}

impl<T> Doing<T> for rustix::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, GuestError> {
        self.map_err(|e| GuestError::Io { doing: what(), source: e.into() })
    }
}
