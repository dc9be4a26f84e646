//! What a description cannot say: which slots there are for a client, whose sessions are closed, and
//! what is noted.
#![allow(unsafe_code, non_snake_case)]

use crate::audit;
use crate::generated::{CK_ATTRIBUTE, CK_SESSION_INFO, Native, OK, kinds};
use crate::module::Begun;
use crate::slots::Slots;
use crate::waits::Listener;
use vfun_remoting_host::{Context, NOWHERE, Reader, Refusal, Returned, Writer};

const CKR_SLOT_ID_INVALID: u64 = 3;
const CKR_NO_EVENT: u64 = 8;
const CKR_BUFFER_TOO_SMALL: u64 = 0x150;
const CKA_TOKEN: u64 = 1;

/// Most slots that are looked at: an HSM has some dozens of partitions.
const SLOTS_MAX: u64 = 4096;
/// How often a list of slots is asked for again that grew meanwhile.
const TRIES: usize = 4;

/// What the hooks keep of a connection.
pub struct State {
    pub slots: Slots,
    pub client: String,
    pub app: String,
    pub listener: Listener,
    /// None for a model.
    pub module: Option<Begun>,
}

/// Whether this client may use a slot.
pub fn may_use_slot(state: &State, native: &Native, slot: u64) -> bool {
    state.slots.may_use(native, slot)
}

/// Whether an object is of the token, and not of a session. For the module all programs of a client are
/// one, and it finds the objects of all their sessions: a program sees its own, and the token's.
pub fn is_of_token(_: &State, native: &Native, session: u64, object: u64) -> bool {
    let mut token = 0u8;
    let mut asked = CK_ATTRIBUTE {
        type_: CKA_TOKEN,
        pValue: (&raw mut token).cast(),
        ulValueLen: size_of_val(&token) as u64,
    };
    let Some(ask) = native.C_GetAttributeValue else { return false };
    // SAFETY: the place is ours, and as long as it says.
    let returned = unsafe { ask(session, object, &mut asked, 1) };
    returned == OK && token == 1
}

/// The slot of a session of the module's.
fn slot_of(native: &Native, session: u64) -> Option<u64> {
    let mut info = CK_SESSION_INFO { slotID: 0, state: 0, flags: 0, ulDeviceError: 0 };
    // SAFETY: the place is ours.
    let returned = unsafe { native.C_GetSessionInfo?(session, &mut info) };
    (returned == OK).then_some(info.slotID)
}

/// Notes a call that has to do with logins, with its numbers.
pub fn audit(
    state: &State,
    native: &Native,
    function: &str,
    numbers: &[(&str, u64)],
    returned: u64,
) {
    let number = |name: &str| numbers.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
    let slot = number("slotID").or_else(|| slot_of(native, number("session")?));
    let slot = slot.map_or("no slot".into(), |slot| format!("slot {slot}"));
    let user = match number("user_type") {
        None => String::new(),
        Some(0) => ", security officer".into(),
        Some(1) => ", user".into(),
        Some(2) => ", context".into(),
        Some(other) => format!(", user type {other}"),
    };
    let (client, app) = (&state.client, &state.app);
    let result = if returned == OK { "done".into() } else { format!("failed with {returned:#x}") };
    audit::line(&format!("client {client}, app {app}: {function}, {slot}{user}: {result}"));
}

/// All slots of the module, or its status.
fn slots(native: &Native, token_present: u8) -> Result<Vec<u64>, u64> {
    let ask = native.C_GetSlotList.ok_or(CKR_SLOT_ID_INVALID)?;
    let mut last = CKR_BUFFER_TOO_SMALL;
    for _ in 0..TRIES {
        let mut count = 0;
        // SAFETY: the place is ours.
        let returned = unsafe { ask(token_present, std::ptr::null_mut(), &mut count) };
        if returned != OK {
            return Err(returned);
        }
        let mut all = vec![0; count.min(SLOTS_MAX) as usize];
        count = all.len() as u64;
        // SAFETY: there is room for so many.
        last = unsafe { ask(token_present, all.as_mut_ptr(), &mut count) };
        if last != CKR_BUFFER_TOO_SMALL {
            all.truncate(count.min(SLOTS_MAX) as usize);
            return if last == OK { Ok(all) } else { Err(last) };
        }
    }
    Err(last)
}

/// The slots that this client may use.
pub fn C_GetSlotList(
    state: &mut State,
    native: &Native,
    _: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let (token_present, asked) = (args.u8()?, args.u64()?);
    args.end()?;
    let all = match slots(native, token_present) {
        Ok(all) => all,
        Err(status) => {
            reply.u64(status);
            return Ok(Returned::Failure(status as u32));
        }
    };
    let seen: Vec<_> = all.into_iter().filter(|slot| may_use_slot(state, native, *slot)).collect();
    let fits = asked == NOWHERE || asked >= seen.len() as u64;
    reply.u64(if fits { OK } else { CKR_BUFFER_TOO_SMALL });
    reply.length(seen.len());
    if fits && asked != NOWHERE {
        seen.iter().for_each(|slot| reply.u64(*slot));
    }
    Ok(if fits { Returned::Fine } else { Returned::Failure(CKR_BUFFER_TOO_SMALL as u32) })
}

/// Whether a slot of this client had an event. A program that wants to wait hears of it later, by an
/// event: this call never waits, because other calls of the program come after it.
pub fn C_WaitForSlotEvent(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let waits = args.bool()?;
    args.end()?;
    let listener = &state.listener;
    let returned = match listener.ask(native) {
        Ok(Some(slot)) => {
            reply.u64(OK);
            reply.u64(slot);
            return Ok(Returned::Fine);
        }
        Ok(None) if waits => {
            let begun = state.module.as_ref().map(Begun::again);
            listener.wait(native, cx.events, begun).err().unwrap_or(CKR_NO_EVENT)
        }
        Ok(None) => CKR_NO_EVENT,
        Err(status) => status,
    };
    reply.u64(returned);
    Ok(Returned::Failure(returned as u32))
}

/// Closes the sessions of this connection with a slot, and names them.
pub fn C_CloseAllSessions(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let slot = args.u64()?;
    args.end()?;
    let close = native.C_CloseSession.ok_or(Refusal::Unsupported)?;
    if !may_use_slot(state, native, slot) || !slots(native, 0).is_ok_and(|all| all.contains(&slot))
    {
        reply.u64(CKR_SLOT_ID_INVALID);
        return Ok(Returned::Failure(CKR_SLOT_ID_INVALID as u32));
    }
    // One that the module does not know any more is closed as well.
    let gone = |session: u64| slot_of(native, session).is_none_or(|of| of == slot);
    let sessions = cx.objects.of_kind(kinds::SESSION);
    let closed: Vec<_> = sessions.filter(|(_, native)| gone(*native as u64)).collect();
    reply.u64(OK);
    reply.length(closed.len());
    for (name, session) in closed {
        // SAFETY: the session is this connection's.
        unsafe { close(session as u64) };
        cx.objects.remove(name);
        reply.name(name);
    }
    reply.bool(cx.objects.remove_with_last(kinds::SESSION, kinds::OBJECT));
    Ok(Returned::Fine)
}
