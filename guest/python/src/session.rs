//! A session.

use crate::channel::{Channel, lock};
use crate::errors;
use crate::function::{Function, Wanted};
use crate::shared::{Buffer, Shared};
use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Duration;
use vfun::{ConnectOptions, Endpoint, FunctionRequest, Preference, WaitPolicy};
use vfun_window::Process;

/// What a session and its functions share.
pub struct Core {
    /// Whose it is: no lock of it is taken in a child, as one that another thread of
    /// the parent's held at the fork is never given back there.
    of: Process,
    session: RwLock<Option<vfun::Session>>,
    channels: Mutex<Vec<Weak<Channel>>>,
    pub buffers: Shared,
}

impl Core {
    /// Fails in a child of the process whose the session is.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.of.is_current() { Ok(()) } else { Err(errors::forked(py)) }
    }

    /// Does something with the session, without the interpreter.
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&vfun::Session) -> Result<T, vfun::Error> + Send,
    ) -> PyResult<T> {
        self.check(py)?;
        let done = py.detach(|| {
            let guard = self.session.read().unwrap_or_else(|e| e.into_inner());
            guard.as_ref().map(f)
        });
        match done {
            None => Err(errors::closed(py)),
            Some(Err(e)) => Err(errors::of(py, &e)),
            Some(Ok(value)) => Ok(value),
        }
    }

    /// Opens a channel that is closed with the session.
    pub fn open(&self, py: Python<'_>, request: FunctionRequest) -> PyResult<Arc<Channel>> {
        let channel = Channel::new(self.with(py, |s| s.negotiate(&request)?.activate())?);
        let mut all = lock(&self.channels);
        all.retain(|c| c.strong_count() > 0);
        all.push(Arc::downgrade(&channel));
        Ok(channel)
    }
}

