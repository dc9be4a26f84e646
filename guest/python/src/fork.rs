//! A forked child has no window: what it inherits is neither used nor given
//! back there.

use crate::errors;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Called in the child, where no other thread runs.
pub fn happened() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Something of the process that made it.
pub struct Ours<T> {
    born: u32,
    inner: Option<T>,
}

impl<T> Ours<T> {
    /// Of this process.
    pub fn new(inner: T) -> Self {
        Ours { born: FORKS.load(Ordering::Relaxed), inner: Some(inner) }
    }

    /// Whether this is a child of the process that made it.
    pub fn foreign(&self) -> bool {
        self.born != FORKS.load(Ordering::Relaxed)
    }

    /// It, unless this is a child.
    pub fn get(&self) -> PyResult<&T> {
        match &self.inner {
            Some(inner) if !self.foreign() => Ok(inner),
            _ => Err(Python::attach(errors::forked)),
        }
    }
}

impl<T> Drop for Ours<T> {
    fn drop(&mut self) {
        if self.foreign() {
            // It would touch memory that this process does not have.
            std::mem::forget(self.inner.take());
        }
    }
}

impl<T> Ours<T> {
    /// Takes it out, unless this is a child.
    pub fn take(&mut self) -> Option<T> {
        if self.foreign() { None } else { self.inner.take() }
    }
}
