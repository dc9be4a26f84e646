//! Sessions in C.

use super::edge::{Edge, Failure, bytes, edge, given, put, room, taken, text};
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
            bytes(o.credential, o.credential_len, "options->credential is null but has a length")?,
        )
    };
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
            if !len.is_null() {
                put(len, text.len(), "len is null")?;
            }
            let to = self::room(line.cast::<c_void>(), room, "line is null")?;
            if let Some(last) = to.len().checked_sub(1) {
                let n = text.len().min(last);
                to[..n].copy_from_slice(&text.as_bytes()[..n]);
                to[n] = 0;
            }
            Ok(())
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

/// Ends a session and gives back everything it was granted. The handle is
/// gone, whatever the status; functions opened from it must still be released.
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
