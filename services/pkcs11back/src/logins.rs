//! Logins by program. The module knows one application, this service: what one program of the
//! client logs in is logged in for all. Each program has to log in all the same, with the PIN, and
//! may log out without taking the login from the others. Stands between the connections and the
//! module, as functions of the module's own types.
#![allow(unsafe_code)]

use crate::generated::{Native, OK};
use std::collections::{BTreeMap, HashSet};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{ThreadId, current};
use vfun_remoting::Wiped;

const CKR_FUNCTION_FAILED: u64 = 6;
const CKR_PIN_INCORRECT: u64 = 0xa0;
const CKR_PIN_LOCKED: u64 = 0xa4;
const CKR_USER_ALREADY_LOGGED_IN: u64 = 0x100;
const CKR_USER_NOT_LOGGED_IN: u64 = 0x101;
/// Wrong PINs while another program is logged in; then no other program logs in until all are out.
const WRONG_MAX: u32 = 10;
/// A login for one operation, which is the session's own.
const CKU_CONTEXT_SPECIFIC: u64 = 2;

/// A program: each connection has a thread of its own.
type Program = ThreadId;
type Notify = Option<unsafe extern "C" fn(u64, u64, *mut c_void) -> u64>;

/// A token's login.
struct Login {
    user: u64,
    pin: Wiped,
    by: HashSet<Program>,
    /// Wrong PINs that were tried here, which the module does not count.
    wrong: u32,
}

#[derive(Default)]
struct Logins {
    module: Option<Native>,
    /// Slot and program of each session.
    sessions: BTreeMap<u64, (u64, Program)>,
    by_slot: BTreeMap<u64, Login>,
}

static LOGINS: Mutex<Logins> =
    Mutex::new(Logins { module: None, sessions: BTreeMap::new(), by_slot: BTreeMap::new() });

fn logins() -> MutexGuard<'static, Logins> {
    LOGINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The module's functions, with logins by program. The module has just been begun.
pub fn by_program(module: Native) -> Native {
    *logins() = Logins { module: Some(module), ..Logins::default() };
    Native {
        C_OpenSession: Some(open),
        C_CloseSession: Some(close),
        C_Login: Some(login),
        C_Logout: Some(logout),
        C_SetPIN: Some(set_pin),
        ..module
    }
}

impl Logins {
    /// Whether they are the same, in a time that does not say where they differ.
    fn same(pin: &[u8], other: &[u8]) -> bool {
        let differ = pin.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
        pin.len() == other.len() && std::hint::black_box(differ) == 0
    }

    /// What a login comes to that the module answered so.
    fn logged_in(&mut self, of: (u64, Program), user: u64, pin: &[u8], returned: u64) -> u64 {
        let (slot, program) = of;
        match (returned, self.by_slot.get_mut(&slot)) {
            (OK, _) => {
                let pin = Wiped(pin.to_vec());
                self.by_slot
                    .insert(slot, Login { user, pin, by: HashSet::from([program]), wrong: 0 });
                OK
            }
            (CKR_USER_ALREADY_LOGGED_IN, Some(login))
                if login.user == user && !login.by.contains(&program) =>
            {
                if login.wrong >= WRONG_MAX {
                    return CKR_PIN_LOCKED;
                }
                if !Self::same(&login.pin, pin) {
                    login.wrong += 1;
                    return CKR_PIN_INCORRECT;
                }
                login.by.insert(program);
                OK
            }
            (other, _) => other,
        }
    }

    /// Takes a program's login away: true if it was the last one, none if it had none.
    fn leave(&mut self, slot: u64, program: Program) -> Option<bool> {
        let login = self.by_slot.get_mut(&slot)?;
        login.by.remove(&program).then_some(login.by.is_empty())
    }
}

unsafe extern "C" fn open(
    slot: u64,
    flags: u64,
    application: *mut c_void,
    notify: Notify,
    session: *mut u64,
) -> u64 {
    let mut all = logins();
    let Some(open) = all.module.and_then(|m| m.C_OpenSession) else { return CKR_FUNCTION_FAILED };
    // SAFETY: the caller's arguments, passed on.
    let returned = unsafe { open(slot, flags, application, notify, session) };
    if returned == OK {
        // SAFETY: the module has just written there.
        all.sessions.insert(unsafe { *session }, (slot, current().id()));
    }
    returned
}

