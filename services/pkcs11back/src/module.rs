//! The host's module: loaded once, begun for the first connection and ended after the last.
#![allow(unsafe_code)]

use crate::generated::{CK_C_INITIALIZE_ARGS, Native, OK};
use crate::logins;
use libloading::{Library, Symbol};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_sdk::DriverError;

/// The setting's value where the manifest has none: SoftHSM 2 of Debian.
pub const DEFAULT: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// Code of the error if the module cannot be loaded or begun.
const NO_MODULE: i32 = 3;
/// Several threads call the module: it is told to lock by itself.
const CKF_OS_LOCKING_OK: u64 = 2;
const CKR_CRYPTOKI_ALREADY_INITIALIZED: u64 = 0x191;

type GetFunctionList = unsafe extern "C" fn(*mut *mut Native) -> u64;

struct Module {
    native: Native,
    /// The same with logins by program.
    shared: Native,
    users: usize,
    /// Never unloaded: threads of its own may run in it.
    _library: Library,
}

static MODULE: Mutex<Option<Module>> = Mutex::new(None);

fn module() -> MutexGuard<'static, Option<Module>> {
    MODULE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The module is begun as long as one of these lives.
pub struct Begun(());

fn error(words: String) -> DriverError {
    DriverError::new(NO_MODULE, words)
}

/// The module's functions; it is begun when this is the first connection.
pub fn begin(path: &str) -> Result<(Native, Begun), DriverError> {
    let mut module = module();
    let loaded = match &mut *module {
        Some(loaded) => loaded,
        none => none.insert(load(path)?),
    };
    if loaded.users == 0 {
        initialize(&loaded.native, path)?;
        loaded.shared = logins::by_program(loaded.native);
    }
    loaded.users += 1;
    Ok((loaded.shared, Begun(())))
}

fn load(path: &str) -> Result<Module, DriverError> {
    // SAFETY: what the operator names is trusted with this service.
    let library = unsafe { Library::new(path) }.map_err(|e| {
        let why = std::error::Error::source(&e).map_or(e.to_string(), ToString::to_string);
        error(format!("the PKCS#11 module cannot be loaded: {why}"))
    })?;
    let none = |why: &str| error(format!("{path} is no PKCS#11 module: {why}"));
    let mut list = std::ptr::null_mut();
    // SAFETY: the symbol has this type in each PKCS#11 module; the place is ours.
    let returned = unsafe {
        let get: Symbol<'_, GetFunctionList> =
            library.get(b"C_GetFunctionList\0").map_err(|e| none(&e.to_string()))?;
        get(&mut list)
    };
    // SAFETY: a module's list is good as long as the module is loaded.
    let native = unsafe { list.as_ref() }.filter(|_| returned == OK);
    let native = *native.ok_or_else(|| none("it gives out no list of functions"))?;
    Ok(Module { native, shared: native, users: 0, _library: library })
}

fn initialize(native: &Native, path: &str) -> Result<(), DriverError> {
    let mut args = CK_C_INITIALIZE_ARGS {
        CreateMutex: None,
        DestroyMutex: None,
        LockMutex: None,
        UnlockMutex: None,
        flags: CKF_OS_LOCKING_OK,
        pReserved: std::ptr::null_mut(),
    };
    let initialize =
        native.C_Initialize.ok_or_else(|| error(format!("{path} has no C_Initialize")))?;
    // SAFETY: the arguments are ours, and good during the call.
    match unsafe { initialize((&raw mut args).cast()) } {
        OK | CKR_CRYPTOKI_ALREADY_INITIALIZED => Ok(()),
        status => Err(error(format!("C_Initialize of {path} says {status:#x}"))),
    }
}

impl Begun {
    /// Another one, for who uses the module beside a connection.
    pub fn again(&self) -> Begun {
        if let Some(module) = &mut *module() {
            module.users += 1;
        }
        Begun(())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut module = module();
        let Some(module) = &mut *module else { return };
        module.users -= 1;
        if module.users == 0
            && let Some(finalize) = module.native.C_Finalize
        {
            // SAFETY: nobody calls the module now: all who did held one of these.
            unsafe { finalize(std::ptr::null_mut()) };
        }
    }
}
