//! Calls a second with several under way, and lines of the floor beside them.

use super::samples::{rate, warm_up};
use super::{Calls, Clock, Floor, Trip, open};
use crate::Result;
use std::collections::VecDeque;
use std::time::Duration;
use vfun::{Function, FunctionRequest, Pending};

/// Turns of the queue before those that count.
const WARM: u32 = 500;
const WARM_FOR: Duration = Duration::from_millis(5);
/// How often the floor is tried on a machine that does not let it run.
const ATTEMPTS: u32 = 5;
/// Calls between two readings of the counter, at least.
const BATCH: u32 = 256;

/// Keeps calls under way: takes the oldest result, starts the next call.
struct Queue<'a> {
    function: &'a Function,
    pending: VecDeque<Pending<'a>>,
}

impl<'a> Queue<'a> {
    fn fill(function: &'a Function, in_flight: u32) -> Result<Self> {
        let pending = (0..in_flight).map(|_| Ok(function.submit(&[])?)).collect::<Result<_>>()?;
        Ok(Queue { function, pending })
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        if let Some(oldest) = self.pending.pop_front() {
            oldest.wait_into(&mut [])?;
            self.pending.push_back(self.function.submit(&[])?);
        }
        Ok(())
    }

    fn drain(self) -> Result<()> {
        self.pending.into_iter().try_for_each(|p| Ok(p.wait_into(&mut []).map(|_| ())?))
    }
}

/// Lines of the floor a second. A run in which its service was held up says nothing of
/// what the machine allows and is done again, a few times.
fn floor_rate(calls: &Calls, clock: &Clock, in_flight: u32, time: Duration) -> Result<f64> {
    let mut best = 0.0f64;
    for _ in 0..ATTEMPTS {
        let mut floor = Floor::open(calls.session(), in_flight as u16)?;
        warm_up(clock, WARM, WARM_FOR, || floor.turn())?;
        let held_up = floor.held_up();
        let (turns, seconds) = rate(clock, time, (BATCH / in_flight).max(1), || floor.turn())?;
        best = best.max((turns * u64::from(in_flight)) as f64 / seconds);
        if floor.held_up() == held_up {
            break;
        }
    }
    Ok(best)
}

/// Null calls, or lines of the floor, a second with so many under way.
pub fn rate_of(calls: &mut Calls, of: &Trip, in_flight: u32, time: Duration) -> Result<f64> {
    let clock = *calls.clock();
    if *of == Trip::Floor {
        return floor_rate(calls, &clock, in_flight, time);
    }
    // Null calls have nothing beyond their lines.
    let request = FunctionRequest::new("echo").depth(in_flight as u16).cell_bytes(0);
    let echo = open(calls.session(), &request)?;
    let mut queue = Queue::fill(&echo, in_flight)?;
    warm_up(&clock, WARM * in_flight, WARM_FOR, || queue.step())?;
    let batch = if calls.shares_memory() { BATCH } else { in_flight };
    let (done, seconds) = rate(&clock, time, batch, || queue.step())?;
    queue.drain()?;
    Ok(done as f64 / seconds)
}
