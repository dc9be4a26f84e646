//! Modules of one's own in C.

use super::edge::{Edge, Failure, Wrong, bytes, edge, given, put, text};
use super::session::vfun_session;
use super::status::vfun_status;
use super::types::{VFUN_NAME_ROOM, check_size, room};
use crate::submit::{OwnFunction, Submission};
use std::ffi::{c_char, c_void};
use std::time::Duration;

/// Why a host did not take a module: vfun_last_code after
/// VFUN_STATUS_NOT_ACCEPTED.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum vfun_submit_code {
    /// The request makes no sense.
    Malformed = 1,
    /// The module is not one that is served; the sentence has the compiler's words.
    BadModule = 2,
    /// Policy does not let this client or app submit.
    Denied = 3,
    /// The client has as many modules, or bytes of them, as it may.
    OverQuota = 4,
    /// The module, its memory or its deadline is beyond a limit.
    BeyondLimit = 5,
    /// Too many submissions within a minute.
    TooFast = 6,
    /// Another module has this name.
    NameTaken = 7,
    /// Nothing of this name was submitted.
    Unknown = 8,
    /// The host could not keep it.
    HostTrouble = 9,
}

/// A WebAssembly module to be submitted. Set all to zero, then size to
/// sizeof(struct vfun_module), module and module_len, then what is to differ.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_module {
    /// sizeof(struct vfun_module), for later versions.
    pub size: usize,
    /// The bytes of a .wasm file.
    pub module: *const c_void,
    /// Bytes of module, at most 8 MiB.
    pub module_len: usize,
    /// Its name; null for the one in the module. The function is my.NAME.
    pub name: *const c_char,
    /// What its arguments and results are, such as "(n: u64) -> u64"; null for none.
    pub signature: *const c_char,
    /// Most memory of each channel's instance, bytes; 0 for the usual.
    pub memory_bytes: u64,
    /// How long a call may take, ms; 0 for the usual.
    pub deadline_ms: u32,
    /// Not 0: takes the place of another module of this name.
    pub replace: u32,
}

/// A function that this client submitted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_own_function {
    /// Its name, such as my.double.
    pub name: [c_char; VFUN_NAME_ROOM],
    /// SHA-256 of its module.
    pub sha256: [u8; 32],
    /// major << 16 | minor.
    pub version: u32,
    /// Bytes of its module.
    pub module_bytes: u32,
    /// Most bytes of arguments that the function takes.
    pub max_args: u32,
    /// Most bytes of results that the function gives.
    pub max_result: u32,
    /// Most memory of each channel's instance, bytes.
    pub memory_bytes: u64,
    /// Fingerprint of its signature; 0 if it has none.
    pub signature: u64,
    /// Deadline of its calls, ms.
    pub deadline_ms: u64,
}

impl From<&OwnFunction> for vfun_own_function {
    fn from(f: &OwnFunction) -> Self {
        vfun_own_function {
            name: room(&f.name),
            sha256: f.sha256,
            version: f.version.0,
            module_bytes: f.module_bytes,
            max_args: f.max_args,
            max_result: f.max_result,
            memory_bytes: f.memory_bytes,
            signature: f.signature,
            deadline_ms: u64::try_from(f.deadline.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

const WRONG_MODULE: Wrong = Wrong {
    null: "module->module is null but module_len is not 0",
    long: "module->module_len is beyond 8 MiB",
};

/// # Safety
/// As vfun_submit_module's.
unsafe fn submission<'a>(m: *const vfun_module) -> Edge<Submission<'a>> {
    // SAFETY: the caller's promise.
    unsafe {
        let m = given(m, "module is null")?;
        check_size::<vfun_module>(m.size, "module->size is not set: sizeof(struct vfun_module)")?;
        let of = bytes(m.module, m.module_len, WRONG_MODULE)?;
        let mut s = Submission::new(of).memory(m.memory_bytes).replace(m.replace != 0);
        if let Some(name) = text(m.name, "module->name is not UTF-8")? {
            s = s.name(name);
        }
        if let Some(signature) = text(m.signature, "module->signature is not UTF-8")? {
            s = s.signature(signature);
        }
        if m.deadline_ms != 0 {
            s = s.deadline(Duration::from_millis(m.deadline_ms.into()));
        }
        Ok(s)
    }
}

/// Brings a WebAssembly module to the host, which checks and compiles it and
/// offers it to this client alone until it is removed: *function says what as
/// (it may be null). After VFUN_STATUS_NOT_ACCEPTED vfun_last_code has a
/// vfun_submit_code, vfun_last_error the compiler's or the host's sentence.
///
/// # Safety
/// session is open; module is valid, and what it points at; function is null
/// or points to room for a struct vfun_own_function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_submit_module(
    session: *const vfun_session,
    module: *const vfun_module,
    function: *mut vfun_own_function,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let s = given(session, "session is null")?;
            let done = s.session.submit_module(&submission(module)?)?;
            if !function.is_null() {
                put(function, (&done.function).into(), "function is null")?;
            }
            Ok(())
        }
    })
}

/// The functions that this client submitted: the first room of them into
/// functions, and how many there are in all into *count. functions may be null
/// if room is 0.
///
/// # Safety
/// session is open; functions points to room structs; count points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_submitted_modules(
    session: *const vfun_session,
    functions: *mut vfun_own_function,
    room: usize,
    count: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let all = given(session, "session is null")?.session.submitted_modules()?;
            if room > 0 && functions.is_null() {
                return Err(Failure::Argument("functions is null but has room"));
            }
            for (i, f) in all.iter().take(room).enumerate() {
                put(functions.add(i), f.into(), "functions is null")?;
            }
            put(count, all.len(), "count is null")
        }
    })
}

/// Offers a function no more that this client submitted; grants of it keep it
/// until they are released.
///
/// # Safety
/// session is open; name is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_withdraw_module(
    session: *const vfun_session,
    name: *const c_char,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let s = given(session, "session is null")?;
            let name = text(name, "name is not UTF-8")?.ok_or(Failure::Argument("name is null"))?;
            s.session.withdraw_module(name)?;
            Ok(())
        }
    })
}
