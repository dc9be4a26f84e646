//! A function: what is called.

use crate::arguments::{Plan, Prepared, untyped};
use crate::buffer::Slot;
use crate::channel::{Channel, SlotCell, lock};
use crate::errors;
use crate::pending::{Pending, land};
use crate::results::{Came, Flight, Shape, value};
use crate::session::Core;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Duration;
use vfun::{Error, FunctionRequest, FunctionVersion, Preference};
use vfun_wire::channel::Command;
use vfun_wire::limits::{CELL_BYTES_MAX, DEPTH_DEFAULT};

/// What is wanted of a function.
#[derive(Clone)]
pub struct Wanted {
    pub depth: Option<u16>,
    pub cell_bytes: Option<u32>,
    pub deadline: Option<Duration>,
    pub preference: Preference,
    pub version: Option<FunctionVersion>,
    pub signature: Option<u64>,
}

// A function of the host. No doc comment: instances have their own `__doc__`.
#[pyclass(frozen, weakref, module = "virtfun")]
pub struct Function {
    core: Arc<Core>,
    name: String,
    wanted: Wanted,
    fingerprint: u64,
    plan: Option<Arc<Plan>>,
    shape: Shape,
    channel: RwLock<Arc<Channel>>,
    /// Cells that arrays hold.
    slots: Mutex<Vec<Weak<SlotCell>>>,
}

impl Function {
    pub fn open(py: Python<'_>, core: Arc<Core>, name: &str, wanted: Wanted) -> PyResult<Self> {
        let signature = core.with(py, |s| {
            let d = s.describe_function(name);
            // A host that tells no signatures has functions without.
            Ok(match d {
                Err(Error::Unsupported(_)) => None,
                d => d?.signature,
            })
        })?;
        // What was described is what is meant, unless the caller says otherwise.
        let described = signature.as_ref().map_or(0, |s| s.fingerprint());
        let fingerprint = wanted.signature.unwrap_or(described);
        let shape = Shape::of(signature.as_ref());
        let plan = match signature {
            Some(s) => Some(Arc::new(Plan::new(py, name, s)?)),
            None => None,
        };
        let request = request(name, &wanted, fingerprint);
        let channel = RwLock::new(core.open(py, request)?);
        let slots = Mutex::new(vec![]);
        let name = name.to_owned();
        Ok(Function { core, name, wanted, fingerprint, plan, shape, channel, slots })
    }

