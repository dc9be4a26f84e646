//! Records in a batch.

use crate::limits::RECORDS_MAX;
use crate::{Refusal, WAITS, Writer};

const RECORD_HEAD: usize = 8;

/// One call in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub call: u16,
    /// Whether it waits for an answer. The last of a batch may.
    pub waits: bool,
    pub body: &'a [u8],
}

/// Appends a record to a batch; `write` writes its body.
pub fn put_record(to: &mut Vec<u8>, call: u16, waits: bool, write: impl FnOnce(&mut Writer<'_>)) {
    let at = to.len();
    to.extend_from_slice(&[0; RECORD_HEAD]);
    write(&mut Writer::append(to));
    let bytes = u32::try_from(to.len() - at - RECORD_HEAD).expect("a body that fits a cell");
    to[at..at + 2].copy_from_slice(&call.to_le_bytes());
    to[at + 2..at + 4].copy_from_slice(&(if waits { WAITS } else { 0 }).to_le_bytes());
    to[at + 4..at + 8].copy_from_slice(&bytes.to_le_bytes());
}

/// The records of a batch, each checked when it is reached. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    seen: usize,
}

impl<'a> Records<'a> {
    /// Of the body of a batch.
    pub fn new(body: &'a [u8]) -> Records<'a> {
        Records { rest: body, seen: 0 }
    }

    fn read(&mut self) -> Result<Record<'a>, Refusal> {
        let bad = Refusal::Malformed;
        let (head, rest) = self.rest.split_first_chunk::<RECORD_HEAD>().ok_or(bad)?;
        let [c0, c1, f0, f1, b0, b1, b2, b3] = *head;
        let flags = u16::from_le_bytes([f0, f1]);
        let bytes = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        let (body, rest) = rest.split_at_checked(bytes).ok_or(bad)?;
        let waits = flags == WAITS;
        let order = if waits { rest.is_empty() } else { flags == 0 };
        if !bytes.is_multiple_of(8) || !order {
            return Err(bad);
        }
        if self.seen == RECORDS_MAX {
            return Err(Refusal::Limit);
        }
        self.rest = rest;
        self.seen += 1;
        Ok(Record { call: u16::from_le_bytes([c0, c1]), waits, body })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.read();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerHead, CallHead, Name, Reader};
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = vec![];
        let mut w = Writer::call(&mut bytes, CallHead { sequence: 7, call: 33 });
        w.u32(5);
        w.i32(-5);
        w.bool(true);
        w.f64(-0.5);
        w.name(Name::new(3, 9));
        w.length(5);
        w.bytes(b"bytes");
        let (head, body) = CallHead::split(&bytes).unwrap();
        assert_eq!(head, CallHead { sequence: 7, call: 33 });
        let mut r = Reader::new(body);
        assert_eq!((r.u32(), r.i32(), r.bool()), (Ok(5), Ok(-5), Ok(true)));
        assert_eq!((r.f64(), r.name()), (Ok(-0.5), Ok(Name::new(3, 9))));
        let n = r.length(5).unwrap();
        assert_eq!((r.bytes(n), r.end()), (Ok(&b"bytes"[..]), Ok(())));
        assert_eq!(r.u64(), Err(Refusal::Malformed));
    }

    #[test]
    fn a_value_that_its_type_does_not_have_is_refused() {
        let wide = (1u64 << 32).to_le_bytes();
        assert_eq!(Reader::new(&wide).u32(), Err(Refusal::Malformed));
        assert_eq!(Reader::new(&wide).i32(), Err(Refusal::Malformed));
        assert_eq!(Reader::new(&wide).bool(), Err(Refusal::Malformed));
        assert_eq!(Reader::new(&wide).length(9), Err(Refusal::Limit));
        assert_eq!(Reader::new(&u64::MAX.to_le_bytes()).i8(), Ok(-1));
        assert_eq!(Reader::new(&u64::MAX.to_le_bytes()).u8(), Err(Refusal::Malformed));
    }

    #[test]
    fn a_batch_keeps_its_order_and_only_its_last_waits() {
        let mut batch = vec![];
        put_record(&mut batch, 20, false, |w| w.u64(1));
        put_record(&mut batch, 21, true, |w| w.bytes(b"x"));
        let all: Vec<_> = Records::new(&batch).collect::<Result<_, _>>().unwrap();
        assert_eq!((all[0].call, all[0].waits, all[1].call, all[1].waits), (20, false, 21, true));
        put_record(&mut batch, 22, false, |_| ());
        let all: Vec<_> = Records::new(&batch).collect();
        assert_eq!(all[1..], [Err(Refusal::Malformed)], "one after the one that waits");
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>) {
            let _ = AnswerHead::split(&bytes);
            let Ok((_, body)) = CallHead::split(&bytes) else { return Ok(()) };
            let mut read = 0;
            for record in Records::new(body).flatten() {
                read += 8 + record.body.len();
                let mut r = Reader::new(record.body);
                while r.bytes(3).is_ok() {}
            }
            prop_assert!(read <= body.len());
        }
    }
}
