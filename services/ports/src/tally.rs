//! What was done in a port. The ends of the rings count for themselves, in the window; what
//! only this function knows stands there too, in the host's head page, so that who takes the
//! port up goes on with it.

use crate::facts::{AWAY, BAD, BYTES_IN, BYTES_OUT, FRAMES_IN, FRAMES_OUT, FULL, REFUSED};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfun_packet::{Sent, Taken};
use vfun_sdk::service::QueuesCounts;
use vfun_window::WriteSpan;
use vfun_wire::queues::host_head;

/// Words of the host's head page, which are this function's from `FREE` on: frames of the VM
/// that the device did not take, their bytes, and frames that the VM was not ready for.
const LOST_AT: usize = host_head::FREE;
const LOST_BYTES_AT: usize = host_head::FREE + 1;
const AWAY_AT: usize = host_head::FREE + 2;

/// What the main thread shows of a port: the facts, as of the last turn that did something.
#[derive(Default)]
pub(crate) struct Shown([AtomicU64; host_head::FACTS_WORDS]);

impl Shown {
    /// Sets one of the facts.
    pub fn set(&self, fact: usize, value: u64) {
        self.0[fact].store(value, Ordering::Relaxed);
    }

    /// The same with what follows from it.
    pub fn counts(&self) -> QueuesCounts {
        let facts = [0, 1, 2, 3, 4, 5, 6, 7].map(|n: usize| self.0[n].load(Ordering::Relaxed));
        let sum = |all: &[usize]| all.iter().fold(0u64, |sum, n| sum.wrapping_add(facts[*n]));
        QueuesCounts {
            done: sum(&[FRAMES_IN, FRAMES_OUT]),
            failed: sum(&[FULL, REFUSED, AWAY]),
            bytes: sum(&[BYTES_IN, BYTES_OUT]),
            facts,
        }
    }
}

/// The relaying thread's own.
pub(crate) struct Tally {
    /// The host's side, where the numbers stay.
    host: WriteSpan,
    lost: u64,
    lost_bytes: u64,
    away: u64,
    shown: Arc<Shown>,
}

impl Tally {
    /// Goes on with what stands in the head page.
    pub fn new(host: &WriteSpan) -> Self {
        let word = |at| host.load(at, Ordering::Relaxed);
        let (lost, lost_bytes, away) = (word(LOST_AT), word(LOST_BYTES_AT), word(AWAY_AT));
        Tally { host: host.clone(), lost, lost_bytes, away, shown: Arc::default() }
    }

    /// For the main thread.
    pub fn shown(&self) -> Arc<Shown> {
        self.shown.clone()
    }

    /// The device did not take a frame of the VM.
    pub fn lose(&mut self, bytes: usize) {
        self.lost = self.lost.wrapping_add(1);
        self.lost_bytes = self.lost_bytes.wrapping_add(bytes as u64);
    }

    /// The VM is not ready for a frame.
    pub fn miss(&mut self) {
        self.away = self.away.wrapping_add(1);
    }

    /// Writes all of it down, in the window and for the main thread.
    pub fn note(&self, sent: Sent, taken: Taken) {
        for (at, value) in
            [(LOST_AT, self.lost), (LOST_BYTES_AT, self.lost_bytes), (AWAY_AT, self.away)]
        {
            self.host.store(at, value, Ordering::Relaxed);
        }
        for (at, value) in [
            (FRAMES_IN, sent.frames),
            (BYTES_IN, sent.bytes),
            (FRAMES_OUT, taken.frames.wrapping_sub(self.lost)),
            (BYTES_OUT, taken.bytes.wrapping_sub(self.lost_bytes)),
            (FULL, sent.full),
            (REFUSED, taken.refused.wrapping_add(self.lost)),
            (BAD, taken.bad),
            (AWAY, self.away),
        ] {
            self.shown.set(at, value);
        }
    }
}
