//! A call under way.

use crate::arguments::Plan;
use crate::channel::{Channel, SlotCell, lock};
use crate::errors;
use crate::fork::Ours;
use crate::results::{Came, Flight, Shape, value};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use vfun::OwnedPending;

/// How long a wait goes on before it looks for signals (Ctrl-C).
const SIGNALS: Duration = Duration::from_millis(50);
/// How long [`wait_any`] stays with one call before it looks at the others.
const TURN: Duration = Duration::from_micros(500);

/// A call under way. `await` it, or `wait()` for it. Letting go of it does not
/// stop the call.
#[pyclass(frozen, weakref, module = "virtfun")]
pub struct Pending {
    state: Mutex<State>,
    channel: Arc<Channel>,
    plan: Option<Arc<Plan>>,
    shape: Shape,
}

pub enum State {
    Flying(Ours<Flight>),
    /// Another thread takes the answer.
    Landing,
    Done(PyResult<Py<PyAny>>),
}

/// A call as a waiter finds it.
pub enum Seen<'a> {
    Answered,
    /// Somebody waits for it.
    Busy,
    Flying(InHand<'a>),
}

/// A call under way that nobody else waits for meanwhile.
pub struct InHand<'a>(MutexGuard<'a, State>);

impl InHand<'_> {
    fn get(&self) -> Option<&Flight> {
        match &*self.0 {
            State::Flying(f) => f.get().ok(),
            _ => None,
        }
    }
    /// If it is in a cell of its own.
    pub fn own(&self) -> Option<&OwnedPending> {
        match self.get() {
            Some(Flight::Own(p)) => Some(p),
            _ => None,
        }
    }
    /// If it is in a slot's.
    pub fn cell(&self) -> Option<Arc<SlotCell>> {
        match self.get() {
            Some(Flight::Slot(cell)) => Some(cell.clone()),
            _ => None,
        }
    }
}

/// Waits for a call without the interpreter, and takes its answer; looks for
/// signals now and then.
pub fn land(
    py: Python<'_>,
    flight: Flight,
    shape: Shape,
    plan: Option<&Plan>,
    channel: &Arc<Channel>,
) -> PyResult<Py<PyAny>> {
    let copy = (channel.held.load(Ordering::Relaxed) + 1) * 2 > channel.depth.max(2);
    let mut flight = Some(flight);
    let landed: Result<(Came, _), vfun::Error> = loop {
        let turn = py.detach(|| {
            let f = flight.take()?;
            match ready(&f, SIGNALS) {
                true => Some(f.land(shape, copy)),
                false => {
                    flight = Some(f);
                    None
                }
            }
        });
        match turn {
            Some(landed) => break landed,
            None => py.check_signals()?,
        }
    };
    match landed {
        Ok((came, slot)) => value(py, shape, plan.map(|p| &p.codec), channel, came, slot),
        Err(e) => Err(errors::of(py, &e)),
    }
}

fn ready(flight: &Flight, limit: Duration) -> bool {
    match flight {
        Flight::Own(p) => p.ready_within(limit),
        Flight::Slot(cell) => cell.lock().is_ok_and(|c| c.ready_within(limit)),
    }
}

fn polled(flight: &Flight) -> bool {
    match flight {
        Flight::Own(p) => p.poll(),
        Flight::Slot(cell) => cell.lock().is_ok_and(|c| c.poll()),
    }
}

impl Pending {
    pub fn new(
        flight: Flight,
        shape: Shape,
        plan: Option<Arc<Plan>>,
        channel: Arc<Channel>,
    ) -> Self {
        Pending { state: Mutex::new(State::Flying(Ours::new(flight))), channel, plan, shape }
    }

    /// What a waiter needs of it; never waits.
    pub fn flight(&self) -> Seen<'_> {
        match self.state.try_lock() {
            Err(_) => Seen::Busy,
            Ok(state) => match &*state {
                State::Flying(f) if !f.foreign() => Seen::Flying(InHand(state)),
                State::Landing => Seen::Busy,
                State::Flying(_) | State::Done(_) => Seen::Answered,
            },
        }
    }

    /// Without the interpreter: whether waiting would end at once.
    fn settled(&self, limit: Option<Duration>) -> bool {
        match &*lock(&self.state) {
            State::Flying(f) if f.foreign() => true,
            State::Flying(f) => f.get().is_ok_and(|f| match limit {
                Some(limit) => ready(f, limit),
                None => polled(f),
            }),
            State::Landing => false,
            State::Done(_) => true,
        }
    }

    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let taken = std::mem::replace(&mut *lock(&self.state), State::Landing);
        let done = match taken {
            State::Flying(mut f) => match f.take() {
                Some(flight) => land(py, flight, self.shape, self.plan.as_deref(), &self.channel),
                None => Err(errors::forked(py)),
            },
            State::Landing => {
                return Err(PyRuntimeError::new_err("two threads wait for this call"));
            }
            State::Done(done) => done,
        };
        let again = match &done {
            Ok(v) => Ok(v.clone_ref(py)),
            Err(e) => Err(e.clone_ref(py)),
        };
        *lock(&self.state) = State::Done(again);
        done
    }
}

#[pymethods]
impl Pending {
    /// Whether the call is answered.
    fn done(&self, py: Python<'_>) -> bool {
        py.detach(|| self.settled(None))
    }

    /// Waits for the results, at most `timeout` seconds, else raises TimedOut;
    /// the call goes on, and may be waited for again.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        if let Some(seconds) = timeout {
            let limit = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
            let until = Instant::now().checked_add(limit);
            loop {
                let left = until.map_or(SIGNALS, |u| u.saturating_duration_since(Instant::now()));
                if py.detach(|| self.settled(Some(left.min(SIGNALS)))) {
                    break;
                }
                py.check_signals()?;
                if left.is_zero() {
                    let text = format!("the call was not answered within {seconds} s");
                    return Err(errors::own(
                        py,
                        "TimedOut",
                        &text,
                        "Wait longer, or go on: the cell frees itself when the answer comes.",
                    ));
                }
            }
        }
        self.result(py)
    }

    /// Waits without blocking the event loop.
    fn __await__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("virtfun._async")?.getattr("settled")?.call1((slf,))?.call_method0("__await__")
    }
}

/// Waits, without the interpreter, until at least one of some calls is
/// answered or `seconds` have passed: which are.
#[pyfunction]
pub fn wait_any(py: Python<'_>, calls: Vec<Py<Pending>>, seconds: f64) -> Vec<usize> {
    let all: Vec<&Pending> = calls.iter().map(Py::get).collect();
    py.detach(|| {
        let until = Instant::now() + Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(TURN);
        let mut first = 0;
        loop {
            let done: Vec<usize> =
                all.iter().enumerate().filter(|(_, p)| p.settled(None)).map(|(i, _)| i).collect();
            if !done.is_empty() || all.is_empty() || Instant::now() >= until {
                return done;
            }
            // Alone it may sleep as long as it likes; else the others are looked at in between.
            let left = until.saturating_duration_since(Instant::now());
            all[first].settled(Some(if all.len() == 1 { left } else { TURN.min(left) }));
            first = (first + 1) % all.len();
        }
    })
}
