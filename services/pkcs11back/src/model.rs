//! A model of a module, for the fuzzer. Its handles are addresses, as some modules' are. It reads all
//! that it is given and writes all that it may, and it checks: a handle that it never gave out, or a
//! pointer that the dispatcher should not have let through, ends the test.
#![allow(unsafe_code, non_snake_case)]

use crate::generated::{
    CK_ATTRIBUTE, CK_ECDH1_DERIVE_PARAMS, CK_FUNCTION_LIST, CK_GCM_PARAMS, CK_INFO, CK_MECHANISM,
    CK_MECHANISM_INFO, CK_RSA_PKCS_OAEP_PARAMS, CK_SESSION_INFO, CK_SLOT_INFO, CK_TOKEN_INFO,
    CK_VERSION, Native,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

const OK: u64 = 0;
const NO_EVENT: u64 = 8;
const SESSION_INVALID: u64 = 0xB3;
const OBJECT_INVALID: u64 = 0x82;
const SLOT_INVALID: u64 = 3;
/// CKA_TOKEN.
const TOKEN: u64 = 1;
const TOO_SMALL: u64 = 0x150;
const SENSITIVE: u64 = 0x11;
const TYPE_INVALID: u64 = 0x12;
/// Slots of the model.
const SLOTS: [u64; 3] = [1, 2, 3];
/// Bytes that each operation answers, and each attribute has.
const ANSWER: u64 = 40;

#[derive(Default)]
struct All {
    sessions: BTreeSet<u64>,
    /// How many handles were given out and not freed, by handle.
    objects: BTreeMap<u64, Box<u8>>,
    /// Where one search is.
    found: usize,
    /// Calls with a session that lives.
    deep: u64,
    /// Slots with events that nobody has asked for.
    plugged: Vec<u64>,
}

static ALL: Mutex<Option<All>> = Mutex::new(None);

fn with<T>(look: impl FnOnce(&mut All) -> T) -> T {
    let mut all: MutexGuard<'_, Option<All>> = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    look(all.get_or_insert_default())
}

/// How many sessions live: none may be left when their connections have ended.
pub fn sessions() -> usize {
    with(|all| all.sessions.len())
}

/// Somebody plugs a token in.
pub fn plug(slot: u64) {
    with(|all| all.plugged.push(slot));
}

/// How many calls had a session that lives.
pub fn deep_calls() -> u64 {
    with(|all| all.deep)
}

/// # Panics
/// If a session was never given out, or is closed.
fn session(handle: u64) -> Result<(), u64> {
    if handle == 0 {
        return Err(SESSION_INVALID);
    }
    let lives = with(|all| {
        all.deep += 1;
        all.sessions.contains(&handle)
    });
    assert!(lives, "a session that does not live");
    Ok(())
}

/// # Panics
/// If an object was never given out, or is destroyed.
fn object(handle: u64) -> Result<(), u64> {
    if handle == 0 {
        return Err(OBJECT_INVALID);
    }
    assert!(with(|all| all.objects.contains_key(&handle)), "an object that does not live");
    Ok(())
}

fn born() -> u64 {
    with(|all| {
        // Every second one is of the token.
        let thing = Box::new(u8::from(all.objects.len() % 2 == 1));
        let handle = std::ptr::from_ref(&*thing).expose_provenance() as u64;
        all.objects.insert(handle, thing);
        handle
    })
}

/// Reads bytes, so that a pointer to nothing ends the test.
unsafe fn look(bytes: *const c_void, len: u64) {
    assert!(!bytes.is_null() || len == 0, "nothing with a length");
    for at in 0..len as usize {
        // SAFETY: the dispatcher's bytes.
        std::hint::black_box(unsafe { bytes.cast::<u8>().add(at).read() });
    }
}

unsafe fn look_at_all(templ: *const CK_ATTRIBUTE, count: u64) {
    for at in 0..count as usize {
        // SAFETY: the dispatcher's array.
        let one = unsafe { *templ.add(at) };
        assert!(one.type_ & 0xC000_0000 == 0 || one.type_ == 0x4000_0600, "may have pointers");
        // SAFETY: its bytes.
        unsafe { look(one.pValue, one.ulValueLen) };
    }
}

unsafe fn look_at(mechanism: *const CK_MECHANISM) {
    // SAFETY: the dispatcher's struct, and what its mechanism says.
    unsafe {
        let it = *mechanism;
        look(it.pParameter, it.ulParameterLen);
        if it.pParameter.is_null() {
            return;
        }
        match it.mechanism {
            9 => {
                let p = *it.pParameter.cast::<CK_RSA_PKCS_OAEP_PARAMS>();
                look(p.pSourceData, p.ulSourceDataLen);
            }
            0x1087 => {
                let p = *it.pParameter.cast::<CK_GCM_PARAMS>();
                look(p.pIv.cast(), p.ulIvLen);
                look(p.pAAD.cast(), p.ulAADLen);
            }
            0x1050 | 0x1051 => {
                let p = *it.pParameter.cast::<CK_ECDH1_DERIVE_PARAMS>();
                look(p.pSharedData.cast(), p.ulSharedDataLen);
                look(p.pPublicData.cast(), p.ulPublicDataLen);
            }
            0x1082 => assert_eq!(it.ulParameterLen, 16, "a block"),
            0x1085 | 0x43 | 0x40..=0x47 | 0xD | 0xE | 0x21 => {}
            0x362..=0x364 | 0x1100..=0x1105 => {}
            0x122..=0x13F | 0x220..=0x272 | 0x1080..=0x108B | 0x2104..=0x210A => {}
            other => panic!("mechanism {other:#x} has no parameter"),
        }
    }
}

/// Answers as a module does: the length, and the bytes if there is room.
unsafe fn answer(out: *mut u8, len: *mut u64) -> u64 {
    // SAFETY: the dispatcher's places.
    unsafe {
        let room = std::mem::replace(&mut *len, ANSWER);
        match (out.is_null(), room >= ANSWER) {
            (true, _) => OK,
            (false, false) => TOO_SMALL,
            (false, true) => {
                out.write_bytes(0x5A, ANSWER as usize);
                OK
            }
        }
    }
}

fn status(of: Result<(), u64>) -> u64 {
    of.err().unwrap_or(OK)
}

unsafe extern "C" fn nothing(_: *mut c_void) -> u64 {
    OK
}
unsafe extern "C" fn info(to: *mut CK_INFO) -> u64 {
    // SAFETY: the dispatcher's place.
    unsafe { (*to).flags = 7 };
    OK
}
unsafe extern "C" fn function_list(_: *mut *mut CK_FUNCTION_LIST) -> u64 {
    unreachable!("the guest has its own")
}
unsafe extern "C" fn slot_list(_: u8, to: *mut u64, count: *mut u64) -> u64 {
    // SAFETY: the dispatcher's places.
    unsafe {
        let room = std::mem::replace(&mut *count, SLOTS.len() as u64);
        if !to.is_null() {
            if room < SLOTS.len() as u64 {
                return TOO_SMALL;
            }
            to.copy_from_nonoverlapping(SLOTS.as_ptr(), SLOTS.len());
        }
    }
    OK
}
fn slot(id: u64) -> Result<(), u64> {
    if SLOTS.contains(&id) { Ok(()) } else { Err(SLOT_INVALID) }
}
unsafe extern "C" fn slot_info(id: u64, to: *mut CK_SLOT_INFO) -> u64 {
    // SAFETY: the dispatcher's place.
    unsafe { (*to).flags = id };
    status(slot(id))
}
/// The label of the token in slot N begins with N.
unsafe extern "C" fn token_info(id: u64, to: *mut CK_TOKEN_INFO) -> u64 {
    // SAFETY: the dispatcher's place.
    let to = unsafe { &mut *to };
    to.label = [b' '; 32];
    to.label[0] = b'0'.wrapping_add(id as u8);
    status(slot(id))
}
unsafe extern "C" fn wait(flags: u64, to: *mut u64, _: *mut c_void) -> u64 {
    assert_eq!(flags, 1, "the dispatcher must not wait");
    let Some(slot) = with(|all| all.plugged.pop()) else { return NO_EVENT };
    // SAFETY: the dispatcher's place.
    unsafe { *to = slot };
    OK
}
unsafe extern "C" fn mechanism_list(id: u64, to: *mut u64, count: *mut u64) -> u64 {
    // SAFETY: the dispatcher's places, as those of slots.
    status(slot(id)).max(unsafe { slot_list(0, to, count) })
}
unsafe extern "C" fn mechanism_info(id: u64, _: u64, to: *mut CK_MECHANISM_INFO) -> u64 {
    // SAFETY: the dispatcher's place.
    unsafe { (*to).flags = id };
    status(slot(id))
}
unsafe extern "C" fn init_token(id: u64, pin: *mut u8, len: u64, label: *mut u8) -> u64 {
    // SAFETY: the dispatcher's bytes; a label has 32, if it is there.
    unsafe {
        look(pin.cast(), len);
        look(label.cast(), if label.is_null() { 0 } else { 32 });
    }
    status(slot(id))
}
unsafe extern "C" fn open(
    id: u64,
    _: u64,
    application: *mut c_void,
    notify: Option<unsafe extern "C" fn(u64, u64, *mut c_void) -> u64>,
    to: *mut u64,
) -> u64 {
    assert!(application.is_null() && notify.is_none(), "pointers of the guest's");
    if let Err(status) = slot(id) {
        return status;
    }
    let handle = born();
    with(|all| all.sessions.insert(handle));
    // SAFETY: the dispatcher's place.
    unsafe { *to = handle };
    OK
}
unsafe extern "C" fn close(handle: u64) -> u64 {
    if let Err(status) = session(handle) {
        return status;
    }
    with(|all| (all.sessions.remove(&handle), all.objects.remove(&handle)));
    OK
}
unsafe extern "C" fn close_all(_: u64) -> u64 {
    panic!("it would close the sessions of others")
}
unsafe extern "C" fn of_session(handle: u64) -> u64 {
    status(session(handle))
}
unsafe extern "C" fn session_info(handle: u64, to: *mut CK_SESSION_INFO) -> u64 {
    // SAFETY: the dispatcher's place.
    unsafe { (*to).slotID = 1 };
    status(session(handle))
}
unsafe extern "C" fn gives(handle: u64, out: *mut u8, len: *mut u64) -> u64 {
    // SAFETY: the dispatcher's places.
    status(session(handle)).max(unsafe { answer(out, len) })
}
unsafe extern "C" fn set_state(handle: u64, bytes: *mut u8, len: u64, a: u64, b: u64) -> u64 {
    // SAFETY: the dispatcher's bytes.
    unsafe { look(bytes.cast(), len) };
    status(session(handle)).max(status(object(a))).max(status(object(b)))
}
unsafe extern "C" fn takes(handle: u64, bytes: *mut u8, len: u64) -> u64 {
    // SAFETY: the dispatcher's bytes.
    unsafe { look(bytes.cast(), len) };
    status(session(handle))
}
unsafe extern "C" fn takes_two(handle: u64, a: *mut u8, m: u64, b: *mut u8, n: u64) -> u64 {
    // SAFETY: the dispatcher's bytes.
    unsafe {
        look(a.cast(), m);
        takes(handle, b, n)
    }
}
unsafe extern "C" fn login(handle: u64, _: u64, pin: *mut u8, len: u64) -> u64 {
    // SAFETY: the dispatcher's bytes.
    unsafe { takes(handle, pin, len) }
}
unsafe extern "C" fn random(handle: u64, to: *mut u8, len: u64) -> u64 {
    // SAFETY: the dispatcher's place.
    unsafe { to.write_bytes(0x5A, len as usize) };
    status(session(handle))
}
unsafe extern "C" fn turns(
    handle: u64,
    bytes: *mut u8,
    len: u64,
    out: *mut u8,
    out_len: *mut u64,
) -> u64 {
    // SAFETY: the dispatcher's bytes and places.
    unsafe { takes(handle, bytes, len).max(answer(out, out_len)) }
}
unsafe extern "C" fn create(
    handle: u64,
    templ: *mut CK_ATTRIBUTE,
    count: u64,
    to: *mut u64,
) -> u64 {
    // SAFETY: the dispatcher's array and place.
    unsafe {
        look_at_all(templ, count);
        if let Err(status) = session(handle) {
            return status;
        }
        *to = born();
    }
    OK
}
unsafe extern "C" fn copy(
    handle: u64,
    of: u64,
    templ: *mut CK_ATTRIBUTE,
    count: u64,
    to: *mut u64,
) -> u64 {
    match object(of) {
        // SAFETY: the dispatcher's array and place.
        Ok(()) => unsafe { create(handle, templ, count, to) },
        Err(status) => status,
    }
}
unsafe extern "C" fn destroy(handle: u64, of: u64) -> u64 {
    let known = session(handle).and(object(of));
    // Others of the connection may have found it: the model keeps it, as a module keeps none.
    status(known)
}
unsafe extern "C" fn size(handle: u64, of: u64, to: *mut u64) -> u64 {
    // SAFETY: the dispatcher's place.
    unsafe { *to = ANSWER };
    status(session(handle).and(object(of)))
}
unsafe extern "C" fn get(handle: u64, of: u64, templ: *mut CK_ATTRIBUTE, count: u64) -> u64 {
    if let Err(status) = session(handle).and(object(of)) {
        return status;
    }
    let mut returned = OK;
    for at in 0..count as usize {
        // SAFETY: the dispatcher's array, and room for as much as it says.
        let one = unsafe { &mut *templ.add(at) };
        if (one.type_, one.ulValueLen, one.pValue.is_null()) == (TOKEN, 1, false) {
            let token = with(|all| all.objects.get(&of).map_or(0, |thing| **thing));
            // SAFETY: there is room for it.
            unsafe { one.pValue.cast::<u8>().write(token) };
            continue;
        }
        let failure = match (one.type_ % 7, one.pValue.is_null()) {
            (1, _) => SENSITIVE,
            (2, _) => TYPE_INVALID,
            (_, false) if one.ulValueLen < ANSWER => TOO_SMALL,
            (_, null) => {
                if !null {
                    // SAFETY: there is room for it.
                    unsafe { one.pValue.cast::<u8>().write_bytes(0x5A, ANSWER as usize) };
                }
                one.ulValueLen = ANSWER;
                continue;
            }
        };
        (one.ulValueLen, returned) = (u64::MAX, failure);
    }
    returned
}
unsafe extern "C" fn set(handle: u64, of: u64, templ: *mut CK_ATTRIBUTE, count: u64) -> u64 {
    // SAFETY: the dispatcher's array.
    unsafe { look_at_all(templ, count) };
    status(session(handle).and(object(of)))
}
unsafe extern "C" fn find_init(handle: u64, templ: *mut CK_ATTRIBUTE, count: u64) -> u64 {
    with(|all| all.found = 0);
    // SAFETY: the dispatcher's array.
    unsafe { look_at_all(templ, count) };
    status(session(handle))
}
unsafe extern "C" fn find(handle: u64, to: *mut u64, most: u64, count: *mut u64) -> u64 {
    if let Err(status) = session(handle) {
        return status;
    }
    with(|all| {
        let things = all.objects.keys().filter(|handle| !all.sessions.contains(handle));
        let some: Vec<_> = things.skip(all.found).take(most as usize).copied().collect();
        all.found += some.len();
        // SAFETY: there is room for so many.
        unsafe {
            to.copy_from_nonoverlapping(some.as_ptr(), some.len());
            *count = some.len() as u64;
        }
    });
    OK
}
unsafe extern "C" fn begin(handle: u64, mechanism: *mut CK_MECHANISM, key: u64) -> u64 {
    // SAFETY: the dispatcher's struct.
    unsafe { look_at(mechanism) };
    status(session(handle).and(object(key)))
}
unsafe extern "C" fn begin_digest(handle: u64, mechanism: *mut CK_MECHANISM) -> u64 {
    // SAFETY: the dispatcher's struct.
    unsafe { look_at(mechanism) };
    status(session(handle))
}
unsafe extern "C" fn generate(
    handle: u64,
    mechanism: *mut CK_MECHANISM,
    templ: *mut CK_ATTRIBUTE,
    count: u64,
    to: *mut u64,
) -> u64 {
    // SAFETY: the dispatcher's structs and place.
    unsafe {
        look_at(mechanism);
        create(handle, templ, count, to)
    }
}
unsafe extern "C" fn generate_pair(
    handle: u64,
    mechanism: *mut CK_MECHANISM,
    a: *mut CK_ATTRIBUTE,
    m: u64,
    b: *mut CK_ATTRIBUTE,
    n: u64,
    public: *mut u64,
    private: *mut u64,
) -> u64 {
    // SAFETY: the dispatcher's structs and places.
    unsafe { generate(handle, mechanism, a, m, public).max(create(handle, b, n, private)) }
}
unsafe extern "C" fn wrap(
    handle: u64,
    mechanism: *mut CK_MECHANISM,
    by: u64,
    key: u64,
    out: *mut u8,
    len: *mut u64,
) -> u64 {
    // SAFETY: the dispatcher's struct and places.
    status(object(key)).max(unsafe { begin(handle, mechanism, by).max(answer(out, len)) })
}
unsafe extern "C" fn unwrap(
    handle: u64,
    mechanism: *mut CK_MECHANISM,
    by: u64,
    bytes: *mut u8,
    len: u64,
    templ: *mut CK_ATTRIBUTE,
    count: u64,
    to: *mut u64,
) -> u64 {
    // SAFETY: the dispatcher's structs, bytes and place.
    unsafe {
        look(bytes.cast(), len);
        derive(handle, mechanism, by, templ, count, to)
    }
}
unsafe extern "C" fn derive(
    handle: u64,
    mechanism: *mut CK_MECHANISM,
    by: u64,
    templ: *mut CK_ATTRIBUTE,
    count: u64,
    to: *mut u64,
) -> u64 {
    match object(by) {
        // SAFETY: the dispatcher's structs and place.
        Ok(()) => unsafe { generate(handle, mechanism, templ, count, to) },
        Err(status) => status,
    }
}

/// The model's functions.
pub const NATIVE: Native = CK_FUNCTION_LIST {
    version: CK_VERSION { major: 2, minor: 40 },
    C_Initialize: Some(nothing),
    C_Finalize: Some(nothing),
    C_GetInfo: Some(info),
    C_GetFunctionList: Some(function_list),
    C_GetSlotList: Some(slot_list),
    C_GetSlotInfo: Some(slot_info),
    C_GetTokenInfo: Some(token_info),
    C_GetMechanismList: Some(mechanism_list),
    C_GetMechanismInfo: Some(mechanism_info),
    C_InitToken: Some(init_token),
    C_InitPIN: Some(takes),
    C_SetPIN: Some(takes_two),
    C_OpenSession: Some(open),
    C_CloseSession: Some(close),
    C_CloseAllSessions: Some(close_all),
    C_GetSessionInfo: Some(session_info),
    C_GetOperationState: Some(gives),
    C_SetOperationState: Some(set_state),
    C_Login: Some(login),
    C_Logout: Some(of_session),
    C_CreateObject: Some(create),
    C_CopyObject: Some(copy),
    C_DestroyObject: Some(destroy),
    C_GetObjectSize: Some(size),
    C_GetAttributeValue: Some(get),
    C_SetAttributeValue: Some(set),
    C_FindObjectsInit: Some(find_init),
    C_FindObjects: Some(find),
    C_FindObjectsFinal: Some(of_session),
    C_EncryptInit: Some(begin),
    C_Encrypt: Some(turns),
    C_EncryptUpdate: Some(turns),
    C_EncryptFinal: Some(gives),
    C_DecryptInit: Some(begin),
    C_Decrypt: Some(turns),
    C_DecryptUpdate: Some(turns),
    C_DecryptFinal: Some(gives),
    C_DigestInit: Some(begin_digest),
    C_Digest: Some(turns),
    C_DigestUpdate: Some(takes),
    C_DigestKey: Some(digest_key),
    C_DigestFinal: Some(gives),
    C_SignInit: Some(begin),
    C_Sign: Some(turns),
    C_SignUpdate: Some(takes),
    C_SignFinal: Some(gives),
    C_SignRecoverInit: Some(begin),
    C_SignRecover: Some(turns),
    C_VerifyInit: Some(begin),
    C_Verify: Some(takes_two),
    C_VerifyUpdate: Some(takes),
    C_VerifyFinal: Some(takes),
    C_VerifyRecoverInit: Some(begin),
    C_VerifyRecover: Some(turns),
    C_DigestEncryptUpdate: Some(turns),
    C_DecryptDigestUpdate: Some(turns),
    C_SignEncryptUpdate: Some(turns),
    C_DecryptVerifyUpdate: Some(turns),
    C_GenerateKey: Some(generate),
    C_GenerateKeyPair: Some(generate_pair),
    C_WrapKey: Some(wrap),
    C_UnwrapKey: Some(unwrap),
    C_DeriveKey: Some(derive),
    C_SeedRandom: Some(takes),
    C_GenerateRandom: Some(random),
    C_GetFunctionStatus: Some(of_session),
    C_CancelFunction: Some(of_session),
    C_WaitForSlotEvent: Some(wait),
};

unsafe extern "C" fn digest_key(handle: u64, key: u64) -> u64 {
    status(session(handle).and(object(key)))
}
