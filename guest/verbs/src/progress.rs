//! How far a queue of work is: what the program posted, and what it polled.
//!
//! A place in a queue is free for the program when it has polled the completion, as verbs have it, and
//! not when the NIC has taken the entry.

use crate::abi::ibv_wc;
use crate::memory::CopyBack;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_verbs::Status;

pub struct Progress {
    depth: u64,
    /// Positions before this one were polled, or go with one that was.
    done: AtomicU64,
    /// Positions before this one were posted.
    posted: AtomicU64,
    /// What the program calls each: for the day on which the NIC is gone.
    ids: Box<[AtomicU64]>,
    /// Memory to be copied when a position completes.
    backs: Mutex<BTreeMap<u64, CopyBack>>,
    has_backs: AtomicBool,
}

impl Progress {
    /// Of a queue of so many entries, a power of two.
    pub fn new(depth: u32) -> Self {
        Progress {
            depth: depth.into(),
            done: AtomicU64::new(0),
            posted: AtomicU64::new(0),
            ids: (0..depth).map(|_| AtomicU64::new(0)).collect(),
            backs: Mutex::default(),
            has_backs: AtomicBool::new(false),
        }
    }

    fn backs(&self) -> MutexGuard<'_, BTreeMap<u64, CopyBack>> {
        self.backs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, position: u64) -> &AtomicU64 {
        &self.ids[(position & (self.depth - 1)) as usize]
    }

    /// How many entries from this position on are free for the program.
    #[inline]
    pub fn room(&self, position: u64) -> u64 {
        self.depth.saturating_sub(position.wrapping_sub(self.done.load(Ordering::Acquire)))
    }

    /// What is to be copied when the entry at this position completes: before it is posted.
    #[cold]
    pub fn will_copy(&self, position: u64, back: CopyBack) {
        self.has_backs.store(true, Ordering::Release);
        self.backs().insert(position, back);
    }

    /// The entry was posted.
    #[inline]
    pub fn posted(&self, position: u64, wr_id: u64) {
        self.id(position).store(wr_id, Ordering::Relaxed);
        self.posted.store(position + 1, Ordering::Release);
    }

    /// The entry at this position has completed, the lower half of which is known; `bytes` of memory were
    /// filled. With `earlier` all before it are done, too. False if it was done before.
    #[inline]
    pub fn completed(&self, position: u32, bytes: u64, earlier: bool) -> bool {
        let done = self.done.load(Ordering::Relaxed);
        let ahead = position.wrapping_sub(done as u32);
        if u64::from(ahead) >= self.depth {
            return false;
        }
        let position = done + u64::from(ahead);
        self.done.store(position + 1, Ordering::Release);
        if self.has_backs.load(Ordering::Acquire) {
            self.copy(position, bytes, earlier);
        }
        true
    }

    #[cold]
    fn copy(&self, position: u64, bytes: u64, earlier: bool) {
        let mut backs = self.backs();
        let later = backs.split_off(&(position + 1));
        for (at, back) in std::mem::replace(&mut *backs, later) {
            match at == position {
                true => back.copy(bytes),
                false if earlier => back.copy(u64::MAX),
                false => {}
            }
        }
    }

    /// Everything that was posted is gone, without completions.
    pub fn reset(&self) {
        self.done.store(self.posted.load(Ordering::Acquire), Ordering::Release);
        self.backs().clear();
    }

    /// Everything that was posted and did not complete is flushed.
    pub fn flush(&self, qp_num: u32, opcode: u32, to: &mut Vec<ibv_wc>) {
        let posted = self.posted.load(Ordering::Acquire);
        let done = self.done.swap(posted, Ordering::AcqRel);
        for position in done..posted {
            let wr_id = self.id(position).load(Ordering::Relaxed);
            let status = Status::Flushed.to_wire().into();
            to.push(ibv_wc { wr_id, status, opcode, qp_num, ..ibv_wc::default() });
        }
        self.backs().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_when_its_completion_was_polled() {
        let progress = Progress::new(4);
        (0..4).for_each(|at| progress.posted(at, at + 10));
        assert_eq!(progress.room(4), 0);
        assert!(progress.completed(1, 0, true), "the first one was not signaled");
        assert_eq!(progress.room(4), 2);
        assert!(!progress.completed(0, 0, true), "it is done");
        assert!(!progress.completed(9, 0, true), "it was never posted");
    }

    #[test]
    fn positions_go_on_after_the_half_that_completions_bear() {
        let progress = Progress::new(4);
        let base = u64::from(u32::MAX) - 1;
        progress.done.store(base, Ordering::Relaxed);
        (base..base + 4).for_each(|at| progress.posted(at, at));
        assert!(progress.completed((base + 3) as u32, 0, true));
        assert_eq!(progress.room(base + 4), 4);
    }

    #[test]
    fn what_did_not_complete_is_flushed_once_in_its_order() {
        let progress = Progress::new(8);
        (0..5).for_each(|at| progress.posted(at, 100 + at));
        progress.completed(1, 0, true);
        let mut flushed = vec![];
        progress.flush(7, 0, &mut flushed);
        progress.flush(7, 0, &mut flushed);
        let ids: Vec<u64> = flushed.iter().map(|wc| wc.wr_id).collect();
        assert_eq!(ids, [102, 103, 104]);
        assert!(flushed.iter().all(|wc| wc.status == 5 && wc.qp_num == 7));
    }

    #[test]
    fn after_a_reset_completions_of_before_are_nobodys() {
        let progress = Progress::new(8);
        (0..3).for_each(|at| progress.posted(at, at));
        progress.reset();
        assert!(!progress.completed(2, 0, true));
        assert_eq!(progress.room(3), 8);
        progress.posted(3, 9);
        assert!(progress.completed(3, 0, true));
    }
}
