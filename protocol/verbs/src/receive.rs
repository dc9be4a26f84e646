//! Receive entries.
//!
//! | byte | what |
//! |---|---|
//! | 0 | the queue's stamp (4) |
//! | 4 | scatter elements (4) |
//! | 8 | `wr_id` (8) |
//! | 16 | three scatter elements; the others stand beside the entry |

use crate::bytes::{get32, get64, put32, put64};
use crate::limits::SGES_MAX;
use crate::send::{BadEntry, PAYLOAD};
use crate::sge::Sge;

/// Where the elements begin in the payload.
const TAIL: usize = 12;
/// Elements that lie in the line.
const NEAR: usize = (PAYLOAD - TAIL) / Sge::BYTES;

/// A receive entry in private memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiveEntry {
    pub wr_id: u64,
    count: usize,
    list: [Sge; SGES_MAX],
}

/// As many bytes as stand beside an entry of so many elements.
fn far(count: usize, extension: usize) -> Result<usize, BadEntry> {
    let bytes = count.saturating_sub(NEAR).saturating_mul(Sge::BYTES);
    match count <= SGES_MAX && bytes <= extension {
        true => Ok(bytes),
        false => Err(BadEntry::Count(u16::try_from(count).unwrap_or(u16::MAX))),
    }
}

impl ReceiveEntry {
    /// With these elements, in order; `None` if they are too many.
    pub fn new(wr_id: u64, sges: &[Sge]) -> Option<Self> {
        let mut list = [Sge::default(); SGES_MAX];
        list.get_mut(..sges.len())?.copy_from_slice(sges);
        Some(ReceiveEntry { wr_id, count: sges.len(), list })
    }

    /// Its elements.
    #[inline]
    pub fn sges(&self) -> &[Sge] {
        &self.list[..self.count]
    }

    /// Writes it; says how many bytes of `beside`, the whole extension, are used.
    pub(crate) fn write(&self, line: &mut [u8], beside: &mut [u8]) -> Result<usize, BadEntry> {
        far(self.count, beside.len())?;
        put32(line, 0, self.count as u32);
        put64(line, 4, self.wr_id);
        Ok(Sge::write_list(self.sges(), line, TAIL, beside))
    }

    /// Bytes of the extension that an entry with this payload uses.
    ///
    /// # Errors
    /// [`BadEntry`]: too many elements. `wr_id` is read in any case.
    pub(crate) fn begin(&mut self, line: &[u8], extension: usize) -> Result<usize, BadEntry> {
        self.wr_id = get64(line, 4);
        self.count = 0;
        let count = get32(line, 0) as usize;
        let far = far(count, extension)?;
        self.count = count;
        Ok(far)
    }

    pub(crate) fn finish(&mut self, line: &[u8], beside: &[u8]) {
        Sge::read_list(line, TAIL, beside, &mut self.list[..self.count]);
    }
}
