//! Memory that a program and its host's functions both write, as a Python buffer.

#![allow(unsafe_code)]

use crate::buffer::fill;
use crate::channel::lock;
use crate::errors;
use crate::fork::Ours;
use crate::session::Core;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use vfun_window::Process;

/// Buffers of a session, which end with it.
#[derive(Default)]
pub struct Shared(Mutex<Vec<Weak<HeldMapping>>>);

impl Shared {
    /// Gives all of them back. Without the interpreter, and not in a child.
    pub fn close(&self) -> Result<(), vfun::Error> {
        let all: Vec<_> = lock(&self.0).drain(..).collect();
        let held = all.iter().filter_map(Weak::upgrade);
        held.map(|b| b.close()).fold(Ok(()), Result::and)
    }

    fn adopt(&self, held: &Arc<HeldMapping>) {
        let mut all = lock(&self.0);
        all.retain(|b| b.strong_count() > 0);
        all.push(Arc::downgrade(held));
    }
}

/// A buffer, until the last that looks at it is collected.
struct HeldMapping {
    buffer: Ours<vfun::Buffer>,
    closed: AtomicBool,
}

impl HeldMapping {
    fn close(&self) -> Result<(), vfun::Error> {
        match self.buffer.get() {
            Ok(buffer) if !self.closed.swap(true, Ordering::AcqRel) => buffer.close_shared(),
            _ => Ok(()),
        }
    }
}

/// Memory that this program and the host's functions both write: `Session.buffer` makes
/// one. A context manager, and a writable buffer for `memoryview` and numpy.
#[pyclass(frozen, weakref, module = "virtfun")]
pub struct Buffer {
    of: Process,
    held: Arc<HeldMapping>,
    handle: u64,
    len: usize,
}

impl Buffer {
    /// Asks the manager for a buffer that both sides write.
    pub fn get(
        py: Python<'_>,
        core: &Arc<Core>,
        bytes: i64,
        align: Option<i64>,
        contiguous: bool,
    ) -> PyResult<Buffer> {
        let number = |what: &str, n: i64| {
            let wrong = || PyValueError::new_err(format!("{what} = {n} is not possible"));
            usize::try_from(n).map_err(|_| wrong())
        };
        let mut request = vfun::BufferRequest::new(number("bytes", bytes)?).contiguous(contiguous);
        if let Some(align) = align {
            request = request.align(number("align", align)?);
        }
        let buffer = core.with(py, |s| s.buffer(request))?;
        let (handle, len) = (buffer.handle(), buffer.len());
        let held =
            Arc::new(HeldMapping { buffer: Ours::new(buffer), closed: AtomicBool::new(false) });
        core.buffers.adopt(&held);
        Ok(Buffer { of: Process::current(), held, handle, len })
    }

    /// Where it lies, if it is shared with the host still.
    fn place(&self, py: Python<'_>) -> PyResult<*mut u8> {
        let buffer = self.held.buffer.get()?;
        if self.held.closed.load(Ordering::Acquire) {
            return Err(errors::own(
                py,
                "Closed",
                "the buffer was closed",
                "Ask for another one: Session.buffer.",
            ));
        }
        buffer.check().map_err(|e| errors::of(py, &e))?;
        Ok(buffer.as_ptr())
    }
}

#[pymethods]
impl Buffer {
    /// What names it to the host: pass it in a call's arguments.
    #[getter]
    fn handle(&self) -> u64 {
        self.handle
    }

    fn __len__(&self) -> usize {
        self.len
    }

    /// Fails if it is over, and says why.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.place(py).map(drop)
    }

    /// Whether it was closed, by itself or with its session.
    #[getter]
    fn closed(&self) -> bool {
        self.of.is_current() && self.held.closed.load(Ordering::Acquire)
    }

    /// Gives it back. Views of it that are still held read zeros from then on, and what is
    /// written to them goes nowhere. A second time does nothing, nor does it in a child of
    /// the process that asked for it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.of.is_current() {
            return Ok(());
        }
        py.detach(|| self.held.close()).map_err(|e| errors::of(py, &e))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let closed = if self.closed() { "closed, " } else { "" };
        format!("<virtfun.Buffer {closed}{} bytes, handle {:#x}>", self.len, self.handle)
    }

    /// # Safety
    /// Called by the interpreter.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let at = slf.get().place(slf.py())?;
        // SAFETY: the memory has so many bytes and stays mapped for writing for as long as
        // the buffer lives, which the view holds.
        unsafe { fill(slf.as_any(), view, at, slf.get().len, false, flags) }
    }
}
