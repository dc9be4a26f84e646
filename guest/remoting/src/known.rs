//! Answers that never change, kept by the calls that got them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Most answers that are kept. Then all are dropped: objects come and go, and their answers
/// are of no use after them.
const KNOWN_MAX: usize = 4096;

/// Answers by the bytes of their calls.
#[derive(Default)]
pub(crate) struct Known {
    answers: RwLock<HashMap<Vec<u8>, Arc<[u8]>>>,
}

impl Known {
    pub fn get(&self, call: &[u8]) -> Option<Arc<[u8]>> {
        self.answers.read().unwrap_or_else(PoisonError::into_inner).get(call).cloned()
    }

    pub fn put(&self, call: Vec<u8>, body: Vec<u8>) {
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= KNOWN_MAX {
            answers.clear();
        }
        answers.insert(call, body.into());
    }
}