    fn channel(&self) -> Arc<Channel> {
        self.channel.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// A channel whose cells hold so many bytes: larger ones are asked for,
    /// unless the caller has said how large they are to be.
    fn roomy(&self, py: Python<'_>, bytes: usize) -> PyResult<Arc<Channel>> {
        let now = self.channel();
        if bytes <= now.room {
            return Ok(now);
        }
        let too_long = || errors::of(py, &Error::ArgumentsTooLong { len: bytes, max: now.room });
        if self.wanted.cell_bytes.is_some() || bytes > CELL_BYTES_MAX as usize {
            return Err(too_long());
        }
        let window = self.core.with(py, |s| Ok(s.info().window_bytes))?;
        let cell = bytes.next_multiple_of(4096);
        // At most half of the window for both sides of the channel.
        let mut depth = self.wanted.depth.unwrap_or(DEPTH_DEFAULT);
        while window > 0 && depth > 1 && u64::from(depth) * cell as u64 * 4 > window {
            depth /= 2;
        }
        let request = request(&self.name, &self.wanted, self.fingerprint)
            .cell_bytes(cell as u32)
            .depth(depth);
        let grown = self.core.open(py, request)?;
        let mut guard = self.channel.write().unwrap_or_else(|e| e.into_inner());
        if guard.room < grown.room {
            // Calls, slots and results of the old one keep it until they end.
            let old = std::mem::replace(&mut *guard, grown.clone());
            drop(guard);
            py.detach(|| old.close());
        }
        Ok(grown)
    }

    fn prepare(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Prepared> {
        // Before the arguments are looked at: they may lie where a child has no memory.
        self.core.check(args.py())?;
        match &self.plan {
            Some(plan) => plan.prepare(args, kwargs),
            None => untyped(&self.name, args, kwargs),
        }
    }

    /// The slot whose memory these arguments are, from its start.
    fn slot_of(&self, prepared: &Prepared) -> Option<Arc<SlotCell>> {
        let Prepared::Lent(head, lent) = prepared else { return None };
        let mut slots = lock(&self.slots);
        if slots.is_empty() {
            return None;
        }
        slots.retain(|s| s.strong_count() > 0);
        slots
            .iter()
            .filter_map(Weak::upgrade)
            .find(|s| s.offset_of(lent.address()) == Some(head.len()))
    }

    /// Starts a call; `None` if every cell is in use.
    fn begin(&self, py: Python<'_>, p: &Prepared) -> PyResult<Option<(Arc<Channel>, Flight)>> {
        let failed = |e: Error| match e {
            Error::Full { .. } => Ok(None),
            e => Err(errors::of(py, &e)),
        };
        // Arrays stay when their function is given back; calls with them do not.
        self.channel().with(py, |_| ())?;
        if let (Some(slot), Prepared::Lent(head, _)) = (self.slot_of(p), p)
            && slot.free()?
        {
            return match slot.post(head, p.len())? {
                Ok(()) => Ok(Some((self.channel(), Flight::Slot(slot)))),
                Err(e) => failed(e),
            };
        }
        let channel = self.roomy(py, p.len())?;
        let submitted = match p {
            Prepared::Small(bytes, len) => {
                channel.with(py, |f| f.submit_owned(Command::Set, &bytes[..*len]))?
            }
            Prepared::Bytes(bytes) => channel.with(py, |f| f.submit_owned(Command::Set, bytes))?,
            Prepared::Lent(head, lent) if head.is_empty() => {
                channel.with(py, |f| f.submit_owned(Command::Set, lent.bytes(py)))?
            }
            Prepared::Lent(head, lent) => {
                // Once, into the cell: not first behind the head somewhere else.
                channel.with(py, |f| f.submit_parts(&[head, lent.bytes(py)]))?
            }
        };
        match submitted {
            Ok(pending) => Ok(Some((channel, Flight::Own(pending)))),
            Err(e) => failed(e),
        }
    }

    fn call(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        shape: Shape,
    ) -> PyResult<Py<PyAny>> {
        let prepared = self.prepare(args, kwargs)?;
        let plan = self.plan.as_deref();
        if let Some((channel, flight)) = self.begin(py, &prepared)? {
            drop(prepared);
            return land(py, flight, shape, plan, &channel);
        }
        // Every cell is in use: waits for one, with a private copy.
        let bytes = prepared.to_vec(py);
        drop(prepared);
        let channel = self.channel();
        let flight = channel.with(py, vfun::Function::shared)?;
        let done = py.detach(|| flight.call(&bytes));
        match done {
            Ok(bytes) => value(py, shape, plan.map(|p| &p.codec), &channel, Came::of(bytes), None),
            Err(e) => Err(errors::of(py, &e)),
        }
    }
}

fn request(name: &str, w: &Wanted, fingerprint: u64) -> FunctionRequest {
    let mut request = FunctionRequest::new(name).preference(w.preference).signature(fingerprint);
    if let Some(depth) = w.depth {
        request = request.depth(depth);
    }
    if let Some(bytes) = w.cell_bytes {
        request = request.cell_bytes(bytes);
    }
    if let Some(deadline) = w.deadline {
        request = request.deadline(deadline);
    }
    if let Some(version) = w.version {
        request = request.version(version);
    }
    request
}

#[pymethods]
impl Function {
    /// Calls the function and waits for its results, with the interpreter free meanwhile.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(args.py(), args, kwargs, self.shape)
    }

    /// As a call, with the results' bytes as they are: a read-only buffer over
    /// the window where they do not fit a line.
    #[pyo3(signature = (*args, **kwargs))]
    fn raw(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(args.py(), args, kwargs, Shape::Raw)
    }

    /// Starts a call and returns at once: a Pending. Raises Full if every cell is in use.
    #[pyo3(signature = (*args, **kwargs))]
    fn start(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Pending> {
        let py = args.py();
        let prepared = self.prepare(args, kwargs)?;
        match self.begin(py, &prepared)? {
            Some((channel, flight)) => {
                Ok(Pending::new(flight, self.shape, self.plan.clone(), channel))
            }
            None => Err(errors::of(py, &Error::Full { depth: self.channel().depth })),
        }
    }

    /// `await f.acall(...)`: a call that does not block the event loop.
    #[pyo3(signature = (*args, **kwargs))]
    fn acall<'py>(
        slf: Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let kwargs = kwargs.cloned().unwrap_or_else(|| PyDict::new(py));
        py.import("virtfun._async")?.getattr("acall")?.call1((slf, args, kwargs))
    }

    /// Clears what the function keeps between calls of this channel.
    fn rst(&self, py: Python<'_>) -> PyResult<()> {
        let channel = self.channel();
        let shared = channel.with(py, vfun::Function::shared)?;
        py.detach(|| shared.rst()).map_err(|e| errors::of(py, &e))
    }

    /// Memory of a cell, for `empty`: a buffer of so many bytes, from where
    /// the variable array begins.
    fn slot(&self, py: Python<'_>, bytes: usize) -> PyResult<Slot> {
        let from = match self.plan.as_ref().map(|p| &p.signature.args) {
            None => 0,
            Some(r) => match &r.tail {
                Some(t) => t.offset as usize,
                None => {
                    return Err(PyValueError::new_err(format!(
                        "{}() takes no array, so that there is nothing to write in place",
                        self.name
                    )));
                }
            },
        };
        let cell = self.roomy(py, from + bytes)?.slot(py)?;
        let mut slots = lock(&self.slots);
        slots.retain(|s| s.strong_count() > 0);
        slots.push(Arc::downgrade(&cell));
        Ok(Slot { cell, from, len: bytes })
    }

    /// An array in the window, to be filled and passed to a call without a
    /// copy, any number of times. A numpy array where numpy is installed, else
    /// a memoryview. `dtype` is the signature's element type unless given.
    #[pyo3(signature = (shape, dtype = None))]
    fn empty<'py>(
        slf: Bound<'py, Self>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("virtfun._typed")?.getattr("empty")?.call1((slf, shape, dtype))
    }

