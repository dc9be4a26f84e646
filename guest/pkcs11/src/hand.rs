//! What a description cannot say: how a program begins and ends, and what waits.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::generated::{
    CK_C_INITIALIZE_ARGS, CK_FUNCTION_LIST, CK_VERSION, OK, REMOTE, TABLE, calls, kinds,
};
use crate::waits;
use std::ffi::c_void;
use vfun_remoting_guest::{Failure, out};

/// Statuses and a flag of the header that this file uses.
const CKR_NO_EVENT: u64 = 8;
const CKR_CRYPTOKI_ALREADY_INITIALIZED: u64 = 0x191;
const CKF_DONT_BLOCK: u64 = 1;

/// Most sessions that one call closes (`most` in the description).
const SESSIONS_MAX: usize = 1024;

/// What the table of functions says of itself.
pub const VERSION: CK_VERSION = CK_VERSION { major: 2, minor: 40 };

/// Mutexes of the program's are not needed: this library has its own.
pub unsafe fn C_Initialize(init_args: *mut c_void) -> Result<u64, Failure> {
    // SAFETY: C's rules for this function.
    if let Some(args) = unsafe { init_args.cast::<CK_C_INITIALIZE_ARGS>().as_ref() } {
        let mutexes = [
            args.CreateMutex.is_some(),
            args.DestroyMutex.is_some(),
            args.LockMutex.is_some(),
            args.UnlockMutex.is_some(),
        ];
        let both = mutexes.contains(&true) && mutexes.contains(&false);
        if both || !args.pReserved.is_null() {
            return Err(Failure::Argument);
        }
    }
    Ok(if REMOTE.begin()? { OK } else { CKR_CRYPTOKI_ALREADY_INITIALIZED })
}

pub unsafe fn C_Finalize(reserved: *mut c_void) -> Result<u64, Failure> {
    if !reserved.is_null() {
        // Whether it was begun at all is what the program hears first.
        return Err(match REMOTE.begun() {
            Err(Failure::Closed) => Failure::Closed,
            _ => Failure::Argument,
        });
    }
    let ended = REMOTE.end();
    waits::wake();
    ended.map(|()| OK)
}

pub unsafe fn C_GetFunctionList(list: *mut *mut CK_FUNCTION_LIST) -> Result<u64, Failure> {
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(list) }?;
    place.write(std::ptr::from_ref(&TABLE).cast_mut());
    Ok(OK)
}

/// Asks the host for an event. If there is none the host tells of it later, and the thread sleeps until
/// then, or until the program ends the API.
pub unsafe fn C_WaitForSlotEvent(
    flags: u64,
    slot: *mut u64,
    reserved: *mut c_void,
) -> Result<u64, Failure> {
    let link = REMOTE.begun()?;
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(slot) }?;
    if !reserved.is_null() {
        return Err(Failure::Argument);
    }
    let waits = flags & CKF_DONT_BLOCK == 0;
    if waits {
        waits::listen(link)?;
    }
    let asked = link.call(
        calls::C_WAITFORSLOTEVENT,
        |w| w.bool(waits),
        |r| match r.u64()? {
            OK => Ok((OK, r.u64()?)),
            failed => Ok((failed, 0)),
        },
    );
    let answered = match asked {
        Ok((CKR_NO_EVENT, _)) if waits => waits::wait(link),
        // Another thread may have ended the API meanwhile.
        Err(_) if matches!(REMOTE.begun(), Err(Failure::Closed)) => Err(Failure::Closed),
        answered => answered,
    };
    let (returned, slot) = answered?;
    if returned == OK {
        place.write(slot);
    }
    Ok(returned)
}

/// Closes the sessions that this program has with a token.
pub unsafe fn C_CloseAllSessions(slot: u64) -> Result<u64, Failure> {
    let link = REMOTE.begun()?;
    let turn = REMOTE.objects.turn();
    let (returned, closed, was_last) = link.call(
        calls::C_CLOSEALLSESSIONS,
        |w| w.u64(slot),
        |r| match r.u64()? {
            OK => Ok((OK, r.names(SESSIONS_MAX)?, r.bool()?)),
            failed => Ok((failed, vec![], false)),
        },
    )?;
    closed.into_iter().for_each(|name| REMOTE.objects.forget_name(name, kinds::SESSION));
    if was_last {
        REMOTE.objects.forget_made_by(turn, kinds::OBJECT, link.number());
    }
    Ok(returned)
}
