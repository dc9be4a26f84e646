//! Answers that never change, kept by the calls that got them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{PoisonError, RwLock};

/// Most answers that are kept. Then all are dropped: objects come and go, and their answers
/// are of no use after them.
const KNOWN_MAX: usize = 4096;

/// FNV-1a by words. The keys are this program's own calls: nobody has a use for collisions.
#[derive(Default)]
pub(crate) struct Words(u64);

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.0 = (self.0 ^ u64::from_le_bytes(padded)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.0 ^= self.0 >> 29;
        }
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Answers by the bytes of their calls.
#[derive(Default)]
pub(crate) struct Known {
    answers: RwLock<HashMap<Vec<u8>, Vec<u8>, BuildHasherDefault<Words>>>,
}

impl Known {
    /// Reads the answer to a call, if it is known.
    pub fn look<T>(&self, call: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let answers = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        answers.get(call).map(|body| read(body))
    }

    pub fn put(&self, call: Vec<u8>, body: Vec<u8>) {
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= KNOWN_MAX {
            answers.clear();
        }
        answers.insert(call, body);
    }
}
