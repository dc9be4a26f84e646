//! Why a kernel cannot be served.

use crate::cl::ClError;
use crate::limits::PROGRAM_BYTES_MAX;
use vfun_kernelmap::{BindError, MapError};

/// Why a kernel cannot be served. Its sentence is for whoever calls the
/// function; what is for its author alone is [`LoadError::details`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// No loader of OpenCL.
    #[error("OpenCL is not installed on this host: there is no libOpenCL.so.1")]
    NoOpenCl,
    /// A loader, but nothing that computes.
    #[error("this host has no OpenCL device: no ICD is installed, or none finds a device")]
    NoDevice,
    /// None is as the manifest wants it.
    #[error("no OpenCL device of this host is what the manifest asks for")]
    NotThatDevice {
        /// What is asked for, and what there is.
        details: String,
    },
    /// The file cannot be read.
    #[error("the kernel's file cannot be read; is it installed?")]
    Missing {
        /// Where it should be, and the system's words.
        details: String,
    },
    /// Beyond [`PROGRAM_BYTES_MAX`].
    #[error("the kernel's file has {bytes} bytes, at most {PROGRAM_BYTES_MAX} are taken")]
    TooLarge { bytes: u64 },
    /// Refused by the compiler.
    #[error(
        "the kernel does not compile; the compiler's words are in the service's log on the host"
    )]
    Build {
        /// The compiler's words.
        details: String,
    },
    /// The source has no such kernel.
    #[error("the program has no kernel '{kernel}'")]
    NoKernel {
        /// The kernel that the manifest names.
        kernel: String,
        /// The kernels that the program has.
        details: String,
    },
    /// The manifest's section contradicts its signature.
    #[error("the manifest does not fit the function's signature")]
    Map {
        /// Where the two contradict each other.
        details: String,
    },
    /// The manifest's arguments are not the kernel's.
    #[error("the manifest's arguments are not the kernel's")]
    Arguments {
        /// Which argument, and what is wrong with it.
        details: String,
    },
    /// The smallest call cannot be made.
    #[error("the kernel's trial call failed")]
    Trial {
        /// What was tried, and its error.
        details: String,
    },
    /// The device failed.
    #[error("the OpenCL device failed while it was set up")]
    Device {
        /// What was asked of the device, and its error.
        details: String,
    },
}

impl LoadError {
    /// What its author, or the operator, needs to know: paths, devices, a
    /// compiler's words. Not for other tenants.
    pub fn details(&self) -> Option<&str> {
        match self {
            LoadError::NotThatDevice { details }
            | LoadError::Missing { details }
            | LoadError::Build { details }
            | LoadError::NoKernel { details, .. }
            | LoadError::Map { details }
            | LoadError::Arguments { details }
            | LoadError::Trial { details }
            | LoadError::Device { details } => Some(details),
            LoadError::NoOpenCl | LoadError::NoDevice | LoadError::TooLarge { .. } => None,
        }
    }
}

impl From<ClError> for LoadError {
    fn from(e: ClError) -> Self {
        LoadError::Device { details: e.to_string() }
    }
}
impl From<MapError> for LoadError {
    fn from(e: MapError) -> Self {
        LoadError::Map { details: e.to_string() }
    }
}
impl From<BindError> for LoadError {
    fn from(e: BindError) -> Self {
        LoadError::Trial { details: format!("the smallest call, as [opencl.trial] has it: {e}") }
    }
}
