//! Whether the two processors are two cores: a thread that spins on one slows work on
//! the other if they share a core, and a virtual machine's processors may, without a
//! word. Where they do, a caller that waits slows the very service that it waits for.

use super::pin::{self, Pinned, Plan};
use crate::method::{Compared, Watch, turns};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use vfun_window::pause;

/// Steps of a piece of work: about a millisecond.
const STEPS: u64 = 1_000_000;
/// Pieces of each sort, in turns.
const TURNS: usize = 31;

fn work() -> f64 {
    let start = Instant::now();
    let mut x = black_box(1u64);
    for i in 0..STEPS {
        x = black_box(x.wrapping_mul(i | 1));
    }
    black_box(x);
    start.elapsed().as_secs_f64()
}

/// How many times as long work takes on the services' processor while the caller's
/// spins; `None` without two processors.
pub fn slowed_by_spinning(plan: &Plan) -> Option<Compared> {
    let (caller, service) = (plan.caller()?, plan.service()?);
    let _there = Pinned::to(Some(service));
    let (spin, end) = (AtomicBool::new(false), AtomicBool::new(false));
    let watch = Watch::new(&plan.both(), []);
    let turns = std::thread::scope(|scope| {
        let spinner = scope.spawn(|| {
            pin::to(Some(caller));
            while !end.load(Ordering::Acquire) {
                if spin.load(Ordering::Acquire) {
                    pause();
                } else {
                    std::thread::park();
                }
            }
        });
        let set = |on| {
            spin.store(on, Ordering::Release);
            spinner.thread().unpark();
            std::thread::sleep(std::time::Duration::from_micros(200));
            work()
        };
        let turns = turns(TURNS, 2, &watch, |variant, _| Ok(Some(set(variant == 1))));
        end.store(true, Ordering::Release);
        spinner.thread().unpark();
        turns
    });
    turns.ok().map(|turns| turns.over(1, 0, |seconds| *seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_and_is_a_ratio() {
        assert_eq!(slowed_by_spinning(&Plan::new(false)), None);
        let plan = Plan::new(true);
        let ratio = slowed_by_spinning(&plan);
        assert_eq!(ratio.is_some(), plan.caller().is_some());
        let ratio = ratio.and_then(|c| c.ratio);
        assert!(ratio.is_none_or(|r| r > 0.2 && r < 20.0), "{ratio:?}");
    }
}
