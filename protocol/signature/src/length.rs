//! Whether so many bytes can be arguments or results.

use crate::Record;

/// Bytes of arguments or results that the signature does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthError {
    /// Bytes that were given.
    pub bytes: u64,
    /// Fewest bytes that the signature allows.
    pub min: u64,
    /// Most bytes that the signature allows.
    pub max: u64,
    /// Of an element of the variable array; 1 where there is none.
    pub step: u64,
}

impl core::fmt::Display for LengthError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let LengthError { bytes, min, max, step } = self;
        if min == max {
            write!(f, "{bytes} bytes where the signature has {min}")
        } else if bytes < min || bytes > max {
            write!(f, "{bytes} bytes where the signature has {min} to {max}")
        } else {
            write!(f, "{bytes} bytes end inside an element ({min} and a multiple of {step})")
        }
    }
}
impl std::error::Error for LengthError {}

impl Record {
    /// Checks a length; the number of elements of the variable array (0 without one).
    pub fn check(&self, bytes: u64) -> Result<u64, LengthError> {
        let (min, max, step) = (self.min_bytes(), self.max_bytes(), self.step());
        let wrong = LengthError { bytes, min, max, step };
        if bytes < min || bytes > max {
            return Err(wrong);
        }
        match &self.tail {
            None => Ok(0),
            Some(t) if (bytes - t.offset).is_multiple_of(step) => Ok((bytes - t.offset) / step),
            Some(_) => Err(wrong),
        }
    }
}
