//! Logins by program. The module knows one application, this service: what one program of the
//! client logs in is logged in for all. Each program has to log in all the same, with the PIN, and
//! may log out without taking the login from the others. Stands between the connections and the
//! module, as functions of the module's own types.
//!
//! The module is called without a lock: it may take its time, with a PIN pad for example. So what the
//! module said may not be noted here yet when another program's call is answered; such a call is made
//! again (`Slot::moving`).
#![allow(unsafe_code)]

mod state;

use crate::generated::{Native, OK};
use state::{Logins, Said};
use std::ffi::c_void;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{ThreadId, current};

const CKR_FUNCTION_FAILED: u64 = 6;
const CKR_USER_NOT_LOGGED_IN: u64 = 0x101;
/// A login for one operation, which is the session's own.
const CKU_CONTEXT_SPECIFIC: u64 = 2;

/// A program: each connection has a thread of its own.
type Program = ThreadId;
type Notify = Option<unsafe extern "C" fn(u64, u64, *mut c_void) -> u64>;

static LOGINS: Mutex<Logins> = Mutex::new(Logins::new());
/// What a call to the module came to was noted.
static NOTED: Condvar = Condvar::new();

fn logins() -> MutexGuard<'static, Logins> {
    LOGINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The module's functions, with logins by program. The module has just been begun.
pub fn by_program(module: Native) -> Native {
    logins().begin(module);
    Native {
        C_InitToken: Some(init_token),
        C_InitPIN: Some(init_pin),
        C_OpenSession: Some(open),
        C_CloseSession: Some(close),
        C_Login: Some(login),
        C_Logout: Some(logout),
        C_SetPIN: Some(set_pin),
        ..module
    }
}

/// A function of the module, which is called without a lock.
fn of_module<F>(pick: impl FnOnce(&Native) -> Option<F>) -> Option<F> {
    logins().module.as_ref().and_then(pick)
}

unsafe extern "C" fn open(
    slot: u64,
    flags: u64,
    application: *mut c_void,
    notify: Notify,
    session: *mut u64,
) -> u64 {
    let Some(open) = of_module(|m| m.C_OpenSession) else { return CKR_FUNCTION_FAILED };
    // SAFETY: the caller's arguments, passed on.
    let returned = unsafe { open(slot, flags, application, notify, session) };
    if returned == OK {
        // SAFETY: the module has just written there.
        logins().opened(unsafe { *session }, slot, current().id());
    }
    returned
}

unsafe extern "C" fn close(session: u64) -> u64 {
    let Some(close) = of_module(|m| m.C_CloseSession) else { return CKR_FUNCTION_FAILED };
    // A program's login ends with the last of its sessions.
    let slot = logins().closes(session);
    if let Some(slot) = slot {
        // SAFETY: the session is the caller's.
        unsafe { log_out_of_module(slot, session) };
    }
    // SAFETY: the same.
    unsafe { close(session) }
}

/// Takes the last login of a slot from the module; [`Logins`] has it no more.
///
/// # Safety
/// The session is the caller's.
unsafe fn log_out_of_module(slot: u64, session: u64) -> u64 {
    // SAFETY: by this function's own condition.
    let returned =
        of_module(|m| m.C_Logout).map_or(CKR_FUNCTION_FAILED, |logout| unsafe { logout(session) });
    logins().moved(slot);
    NOTED.notify_all();
    returned
}

unsafe extern "C" fn login(session: u64, user: u64, pin: *mut u8, pin_len: u64) -> u64 {
    let Some(login) = of_module(|m| m.C_Login) else { return CKR_FUNCTION_FAILED };
    let of = logins().of(session).filter(|_| user != CKU_CONTEXT_SPECIFIC);
    let Some((slot, program)) = of else {
        // SAFETY: the caller's arguments, passed on.
        return unsafe { login(session, user, pin, pin_len) };
    };
    loop {
        if let Err(locked) = logins().moves(slot, user) {
            return locked;
        }
        // SAFETY: as above.
        let returned = unsafe { login(session, user, pin, pin_len) };
        let mut all = logins();
        // SAFETY: so many bytes are the caller's.
        let said = all.logged_in((slot, program), user, unsafe { bytes(pin, pin_len) }, returned);
        all.moved(slot);
        NOTED.notify_all();
        match said {
            Said::Status(status) => return status,
            Said::NotYet => {
                let others = |all: &mut Logins| all.is_moving(slot);
                drop(NOTED.wait_while(all, others).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}

unsafe extern "C" fn logout(session: u64) -> u64 {
    let Some(logout) = of_module(|m| m.C_Logout) else { return CKR_FUNCTION_FAILED };
    let mut all = logins();
    let left = all.of(session).and_then(|(slot, program)| Some((slot, all.leave(slot, program)?)));
    drop(all);
    match left {
        // SAFETY: the session is the caller's. Nobody is logged in, as far as is known here.
        None => unsafe { logout(session) },
        Some((_, None)) => CKR_USER_NOT_LOGGED_IN,
        Some((_, Some(false))) => OK,
        // SAFETY: as above.
        Some((slot, Some(true))) => unsafe { log_out_of_module(slot, session) },
    }
}

unsafe extern "C" fn set_pin(session: u64, old: *mut u8, m: u64, new: *mut u8, n: u64) -> u64 {
    let Some(set) = of_module(|m| m.C_SetPIN) else { return CKR_FUNCTION_FAILED };
    // SAFETY: the caller's arguments, passed on.
    let returned = unsafe { set(session, old, m, new, n) };
    if returned == OK {
        // SAFETY: so many bytes are the caller's.
        logins().new_pin(session, unsafe { bytes(new, n) });
    }
    returned
}

/// The security officer gives the user a PIN: wrong ones count anew, as in the token.
unsafe extern "C" fn init_pin(session: u64, pin: *mut u8, n: u64) -> u64 {
    let Some(init) = of_module(|m| m.C_InitPIN) else { return CKR_FUNCTION_FAILED };
    // SAFETY: the caller's arguments, passed on.
    let returned = unsafe { init(session, pin, n) };
    if returned == OK {
        logins().user_unlocked(session);
    }
    returned
}

/// The token is another one: nobody has tried a PIN of it.
unsafe extern "C" fn init_token(slot: u64, pin: *mut u8, n: u64, label: *mut u8) -> u64 {
    let Some(init) = of_module(|m| m.C_InitToken) else { return CKR_FUNCTION_FAILED };
    // SAFETY: the caller's arguments, passed on.
    let returned = unsafe { init(slot, pin, n, label) };
    if returned == OK {
        logins().new_token(slot);
    }
    returned
}

/// # Safety
/// It is null, or so many bytes are there.
unsafe fn bytes<'a>(from: *mut u8, n: u64) -> &'a [u8] {
    match from.is_null() {
        true => &[],
        // SAFETY: by this function's own condition.
        false => unsafe { std::slice::from_raw_parts(from, n as usize) },
    }
}

#[cfg(test)]
mod tests;