unsafe extern "C" fn close(session: u64) -> u64 {
    let mut all = logins();
    let Some(module) = all.module else { return CKR_FUNCTION_FAILED };
    // A program's login ends with the last of its sessions.
    if let Some((slot, program)) = all.sessions.remove(&session)
        && !all.sessions.values().any(|of| *of == (slot, program))
        && all.leave(slot, program) == Some(true)
        && let Some(logout) = module.C_Logout
    {
        all.by_slot.remove(&slot);
        // SAFETY: the session is the caller's.
        unsafe { logout(session) };
    }
    // SAFETY: the same.
    module.C_CloseSession.map_or(CKR_FUNCTION_FAILED, |close| unsafe { close(session) })
}

unsafe extern "C" fn login(session: u64, user: u64, pin: *mut u8, pin_len: u64) -> u64 {
    let mut all = logins();
    let Some(login) = all.module.and_then(|m| m.C_Login) else { return CKR_FUNCTION_FAILED };
    // SAFETY: the caller's arguments, passed on.
    let returned = unsafe { login(session, user, pin, pin_len) };
    let of = all.sessions.get(&session).copied();
    let Some(of) = of.filter(|_| user != CKU_CONTEXT_SPECIFIC) else {
        return returned;
    };
    // SAFETY: so many bytes are the caller's.
    all.logged_in(of, user, unsafe { bytes(pin, pin_len) }, returned)
}

unsafe extern "C" fn set_pin(session: u64, old: *mut u8, m: u64, new: *mut u8, n: u64) -> u64 {
    let mut all = logins();
    let Some(set) = all.module.and_then(|m| m.C_SetPIN) else { return CKR_FUNCTION_FAILED };
    // SAFETY: the caller's arguments, passed on.
    let returned = unsafe { set(session, old, m, new, n) };
    let slot = all.sessions.get(&session).map(|(slot, _)| *slot);
    if let Some(login) = slot.filter(|_| returned == OK).and_then(|s| all.by_slot.get_mut(&s)) {
        // SAFETY: so many bytes are the caller's.
        login.pin = Wiped(unsafe { bytes(new, n) }.to_vec());
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

unsafe extern "C" fn logout(session: u64) -> u64 {
    let mut all = logins();
    let Some(logout) = all.module.and_then(|m| m.C_Logout) else { return CKR_FUNCTION_FAILED };
    if let Some((slot, program)) = all.sessions.get(&session).copied()
        && all.by_slot.contains_key(&slot)
    {
        match all.leave(slot, program) {
            None => return CKR_USER_NOT_LOGGED_IN,
            Some(false) => return OK,
            Some(true) => drop(all.by_slot.remove(&slot)),
        }
    }
    // SAFETY: the session is the caller's.
    unsafe { logout(session) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        std::thread::spawn(|| current().id()).join().unwrap()
    }

    #[test]
    fn each_program_logs_in_with_the_pin_and_out_for_itself() {
        let (mut all, a, b) = (Logins::default(), program(), program());
        let already = CKR_USER_ALREADY_LOGGED_IN;
        assert_eq!(all.logged_in((7, b), 1, b"1234", already), already, "whose it is is not known");
        assert_eq!(all.logged_in((7, a), 1, b"1234", OK), OK);
        assert_eq!(all.logged_in((7, a), 1, b"1234", already), already);
        for wrong in [&b"12345"[..], b"123", b"1235", b""] {
            assert_eq!(all.logged_in((7, b), 1, wrong, already), CKR_PIN_INCORRECT);
        }
        assert_eq!(all.logged_in((7, b), 0, b"1234", already), already, "another user");
        assert_eq!(all.leave(7, b), None);
        assert_eq!(all.logged_in((7, b), 1, b"1234", already), OK);
        assert_eq!((all.leave(7, a), all.leave(7, a), all.leave(8, a)), (Some(false), None, None));
        assert_eq!(all.leave(7, b), Some(true));
        assert_eq!(all.logged_in((7, a), 1, b"1234", OK), OK);
        for _ in 0..WRONG_MAX {
            assert_eq!(all.logged_in((7, b), 1, b"0000", already), CKR_PIN_INCORRECT);
        }
        assert_eq!(all.logged_in((7, b), 1, b"1234", already), CKR_PIN_LOCKED);
    }
}
