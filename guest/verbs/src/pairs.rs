//! The queue pairs that complete in one completion queue, found by their numbers.
#![allow(unsafe_code)]

use crate::qp::Qp;
use std::collections::HashMap;

/// A queue pair removes itself before it is freed.
#[derive(Default)]
pub struct Pairs {
    by_number: HashMap<u32, *const Qp>,
    /// The one that was found last: most completions are of the same one.
    last: Option<(u32, *const Qp)>,
}

impl Pairs {
    pub fn add(&mut self, number: u32, qp: *const Qp) {
        self.by_number.insert(number, qp);
    }

    pub fn remove(&mut self, number: u32) {
        self.by_number.remove(&number);
        self.last = None;
    }

    #[inline]
    pub fn find(&mut self, number: u32) -> Option<&Qp> {
        let known = self.last.filter(|(of, _)| *of == number).map(|(_, qp)| qp);
        let qp = match known {
            Some(qp) => qp,
            None => *self.by_number.get(&number)?,
        };
        self.last = Some((number, qp));
        // SAFETY: it is in the table, so that it was not freed; who removes it needs this table.
        Some(unsafe { &*qp })
    }

    pub fn each(&self, mut run: impl FnMut(&Qp)) {
        // SAFETY: as above.
        self.by_number.values().for_each(|qp| run(unsafe { &**qp }));
    }
}

// SAFETY: a queue pair may be used by any thread.
unsafe impl Send for Pairs {}
