//! The first eight bytes of a call and of an answer.

use crate::Refusal;

/// Bytes of either head.
pub const HEAD_BYTES: usize = 8;

/// Flag of a record in a batch: it waits for an answer. Only the last record may have it.
pub const WAITS: u16 = 1;

/// The head of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHead {
    /// The place of this call in the order of calls of its connection, from 1; 0: in any order.
    pub sequence: u32,
    pub call: u16,
}

impl CallHead {
    #[inline]
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.call.to_le_bytes());
        bytes
    }

    /// Reads a head; what follows it is the body.
    #[inline]
    pub fn split(bytes: &[u8]) -> Result<(CallHead, &[u8]), Refusal> {
        let (head, body) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(Refusal::Malformed)?;
        let [s0, s1, s2, s3, c0, c1, f0, f1] = *head;
        if [f0, f1] != [0, 0] {
            return Err(Refusal::Malformed);
        }
        let sequence = u32::from_le_bytes([s0, s1, s2, s3]);
        Ok((CallHead { sequence, call: u16::from_le_bytes([c0, c1]) }, body))
    }
}

/// The head of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerHead {
    /// Why the call that waits was not made. `None`: it was made, and the body is its results.
    pub refusal: Option<Refusal>,
    /// How many records that do not wait failed.
    pub failed: u16,
    /// The first of these failures: a status of the API's own, or a [`Refusal`]'s number
    /// in the upper half.
    pub first: u32,
}

impl AnswerHead {
    #[inline]
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..2].copy_from_slice(&self.refusal.map_or(0, Refusal::number).to_le_bytes());
        bytes[2..4].copy_from_slice(&self.failed.to_le_bytes());
        bytes[4..].copy_from_slice(&self.first.to_le_bytes());
        bytes
    }

    /// Reads a head; what follows it is the body.
    #[inline]
    pub fn split(bytes: &[u8]) -> Result<(AnswerHead, &[u8]), Refusal> {
        let (head, body) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(Refusal::Malformed)?;
        let [r0, r1, c0, c1, f0, f1, f2, f3] = *head;
        let refusal = match u16::from_le_bytes([r0, r1]) {
            0 => None,
            number => Some(Refusal::of(number)),
        };
        let failed = u16::from_le_bytes([c0, c1]);
        Ok((AnswerHead { refusal, failed, first: u32::from_le_bytes([f0, f1, f2, f3]) }, body))
    }
}
