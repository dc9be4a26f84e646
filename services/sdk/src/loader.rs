//! Loads drivers into this process.
//!
//! ```no_run
//! use vfun_sdk::{Config, loader::Library};
//! let library = Library::open("/usr/lib/virtfun/libvfun_fn_factorial.so".as_ref())?;
//! let mut instance = library.init(&Config::default())?;
//! let mut result = [0; 48];
//! let args = [5u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
//! let n = instance.call(&args, &mut result)?;
//! assert_eq!(&result[..n], 120u64.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A driver is native code: whoever opens it trusts it with this process.
//! Services are processes of their own, in a sandbox, for that reason.
#![allow(unsafe_code)]

mod error;
mod instance;
mod own;
mod place;

pub use error::LoadError;
pub use instance::Instance;
pub use place::{ArgsAt, OutAt};

use crate::abi::{self, DriverInfo, ExitFn, FunctionFn, InitFn};
use crate::{Config, DriverError, OpenCalls};
use std::path::Path;
use std::sync::Arc;

/// What a loaded driver says of itself, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub name: String,
    /// The function's version, major and minor.
    pub version: (u16, u16),
    /// Longest arguments that the driver takes, bytes.
    pub max_args: u32,
    /// Longest results that the driver gives, bytes.
    pub max_result: u32,
    /// Version of the driver interface that it was built for.
    pub abi: u32,
}

struct Loaded {
    info: Info,
    init: InitFn,
    function: FunctionFn,
    exit: ExitFn,
}

/// A loaded driver; clones share it. It stays loaded until the process ends:
/// a library whose threads or thread-local values live on must not be unmapped.
#[derive(Clone)]
pub struct Library(Arc<Loaded>);

impl Library {
    /// Loads the driver at `path` and checks that it is one.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let shown = || path.display().to_string();
        match std::fs::metadata(path) {
            Ok(m) if m.is_file() => {}
            Ok(_) => return Err(LoadError::NotAFile { path: shown() }),
            Err(e) => return Err(LoadError::Missing { path: shown(), why: e.to_string() }),
        }
        // dlopen searches the system for a name without a slash; only `path` is meant.
        let full = std::path::absolute(path)
            .map_err(|e| LoadError::Missing { path: shown(), why: e.to_string() })?;
        use libloading::os::unix::{Library as Dl, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: runs the library's initializers. The caller trusts the
        // driver with this process; see the module's words.
        let dl = unsafe { Dl::open(Some(&full), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|e| LoadError::NotALibrary { path: shown(), why: error::words(&e) })?;
        let found = Self::symbols(&dl, &shown());
        if found.is_ok() {
            std::mem::forget(dl);
        }
        found
    }

    fn symbols(dl: &libloading::os::unix::Library, path: &str) -> Result<Self, LoadError> {
        let missing = |symbol| LoadError::MissingSymbol { path: path.to_owned(), symbol };
        // SAFETY: an address is all that is taken here; the next step reads it.
        let info = unsafe { dl.get::<*const DriverInfo>("vfun_driver_info") }
            .map_err(|_| missing("vfun_driver_info"))?;
        let info: *const DriverInfo = info.as_raw_ptr().cast();
        // SAFETY: every version of the interface starts with its number.
        let version = unsafe { info.cast::<u32>().read_unaligned() };
        if !abi::ABIS.contains(&version) {
            return Err(LoadError::WrongAbi { path: path.to_owned(), found: version });
        }
        // SAFETY: in all these versions the struct is the same.
        let info = unsafe { info.read_unaligned() };
        let bad = |what| LoadError::BadInfo { path: path.to_owned(), what };
        if info.flags != 0 || info.reserved != [0; 3] {
            return Err(bad("a flag or reserved field that must be 0 is not"));
        }
        let end = info.name.iter().position(|&b| b == 0).ok_or(bad("the name has no end"))?;
        let name =
            std::str::from_utf8(&info.name[..end]).map_err(|_| bad("the name is not UTF-8"))?;
        if name.is_empty() {
            return Err(bad("the name is empty"));
        }
        // SAFETY: these symbols of a driver of this version have these types.
        unsafe {
            let init =
                *dl.get::<InitFn>("vfun_driver_init").map_err(|_| missing("vfun_driver_init"))?;
            let function = *dl
                .get::<FunctionFn>("vfun_driver_function")
                .map_err(|_| missing("vfun_driver_function"))?;
            let exit =
                *dl.get::<ExitFn>("vfun_driver_exit").map_err(|_| missing("vfun_driver_exit"))?;
            let info = Info {
                name: name.to_owned(),
                version: (info.version_major, info.version_minor),
                max_args: info.max_args,
                max_result: info.max_result,
                abi: version,
            };
            Ok(Library(Arc::new(Loaded { info, init, function, exit })))
        }
    }

    /// What the driver says of itself.
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// Checks that this is the driver that a manifest means.
    pub fn expect(&self, name: &str, version: (u16, u16)) -> Result<(), LoadError> {
        let info = self.info();
        if info.name != name {
            return Err(LoadError::WrongName { wanted: name.to_owned(), found: info.name.clone() });
        }
        if info.version != version {
            return Err(LoadError::WrongVersion {
                name: name.to_owned(),
                wanted: version,
                found: info.version,
            });
        }
        Ok(())
    }

    /// A fresh state, as for a new channel. Use it on the thread that made it
    /// if the driver needs that; see the header.
    pub fn init(&self, config: &Config) -> Result<Instance, DriverError> {
        Instance::new(self.0.clone(), config, std::ptr::null())
    }

    /// The same for one that may answer calls later; `calls` outlives it.
    #[cfg_attr(not(feature = "service"), allow(dead_code))]
    pub(crate) fn init_later(
        &self,
        config: &Config,
        calls: &OpenCalls,
    ) -> Result<Instance, DriverError> {
        Instance::new(self.0.clone(), config, calls.service())
    }
}
