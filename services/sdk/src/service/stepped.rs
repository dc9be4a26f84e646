//! A channel's loop, one turn at a time, on the thread of who counts what a call takes.

use super::calls::{Calls, Shape};
use super::engine::Engine;
use super::held::OpenCells;
use super::idle::{Loop, Turn};
use super::pulse::Pulse;
use super::watch::Alarm;
use crate::{Config, OpenCalls};
use std::sync::Arc;
use std::time::Duration;
use vfun_ring::WindowMemory;
use vfun_wait::{Policy, WaitMode};
use vfun_wire::Status;

/// The loop of one channel of calls, without its thread and its doorbells.
pub struct Stepped<E: Engine> {
    on: Loop,
    calls: Calls<E::Instance>,
}

impl<E: Engine> Stepped<E> {
    /// Opens the channel in `mem` as a service does. No call of it is timed: which ones
    /// are depends on how long earlier ones took.
    ///
    /// # Errors
    /// A sentence: the engine or the channel's shape refuses.
    pub fn open(
        engine: &E,
        mem: WindowMemory,
        depth: u16,
        cell_bytes: u32,
    ) -> Result<Self, String> {
        let pulse = Arc::new(Pulse::default());
        let alarm = Arc::new(Alarm::new().map_err(|e| e.to_string())?);
        let config = Config { depth, cell_bytes, ..Config::default() };
        let count = pulse.clone();
        let answers = OpenCalls::of_channel(|| (), move || count.calls(), ());
        let instance = engine.open_later(&config, &answers).map_err(|e| e.to_string())?;
        let open = OpenCells::new(answers, Duration::from_secs(1));
        let shape = Shape {
            depth,
            cell_bytes,
            max_args: engine.max_args(),
            max_result: engine.max_result(),
            args: None,
            left: Status::DriverCrashed,
            leased: false,
            after: None,
        };
        let mut calls = Calls::new(mem, &shape, open, instance, pulse.clone(), None)
            .map_err(|e| e.to_string())?;
        calls.time_none();
        calls.settle();
        let on = Loop::new(pulse, alarm, None, Policy::service(WaitMode::Hybrid));
        Ok(Stepped { on, calls })
    }

    /// Serves the call that was posted. With none it waits for one.
    #[inline]
    pub fn turn(&mut self) -> bool {
        matches!(self.on.turn(&mut self.calls), Turn::Served)
    }
}
