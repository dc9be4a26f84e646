//! Functions in C.

use super::edge::{self, Edge, Failure, edge, given, put, taken, text};
use super::session::vfun_session;
use super::status::vfun_status;
use super::types::*;
use crate::error::{Error, Result};
use crate::function::Function;
use crate::request::FunctionRequest;
use std::ffi::{c_char, c_void};
use std::time::Duration;
use vfun_wire::message::Preference;
use vfun_wire::version::FunctionVersion;

/// An active function. Any number of threads may use it at once.
pub struct vfun_function {
    pub(super) function: Function,
}

/// # Safety
/// As vfun_open's.
unsafe fn request(name: &str, o: *const vfun_function_options) -> Edge<FunctionRequest> {
    let request = FunctionRequest::new(name);
    // SAFETY: the caller's promise.
    let Ok(o) = (unsafe { given(o, "options") }) else { return Ok(request) };
    check_size::<vfun_function_options>(
        o.size,
        "options->size is not set: sizeof(struct vfun_function_options)",
    )?;
    check_reserved(o.reserved)?;
    let preference = u8::try_from(o.preference).ok().and_then(Preference::from_wire);
    let preference =
        preference.ok_or(Failure::Argument("options->preference is not a vfun_preference"))?;
    let depth =
        u16::try_from(o.depth).map_err(|_| Failure::Argument("options->depth is beyond 1024"))?;
    let mut request = request
        .version(FunctionVersion(o.version))
        .preference(preference)
        .depth(depth)
        .signature(o.signature);
    match o.cell_bytes {
        0 => {}
        VFUN_CELL_BYTES_NONE => request = request.cell_bytes(0),
        bytes => request = request.cell_bytes(bytes),
    }
    if o.deadline_ms != 0 {
        request = request.deadline(Duration::from_millis(o.deadline_ms.into()));
    }
    Ok(request)
}

/// Negotiates a function and activates it. options may be null for the
/// defaults. *function is the caller's, to be ended by vfun_release.
///
/// # Safety
/// session is open; name is a string; options is null or valid; function
/// points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_open(
    session: *const vfun_session,
    name: *const c_char,
    options: *const vfun_function_options,
    function: *mut *mut vfun_function,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(function, std::ptr::null_mut(), "function is null")?;
            let s = given(session, "session is null")?;
            let name = text(name, "name is not UTF-8")?.ok_or(Failure::Argument("name is null"))?;
            let active = s.session.negotiate(&request(name, options)?)?.activate()?;
            put(
                function,
                Box::into_raw(Box::new(vfun_function { function: active })),
                "function is null",
            )
        }
    })
}

/// Opens a function that the program has itself as well: *function is null,
/// and the status VFUN_STATUS_OK, where the host offers this client none of
/// that name. version is major << 16 | minor, signature its text as a manifest
/// has it; those of options (which may be null) are not looked at.
///
/// # Safety
/// session is open; name and signature are strings; options is null or valid;
/// function points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_offered(
    session: *const vfun_session,
    name: *const c_char,
    version: u32,
    signature: *const c_char,
    options: *const vfun_function_options,
    function: *mut *mut vfun_function,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(function, std::ptr::null_mut(), "function is null")?;
            let s = given(session, "session is null")?;
            let name = text(name, "name is not UTF-8")?.ok_or(Failure::Argument("name is null"))?;
            let signature = text(signature, "signature is not UTF-8")?
                .ok_or(Failure::Argument("signature is null"))?;
            let wanted = request(name, options)?;
            let version = FunctionVersion(version);
            let halves = (version.major(), version.minor());
            let found = crate::offered(&s.session, name, halves, signature, |typed| {
                wanted.typed_as(&typed)
            })?;
            match found {
                None => Ok(()),
                Some(active) => put(
                    function,
                    Box::into_raw(Box::new(vfun_function { function: active })),
                    "function is null",
                ),
            }
        }
    })
}

/// The grant as the host recorded it.
///
/// # Safety
/// function is open; info points to room for a struct vfun_grant_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_granted(
    function: *const vfun_function,
    info: *mut vfun_grant_info,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let f = given(function, "function is null")?;
            put(info, f.function.info().into(), "info is null")
        }
    })
}

/// Puts a result's length where C wants it, also where the buffer was too small.
///
/// # Safety
/// `len` is null or points to a size_t.
pub(super) unsafe fn finish(done: Result<usize>, len: *mut usize) -> Edge<()> {
    let n = match &done {
        Ok(n) => *n,
        Err(Error::BufferTooSmall { len, .. }) => *len,
        Err(_) => 0,
    };
    if !len.is_null() {
        // SAFETY: not null, and the caller's promise.
        unsafe { put(len, n, "result_len is null")? };
    }
    done.map(|_| ()).map_err(Failure::Error)
}

/// Calls a function and waits for its results: at most room bytes into
/// results, their length into *result_len (which may be null). If they do not
/// fit, the status is VFUN_STATUS_BUFFER_TOO_SMALL and *result_len says what
/// would; the call was made.
///
/// # Safety
/// function is open; args points to args_len bytes, results to room bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_call(
    function: *const vfun_function,
    args: *const c_void,
    args_len: usize,
    results: *mut c_void,
    room: usize,
    result_len: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let f = given(function, "function is null")?;
            let args = edge::args(args, args_len)?;
            let results = edge::results(results, room)?;
            finish(f.function.call_into(args, results), result_len)
        }
    })
}

/// As vfun_call, but waits at most timeout_ns in all, for a free cell too
/// (VFUN_NO_LIMIT: no limit): VFUN_STATUS_TIMED_OUT after it. A call that was begun
/// goes on then, and nobody gets its results; where that matters, use vfun_submit
/// and vfun_wait_for.
///
/// # Safety
/// As vfun_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_call_for(
    function: *const vfun_function,
    timeout_ns: u64,
    args: *const c_void,
    args_len: usize,
    results: *mut c_void,
    room: usize,
    result_len: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let f = &given(function, "function is null")?.function;
            let args = edge::args(args, args_len)?;
            let results = edge::results(results, room)?;
            let done = match super::waiter::limit(timeout_ns) {
                None => f.call_into(args, results),
                Some(limit) => f.call_into_for(args, results, limit),
            };
            finish(done, result_len)
        }
    })
}

/// Clears what the function keeps between calls of this channel.
///
/// # Safety
/// function is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_rst(function: *const vfun_function) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let f = unsafe { given(function, "function is null")? };
        Ok(f.function.rst()?)
    })
}

/// What the grant did so far. Asks the manager.
///
/// # Safety
/// function is open; stats points to room for a struct vfun_stats_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_stats(
    function: *const vfun_function,
    stats: *mut vfun_stats_info,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let f = given(function, "function is null")?;
            put(stats, (&f.function.stats()?).into(), "stats is null")
        }
    })
}

/// Gives a function back; *stats (which may be null) says what it did: nothing
/// but zeros if vfun_close has given it back already, which is no error. The
/// handle is gone, whatever the status. Pending calls and borrowed cells of it
/// stay valid and must still be ended.
///
/// # Safety
/// function came from vfun_open and is not used again; stats is null or points
/// to room for a struct vfun_stats_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_release(
    function: *mut vfun_function,
    stats: *mut vfun_stats_info,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let f = taken(function, "function is null")?;
            let done = f.function.release()?;
            if !stats.is_null() {
                put(stats, (&done).into(), "stats is null")?;
            }
            Ok(())
        }
    })
}
