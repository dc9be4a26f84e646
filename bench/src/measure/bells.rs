//! The floor under a call between sleepers: two doorbells, rung in turns by two threads
//! that wait for them asleep, and nothing else.

use super::Clock;
use super::helper::in_place;
use super::samples::{chain, percentiles, warm_up};
use crate::error::Doing;
use crate::report::stats::Percentiles;
use crate::{BenchError, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfun::ModuleBell;
use vfun_window::{Bell, BellWaiter};

const WARM: u32 = 300;
const WARM_FOR: Duration = Duration::from_millis(3);
/// A ring that is lost would show as a trip of this length, not as a hang.
const LOST: Duration = Duration::from_secs(1);

/// Percentiles of round trips between this thread and another on processor `cpu`.
pub fn bare_doorbell(
    clock: &Clock,
    cpu: Option<usize>,
    samples: u32,
    limit: Duration,
) -> Result<Percentiles> {
    let pair = || -> Result<(Bell, BellWaiter)> {
        let bell = Bell::new().doing(|| "cannot make a doorbell".into())?;
        let waiter = BellWaiter::new(&bell).doing(|| "cannot wait for a doorbell".into())?;
        Ok((bell, waiter))
    };
    let ((there, at_there), (here, at_here)) = (pair()?, pair()?);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        in_place(scope, cpu, || {
            while !end.load(Ordering::Acquire) {
                if at_there.wait(Some(LOST)).unwrap_or(false) {
                    here.ring();
                }
            }
        });
        let mut trip = || {
            there.ring();
            at_here.wait(Some(LOST)).doing(|| "waiting for a doorbell failed".into()).map(|_| ())
        };
        let trips = warm_up(clock, WARM, WARM_FOR, &mut trip)
            .and_then(|()| chain(clock, samples, limit, &mut trip));
        end.store(true, Ordering::Release);
        there.ring();
        Ok(percentiles(clock, trips?))
    })
}

/// Round trips between this guest and a host that does nothing but ring
/// back ([`BarePeer`](crate::lab::BarePeer)): one ring and one sleep by the kernel module's
/// system calls.
pub(super) struct Trips(ModuleBell);

impl Trips {
    pub(super) fn open(device: &Path) -> Result<Self> {
        Ok(Trips(ModuleBell::open(device)?))
    }

    pub(super) fn trip(&mut self) -> Result<()> {
        self.0.ring().doing(|| "cannot ring a doorbell".into())?;
        match self.0.wait(LOST) {
            true => Ok(()),
            false => Err(BenchError::Inside("a bare doorbell was not answered".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bells_go_round() {
        let p = bare_doorbell(&Clock::calibrate(), None, 50, Duration::from_millis(50)).unwrap();
        assert!(0 < p.p50 && p.p50 <= p.p99, "{p:?}");
    }
}
