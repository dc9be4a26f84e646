//! Memory of the window as Python buffers, and Python buffers as bytes. With
//! [`crate::shared`] the package's only unsafe code: the buffer protocol is C's.

#![allow(unsafe_code)]

use crate::channel::{Holds, SlotCell};
use crate::fork::Ours;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfun::KeptResults;
use vfun_window::ReadSpan;

/// A buffer of Python's, lent for as long as this lives: whole, in one piece.
pub struct Lent {
    view: Box<ffi::Py_buffer>,
}

impl Lent {
    /// Of an object that has one; an error where it has none or not in one piece.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Lent> {
        let mut view = Box::new(ffi::Py_buffer::new());
        let flags = ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_FORMAT;
        // SAFETY: the object is alive, `view` is ours and stays where it is.
        let got = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut *view, flags) };
        if got != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Lent { view })
    }

    pub fn address(&self) -> usize {
        self.view.buf as usize
    }

    pub fn len(&self) -> usize {
        self.view.len.max(0) as usize
    }

    /// Bytes of an item.
    pub fn item_bytes(&self) -> usize {
        self.view.itemsize.max(0) as usize
    }

    /// What its items are, in the words of the module `struct`.
    pub fn format(&self) -> &str {
        if self.view.format.is_null() {
            return "B";
        }
        // SAFETY: not null, so a string that lives as long as the view.
        unsafe { CStr::from_ptr(self.view.format) }.to_str().unwrap_or("?")
    }

    /// Its bytes. The interpreter is held meanwhile, so that no Python code
    /// writes there.
    pub fn bytes<'a>(&'a self, _held: Python<'a>) -> &'a [u8] {
        if self.view.buf.is_null() || self.len() == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps `len` bytes at `buf` until the view is
        // released, in one piece as was asked for. Native threads that write
        // without the interpreter race with us as with any reader of theirs:
        // bytes have no invalid values, and they are only copied.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.len()) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: filled by PyObject_GetBuffer, released once, with the interpreter held.
            unsafe { ffi::PyBuffer_Release(&mut *self.view) }
        });
    }
}

/// Fills a view in.
///
/// # Safety
/// `view` is the interpreter's; `at` has `len` bytes for as long as `owner` lives.
pub unsafe fn fill(
    owner: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    at: *mut u8,
    len: usize,
    readonly: bool,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view to fill in"));
    }
    // SAFETY: the caller's promise; the view takes a reference to its owner.
    let filled = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            at.cast(),
            len as ffi::Py_ssize_t,
            c_int::from(readonly),
            flags,
        )
    };
    if filled != 0 { Err(PyErr::fetch(owner.py())) } else { Ok(()) }
}

/// A cell's memory for arguments: write here what a call takes.
#[pyclass(frozen, module = "virtfun")]
pub struct Slot {
    pub cell: Arc<SlotCell>,
    /// First byte of the part that is the buffer.
    pub from: usize,
    /// Bytes of that part.
    pub len: usize,
}

#[pymethods]
impl Slot {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    /// Called by the interpreter.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let slot = slf.get();
        let (base, room) = slot.cell.place()?;
        if slot.from + slot.len > room {
            return Err(PyBufferError::new_err("the slot is larger than its cell"));
        }
        let at = (base + slot.from) as *mut u8;
        // SAFETY: inside the cell's room, which stays mapped and lent to this
        // cell for as long as the slot lives; the view holds the slot.
        unsafe { fill(slf.as_any(), view, at, slot.len, false, flags) }
    }
}

/// Results where they lie; their cell is free again when this is collected.
#[pyclass(frozen, module = "virtfun")]
pub struct Results {
    pub held: Held,
}

/// What keeps the memory of results in place while Python looks at it.
pub enum Held {
    /// In a cell of their own, or private.
    Kept(Ours<KeptResults>, Holds),
    /// In the cell of a slot.
    InSlot(Ours<ReadSpan>, InUse),
    /// In memory of this process alone.
    Bytes(Vec<u8>),
}

/// A mark that the results of a slot's last call are looked at.
pub struct InUse(Arc<SlotCell>);

impl InUse {
    /// Sets the mark, until this is dropped.
    pub fn new(cell: Arc<SlotCell>) -> Self {
        cell.viewed.store(true, Ordering::Release);
        InUse(cell)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let viewed: &AtomicBool = &self.0.viewed;
        viewed.store(false, Ordering::Release);
    }
}

impl Results {
    pub fn place(&self) -> PyResult<(*const u8, usize)> {
        Ok(match &self.held {
            Held::Kept(kept, _) => kept.get()?.place(),
            Held::InSlot(span, _) => span.get().map(|s| (s.as_ptr(), s.len()))?,
            Held::Bytes(bytes) => (bytes.as_ptr(), bytes.len()),
        })
    }
}

#[pymethods]
impl Results {
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.place()?.1)
    }

    /// Whether the bytes are in the window, not a copy.
    #[getter]
    fn in_place(&self) -> PyResult<bool> {
        Ok(match &self.held {
            Held::Kept(kept, _) => kept.get()?.holds_cell(),
            Held::InSlot(span, _) => span.get().map(|_| true)?,
            Held::Bytes(_) => false,
        })
    }

    /// # Safety
    /// Called by the interpreter.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (at, len) = slf.get().place()?;
        // SAFETY: the memory is as long as the results live, which the view
        // holds. It is mapped for reading only, and the view says so.
        unsafe { fill(slf.as_any(), view, at.cast_mut(), len, true, flags) }
    }
}
