//! Calls that are collected for one cell.

use crate::failure::Failure;
use vfun_remoting::limits::{BATCH_BYTES, RECORDS_MAX};
use vfun_remoting::{CallHead, HEAD_BYTES, Writer, numbers, put_record};

/// A batch from its head on, and how many records it has.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    records: usize,
}

impl Batch {
    pub fn records(&self) -> usize {
        self.records
    }

    /// Whether it is worth no more waiting.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.records >= RECORDS_MAX - 1
    }

    /// Adds a call. Where a cell of `most` bytes has no room for it behind the others, these are
    /// given out, to be sent first. A call that is too long alone changes nothing.
    pub fn put(
        &mut self,
        most: usize,
        call: u16,
        waits: bool,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Option<Batch>, Failure> {
        if self.records == 0 {
            self.bytes.clear();
            self.bytes.resize(HEAD_BYTES, 0);
        }
        let before = self.bytes.len();
        put_record(&mut self.bytes, call, waits, write);
        let record = self.bytes.len() - before;
        if HEAD_BYTES + record > most {
            self.bytes.truncate(before);
            return Err(Failure::Limit);
        }
        if self.bytes.len() <= most {
            self.records += 1;
            return Ok(None);
        }
        let mut alone = Batch { bytes: vec![0; HEAD_BYTES], records: 1 };
        alone.bytes.extend_from_slice(&self.bytes[before..]);
        self.bytes.truncate(before);
        Ok(Some(std::mem::replace(self, alone)))
    }

    /// The bytes of a call with this number. What comes next is a new batch.
    pub fn take(&mut self, sequence: u32) -> &[u8] {
        let head = CallHead { sequence, call: numbers::BATCH };
        self.bytes[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        self.records = 0;
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_remoting::Records;

    #[test]
    fn a_batch_is_never_longer_than_a_cell_and_loses_nothing() {
        const MOST: usize = 256;
        let (mut batch, mut sent) = (Batch::default(), vec![]);
        for n in 0..100u64 {
            let words = n % 7;
            let before =
                batch.put(MOST, 20, false, |w| (0..=words).for_each(|_| w.u64(n))).unwrap();
            sent.extend(before);
        }
        sent.push(batch);
        let mut seen = vec![];
        for mut batch in sent {
            let bytes = batch.take(1);
            assert!(bytes.len() <= MOST, "{}", bytes.len());
            for record in Records::new(&bytes[HEAD_BYTES..]) {
                seen.push(u64::from(record.unwrap().body[0]));
            }
        }
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_call_that_fits_no_cell_leaves_the_others_alone() {
        let mut batch = Batch::default();
        let put = |batch: &mut Batch, bytes| batch.put(64, 20, false, |w| w.bytes(bytes));
        assert!(put(&mut batch, &[1; 8]).unwrap().is_none());
        assert_eq!(put(&mut batch, &[2; 64]).err(), Some(Failure::Limit));
        assert_eq!((batch.records(), batch.take(1).len()), (1, 8 + 8 + 8));
    }
}
