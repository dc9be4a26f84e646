//! Where things are on this host. Tests have others.

use std::path::PathBuf;

/// Roots of the trees that are read and written.
#[derive(Clone, Debug)]
pub struct Places {
    /// The kernel's tree of devices: `/sys`.
    pub sys: PathBuf,
    /// `/proc`, for the settings of the kernel.
    pub proc: PathBuf,
    /// `/dev`, for the files of VFIO.
    pub dev: PathBuf,
    /// The folder of this program: `ROOT/nics`.
    pub own: PathBuf,
    /// The folder with a folder for each VF's socket: `ROOT/vhost`. VMs' users pass through it.
    pub vhost: PathBuf,
}
