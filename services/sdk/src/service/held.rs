//! The open calls of a channel on its own thread: which cell each one holds, and
//! when it is past its deadline.

use crate::later::Key;
use crate::{Answer, HeldCall, OpenCalls, WaitsFor};
use std::collections::BTreeMap;
use std::time::Duration;

/// One channel's. There are at most as many as it has cells.
pub struct OpenCells {
    calls: OpenCalls,
    /// Those that were begun come first, the oldest before the others.
    held: BTreeMap<Key, Cell>,
    /// How long one that was begun may stay open, ns.
    deadline: u64,
}

struct Cell {
    cell: usize,
    /// When it is past its deadline, ns.
    due: u64,
    held: HeldCall,
}

impl OpenCells {
    pub fn new(calls: OpenCalls, deadline: Duration) -> Self {
        let deadline = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        OpenCells { calls, held: BTreeMap::new(), deadline }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether one of them was begun.
    pub fn any_begun(&self) -> bool {
        self.due().is_some()
    }

    /// The call that has just returned holds this cell: for what. Its deadline counts
    /// from `begun`, ns. `during` is what [`OpenCalls::of_channel`] counted inside of it.
    /// `None` if its driver took no handle.
    pub fn hold(&mut self, cell: usize, begun: u64, during: u64) -> Option<WaitsFor> {
        let held = self.calls.hold(during)?;
        let key = held.key();
        let due = match key.0 {
            WaitsFor::Begun => begun.saturating_add(self.deadline),
            WaitsFor::Event => u64::MAX,
        };
        self.held.insert(key, Cell { cell, due, held });
        Some(key.0)
    }

    #[inline]
    pub fn has_answers(&self) -> bool {
        self.calls.has_answers()
    }

    /// The answers that came, with their cells. They are open no more.
    pub fn answers(&mut self) -> impl Iterator<Item = (usize, Answer)> {
        let answers = self.calls.answers().into_iter();
        answers.filter_map(|(key, answer)| Some((self.held.remove(&key)?.cell, answer)))
    }

    /// When the next one is past its deadline, ns.
    pub fn due(&self) -> Option<u64> {
        let ((hold, _), cell) = self.held.first_key_value()?;
        (*hold == WaitsFor::Begun).then_some(cell.due)
    }

    /// The cell of one that is past its deadline; it is open no more.
    pub fn overdue(&mut self, now: u64) -> Option<usize> {
        let late = self.due()? <= now;
        late.then(|| self.held.pop_first().map(|(_, cell)| cell.cell))?
    }

    /// Waits for an answer, for at most so long.
    pub fn wait(&self, limit: Duration) {
        self.calls.wait(limit);
    }

    /// Refuses answers from now on. Those that were accepted before are still there to
    /// be published: a driver that was told "answered" must not be wrong.
    pub fn refuse(&self) {
        self.held.values().for_each(|cell| cell.held.refuse());
    }

    /// Lets go of all calls. Answers that were not published go nowhere.
    pub fn cancel(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn only_what_was_begun_has_a_deadline() {
        let calls = OpenCalls::new(|| ());
        let mut open = OpenCells::new(calls.clone(), Duration::from_nanos(100));
        let event = calls.later(WaitsFor::Event).unwrap();
        assert_eq!(open.hold(0, 10, 0), Some(WaitsFor::Event));
        assert_eq!((open.due(), open.overdue(u64::MAX)), (None, None));
        let (first, second) = (calls.later(WaitsFor::Begun).unwrap(), {
            assert_eq!(open.hold(1, 20, 0), Some(WaitsFor::Begun));
            calls.later(WaitsFor::Begun).unwrap()
        });
        assert_eq!(open.hold(2, 30, 0), Some(WaitsFor::Begun));
        assert_eq!(open.hold(3, 40, 0), None, "no handle was taken");
        assert_eq!((open.due(), open.overdue(119)), (Some(120), None));
        assert_eq!(open.overdue(120), Some(1));
        assert!(!first.is_open() && second.is_open() && event.is_open());
        event.answer(b"e").unwrap();
        second.answer(b"s").unwrap();
        assert!(open.any_begun() && first.answer(b"f").is_err());
        let answers: Vec<_> = open.answers().collect();
        assert_eq!(answers, [(0, Ok(b"e".to_vec())), (2, Ok(b"s".to_vec()))]);
        assert!(open.is_empty() && !open.any_begun());
    }

    #[test]
    fn what_is_cancelled_cannot_be_answered() {
        let calls = OpenCalls::new(|| ());
        let mut open = OpenCells::new(calls.clone(), Duration::from_secs(1));
        let call = calls.later(WaitsFor::Event).unwrap();
        open.hold(0, 0, 0);
        open.cancel();
        assert!(!call.is_open() && call.answer(&[]).is_err() && !open.has_answers());
    }

    /// A driver's thread answers while the channel is left, over and over.
    #[test]
    fn an_answer_that_was_accepted_is_never_lost() {
        const ROUNDS: u64 = 20_000;
        let calls = OpenCalls::new(|| ());
        let mut open = OpenCells::new(calls.clone(), Duration::from_secs(1));
        let (sender, handles) = std::sync::mpsc::sync_channel::<crate::Answerer>(0);
        let driver = std::thread::spawn(move || {
            handles.into_iter().map(|call| call.answer(b"a").is_ok()).collect::<Vec<_>>()
        });
        let mut published = vec![];
        for round in 0..ROUNDS {
            let call = calls.later(WaitsFor::Event).unwrap();
            open.hold(0, 0, 0);
            sender.send(call).unwrap();
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            let before = open.answers().count();
            open.refuse();
            published.push(before + open.answers().count() == 1);
            open.cancel();
        }
        drop(sender);
        let accepted = driver.join().unwrap();
        assert_eq!(accepted, published);
        assert!(accepted.contains(&true), "no answer came in time");
    }

    #[test]
    fn a_handle_of_a_call_that_was_answered_at_once_is_no_other_calls() {
        let count = Arc::new(AtomicU64::new(1));
        let seen = count.clone();
        let calls = OpenCalls::of_channel(|| (), move || seen.load(Ordering::Relaxed), ());
        let mut open = OpenCells::new(calls.clone(), Duration::from_secs(1));
        let left_over = calls.later(WaitsFor::Begun).unwrap();
        // That call ended, and the next one begins and ends.
        count.store(4, Ordering::Relaxed);
        assert_eq!(open.hold(0, 0, 3), None, "it took no handle");
        assert!(!left_over.is_open() && left_over.answer(b"of the first").is_err());
        // It began and ended, and another one takes a handle.
        count.store(5, Ordering::Relaxed);
        let call = calls.later(WaitsFor::Begun).unwrap();
        count.store(6, Ordering::Relaxed);
        assert_eq!(open.hold(1, 0, 5), Some(WaitsFor::Begun));
        call.answer(b"its own").unwrap();
        assert_eq!(open.answers().collect::<Vec<_>>(), [(1, Ok(b"its own".to_vec()))]);
    }
}
