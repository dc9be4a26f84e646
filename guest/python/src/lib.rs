//! The native half of the Python package `virtfun`: sessions, functions,
//! calls, and memory of the window as Python buffers. What is not on a call's
//! path (decoding of structs, signatures for `inspect`, asyncio) is Python, in
//! `python/virtfun`.
//!
//! Nothing here waits with the interpreter's lock held.

mod arguments;
mod buffer;
mod channel;
mod errors;
mod fork;
mod function;
mod layout;
mod pending;
mod results;
mod session;
mod shared;
mod waiter;

use pyo3::prelude::*;

/// The module `virtfun._native`, which the package `virtfun` wraps.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::buffer::{Results, Slot};
    #[pymodule_export]
    use crate::function::Function;
    #[pymodule_export]
    use crate::pending::{Pending, wait_any};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::shared::Buffer;
    #[pymodule_export]
    use crate::waiter::Waiter;

    use pyo3::prelude::*;

    /// Names of the manager's refusals, as the classes of `virtfun` have them.
    #[pyfunction]
    fn nack_codes() -> Vec<String> {
        vfun::NackCode::ALL.iter().map(|c| format!("{c:?}")).collect()
    }

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        m.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
