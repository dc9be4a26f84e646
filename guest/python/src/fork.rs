//! A forked child has no window: what it inherits is neither used nor given
//! back there.

use crate::errors;
use pyo3::prelude::*;
use vfun_window::Process;

/// Something of the process that made it.
pub struct Ours<T> {
    of: Process,
    inner: Option<T>,
}

impl<T> Ours<T> {
    /// Belongs to the process that makes it: its children may not use it.
    pub fn new(inner: T) -> Self {
        Ours { of: Process::current(), inner: Some(inner) }
    }

    /// It, unless this is a child.
    pub fn get(&self) -> PyResult<&T> {
        match &self.inner {
            Some(inner) if self.of.is_current() => Ok(inner),
            _ => Err(Python::attach(errors::forked)),
        }
    }
}

impl<T> Drop for Ours<T> {
    fn drop(&mut self) {
        if !self.of.is_current() {
            // Another thread of the parent's may have held a lock of it at the fork.
            std::mem::forget(self.inner.take());
        }
    }
}
