//! Where C and Rust meet: pointers in, statuses out, no panic across.

use super::status::vfun_status;
use crate::error::Error;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why an edge function failed.
pub(super) enum Failure {
    /// The library's own error.
    Error(Error),
    /// What C handed over is not usable.
    Argument(&'static str),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::Error(e)
    }
}

pub(super) type Edge<T> = Result<T, Failure>;

struct LastError {
    sentence: CString,
    advice: CString,
    code: i32,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::new(LastError {
        sentence: CString::default(),
        advice: CString::default(),
        code: 0,
    });
}

fn remember(sentence: String, advice: String, code: i32) {
    // A sentence may quote bytes of the host's; C's end at the first zero.
    let c = |s: String| CString::new(s.replace('\0', "?")).unwrap_or_default();
    LAST.with_borrow_mut(|last| {
        *last = LastError { sentence: c(sentence), advice: c(advice), code }
    });
}

/// Runs an edge function's body.
pub(super) fn edge(body: impl FnOnce() -> Edge<()>) -> vfun_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => vfun_status::Ok,
        Ok(Err(Failure::Argument(what))) => {
            remember(what.into(), "Correct the argument.".into(), 0);
            vfun_status::BadArgument
        }
        Ok(Err(Failure::Error(e))) => {
            let code = match &e {
                Error::Driver { code, .. } => *code,
                Error::NotAccepted { code, .. } => code.number().cast_signed(),
                Error::Refused(nack) => nack.code.to_wire().cast_signed(),
                _ => 0,
            };
            remember(e.to_string(), e.advice(), code);
            (&e).into()
        }
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().map(|s| s.to_string());
            let words =
                words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            remember(format!("a defect in libvfun: {words}"), "Report it.".into(), 0);
            vfun_status::Panic
        }
    }
}

/// What `pointer` points at, if anything.
///
/// # Safety
/// `pointer` is null or points to a valid `T` that nobody writes meanwhile.
pub(super) unsafe fn given<'a, T>(pointer: *const T, what: &'static str) -> Edge<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(Failure::Argument(what))
}

/// A handle that C hands over for good.
///
/// # Safety
/// `pointer` is null or came from `Box::into_raw` and is not used again.
pub(super) unsafe fn taken<T>(pointer: *mut T, what: &'static str) -> Edge<Box<T>> {
    if pointer.is_null() {
        return Err(Failure::Argument(what));
    }
    // SAFETY: not null, and the caller's promise.
    Ok(unsafe { Box::from_raw(pointer) })
}

/// Stores a value where C wants it.
///
/// # Safety
/// `to` is null or points to room for a `T`.
pub(super) unsafe fn put<T>(to: *mut T, value: T, what: &'static str) -> Edge<()> {
    if to.is_null() {
        return Err(Failure::Argument(what));
    }
    // SAFETY: not null, and the caller's promise; what was there is not dropped.
    unsafe { to.write(value) };
    Ok(())
}

/// What is wrong with a pointer that comes with a length.
pub(super) struct Wrong {
    /// It is null and the length is not 0.
    pub null: &'static str,
    /// No object has as many bytes.
    pub long: &'static str,
}

/// Bytes that C lends for this call; no bytes may be null.
///
/// # Safety
/// `pointer` is null or points to `len` readable bytes that nobody writes meanwhile.
pub(super) unsafe fn bytes<'a>(pointer: *const c_void, len: usize, what: Wrong) -> Edge<&'a [u8]> {
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&[]),
        (_, len) if len > isize::MAX as usize => Err(Failure::Argument(what.long)),
        (true, _) => Err(Failure::Argument(what.null)),
        // SAFETY: not null, not longer than any object, and the caller's promise.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), len) }),
    }
}

/// Room that C lends for this call.
///
/// # Safety
/// `pointer` is null or points to `len` bytes that are this call's alone.
pub(super) unsafe fn room<'a>(pointer: *mut c_void, len: usize, what: Wrong) -> Edge<&'a mut [u8]> {
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (_, len) if len > isize::MAX as usize => Err(Failure::Argument(what.long)),
        (true, _) => Err(Failure::Argument(what.null)),
        // SAFETY: not null, not longer than any object, and the caller's promise.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), len) }),
    }
}

/// The arguments of a call, as [`bytes`].
///
/// # Safety
/// As [`bytes`].
pub(super) unsafe fn args<'a>(pointer: *const c_void, len: usize) -> Edge<&'a [u8]> {
    let what = Wrong {
        null: "args is null but args_len is not 0",
        long: "args_len is more than any object has (PTRDIFF_MAX)",
    };
    // SAFETY: the caller's promise.
    unsafe { bytes(pointer, len, what) }
}

/// Room for the results of a call, as [`room`].
///
/// # Safety
/// As [`room`].
pub(super) unsafe fn results<'a>(pointer: *mut c_void, len: usize) -> Edge<&'a mut [u8]> {
    let what = Wrong {
        null: "results is null but room is not 0",
        long: "room is more than any object has (PTRDIFF_MAX)",
    };
    // SAFETY: the caller's promise.
    unsafe { room(pointer, len, what) }
}

/// A text that C lends; `None` for null.
///
/// # Safety
/// `pointer` is null or a string that ends in a zero.
pub(super) unsafe fn text<'a>(pointer: *const c_char, what: &'static str) -> Edge<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| Failure::Argument(what))
}

/// What went wrong last in this thread, in a sentence; empty if nothing did.
/// Valid until this thread's next call of the library. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn vfun_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.sentence.as_ptr())
}

/// What to do about it, in a sentence. As vfun_last_error.
#[unsafe(no_mangle)]
pub extern "C" fn vfun_last_advice() -> *const c_char {
    LAST.with_borrow(|last| last.advice.as_ptr())
}

/// The function's code after VFUN_STATUS_DRIVER (positive: its own; negative: a
/// VFUN_DRIVER_... of vfun_driver.h), the manager's after VFUN_STATUS_REFUSED, a
/// vfun_submit_code after VFUN_STATUS_NOT_ACCEPTED; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn vfun_last_code() -> i32 {
    LAST.with_borrow(|last| last.code)
}

/// The library's version, such as "0.1.0". Never null.
#[unsafe(no_mangle)]
pub extern "C" fn vfun_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
