//! The software's side: work that keeps a processor busy for the time that the
//! settings name, where it has a processor for itself.

use crate::arguments::{Call, Told};
use crate::settings::Times;
use crate::sum::{of_call, step};
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;
use vfun_sdk::{Args, BAD_SETTING, Config, Driver, DriverError, Out};

/// Steps that are timed at once, and how often: the quickest counts, as nobody
/// took the processor away then. Less than a millisecond together.
const STEPS: u64 = 10_000;
const TRIES: u32 = 25;

/// Steps that this processor makes in a microsecond: measured once in a process.
pub fn rounds_per_us() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let once = |_| {
            let start = Instant::now();
            work(STEPS);
            start.elapsed().as_nanos().max(1) as f64
        };
        let best = (0..TRIES).map(once).fold(f64::INFINITY, f64::min);
        STEPS as f64 * 1000.0 / best
    })
}

fn work(steps: u64) {
    let mut h = black_box(1);
    for i in 0..steps {
        h = step(h, i);
    }
    black_box(h);
}

/// The driver in software.
pub struct Software {
    times: Times,
    /// Steps in a nanosecond.
    pace: f64,
    calls: u64,
}

impl Driver for Software {
    /// `rounds_per_us`: what [`rounds_per_us`] measured; without it each process measures.
    fn init(config: &Config) -> Result<Self, DriverError> {
        let pace: f64 = config.setting("rounds_per_us", 0.0)?;
        if !(pace.is_finite() && pace >= 0.0) {
            let words = format!("rounds_per_us = {pace}, but it is a number of steps");
            return Err(DriverError::new(BAD_SETTING, words));
        }
        let pace = if pace > 0.0 { pace } else { rounds_per_us() } / 1000.0;
        Ok(Software { times: Times::of(config, "software")?, pace, calls: 0 })
    }

    fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        let call = Call::read(args)?;
        let start = call.tell.then(Instant::now);
        self.calls += 1;
        let sum = of_call(call.number, call.units, args)?;
        let steps = self.times.ns(call.units, call.data) * self.pace;
        // The checksum is made of the same steps, and was work too.
        work((steps as u64).saturating_sub(call.data as u64 / 8));
        let ns = start.map_or(0, |s| s.elapsed().as_nanos() as u64);
        call.answer(sum, Told { vf: None, calls: self.calls, ns }, out)
    }

    fn rst(&mut self) -> Result<(), DriverError> {
        self.calls = 0;
        Ok(())
    }
}
