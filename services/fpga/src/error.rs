//! What callers are told: the drivers' own error codes.

use crate::BspError;
use vfun_sdk::{BAD_SETTING, DriverError};

/// Code: the device did not answer within the driver's limit. It was reset; a
/// further call may succeed.
pub const HUNG: i32 = 1;
/// Code: the device refused an access.
pub const BUS_ERROR: i32 = 3;
/// Code: there is no such device, it is another, or it is gone.
pub const NO_DEVICE: i32 = 4;
/// Code: every VF is in use.
pub const NO_VF: i32 = 5;
/// Code: the device answers what it cannot mean.
pub const CONFUSED: i32 = 6;

const _: () = assert!(BAD_SETTING == 2, "2 is the SDK's, so it is none of ours");

/// Why a driver could not be set up or a call not be computed.
#[derive(Debug)]
pub enum FpgaError {
    Bsp(BspError),
    /// It computes, or takes no data, for longer than allowed.
    Hung {
        /// What was allowed, ms.
        limit_ms: u64,
    },
    /// It is no device of this kind, or lacks the function.
    WrongDevice(String),
    /// It is neither busy nor done.
    Confused {
        /// Status register of the core, as it was read.
        status: u32,
    },
}

impl From<BspError> for FpgaError {
    fn from(e: BspError) -> Self {
        FpgaError::Bsp(e)
    }
}

impl std::fmt::Display for FpgaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FpgaError::Bsp(e) => e.fmt(f),
            // The first 44 bytes are what a caller without data space sees.
            FpgaError::Hung { limit_ms } => write!(
                f,
                "the device did not answer in {limit_ms} ms: it was reset; call again, or raise fpga_answer_ms"
            ),
            FpgaError::WrongDevice(sentence) => f.write_str(sentence),
            FpgaError::Confused { status } => {
                write!(f, "the device is neither busy nor done: status {status:#x}")
            }
        }
    }
}
impl std::error::Error for FpgaError {}

impl From<FpgaError> for DriverError {
    fn from(e: FpgaError) -> Self {
        let code = match &e {
            FpgaError::Hung { .. } | FpgaError::Bsp(BspError::Silent) => HUNG,
            FpgaError::Bsp(BspError::Refused { .. } | BspError::OutOfWindow { .. }) => BUS_ERROR,
            FpgaError::Bsp(BspError::Taken(_)) => NO_VF,
            FpgaError::Bsp(BspError::Gone | BspError::Absent(_) | BspError::Os { .. })
            | FpgaError::WrongDevice(_) => NO_DEVICE,
            FpgaError::Confused { .. } => CONFUSED,
        };
        DriverError::new(code, e.to_string())
    }
}

impl From<BspError> for DriverError {
    fn from(e: BspError) -> Self {
        FpgaError::Bsp(e).into()
    }
}