    /// The codec of its signature; None without one.
    #[getter]
    fn _codec(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.plan.as_ref().map(|p| p.codec.clone_ref(py))
    }

    #[getter]
    fn __name__(&self) -> &str {
        &self.name
    }

    /// The signature's text; None without one.
    #[getter]
    fn signature(&self) -> Option<String> {
        self.plan.as_ref().map(|p| p.signature.to_string())
    }

    /// The signature's fingerprint; 0 without one.
    #[getter]
    fn fingerprint(&self) -> u64 {
        self.plan.as_ref().map_or(0, |p| p.signature.fingerprint())
    }

    /// What `inspect.signature` and `help` show.
    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let codec = self.plan.as_ref().map(|p| p.codec.bind(py));
        py.import("virtfun._typed")?.getattr("inspected")?.call1((codec,))
    }

    /// What the function takes and gives.
    #[getter]
    fn __doc__(&self) -> String {
        match &self.plan {
            Some(p) => p.usage(),
            None => format!("{}(bytes) -> bytes, without a signature", self.name),
        }
    }

    /// The grant as the host recorded it.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let i = self.channel().with(py, |f| f.info().clone())?;
        let d = PyDict::new(py);
        d.set_item("name", &i.function)?;
        d.set_item("version", i.version.to_string())?;
        d.set_item("location", i.location.text())?;
        d.set_item("depth", i.depth)?;
        d.set_item("cell_bytes", i.cell_bytes)?;
        d.set_item("deadline", i.deadline.as_secs_f64())?;
        d.set_item("grant", i.grant)?;
        Ok(d)
    }

    /// Gives the function back. Arrays of it that are still held stay valid.
    fn release(&self, py: Python<'_>) {
        let channel = self.channel();
        py.detach(|| channel.close());
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.release(py);
    }

    fn __repr__(&self) -> String {
        match &self.plan {
            Some(p) => format!("<virtfun.Function {}>", p.usage()),
            None => format!("<virtfun.Function {}, without a signature>", self.name),
        }
    }
}
