//! Whether anybody is left who would answer, once the manager and its keeper
//! are gone: while one of them lives, it ends the calls of a service that dies.

use crate::error::Error;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use vfun_ring::Memory;
use vfun_wire::channel::in_header;

/// How long a service without a manager may show no sign of life; it shows one
/// every half second (R-CHN-7).
const GONE: Duration = Duration::from_secs(3);
/// How often a wait asks whether the manager is gone: it may cost a system call.
const LOOK: Duration = Duration::from_millis(20);

/// What the waits of a channel saw of its service.
#[derive(Default)]
pub(super) struct ServiceLife(Mutex<SeenSigns>);

#[derive(Default)]
struct SeenSigns {
    looked: Option<Instant>,
    /// The service's signs of life, and since when they have not moved without a manager.
    signs: LifeSigns,
    still: Option<Instant>,
}

/// The words of a service that move while it lives: its beat without a manager, the
/// call under way, calls answered.
type LifeSigns = [u64; 3];

impl ServiceLife {
    /// Looks at a service's words in `memory`; the error of a call that nobody will
    /// answer. `manager_gone` is asked now and then, if the service has not said so.
    pub fn check(
        &self,
        memory: &impl Memory,
        manager_gone: impl FnOnce() -> bool,
    ) -> Option<Error> {
        // A manager that stands still is taken for gone, too: its service goes on
        // and beats nothing, but it answers.
        let words = [in_header::ALONE, in_header::CURRENT, in_header::CALLS];
        let signs = words.map(|at| memory.load(at, Ordering::Relaxed));
        self.check_at(Instant::now(), signs, manager_gone)
    }

    fn check_at(
        &self,
        now: Instant,
        signs: LifeSigns,
        manager_gone: impl FnOnce() -> bool,
    ) -> Option<Error> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lately = |at| now.saturating_duration_since(at) < LOOK;
        let alone = signs[0] != 0
            || match seen.looked.is_some_and(lately) {
                true => seen.still.is_some(),
                false => {
                    seen.looked = Some(now);
                    manager_gone()
                }
            };
        if !alone {
            seen.still = None;
            return None;
        }
        match seen.still {
            Some(since) if seen.signs == signs => {
                let still = now.saturating_duration_since(since);
                (still >= GONE).then_some(Error::HostGone(still))
            }
            _ => {
                (seen.signs, seen.still) = (signs, Some(now));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_without_a_manager_must_move() {
        let (life, start) = (ServiceLife::default(), Instant::now());
        let at = |ms: u64, beat, gone: bool| {
            life.check_at(start + Duration::from_millis(ms), [beat, 0, 0], || gone).is_some()
        };
        assert!(!at(0, 0, false) && !at(9_000, 0, false), "it has a manager");
        assert!(!at(10_000, 0, true), "it may not have noticed yet");
        assert!(!at(12_900, 0, true) && !at(12_910, 0, true));
        assert!(at(13_000, 0, true) && at(14_000, 0, true), "it died with its manager");
        assert!(!at(14_100, 1, true), "it lives after all");
        assert!(!at(15_000, 2, false), "and tells by itself where no socket does");
        assert!(!at(18_000, 3, false) && !at(20_900, 3, false));
        assert!(at(21_000, 3, false));
        assert!(!at(21_100, 0, false), "another one has the channel");
    }

    #[test]
    fn a_service_that_answers_lives_though_its_manager_stands_still() {
        let (life, start) = (ServiceLife::default(), Instant::now());
        let at = |s: u64, answered| {
            life.check_at(start + Duration::from_secs(s), [0, 0, answered], || true).is_some()
        };
        assert!(!at(0, 7) && !at(2, 7) && !at(4, 8) && !at(6, 8) && !at(60, 9));
        assert!(at(63, 9));
    }
}
