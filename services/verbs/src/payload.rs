//! Memory that programs registered.

use vfun_window::{OutOfBounds, WriteSpan};

/// A window's bytes. Peers may change them at any time, so none is ever borrowed: bytes are
/// copied in, out, or from one place to another.
pub trait Payload {
    /// How many bytes there are.
    fn bytes(&self) -> u64;
    /// Copies out.
    fn read(&self, at: u64, to: &mut [u8]) -> Result<(), OutOfBounds>;
    /// Copies in.
    fn write(&self, at: u64, from: &[u8]) -> Result<(), OutOfBounds>;
    /// Copies from another window or from this one.
    fn copy(&self, at: u64, from: &Self, from_at: u64, len: u64) -> Result<(), OutOfBounds>;
    /// Copies at most eight bytes in, which are seen after what was written before.
    fn write_last(&self, at: u64, from: &[u8]) -> Result<(), OutOfBounds>;
    /// Stores `swap` in an aligned word if it is `compare`; says what it was.
    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> Result<u64, OutOfBounds>;
    /// Adds to an aligned word; says what it was.
    fn fetch_add(&self, at: u64, add: u64) -> Result<u64, OutOfBounds>;
}

fn place(at: u64) -> Result<usize, OutOfBounds> {
    usize::try_from(at).map_err(|_| OutOfBounds)
}

/// Index of an aligned word that is inside.
fn word(span: &WriteSpan, at: u64) -> Result<usize, OutOfBounds> {
    let at = place(at)?;
    match at.is_multiple_of(8) && at.checked_add(8).is_some_and(|end| end <= span.len()) {
        true => Ok(at / 8),
        false => Err(OutOfBounds),
    }
}

impl Payload for WriteSpan {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    #[inline]
    fn read(&self, at: u64, to: &mut [u8]) -> Result<(), OutOfBounds> {
        vfun_window::ReadSpan::read(self, place(at)?, to)
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<(), OutOfBounds> {
        WriteSpan::write(self, place(at)?, from)
    }

    #[inline]
    fn copy(&self, at: u64, from: &Self, from_at: u64, len: u64) -> Result<(), OutOfBounds> {
        self.copy_from(place(at)?, from, place(from_at)?, place(len)?)
    }

    #[inline]
    fn write_last(&self, at: u64, from: &[u8]) -> Result<(), OutOfBounds> {
        WriteSpan::write_last(self, place(at)?, from)
    }

    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> Result<u64, OutOfBounds> {
        let index = word(self, at)?;
        Ok(self.compare_exchange(index, compare, swap).unwrap_or_else(|found| found))
    }

    fn fetch_add(&self, at: u64, add: u64) -> Result<u64, OutOfBounds> {
        let index = word(self, at)?;
        Ok(WriteSpan::fetch_add(self, index, add, std::sync::atomic::Ordering::AcqRel))
    }
}
