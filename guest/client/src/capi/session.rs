//! Sessions in C.

use super::edge::{Edge, Failure, Wrong, bytes, edge, given, put, room, taken, text};
use super::status::vfun_status;
use super::types::*;
use crate::connect::ConnectOptions;
use crate::session::Session;
use crate::wait::WaitPolicy;
use std::ffi::{c_char, c_void};

/// An open session. Any number of threads may use it at once.
pub struct vfun_session {
    pub(super) session: Session,
}

const WRONG_CREDENTIAL: Wrong = Wrong {
    null: "options->credential is null but credential_len is not 0",
    long: "options->credential_len is beyond 64",
};

/// # Safety
/// As vfun_connect's.
unsafe fn options(o: *const vfun_connect_options) -> Edge<ConnectOptions> {
    // SAFETY: the caller's promise for the pointer itself.
    let Ok(o) = (unsafe { given(o, "options") }) else { return Ok(ConnectOptions::new("app")) };
    check_size::<vfun_connect_options>(
        o.size,
        "options->size is not set: sizeof(struct vfun_connect_options)",
    )?;
    // SAFETY: the caller's promise for each pointer in the options.
    let (app, endpoint, client, credential) = unsafe {
        (
            text(o.app, "options->app is not UTF-8")?,
            text(o.endpoint, "options->endpoint is not UTF-8")?,
            text(o.client, "options->client is not UTF-8")?,
            bytes(o.credential, o.credential_len, WRONG_CREDENTIAL)?,
        )
    };
    check_reserved(o.reserved)?;
    let mut options = ConnectOptions::new(app.unwrap_or("app")).credential(credential);
    if let Some(endpoint) = endpoint {
        options = options.endpoint(endpoint.parse()?);
    }
    if let Some(client) = client {
        options = options.client(client);
    }
    let policy = match o.wait {
        0 => WaitPolicy::hybrid(),
        1 => WaitPolicy::spin(),
        2 => WaitPolicy::sleep(),
        _ => return Err(Failure::Argument("options->wait is not a vfun_wait_policy")),
    };
    Ok(options.wait(policy))
}

/// Opens a session. options may be null: the app "app", an endpoint found by
/// itself. *session is the caller's, to be ended by vfun_close.
///
/// # Safety
/// options is null or valid; session points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_connect(
    options: *const vfun_connect_options,
    session: *mut *mut vfun_session,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(session, std::ptr::null_mut(), "session is null")?;
            let opened = self::options(options)?.connect()?;
            put(
                session,
                Box::into_raw(Box::new(vfun_session { session: opened })),
                "session is null",
            )
        }
    })
}

/// What the host said of a session.
///
/// # Safety
/// session is open; info points to room for a struct vfun_session_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_info(
    session: *const vfun_session,
    info: *mut vfun_session_info,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let s = given(session, "session is null")?;
            put(info, s.session.info().into(), "info is null")
        }
    })
}

/// A text where C wants it, cut and ended by a zero.
///
/// # Safety
/// `to` points to `room` bytes; `len` is null or points to a size_t.
unsafe fn line(
    text: &str,
    to: *mut c_char,
    room: usize,
    len: *mut usize,
    null: &'static str,
) -> Edge<()> {
    // SAFETY: the caller's promise.
    let to = unsafe {
        if !len.is_null() {
            put(len, text.len(), "len is null")?;
        }
        let long = "room is more than any object has (PTRDIFF_MAX)";
        self::room(to.cast::<c_void>(), room, Wrong { null, long })?
    };
    if let Some(last) = to.len().checked_sub(1) {
        let n = text.len().min(last);
        to[..n].copy_from_slice(&text.as_bytes()[..n]);
        to[n] = 0;
    }
    Ok(())
}

/// One line that names the path in use, ended by a zero and cut to room bytes.
/// *len is its whole length without the zero; len may be null.
///
/// # Safety
/// session is open; line points to room bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_describe(
    session: *const vfun_session,
    line: *mut c_char,
    room: usize,
    len: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let text = given(session, "session is null")?.session.describe();
            self::line(&text, line, room, len, "line is null")
        }
    })
}

/// The functions on offer: the first room of them into offers, and how many
/// there are in all into *count. offers may be null if room is 0.
///
/// # Safety
/// session is open; offers points to room structs; count points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_list(
    session: *const vfun_session,
    offers: *mut vfun_offer,
    room: usize,
    count: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let all = given(session, "session is null")?.session.list()?;
            if room > 0 && offers.is_null() {
                return Err(Failure::Argument("offers is null but has room"));
            }
            for (i, offer) in all.iter().take(room).enumerate() {
                put(offers.add(i), offer.into(), "offers is null")?;
            }
            put(count, all.len(), "count is null")
        }
    })
}

/// What a function takes and gives: *description, and its signature's text
/// into text, ended by a zero and cut to room bytes (2049 are always enough).
/// *len is its whole length without the zero, 0 if it has none; text may be
/// null if room is 0, and len may be null.
///
/// # Safety
/// session is open; name is a string; description points to room for a struct
/// vfun_description; text points to room bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_describe_function(
    session: *const vfun_session,
    name: *const c_char,
    description: *mut vfun_description,
    text: *mut c_char,
    room: usize,
    len: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let s = given(session, "session is null")?;
            let name = super::edge::text(name, "name is not UTF-8")?
                .ok_or(Failure::Argument("name is null"))?;
            let d = s.session.describe_function(name)?;
            let words = d.signature.as_ref().map_or(String::new(), |s| s.to_string());
            put(description, (&d).into(), "description is null")?;
            line(&words, text, room, len, "text is null but has room")
        }
    })
}

/// What a function's own error codes mean, from the lowest code up: the first room of
/// them into codes, and how many there are in all into *count. codes may be null if room
/// is 0. A function without such codes has none, which is no error; one that is not
/// offered gives VFUN_STATUS_REFUSED.
///
/// # Safety
/// session is open; name is a string; codes points to room structs; count points to a
/// size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_function_codes(
    session: *const vfun_session,
    name: *const c_char,
    codes: *mut vfun_code,
    room: usize,
    count: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let s = given(session, "session is null")?;
            let name = super::edge::text(name, "name is not UTF-8")?
                .ok_or(Failure::Argument("name is null"))?;
            let all = s.session.function_codes(name)?;
            if room > 0 && codes.is_null() {
                return Err(Failure::Argument("codes is null but has room"));
            }
            for (i, code) in all.iter().take(room).enumerate() {
                put(codes.add(i), code.into(), "codes is null")?;
            }
            put(count, all.len(), "count is null")
        }
    })
}

/// Ends a session and gives back everything it was granted. The handle is
/// gone, whatever the status; functions opened from it must still be released,
/// which then only frees their handles.
///
/// # Safety
/// session came from vfun_connect and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_close(session: *mut vfun_session) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { taken(session, "session is null")? };
        Ok(session.session.close()?)
    })
}
