//! A channel's calls that are answered later: held, answered, ended.

use super::{Calls, Shape};
use crate::abi::{self, INLINE_BYTES};
use crate::service::engine::Serve;
use crate::service::fault;
use crate::{Answer, DriverError, WaitsFor};
use std::time::Duration;
use vfun_ring::{Next, Request};
use vfun_wait::clock;
use vfun_wire::Status;

/// Longest wait for answers without a look whether the channel is to be left at once.
const SLICE: Duration = Duration::from_millis(10);

impl<I: Serve> Calls<I> {
    /// The driver answers this one later.
    #[cold]
    #[inline(never)]
    pub(super) fn hold(&mut self, r: &Request) {
        let begun = self.pulse.begun_by().unwrap_or_else(clock::now);
        // Inside of it the pulse was one less.
        match self.open.hold(r.cell, begun, self.pulse.calls().wrapping_sub(1)) {
            // Before CURRENT names it no longer: a crash in between begins it no
            // second time.
            Some(hold) => self.server.hold(r.cell, hold == WaitsFor::Begun),
            None => {
                let words = "answered later, but no handle was taken";
                self.refuse(r.cell, &DriverError::new(abi::PANIC, words));
                self.unrung = true;
                if self.server.seems_asleep() {
                    self.ring();
                }
            }
        }
        self.current = false;
        self.server.idle();
        fault::in_call(self.server.memory(), r, "held");
        self.publish_answers(true);
    }

    /// Publishes what drivers' threads answered, and, if `hard`, ends what is past
    /// its deadline; whether there was anything.
    #[cold]
    #[inline(never)]
    pub(super) fn publish_answers(&mut self, hard: bool) -> bool {
        let mut any = false;
        if self.open.has_answers() {
            let answers: Vec<_> = self.open.answers().collect();
            any = !answers.is_empty();
            for (cell, answer) in answers {
                self.answer_open(cell, answer);
            }
        }
        if hard && self.open.any_begun() {
            let now = clock::now();
            while let Some(cell) = self.open.overdue(now) {
                self.server.answer_inline(cell, Status::Deadline, &[]);
                any = true;
            }
        }
        if any {
            self.unrung = true;
            if self.server.seems_asleep() {
                self.ring();
            }
        }
        any
    }

    fn answer_open(&mut self, cell: usize, answer: Answer) {
        match answer {
            Ok(results) if results.len() <= INLINE_BYTES => {
                self.server.answer_inline(cell, Status::Ok, &results);
            }
            Ok(results) => {
                let fits = results.len() <= self.out_bytes;
                let written =
                    fits && self.out_spaces.write(cell * self.cell_bytes, &results).is_ok();
                match written {
                    true => self.server.answer_space(cell, Status::Ok, results.len() as u32),
                    false => self.server.answer_inline(cell, Status::ResultTooLarge, &[]),
                }
            }
            Err(e) if self.leased && e.code == abi::DEVICE_LOST => {
                self.server.unhold(cell);
                self.lose(cell, e);
            }
            Err(e) => self.refuse(cell, &e),
        }
    }

    /// Another service is to have the channel: what was begun here is answered here,
    /// by its deadline at the latest. Not if the channel ends.
    pub(super) fn finish_begun(&mut self) {
        loop {
            self.publish_answers(true);
            let Some(due) = self.open.due().filter(|_| self.pulse.hands_over()) else { break };
            if self.server.must_ring() {
                self.ring();
            }
            let left = Duration::from_nanos(due.saturating_sub(clock::now()));
            self.open.wait(left.min(SLICE));
        }
        // A driver may have answered since the last look: what it was told counts.
        self.open.refuse();
        if self.publish_answers(false) && self.server.must_ring() {
            self.ring();
        }
        self.open.cancel();
    }

    /// Answers to open calls go nowhere from now on.
    pub fn cancel_open(&mut self) {
        self.open.cancel();
    }

    /// A service that died may have left a call half done, and calls held open. The
    /// half-done one is the manager's to answer, which knows why; one that it did
    /// not answer is answered here with `shape.left`, those that were held and begun
    /// with "service lost". None of them is computed a second time (R-CEL-7, R-CEL-12).
    pub(super) fn finish_half_done(&mut self, current: u64, shape: &Shape) {
        if current == 0 && !self.server.any_was_held() {
            return;
        }
        // Before any other begins: beginning one would overwrite the mark, and a
        // second crash would then run the first call again.
        for _ in 0..shape.depth {
            let Next::Call(r) = self.server.next_anywhere() else { break };
            let held = self.server.was_held(&r);
            if current == (r.cell as u64 + 1) << 32 | u64::from(r.seq) {
                self.server.answer_inline(r.cell, shape.left, &[]);
            } else if held == Some(true) {
                self.server.answer_inline(r.cell, Status::ServiceLost, &[]);
            } else {
                if held == Some(false) {
                    self.server.unhold(r.cell);
                }
                self.behind.push(r);
            }
        }
    }
}
