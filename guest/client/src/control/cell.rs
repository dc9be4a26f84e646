//! Control cells: taking one, and taking over one whose owner died.

use crate::error::{Error, Result};
use crate::random;
use crate::transport::ControlPages;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_wire::LINE;
use vfun_wire::control::*;
use vfun_wire::header::ANSWERS_OFF;
use vfun_wire::limits::{CLAIM_STALE_MS, CONTROL_CELLS};

/// A claim that does not move for this long may be taken over.
const STALE: Duration = Duration::from_millis(CLAIM_STALE_MS);

/// A control cell that is this request's alone. Given back when dropped; a
/// request in it that is still unanswered then keeps others out until the
/// manager answers it.
pub(super) struct ControlCell<'a> {
    pages: &'a ControlPages,
    index: usize,
    token: u64,
}

/// What was last seen of another app's claim, and since when.
#[derive(Clone, Copy)]
struct SeenClaim {
    claim: u64,
    beat: u64,
    since: Instant,
}

/// Claims a free cell, waiting for one if all are in use.
pub(super) fn claim(pages: &ControlPages, timeout: Duration) -> Result<ControlCell<'_>> {
    let token = random::token();
    let start = Instant::now();
    let mut seen: [Option<SeenClaim>; CONTROL_CELLS] = [None; CONTROL_CELLS];
    loop {
        // Apps begin at different cells, so that they seldom meet.
        for n in 0..CONTROL_CELLS {
            let index = (token as usize).wrapping_add(n) % CONTROL_CELLS;
            let cell = ControlCell { pages, index, token };
            if cell.try_take(&mut seen[index]) {
                return Ok(cell);
            }
            // Not taken, so not to be given back.
            std::mem::forget(cell);
        }
        pages.window.check_generation()?;
        if start.elapsed() >= timeout {
            return Err(Error::ControlBusy(timeout));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl ControlCell<'_> {
    fn word(&self, word: usize) -> usize {
        ControlPages::guest_word(request_off(self.index)) + word
    }
    fn answer_word(&self, word: usize) -> usize {
        (answer_off(self.index) - ANSWERS_OFF) / 8 + word
    }
    fn load(&self, word: usize) -> u64 {
        self.pages.guest.load(self.word(word), Ordering::Acquire)
    }

    /// The answered word as the host has it now.
    pub fn answered(&self) -> Posted {
        Posted::unpack(self.pages.answers.load(self.answer_word(WORD_ANSWERED), Ordering::Acquire))
    }
    /// The generation that the answer line bears.
    pub fn answer_generation(&self) -> u64 {
        self.pages.answers.load(self.answer_word(WORD_GENERATION), Ordering::Relaxed)
    }

    /// Whether a request stands here that the manager has yet to answer.
    fn pending(&self) -> bool {
        let posted = Posted::unpack(self.load(WORD_POSTED));
        posted.seq != self.answered().seq
    }

    fn try_take(&self, seen: &mut Option<SeenClaim>) -> bool {
        let claim = self.load(WORD_CLAIM);
        if self.pending() {
            *seen = None;
            return false;
        }
        if claim != 0 {
            let beat = self.load(WORD_BEAT);
            let now = Instant::now();
            match seen {
                Some(s) if s.claim == claim && s.beat == beat => {
                    if now.duration_since(s.since) < STALE {
                        return false;
                    }
                }
                _ => {
                    *seen = Some(SeenClaim { claim, beat, since: now });
                    return false;
                }
            }
        }
        let word = self.word(WORD_CLAIM);
        if self.pages.guest.compare_exchange(word, claim, self.token).is_err() {
            *seen = None;
            return false;
        }
        // Its owner may have posted between the two looks above.
        if self.pending() {
            self.give_back();
            return false;
        }
        true
    }

    /// Shows that this owner lives.
    pub fn beat(&self) {
        self.pages.guest.fetch_add(self.word(WORD_BEAT), 1, Ordering::Relaxed);
    }

    /// Whether the cell is still this owner's: it is not if this thread was
    /// held up for seconds and another app took the cell over.
    pub fn owned(&self) -> bool {
        self.load(WORD_CLAIM) == self.token
    }

    /// Writes a request and posts it; its sequence number.
    pub fn post(&self, kind: u16, session: u64, body: &[u8]) -> Result<u32> {
        let seq = self.answered().seq.wrapping_add(1);
        let len = body.len() as u16;
        debug_assert!(body.len() <= REQUEST_BODY);
        self.beat();
        self.pages.guest.store(self.word(WORD_SESSION), session, Ordering::Relaxed);
        let body_off = self.word(0) * 8 + LINE;
        self.pages
            .guest
            .write(body_off, body)
            .map_err(|_| Error::BadOption("the request does not fit a control cell".into()))?;
        if !self.owned() {
            return Err(Error::ControlBusy(STALE));
        }
        let posted = Posted { seq, kind, len }.pack();
        self.pages.guest.store(self.word(WORD_POSTED), posted, Ordering::Release);
        Ok(seq)
    }

    /// Copies the first `len` bytes of the answer's body out, once.
    pub fn copy_answer(&self, len: usize) -> Vec<u8> {
        let mut body = vec![0; len.min(ANSWER_BODY)];
        let off = self.answer_word(0) * 8 + LINE;
        // Inside by construction: the index is below CONTROL_CELLS.
        let _ = self.pages.answers.read(off, &mut body);
        body
    }

    fn give_back(&self) {
        let _ = self.pages.guest.compare_exchange(self.word(WORD_CLAIM), self.token, 0);
    }
}

impl Drop for ControlCell<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