/// An open session: `virtfun.connect()` makes one. Its functions are its
/// attributes. A context manager.
#[pyclass(frozen, weakref, module = "virtfun")]
pub struct Session {
    core: Arc<Core>,
    named: Mutex<HashMap<String, Py<Function>>>,
    describe: String,
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (endpoint, app, client, credential, wait))]
    fn new(
        py: Python<'_>,
        endpoint: Option<&str>,
        app: &str,
        client: Option<&str>,
        credential: Option<&[u8]>,
        wait: &str,
    ) -> PyResult<Self> {
        let policy = match wait {
            "hybrid" => WaitPolicy::hybrid(),
            "spin" => WaitPolicy::spin(),
            "sleep" => WaitPolicy::sleep(),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "wait = '{wait}' is not one of 'hybrid', 'spin', 'sleep'"
                )));
            }
        };
        let mut options = ConnectOptions::new(app).wait(policy);
        if let Some(text) = endpoint {
            let endpoint: Endpoint = text.parse().map_err(|e| errors::of(py, &e))?;
            options = options.endpoint(endpoint);
        }
        if let Some(client) = client {
            options = options.client(client);
        }
        if let Some(credential) = credential {
            options = options.credential(credential);
        }
        let session = py.detach(|| options.connect()).map_err(|e| errors::of(py, &e))?;
        let describe = session.describe();
        let of = Process::current();
        let (channels, buffers) = (Mutex::new(vec![]), Shared::default());
        let core = Core { of, session: RwLock::new(Some(session)), channels, buffers };
        Ok(Session { core: Arc::new(core), named: Mutex::new(HashMap::new()), describe })
    }

    /// A function by its name, with what is wanted of it; see `virtfun.Session`.
    #[pyo3(signature = (name, *, depth = None, cell_bytes = None, deadline = None, on = "any", version = None, signature = None))]
    #[allow(clippy::too_many_arguments, reason = "Python's keywords")]
    fn function(
        &self,
        py: Python<'_>,
        name: &str,
        depth: Option<u16>,
        cell_bytes: Option<u32>,
        deadline: Option<f64>,
        on: &str,
        version: Option<&str>,
        signature: Option<u64>,
    ) -> PyResult<Py<Function>> {
        let preference = match on {
            "any" => Preference::Any,
            "hardware" => Preference::Hardware,
            "software" => Preference::Software,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "on = '{on}' is not one of 'any', 'hardware', 'software'"
                )));
            }
        };
        let version = match version {
            None => None,
            Some(v) => Some(v.parse().map_err(PyValueError::new_err)?),
        };
        let deadline = match deadline {
            None => None,
            Some(s) => Some(Duration::try_from_secs_f64(s).map_err(|_| {
                PyValueError::new_err(format!("deadline = {s} is no number of seconds"))
            })?),
        };
        let wanted = Wanted { depth, cell_bytes, deadline, preference, version, signature };
        Py::new(py, Function::open(py, self.core.clone(), name, wanted)?)
    }

    /// Memory that this program and the host's functions both write: `bytes` of it, full
    /// of zeros, at a multiple of `align` bytes of the window (a power of two from 4096 to
    /// 2 MiB), with `contiguous` in one piece in the host's memory too. See
    /// `virtfun.Buffer`.
    #[pyo3(signature = (bytes, *, align = None, contiguous = false))]
    fn buffer(
        &self,
        py: Python<'_>,
        bytes: i64,
        align: Option<i64>,
        contiguous: bool,
    ) -> PyResult<Buffer> {
        Buffer::get(py, &self.core, bytes, align, contiguous)
    }

    /// The function of that name, opened once.
    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<Function>> {
        let py = slf.py();
        if name.starts_with('_') {
            return Err(PyAttributeError::new_err(name.to_owned()));
        }
        if let Some(f) = lock(&slf.get().named).get(name) {
            return Ok(f.clone_ref(py));
        }
        let f = match slf.get().function(py, name, None, None, None, "any", None, None) {
            Ok(f) => f,
            Err(e) => return Err(unknown(py, name, e)),
        };
        lock(&slf.get().named).insert(name.to_owned(), f.clone_ref(py));
        Ok(f)
    }

    fn __dir__(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        let py = slf.py();
        let mut names: Vec<String> = slf.get_type().dir()?.iter().map(|n| n.to_string()).collect();
        if let Ok(all) = slf.get().core.with(py, vfun::Session::list) {
            names.extend(all.into_iter().map(|f| f.name));
        }
        Ok(names)
    }

    /// The functions on offer: a list of dicts.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self.core.with(py, vfun::Session::list)?;
        let out = PyList::empty(py);
        for f in all {
            let d = PyDict::new(py);
            d.set_item("name", &f.name)?;
            d.set_item("version", f.version.to_string())?;
            d.set_item("max_args", f.max_args)?;
            d.set_item("max_result", f.max_result)?;
            d.set_item("deadline", f.deadline.as_secs_f64())?;
            d.set_item("locations", f.locations.iter().map(|l| l.text()).collect::<Vec<_>>())?;
            out.append(d)?;
        }
        Ok(out)
    }

    /// Brings a WebAssembly module to the host; see `virtfun.Session`.
    #[pyo3(signature = (module, *, name = None, signature = None, memory = None, deadline = None, replace = false))]
    #[allow(clippy::too_many_arguments, reason = "Python's keywords")]
    fn submit_module<'py>(
        &self,
        py: Python<'py>,
        module: &[u8],
        name: Option<&str>,
        signature: Option<&str>,
        memory: Option<u64>,
        deadline: Option<f64>,
        replace: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut s = vfun::Submission::new(module).replace(replace);
        if let Some(name) = name {
            s = s.name(name);
        }
        if let Some(signature) = signature {
            s = s.signature(signature);
        }
        if let Some(bytes) = memory {
            s = s.memory(bytes);
        }
        if let Some(d) = deadline {
            s = s.deadline(Duration::try_from_secs_f64(d).map_err(|_| {
                PyValueError::new_err(format!("deadline = {d} is no number of seconds"))
            })?);
        }
        let done = self.core.with(py, |session| session.submit_module(&s))?;
        if done.replaced {
            // Whoever asks for it by name from now on means the new one.
            lock(&self.named).remove(&done.function.name);
        }
        let d = own(py, &done.function)?;
        d.set_item("already_there", done.already_there)?;
        d.set_item("replaced", done.replaced)?;
        d.set_item("renewed", done.renewed)?;
        Ok(d)
    }

    /// The functions that this client submitted: a list of dicts.
    fn submitted_modules<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self.core.with(py, vfun::Session::submitted_modules)?;
        let out = PyList::empty(py);
        for f in &all {
            out.append(own(py, f)?)?;
        }
        Ok(out)
    }

    /// Offers a function no more that this client submitted.
    fn withdraw_module(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let gone = self.core.with(py, |s| s.withdraw_module(name))?;
        lock(&self.named).remove(&gone.name);
        Ok(())
    }

    /// A function's signature as text, or None.
    fn signature(&self, py: Python<'_>, name: &str) -> PyResult<Option<String>> {
        let d = self.core.with(py, |s| s.describe_function(name))?;
        Ok(d.signature.map(|s| s.to_string()))
    }

    /// What a function's own error codes mean: a dict of sentences by code.
    fn function_codes<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        let codes = PyDict::new(py);
        for (code, means) in self.core.with(py, |s| s.function_codes(name))? {
            codes.set_item(code, means)?;
        }
        Ok(codes)
    }

    /// One line that names the path in use.
    fn describe(&self) -> &str {
        &self.describe
    }

    /// Seconds that the manager took to answer.
    fn ping(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.core.with(py, vfun::Session::ping)?.as_secs_f64())
    }

    /// What the host said of this session.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let i = self.core.with(py, |s| Ok(s.info().clone()))?;
        let d = PyDict::new(py);
        d.set_item("client", &i.client)?;
        d.set_item("transport", i.transport.as_str())?;
        d.set_item("doorbell", i.doorbell)?;
        d.set_item("window_bytes", i.window_bytes)?;
        d.set_item("protocol", i.version)?;
        Ok(d)
    }

    /// Ends the session, and its buffers. No new calls can be made; arrays in the window
    /// that are still held stay valid, and the host has its memory back when the
    /// last of them is collected. A second time does nothing, nor does it in a
    /// child of the process that opened it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.core.of.is_current() {
            return Ok(());
        }
        lock(&self.named).clear();
        let core = self.core.clone();
        let done = py.detach(move || {
            let taken = core.session.write().unwrap_or_else(|e| e.into_inner()).take();
            let channels: Vec<_> = lock(&core.channels).drain(..).collect();
            channels.iter().filter_map(Weak::upgrade).for_each(|c| c.close());
            let buffers = core.buffers.close();
            match taken {
                Some(session) => session.close_when_free().map(|_| ()).and(buffers),
                None => buffers,
            }
        });
        done.map_err(|e| errors::of(py, &e))
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.core.of.is_current()
            && self.core.session.read().unwrap_or_else(|e| e.into_inner()).is_none()
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
        format!("<virtfun.Session {closed}{}>", self.describe)
    }
}

/// `hasattr` and friends ask by AttributeError: what is no function is none.
#[cold]
fn unknown(py: Python<'_>, name: &str, e: PyErr) -> PyErr {
    let is = py
        .import("virtfun._errors")
        .and_then(|m| m.getattr("UnknownFunction"))
        .is_ok_and(|class| e.value(py).is_instance(&class).unwrap_or(false));
    match is {
        true => {
            let made = PyAttributeError::new_err(format!("{}: {name}", e.value(py)));
            made.set_cause(py, Some(e));
            made
        }
        false => e,
    }
}

/// A submitted function as a dict.
fn own<'py>(py: Python<'py>, f: &vfun::OwnFunction) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("name", &f.name)?;
    d.set_item("version", f.version.to_string())?;
    d.set_item("sha256", f.sha256.iter().map(|b| format!("{b:02x}")).collect::<String>())?;
    d.set_item("memory", f.memory_bytes)?;
    d.set_item("deadline", f.deadline.as_secs_f64())?;
    d.set_item("max_args", f.max_args)?;
    d.set_item("max_result", f.max_result)?;
    Ok(d)
}
