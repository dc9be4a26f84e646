//! The API PKCS#11 of modules that are loaded by their path: a new token with a key in each.
#![allow(unsafe_code)]

use crate::{GdmaFailed, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_ulong, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

type Rv = c_ulong;
type Unused = *const c_void;

/// As in pkcs11.h (CK_FUNCTION_LIST), up to the last that is called here.
#[repr(C)]
struct Functions {
    version: [u8; 2],
    initialize: unsafe extern "C" fn(*const c_void) -> Rv,
    finalize: unsafe extern "C" fn(*const c_void) -> Rv,
    _info: [Unused; 2],
    slot_list: unsafe extern "C" fn(u8, *mut c_ulong, *mut c_ulong) -> Rv,
    _slot_info: Unused,
    token_info: unsafe extern "C" fn(c_ulong, *mut TokenInfo) -> Rv,
    _mechanisms: [Unused; 2],
    init_token: unsafe extern "C" fn(c_ulong, *const u8, c_ulong, *const u8) -> Rv,
    init_pin: unsafe extern "C" fn(c_ulong, *const u8, c_ulong) -> Rv,
    _set_pin: Unused,
    open_session:
        unsafe extern "C" fn(c_ulong, c_ulong, *const c_void, *const c_void, *mut c_ulong) -> Rv,
    _close: [Unused; 2],
    session_info: unsafe extern "C" fn(c_ulong, *mut [c_ulong; 4]) -> Rv,
    _state: [Unused; 2],
    login: unsafe extern "C" fn(c_ulong, c_ulong, *const u8, c_ulong) -> Rv,
    logout: unsafe extern "C" fn(c_ulong) -> Rv,
    _objects: [Unused; 9],
    _encrypt: [Unused; 8],
    _digest: [Unused; 5],
    sign_init: unsafe extern "C" fn(c_ulong, *const Mechanism, c_ulong) -> Rv,
    sign: unsafe extern "C" fn(c_ulong, *const u8, c_ulong, *mut u8, *mut c_ulong) -> Rv,
    _sign: [Unused; 4],
    _verify: [Unused; 6],
    _both: [Unused; 4],
    _key: Unused,
    key_pair: unsafe extern "C" fn(
        c_ulong,
        *const Mechanism,
        *const Attribute,
        c_ulong,
        *const Attribute,
        c_ulong,
        *mut c_ulong,
        *mut c_ulong,
    ) -> Rv,
}

/// CK_MECHANISM.
#[repr(C)]
struct Mechanism {
    kind: c_ulong,
    parameter: *const c_void,
    bytes: c_ulong,
}

/// CK_ATTRIBUTE.
#[repr(C)]
struct Attribute {
    kind: c_ulong,
    value: *const c_void,
    bytes: c_ulong,
}

/// CK_TOKEN_INFO.
#[repr(C)]
struct TokenInfo {
    words: [u8; 32 + 32 + 16 + 16],
    flags: c_ulong,
    numbers: [c_ulong; 10],
    rest: [u8; 2 + 2 + 16],
}

const EC_KEY_PAIR_GEN: c_ulong = 0x1040;
const ECDSA: c_ulong = 0x1041;
const EC_PARAMS: c_ulong = 0x180;
/// The curve P-256, as DER.
const P256: [u8; 10] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const TOKEN_INITIALIZED: c_ulong = 0x400;
/// A session that may write.
const SESSION: c_ulong = 0x4 | 0x2;
const SO: c_ulong = 0;
const USER: c_ulong = 1;
const SO_PIN: &[u8] = b"12345678";
const PIN: &[u8] = b"1234";
/// Slots that are looked at: modules have one or two here.
const SLOTS: usize = 16;

/// A session with a new token of a module, and a key on the curve P-256 in it.
pub struct Token {
    functions: &'static Functions,
    session: c_ulong,
    key: c_ulong,
}

fn fine(function: &'static str, rv: Rv) -> Result<()> {
    // A value of PKCS#11 has 32 bits.
    if rv == 0 { Ok(()) } else { Err(GdmaFailed::Status { function, status: rv as i32 }) }
}

impl Token {
    /// Loads a module, and makes a token in its first slot that has none.
    ///
    /// # Errors
    /// It is no module, or the first that a function of it gave.
    pub fn make(module: &Path) -> Result<Token> {
        let failed = |why: libloading::Error| GdmaFailed::Load {
            path: module.to_owned(),
            why: why.to_string(),
        };
        // SAFETY: a module of PKCS#11 is made to be loaded so.
        let library =
            unsafe { Library::open(Some(module), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
        let library: &'static Library = Box::leak(Box::new(library));
        type List = unsafe extern "C" fn(*mut *const Functions) -> Rv;
        // SAFETY: the type is that of pkcs11.h; the library stays.
        let list = unsafe { library.get::<List>(b"C_GetFunctionList") }.map_err(failed)?;
        let mut functions = null();
        // SAFETY: the place is ours, as in all calls below.
        fine("C_GetFunctionList", unsafe { list(&mut functions) })?;
        // SAFETY: the module's list, which is there as long as the module.
        let functions = unsafe { &*functions };
        let mut token = Token { functions, session: 0, key: 0 };
        token.begin()?;
        Ok(token)
    }

    fn begin(&mut self) -> Result<()> {
        let f = self.functions;
        // SAFETY: as above; texts go with their lengths.
        unsafe {
            fine("C_Initialize", (f.initialize)(null()))?;
            let slot = self.free_slot()?;
            let label = *b"bench                           ";
            let so = (SO_PIN.as_ptr(), SO_PIN.len() as c_ulong);
            fine("C_InitToken", (f.init_token)(slot, so.0, so.1, label.as_ptr()))?;
            let (session, none) = (&mut self.session, null());
            fine("C_OpenSession", (f.open_session)(slot, SESSION, none, none, session))?;
            fine("C_Login", (f.login)(*session, SO, so.0, so.1))?;
            let pin = (PIN.as_ptr(), PIN.len() as c_ulong);
            fine("C_InitPIN", (f.init_pin)(*session, pin.0, pin.1))?;
            fine("C_Logout", (f.logout)(*session))?;
            fine("C_Login", (f.login)(*session, USER, pin.0, pin.1))?;
            let make = Mechanism { kind: EC_KEY_PAIR_GEN, parameter: null(), bytes: 0 };
            let curve = Attribute {
                kind: EC_PARAMS,
                value: P256.as_ptr().cast(),
                bytes: P256.len() as c_ulong,
            };
            let (mut public, key) = (0, &mut self.key);
            let made = (f.key_pair)(*session, &make, &curve, 1, null(), 0, &mut public, key);
            fine("C_GenerateKeyPair", made)
        }
    }

    /// The first slot whose token is not set up.
    fn free_slot(&self) -> Result<c_ulong> {
        let (mut slots, mut n) = ([0; SLOTS], SLOTS as c_ulong);
        // SAFETY: the place has so many.
        fine("C_GetSlotList", unsafe {
            (self.functions.slot_list)(1, slots.as_mut_ptr(), &mut n)
        })?;
        for slot in &slots[..(n as usize).min(SLOTS)] {
            let mut info = TokenInfo { words: [0; 96], flags: 0, numbers: [0; 10], rest: [0; 20] };
            // SAFETY: as above.
            fine("C_GetTokenInfo", unsafe { (self.functions.token_info)(*slot, &mut info) })?;
            if info.flags & TOKEN_INITIALIZED == 0 {
                return Ok(*slot);
            }
        }
        Err(GdmaFailed::Status { function: "C_GetSlotList", status: 0 })
    }

    /// What a session is: a short call without work.
    ///
    /// # Errors
    /// What the module gave.
    pub fn session_info(&self) -> Result<()> {
        let mut info = [0; 4];
        // SAFETY: as above.
        let rv = unsafe { (self.functions.session_info)(self.session, &mut info) };
        fine("C_GetSessionInfo", rv)
    }

    /// A signature by ECDSA of a hash, in two calls.
    ///
    /// # Errors
    /// What the module gave.
    pub fn sign(&self) -> Result<()> {
        let ecdsa = Mechanism { kind: ECDSA, parameter: null(), bytes: 0 };
        let (hash, mut signature, mut n) = ([1u8; 32], [0u8; 64], 64);
        // SAFETY: as above.
        unsafe {
            fine("C_SignInit", (self.functions.sign_init)(self.session, &ecdsa, self.key))?;
            let out = signature.as_mut_ptr();
            fine("C_Sign", (self.functions.sign)(self.session, hash.as_ptr(), 32, out, &mut n))
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: as above; nothing of the token is used after it.
        let _ = unsafe { (self.functions.finalize)(null_mut()) };
    }
}
