//! An open channel, and the cells of it that Python holds.

use crate::errors;
use crate::fork::Ours;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use vfun::{Error, OwnedCell};
use vfun_window::Process;

/// Locks; a panic in another thread left nothing half done.
pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// A channel, until it is closed.
pub struct Channel {
    /// Whose it is: no lock of it is taken in a child; see [`crate::session::Core`].
    of: Process,
    function: RwLock<Option<vfun::Function>>,
    /// Most bytes of arguments of a call.
    pub room: usize,
    pub depth: usize,
    /// Cells that slots and results hold.
    pub held: AtomicUsize,
}

impl Channel {
    pub fn new(function: vfun::Function) -> Arc<Self> {
        let (room, depth) = (function.room(), function.info().depth.into());
        Arc::new(Channel {
            of: Process::current(),
            function: RwLock::new(Some(function)),
            room,
            depth,
            held: AtomicUsize::new(0),
        })
    }

    /// Runs `f` with the function; raises an exception where it is closed.
    pub fn with<T>(&self, py: Python<'_>, f: impl FnOnce(&vfun::Function) -> T) -> PyResult<T> {
        if !self.of.is_current() {
            return Err(errors::forked(py));
        }
        let guard = self.function.read().unwrap_or_else(|e| e.into_inner());
        match &*guard {
            Some(function) => Ok(f(function)),
            None => Err(errors::closed(py)),
        }
    }

    /// No new calls. The grant is given back once nothing of it is held.
    pub fn close(&self) {
        if !self.of.is_current() {
            return;
        }
        drop(self.function.write().unwrap_or_else(|e| e.into_inner()).take());
    }

    /// A cell to write arguments into.
    pub fn slot(self: &Arc<Self>, py: Python<'_>) -> PyResult<Arc<SlotCell>> {
        // One stays for ordinary calls, which would wait for ever otherwise.
        if self.held.load(Ordering::Relaxed) + 1 >= self.depth.max(2) {
            return Err(errors::own(
                py,
                "Full",
                &format!("arrays hold all but one of the {} cells of this function", self.depth),
                "Let go of arrays that are not needed any more (del, or copy them), or ask for a greater depth.",
            ));
        }
        let mut cell = self.with(py, vfun::Function::keep_cell)?.map_err(|e| errors::of(py, &e))?;
        let room = cell.bytes_mut();
        let (base, len) = (room.as_mut_ptr() as usize, room.len());
        Ok(Arc::new(SlotCell {
            cell: Ours::new(Mutex::new(cell)),
            base,
            len,
            viewed: AtomicBool::new(false),
            _holds: Holds::new(self),
        }))
    }
}

/// One cell's share of a channel's count of held cells.
pub struct Holds(Arc<Channel>);

impl Holds {
    pub fn new(channel: &Arc<Channel>) -> Self {
        channel.held.fetch_add(1, Ordering::Relaxed);
        Holds(channel.clone())
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A cell that Python holds, with its memory for arguments.
pub struct SlotCell {
    cell: Ours<Mutex<OwnedCell>>,
    base: usize,
    len: usize,
    /// The results of its last call are being looked at.
    pub viewed: AtomicBool,
    _holds: Holds,
}

impl SlotCell {
    /// Address and bytes of the memory.
    pub fn place(&self) -> PyResult<(usize, usize)> {
        self.cell.get().map(|_| (self.base, self.len))
    }

    /// Where in it an address lies.
    pub fn offset_of(&self, address: usize) -> Option<usize> {
        address.checked_sub(self.base).filter(|off| *off < self.len)
    }

    pub fn lock(&self) -> PyResult<MutexGuard<'_, OwnedCell>> {
        self.cell.get().map(lock)
    }

    /// The cell, unless somebody has it or this is a child.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, OwnedCell>> {
        self.cell.get().ok()?.try_lock().ok()
    }

    /// Whether another call can be made in it now: none is under way, and
    /// nobody looks at the results of the last.
    pub fn free(&self) -> PyResult<bool> {
        Ok(!self.viewed.load(Ordering::Acquire)
            && self.cell.get()?.try_lock().is_ok_and(|c| !c.busy()))
    }

    /// Writes `head` before the arguments that are there, and starts a call
    /// with `len` bytes.
    pub fn post(&self, head: &[u8], len: usize) -> PyResult<Result<(), Error>> {
        let mut cell = self.lock()?;
        match cell.bytes_mut().get_mut(..head.len()) {
            Some(to) => to.copy_from_slice(head),
            None => return Ok(Err(Error::ArgumentsTooLong { len, max: self.len })),
        }
        Ok(cell.post(len))
    }
}
