//! Control cells: a small array at the start of the window in which apps ask
//! and the manager answers.
//!
//! A request is a line and a body in the guest's pages, its answer a line and
//! a body in the host's. An app takes a free cell by exchanging its claim
//! word for a token of its own, writes session and body, and posts by storing
//! the posted word last. The host copies the whole request once, then looks
//! only at the copy.
//!
//! Request line, in 64-bit words: 0 claim, 1 posted, 2 session handle, 3 beat
//! (the owner counts it up while it works), 4 to 7 zero. Answer line: 0
//! answered, 1 window generation, 2 to 7 zero.

use crate::header::{ANSWERS_OFF, REQUESTS_OFF};
use crate::limits::*;
use crate::{LINE, LINE_WORDS};

/// Index of the claim word in a request line.
pub const WORD_CLAIM: usize = 0;
/// Index of the posted word in a request line.
pub const WORD_POSTED: usize = 1;
/// Index of the session word in a request line.
pub const WORD_SESSION: usize = 2;
/// Index of the beat word in a request line.
pub const WORD_BEAT: usize = 3;
/// Index of the answered word in an answer line.
pub const WORD_ANSWERED: usize = 0;
/// Index of the generation word in an answer line.
pub const WORD_GENERATION: usize = 1;

/// Bytes of a request's body.
pub const REQUEST_BODY: usize = CONTROL_REQUEST_BYTES - LINE;
/// Bytes of an answer's body.
pub const ANSWER_BODY: usize = CONTROL_ANSWER_BYTES - LINE;

const _: () = {
    assert!(WORD_BEAT < LINE_WORDS);
    assert!(REQUEST_BODY < 1 << 16 && ANSWER_BODY < 1 << 16);
};

/// Offset of request cell `i`.
pub const fn request_off(i: usize) -> usize {
    REQUESTS_OFF + i * CONTROL_REQUEST_BYTES
}
/// Offset of answer cell `i`.
pub const fn answer_off(i: usize) -> usize {
    ANSWERS_OFF + i * CONTROL_ANSWER_BYTES
}

/// The word that says that a request or an answer is complete: sequence
/// number, message number, body length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Posted {
    /// One more than the last in this cell, wrapping.
    pub seq: u32,
    /// Message number; in answers 0 is an ack, 1 a nack.
    pub kind: u16,
    /// Bytes of the body.
    pub len: u16,
}

/// `kind` of an answer that grants.
pub const ANSWER_ACK: u16 = 0;
/// `kind` of an answer that refuses; its body is a [`crate::nack::NackBody`].
pub const ANSWER_NACK: u16 = 1;

impl Posted {
    pub const fn pack(self) -> u64 {
        self.seq as u64 | (self.kind as u64) << 32 | (self.len as u64) << 48
    }
    pub const fn unpack(word: u64) -> Self {
        Posted { seq: word as u32, kind: (word >> 32) as u16, len: (word >> 48) as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    proptest! {
        #[test]
        fn the_word_holds_all(word: u64) {
            prop_assert_eq!(Posted::unpack(word).pack(), word);
        }
    }
}
