//! A descriptor for event loops.

use crate::channel::{SlotCell, lock};
use crate::errors;
use crate::fork::Ours;
use crate::pending::{Pending, Seen};
use pyo3::prelude::*;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard};
use vfun::{InFlight, OwnedCell};

/// Waits for any of several calls by a descriptor, for one event loop.
#[pyclass(frozen, weakref, module = "virtfun")]
pub struct Waiter(Ours<Mutex<vfun::Waiter>>);

#[pymethods]
impl Waiter {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let waiter = vfun::Waiter::new().map_err(|e| errors::of(py, &e))?;
        Ok(Waiter(Ours::new(Mutex::new(waiter))))
    }

    /// The descriptor: readable, after `arm`, once one of the calls may be answered.
    /// Not to be read.
    fn fileno(&self) -> PyResult<i32> {
        Ok(lock(self.0.get()?).as_raw_fd())
    }

    /// Which of some calls are answered. If none is, the descriptor becomes readable
    /// as soon as one of them may be; it may wake in vain. No calls: disarms.
    fn arm(&self, py: Python<'_>, calls: Vec<Py<Pending>>) -> PyResult<Vec<usize>> {
        let mut waiter = lock(self.0.get()?);
        // Never waited for: whoever has one of them is waiting for it, and the
        // waiter's own timer makes this look again.
        let mut answered = vec![];
        let mut held: Vec<(usize, _)> = vec![];
        for (i, call) in calls.iter().enumerate() {
            match call.get().flight() {
                Seen::Answered => answered.push(i),
                Seen::Flying(flight) => held.push((i, flight)),
                Seen::Busy => {}
            }
        }
        if !answered.is_empty() {
            waiter.disarm();
            return Ok(answered);
        }
        let cells: Vec<Option<Arc<SlotCell>>> = held.iter().map(|(_, f)| f.cell()).collect();
        let cells: Vec<Option<MutexGuard<'_, OwnedCell>>> =
            cells.iter().map(|c| c.as_ref().and_then(|c| c.try_lock())).collect();
        let mut places = vec![];
        let mut flights: Vec<InFlight<'_>> = vec![];
        for ((i, flight), cell) in held.iter().zip(&cells) {
            match (flight.own(), cell) {
                (Some(own), _) => flights.push(own.into()),
                (None, Some(cell)) => flights.push((&**cell).into()),
                (None, None) => continue,
            }
            places.push(*i);
        }
        let found = waiter.arm(flights).map_err(|e| errors::of(py, &e))?;
        if found.is_empty() && places.len() < calls.len() {
            waiter.look_again().map_err(|e| errors::of(py, &e))?;
        }
        Ok(found.into_iter().map(|n| places[n]).collect())
    }
}
