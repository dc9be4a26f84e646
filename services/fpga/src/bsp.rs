//! What a driver needs from a board.

use crate::limits::YIELDS;
use vfun_sdk::{Config, DriverError};

/// A board support package: one VF of one device, as the high-level driver
/// reaches it. Used by one thread at a time; dropping it gives the VF back.
///
/// Registers are 32 bits wide, named by their byte offset in the VF's window. A
/// BSP never lets an offset reach beyond that window, whatever the driver asks.
pub trait Bsp {
    /// What this is, for the log. A simulated device says that it is simulated.
    fn describe(&self) -> String;

    /// Reads a register.
    fn read(&mut self, register: u32) -> Result<u32, BspError>;

    /// Writes a register; later accesses come later.
    fn write(&mut self, register: u32, value: u32) -> Result<(), BspError>;

    /// Writes words, in order, to one register that takes a stream. The driver
    /// has asked before whether there is room for all.
    fn stream(&mut self, register: u32, words: &[u32]) -> Result<(), BspError> {
        words.iter().try_for_each(|&word| self.write(register, word))
    }

    /// Lets a little time pass: the driver is about to poll again.
    fn pause(&mut self) -> Result<(), BspError> {
        std::thread::yield_now();
        Ok(())
    }

    /// Waits for the VF's interrupt, or for a while where there is none. May
    /// return early: the driver reads the status in any case. Returns within
    /// some ten milliseconds, so that the driver can keep its own limit.
    fn wait(&mut self) -> Result<(), BspError>;

    /// Scrubs the VF: nothing of what was computed in it is left.
    fn reset(&mut self) -> Result<(), BspError>;
}

/// A BSP that a driver library can open by itself.
pub trait OpenBsp: Bsp + Sized {
    /// Opens the VF that the manifest's settings name, or any free one.
    fn open(config: &Config) -> Result<Self, DriverError>;
}

/// Why a device could not be reached or would not do as told.
#[derive(Debug)]
pub enum BspError {
    /// The device refused an access (AXI's SLVERR): no such register, not
    /// aligned, read only, or not now.
    Refused {
        register: u32,
        /// Whether it was written.
        written: bool,
    },
    /// The register is not in this VF's window; the device was not asked.
    OutOfWindow { register: u32 },
    /// The port does not answer at all.
    Silent,
    /// The device reads as all ones: it was unplugged or fell off its bus.
    Gone,
    /// There is no such device, or no VF of it is free. The sentence says which.
    Absent(String),
    /// The VF is in use by somebody else.
    Taken(String),
    /// The system refused something.
    Os {
        /// What was tried, as words for a sentence.
        what: String,
        /// The system's error.
        error: std::io::Error,
    },
}

impl std::fmt::Display for BspError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BspError::Refused { register, written } => {
                let how = if *written { "write" } else { "read" };
                write!(f, "device refused (SLVERR) {how} at {register:#x}")
            }
            BspError::OutOfWindow { register } => {
                write!(f, "{register:#x} is not in this VF's window")
            }
            BspError::Silent => f.write_str("device's port does not answer"),
            BspError::Gone => f.write_str("device is gone: it reads all ones"),
            BspError::Absent(sentence) | BspError::Taken(sentence) => f.write_str(sentence),
            BspError::Os { what, error } => write!(f, "{what}: {error}"),
        }
    }
}
impl std::error::Error for BspError {}

/// Waiting for a device that has no interrupt: yields at first, then sleeps.
#[derive(Default)]
pub(crate) struct Polls(u32);

impl Polls {
    /// Something was begun: be quick again.
    pub(crate) fn restart(&mut self) {
        self.0 = 0;
    }
    /// One more time that there was nothing.
    pub(crate) fn pass(&mut self) {
        if self.0 < YIELDS {
            self.0 += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(crate::limits::POLL);
        }
    }
}
