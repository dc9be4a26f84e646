//! The guest's half of the API `pkcs11`.
//!
//! Made by `vfun-apigen generate pkcs11`; change tools/apigen/apis/pkcs11 and make it again.
#![allow(
    unsafe_code,
    unused_imports,
    unused_mut,
    unused_variables,
    dead_code,
    non_camel_case_types,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::type_complexity,
    clippy::unnecessary_cast,
    clippy::useless_conversion
)]
use crate::hand;
use std::ffi::c_void;
use vfun_remoting_guest::{
    Description, Failure, Link, NOWHERE, Name, Reader, Refusal, Remote, Writer, found, limits, out,
    packed, parts, parts_filled, parts_turned,
};

/// This API in this process.
pub static REMOTE: Remote = Remote::new(Description {
    name: "pkcs11",
    fingerprint: 0x6e1186540a22dcb4,
    cell_bytes: 69632,
    depth: 16,
});

/// What a function answers if it did what was asked.
pub const OK: u64 = 0;

/// What a function answers whose answer does not fit where it is to go.
const SMALL: u64 = 336;

/// Failures with which lengths count.
const PARTIAL: [u64; 3] = [336, 17, 18];

/// Most bytes of an answer: what fits a cell, less what stands before them.
const ROOM: u64 = 69120;

/// Kinds of objects.
pub mod kinds {
    pub const OBJECT: u16 = 2;
    pub const SESSION: u16 = 1;
}
/// Numbers of calls.
pub mod calls {
    pub const C_INITIALIZE: u16 = 16;
    pub const C_FINALIZE: u16 = 17;
    pub const C_GETINFO: u16 = 18;
    pub const C_GETFUNCTIONLIST: u16 = 19;
    pub const C_GETSLOTLIST: u16 = 20;
    pub const C_GETSLOTINFO: u16 = 21;
    pub const C_GETTOKENINFO: u16 = 22;
    pub const C_WAITFORSLOTEVENT: u16 = 23;
    pub const C_GETMECHANISMLIST: u16 = 24;
    pub const C_GETMECHANISMINFO: u16 = 25;
    pub const C_INITTOKEN: u16 = 26;
    pub const C_INITPIN: u16 = 27;
    pub const C_SETPIN: u16 = 28;
    pub const C_OPENSESSION: u16 = 29;
    pub const C_CLOSESESSION: u16 = 30;
    pub const C_CLOSEALLSESSIONS: u16 = 31;
    pub const C_GETSESSIONINFO: u16 = 32;
    pub const C_GETOPERATIONSTATE: u16 = 33;
    pub const C_SETOPERATIONSTATE: u16 = 34;
    pub const C_LOGIN: u16 = 35;
    pub const C_LOGOUT: u16 = 36;
    pub const C_CREATEOBJECT: u16 = 37;
    pub const C_COPYOBJECT: u16 = 38;
    pub const C_DESTROYOBJECT: u16 = 39;
    pub const C_GETOBJECTSIZE: u16 = 40;
    pub const C_GETATTRIBUTEVALUE: u16 = 41;
    pub const C_SETATTRIBUTEVALUE: u16 = 42;
    pub const C_FINDOBJECTSINIT: u16 = 43;
    pub const C_FINDOBJECTS: u16 = 44;
    pub const C_FINDOBJECTSFINAL: u16 = 45;
    pub const C_ENCRYPTINIT: u16 = 46;
    pub const C_ENCRYPT: u16 = 47;
    pub const C_ENCRYPTUPDATE: u16 = 48;
    pub const C_ENCRYPTFINAL: u16 = 49;
    pub const C_DECRYPTINIT: u16 = 50;
    pub const C_DECRYPT: u16 = 51;
    pub const C_DECRYPTUPDATE: u16 = 52;
    pub const C_DECRYPTFINAL: u16 = 53;
    pub const C_DIGESTINIT: u16 = 54;
    pub const C_DIGEST: u16 = 55;
    pub const C_DIGESTUPDATE: u16 = 56;
    pub const C_DIGESTKEY: u16 = 57;
    pub const C_DIGESTFINAL: u16 = 58;
    pub const C_SIGNINIT: u16 = 59;
    pub const C_SIGN: u16 = 60;
    pub const C_SIGNUPDATE: u16 = 61;
    pub const C_SIGNFINAL: u16 = 62;
    pub const C_SIGNRECOVERINIT: u16 = 63;
    pub const C_SIGNRECOVER: u16 = 64;
    pub const C_VERIFYINIT: u16 = 65;
    pub const C_VERIFY: u16 = 66;
    pub const C_VERIFYUPDATE: u16 = 67;
    pub const C_VERIFYFINAL: u16 = 68;
    pub const C_VERIFYRECOVERINIT: u16 = 69;
    pub const C_VERIFYRECOVER: u16 = 70;
    pub const C_DIGESTENCRYPTUPDATE: u16 = 71;
    pub const C_DECRYPTDIGESTUPDATE: u16 = 72;
    pub const C_SIGNENCRYPTUPDATE: u16 = 73;
    pub const C_DECRYPTVERIFYUPDATE: u16 = 74;
    pub const C_GENERATEKEY: u16 = 75;
    pub const C_GENERATEKEYPAIR: u16 = 76;
    pub const C_WRAPKEY: u16 = 77;
    pub const C_UNWRAPKEY: u16 = 78;
    pub const C_DERIVEKEY: u16 = 79;
    pub const C_SEEDRANDOM: u16 = 80;
    pub const C_GENERATERANDOM: u16 = 81;
    pub const C_GETFUNCTIONSTATUS: u16 = 82;
    pub const C_CANCELFUNCTION: u16 = 83;
}
/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_AES_CBC_ENCRYPT_DATA_PARAMS {
    pub iv: [u8; 16],
    pub pData: *mut u8,
    pub length: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_ATTRIBUTE {
    pub type_: u64,
    pub pValue: *mut c_void,
    pub ulValueLen: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_C_INITIALIZE_ARGS {
    pub CreateMutex: Option<unsafe extern "C" fn(*mut *mut c_void) -> u64>,
    pub DestroyMutex: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    pub LockMutex: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    pub UnlockMutex: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    pub flags: u64,
    pub pReserved: *mut c_void,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_DES_CBC_ENCRYPT_DATA_PARAMS {
    pub iv: [u8; 8],
    pub pData: *mut u8,
    pub length: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_ECDH1_DERIVE_PARAMS {
    pub kdf: u64,
    pub ulSharedDataLen: u64,
    pub pSharedData: *mut u8,
    pub ulPublicDataLen: u64,
    pub pPublicData: *mut u8,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_FUNCTION_LIST {
    pub version: CK_VERSION,
    pub C_Initialize: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    pub C_Finalize: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    pub C_GetInfo: Option<unsafe extern "C" fn(*mut CK_INFO) -> u64>,
    pub C_GetFunctionList: Option<unsafe extern "C" fn(*mut *mut CK_FUNCTION_LIST) -> u64>,
    pub C_GetSlotList: Option<unsafe extern "C" fn(u8, *mut u64, *mut u64) -> u64>,
    pub C_GetSlotInfo: Option<unsafe extern "C" fn(u64, *mut CK_SLOT_INFO) -> u64>,
    pub C_GetTokenInfo: Option<unsafe extern "C" fn(u64, *mut CK_TOKEN_INFO) -> u64>,
    pub C_GetMechanismList: Option<unsafe extern "C" fn(u64, *mut u64, *mut u64) -> u64>,
    pub C_GetMechanismInfo: Option<unsafe extern "C" fn(u64, u64, *mut CK_MECHANISM_INFO) -> u64>,
    pub C_InitToken: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8) -> u64>,
    pub C_InitPIN: Option<unsafe extern "C" fn(u64, *mut u8, u64) -> u64>,
    pub C_SetPIN: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, u64) -> u64>,
    pub C_OpenSession: Option<
        unsafe extern "C" fn(
            u64,
            u64,
            *mut c_void,
            Option<unsafe extern "C" fn(u64, u64, *mut c_void) -> u64>,
            *mut u64,
        ) -> u64,
    >,
    pub C_CloseSession: Option<unsafe extern "C" fn(u64) -> u64>,
    pub C_CloseAllSessions: Option<unsafe extern "C" fn(u64) -> u64>,
    pub C_GetSessionInfo: Option<unsafe extern "C" fn(u64, *mut CK_SESSION_INFO) -> u64>,
    pub C_GetOperationState: Option<unsafe extern "C" fn(u64, *mut u8, *mut u64) -> u64>,
    pub C_SetOperationState: Option<unsafe extern "C" fn(u64, *mut u8, u64, u64, u64) -> u64>,
    pub C_Login: Option<unsafe extern "C" fn(u64, u64, *mut u8, u64) -> u64>,
    pub C_Logout: Option<unsafe extern "C" fn(u64) -> u64>,
    pub C_CreateObject: Option<unsafe extern "C" fn(u64, *mut CK_ATTRIBUTE, u64, *mut u64) -> u64>,
    pub C_CopyObject:
        Option<unsafe extern "C" fn(u64, u64, *mut CK_ATTRIBUTE, u64, *mut u64) -> u64>,
    pub C_DestroyObject: Option<unsafe extern "C" fn(u64, u64) -> u64>,
    pub C_GetObjectSize: Option<unsafe extern "C" fn(u64, u64, *mut u64) -> u64>,
    pub C_GetAttributeValue: Option<unsafe extern "C" fn(u64, u64, *mut CK_ATTRIBUTE, u64) -> u64>,
    pub C_SetAttributeValue: Option<unsafe extern "C" fn(u64, u64, *mut CK_ATTRIBUTE, u64) -> u64>,
    pub C_FindObjectsInit: Option<unsafe extern "C" fn(u64, *mut CK_ATTRIBUTE, u64) -> u64>,
    pub C_FindObjects: Option<unsafe extern "C" fn(u64, *mut u64, u64, *mut u64) -> u64>,
    pub C_FindObjectsFinal: Option<unsafe extern "C" fn(u64) -> u64>,
    pub C_EncryptInit: Option<unsafe extern "C" fn(u64, *mut CK_MECHANISM, u64) -> u64>,
    pub C_Encrypt: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_EncryptUpdate: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_EncryptFinal: Option<unsafe extern "C" fn(u64, *mut u8, *mut u64) -> u64>,
    pub C_DecryptInit: Option<unsafe extern "C" fn(u64, *mut CK_MECHANISM, u64) -> u64>,
    pub C_Decrypt: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_DecryptUpdate: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_DecryptFinal: Option<unsafe extern "C" fn(u64, *mut u8, *mut u64) -> u64>,
    pub C_DigestInit: Option<unsafe extern "C" fn(u64, *mut CK_MECHANISM) -> u64>,
    pub C_Digest: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_DigestUpdate: Option<unsafe extern "C" fn(u64, *mut u8, u64) -> u64>,
    pub C_DigestKey: Option<unsafe extern "C" fn(u64, u64) -> u64>,
    pub C_DigestFinal: Option<unsafe extern "C" fn(u64, *mut u8, *mut u64) -> u64>,
    pub C_SignInit: Option<unsafe extern "C" fn(u64, *mut CK_MECHANISM, u64) -> u64>,
    pub C_Sign: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_SignUpdate: Option<unsafe extern "C" fn(u64, *mut u8, u64) -> u64>,
    pub C_SignFinal: Option<unsafe extern "C" fn(u64, *mut u8, *mut u64) -> u64>,
    pub C_SignRecoverInit: Option<unsafe extern "C" fn(u64, *mut CK_MECHANISM, u64) -> u64>,
    pub C_SignRecover: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_VerifyInit: Option<unsafe extern "C" fn(u64, *mut CK_MECHANISM, u64) -> u64>,
    pub C_Verify: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, u64) -> u64>,
    pub C_VerifyUpdate: Option<unsafe extern "C" fn(u64, *mut u8, u64) -> u64>,
    pub C_VerifyFinal: Option<unsafe extern "C" fn(u64, *mut u8, u64) -> u64>,
    pub C_VerifyRecoverInit: Option<unsafe extern "C" fn(u64, *mut CK_MECHANISM, u64) -> u64>,
    pub C_VerifyRecover: Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_DigestEncryptUpdate:
        Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_DecryptDigestUpdate:
        Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_SignEncryptUpdate:
        Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_DecryptVerifyUpdate:
        Option<unsafe extern "C" fn(u64, *mut u8, u64, *mut u8, *mut u64) -> u64>,
    pub C_GenerateKey: Option<
        unsafe extern "C" fn(u64, *mut CK_MECHANISM, *mut CK_ATTRIBUTE, u64, *mut u64) -> u64,
    >,
    pub C_GenerateKeyPair: Option<
        unsafe extern "C" fn(
            u64,
            *mut CK_MECHANISM,
            *mut CK_ATTRIBUTE,
            u64,
            *mut CK_ATTRIBUTE,
            u64,
            *mut u64,
            *mut u64,
        ) -> u64,
    >,
    pub C_WrapKey:
        Option<unsafe extern "C" fn(u64, *mut CK_MECHANISM, u64, u64, *mut u8, *mut u64) -> u64>,
    pub C_UnwrapKey: Option<
        unsafe extern "C" fn(
            u64,
            *mut CK_MECHANISM,
            u64,
            *mut u8,
            u64,
            *mut CK_ATTRIBUTE,
            u64,
            *mut u64,
        ) -> u64,
    >,
    pub C_DeriveKey: Option<
        unsafe extern "C" fn(u64, *mut CK_MECHANISM, u64, *mut CK_ATTRIBUTE, u64, *mut u64) -> u64,
    >,
    pub C_SeedRandom: Option<unsafe extern "C" fn(u64, *mut u8, u64) -> u64>,
    pub C_GenerateRandom: Option<unsafe extern "C" fn(u64, *mut u8, u64) -> u64>,
    pub C_GetFunctionStatus: Option<unsafe extern "C" fn(u64) -> u64>,
    pub C_CancelFunction: Option<unsafe extern "C" fn(u64) -> u64>,
    pub C_WaitForSlotEvent: Option<unsafe extern "C" fn(u64, *mut u64, *mut c_void) -> u64>,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_GCM_PARAMS {
    pub pIv: *mut u8,
    pub ulIvLen: u64,
    pub ulIvBits: u64,
    pub pAAD: *mut u8,
    pub ulAADLen: u64,
    pub ulTagBits: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_INFO {
    pub cryptokiVersion: CK_VERSION,
    pub manufacturerID: [u8; 32],
    pub flags: u64,
    pub libraryDescription: [u8; 32],
    pub libraryVersion: CK_VERSION,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_KEY_DERIVATION_STRING_DATA {
    pub pData: *mut u8,
    pub ulLen: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_MECHANISM {
    pub mechanism: u64,
    pub pParameter: *mut c_void,
    pub ulParameterLen: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_MECHANISM_INFO {
    pub ulMinKeySize: u64,
    pub ulMaxKeySize: u64,
    pub flags: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_RSA_PKCS_OAEP_PARAMS {
    pub hashAlg: u64,
    pub mgf: u64,
    pub source: u64,
    pub pSourceData: *mut c_void,
    pub ulSourceDataLen: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_SESSION_INFO {
    pub slotID: u64,
    pub state: u64,
    pub flags: u64,
    pub ulDeviceError: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_SLOT_INFO {
    pub slotDescription: [u8; 64],
    pub manufacturerID: [u8; 32],
    pub flags: u64,
    pub hardwareVersion: CK_VERSION,
    pub firmwareVersion: CK_VERSION,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_TOKEN_INFO {
    pub label: [u8; 32],
    pub manufacturerID: [u8; 32],
    pub model: [u8; 16],
    pub serialNumber: [u8; 16],
    pub flags: u64,
    pub ulMaxSessionCount: u64,
    pub ulSessionCount: u64,
    pub ulMaxRwSessionCount: u64,
    pub ulRwSessionCount: u64,
    pub ulMaxPinLen: u64,
    pub ulMinPinLen: u64,
    pub ulTotalPublicMemory: u64,
    pub ulFreePublicMemory: u64,
    pub ulTotalPrivateMemory: u64,
    pub ulFreePrivateMemory: u64,
    pub hardwareVersion: CK_VERSION,
    pub firmwareVersion: CK_VERSION,
    pub utcTime: [u8; 16],
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CK_VERSION {
    pub major: u8,
    pub minor: u8,
}

/// The API's own status for what went wrong on the way.
pub fn status_of(failure: Failure) -> u64 {
    match failure {
        Failure::Argument => 7,
        Failure::Object => 130,
        Failure::Limit => 2,
        Failure::Unsupported => 84,
        Failure::NoHost => 5,
        Failure::Lost => 50,
        Failure::Internal => 48,
        Failure::Closed => 400,
        Failure::Own(status) => status as u64,
    }
}

/// Makes a status of what a function's body says. A panic is a fault of ours and not the program's end.
fn answer(body: impl FnOnce() -> Result<u64, Failure>) -> u64 {
    let body = std::panic::AssertUnwindSafe(body);
    match std::panic::catch_unwind(body) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => status_of(failure),
        Err(_) => status_of(Failure::Internal),
    }
}

/// Whether the bytes of a `CK_ATTRIBUTE` with this tag may have pointers.
fn is_refused_CK_ATTRIBUTE(tag: u64) -> bool {
    tag & 0xc0000000 != 0 && tag != 1073743360
}

/// Writes numbers, and bytes behind their lengths.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
pub unsafe fn pack_CK_AES_CBC_ENCRYPT_DATA_PARAMS(
    w: &mut Writer<'_>,
    of: &CK_AES_CBC_ENCRYPT_DATA_PARAMS,
) -> Result<(), Failure> {
    w.bytes(&of.iv);
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pData.cast(), of.length) }?);
    Ok(())
}

/// Writes numbers, and bytes behind their lengths.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
pub unsafe fn pack_CK_ATTRIBUTE(w: &mut Writer<'_>, of: &CK_ATTRIBUTE) -> Result<(), Failure> {
    if is_refused_CK_ATTRIBUTE(of.type_) {
        return Err(Failure::Own(18));
    }
    w.u64(of.type_);
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pValue.cast(), of.ulValueLen) }?);
    Ok(())
}

/// Writes numbers, and bytes behind their lengths.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
pub unsafe fn pack_CK_DES_CBC_ENCRYPT_DATA_PARAMS(
    w: &mut Writer<'_>,
    of: &CK_DES_CBC_ENCRYPT_DATA_PARAMS,
) -> Result<(), Failure> {
    w.bytes(&of.iv);
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pData.cast(), of.length) }?);
    Ok(())
}

/// Writes numbers, and bytes behind their lengths.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
pub unsafe fn pack_CK_ECDH1_DERIVE_PARAMS(
    w: &mut Writer<'_>,
    of: &CK_ECDH1_DERIVE_PARAMS,
) -> Result<(), Failure> {
    w.u64(of.kdf);
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pSharedData.cast(), of.ulSharedDataLen) }?);
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pPublicData.cast(), of.ulPublicDataLen) }?);
    Ok(())
}

/// Writes numbers, and bytes behind their lengths.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
pub unsafe fn pack_CK_GCM_PARAMS(w: &mut Writer<'_>, of: &CK_GCM_PARAMS) -> Result<(), Failure> {
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pIv.cast(), of.ulIvLen) }?);
    w.u64(of.ulIvBits);
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pAAD.cast(), of.ulAADLen) }?);
    w.u64(of.ulTagBits);
    Ok(())
}

/// Writes numbers, and bytes behind their lengths.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
pub unsafe fn pack_CK_KEY_DERIVATION_STRING_DATA(
    w: &mut Writer<'_>,
    of: &CK_KEY_DERIVATION_STRING_DATA,
) -> Result<(), Failure> {
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pData.cast(), of.ulLen) }?);
    Ok(())
}

/// Writes what the number says that is there.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
pub unsafe fn pack_CK_MECHANISM(w: &mut Writer<'_>, of: &CK_MECHANISM) -> Result<(), Failure> {
    w.u64(of.mechanism);
    if of.ulParameterLen == 0 {
        w.blob(None);
        return Ok(());
    }
    if of.pParameter.is_null() {
        return Err(Failure::Own(113));
    }
    match (of.mechanism, of.ulParameterLen) {
        (33, 1..=2048) => {
            // SAFETY: the caller promises it.
            w.blob(unsafe { out::blob(of.pParameter.cast(), of.ulParameterLen) }?)
        }
        (8458, 4..=4) => {
            // SAFETY: the caller promises it.
            w.blob(unsafe { out::blob(of.pParameter.cast(), of.ulParameterLen) }?)
        }
        (
            290 | 293 | 307 | 309 | 310 | 311 | 546 | 594 | 599 | 610 | 626 | 4228 | 4235 | 8457,
            8..=8,
        ) => {
            // SAFETY: the caller promises it.
            w.blob(unsafe { out::blob(of.pParameter.cast(), of.ulParameterLen) }?)
        }
        (4226 | 4229 | 4233 | 8452 | 8453 | 8454 | 8455, 16..=16) => {
            // SAFETY: the caller promises it.
            w.blob(unsafe { out::blob(of.pParameter.cast(), of.ulParameterLen) }?)
        }
        (13 | 14 | 67 | 68 | 69 | 71 | 4230, 24..=24) => {
            // SAFETY: the caller promises it.
            w.blob(unsafe { out::blob(of.pParameter.cast(), of.ulParameterLen) }?)
        }
        (4357, length) if length == size_of::<CK_AES_CBC_ENCRYPT_DATA_PARAMS>() as u64 => {
            w.u64(length);
            // SAFETY: the caller promises it.
            unsafe { pack_CK_AES_CBC_ENCRYPT_DATA_PARAMS(w, &out::value(of.pParameter.cast())?) }?;
        }
        (4355, length) if length == size_of::<CK_DES_CBC_ENCRYPT_DATA_PARAMS>() as u64 => {
            w.u64(length);
            // SAFETY: the caller promises it.
            unsafe { pack_CK_DES_CBC_ENCRYPT_DATA_PARAMS(w, &out::value(of.pParameter.cast())?) }?;
        }
        (4176 | 4177, length) if length == size_of::<CK_ECDH1_DERIVE_PARAMS>() as u64 => {
            w.u64(length);
            // SAFETY: the caller promises it.
            unsafe { pack_CK_ECDH1_DERIVE_PARAMS(w, &out::value(of.pParameter.cast())?) }?;
        }
        (4231, length) if length == size_of::<CK_GCM_PARAMS>() as u64 => {
            w.u64(length);
            // SAFETY: the caller promises it.
            unsafe { pack_CK_GCM_PARAMS(w, &out::value(of.pParameter.cast())?) }?;
        }
        (866 | 867 | 868 | 4354 | 4356, length)
            if length == size_of::<CK_KEY_DERIVATION_STRING_DATA>() as u64 =>
        {
            w.u64(length);
            // SAFETY: the caller promises it.
            unsafe { pack_CK_KEY_DERIVATION_STRING_DATA(w, &out::value(of.pParameter.cast())?) }?;
        }
        (9, length) if length == size_of::<CK_RSA_PKCS_OAEP_PARAMS>() as u64 => {
            w.u64(length);
            // SAFETY: the caller promises it.
            unsafe { pack_CK_RSA_PKCS_OAEP_PARAMS(w, &out::value(of.pParameter.cast())?) }?;
        }
        _ => return Err(Failure::Own(113)),
    }
    Ok(())
}

/// Writes numbers, and bytes behind their lengths.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
pub unsafe fn pack_CK_RSA_PKCS_OAEP_PARAMS(
    w: &mut Writer<'_>,
    of: &CK_RSA_PKCS_OAEP_PARAMS,
) -> Result<(), Failure> {
    w.u64(of.hashAlg);
    w.u64(of.mgf);
    w.u64(of.source);
    // SAFETY: the caller promises it.
    w.blob(unsafe { out::blob(of.pSourceData.cast(), of.ulSourceDataLen) }?);
    Ok(())
}

/// Reads each member.
pub fn read_CK_INFO(r: &mut Reader<'_>) -> Result<CK_INFO, Refusal> {
    let cryptokiVersion = read_CK_VERSION(r)?;
    let mut manufacturerID = [0; 32];
    manufacturerID.copy_from_slice(r.bytes(32)?);
    let flags = r.u64()?;
    let mut libraryDescription = [0; 32];
    libraryDescription.copy_from_slice(r.bytes(32)?);
    let libraryVersion = read_CK_VERSION(r)?;
    Ok(CK_INFO { cryptokiVersion, manufacturerID, flags, libraryDescription, libraryVersion })
}

/// Reads each member.
pub fn read_CK_MECHANISM_INFO(r: &mut Reader<'_>) -> Result<CK_MECHANISM_INFO, Refusal> {
    let ulMinKeySize = r.u64()?;
    let ulMaxKeySize = r.u64()?;
    let flags = r.u64()?;
    Ok(CK_MECHANISM_INFO { ulMinKeySize, ulMaxKeySize, flags })
}

/// Reads each member.
pub fn read_CK_SESSION_INFO(r: &mut Reader<'_>) -> Result<CK_SESSION_INFO, Refusal> {
    let slotID = r.u64()?;
    let state = r.u64()?;
    let flags = r.u64()?;
    let ulDeviceError = r.u64()?;
    Ok(CK_SESSION_INFO { slotID, state, flags, ulDeviceError })
}

/// Reads each member.
pub fn read_CK_SLOT_INFO(r: &mut Reader<'_>) -> Result<CK_SLOT_INFO, Refusal> {
    let mut slotDescription = [0; 64];
    slotDescription.copy_from_slice(r.bytes(64)?);
    let mut manufacturerID = [0; 32];
    manufacturerID.copy_from_slice(r.bytes(32)?);
    let flags = r.u64()?;
    let hardwareVersion = read_CK_VERSION(r)?;
    let firmwareVersion = read_CK_VERSION(r)?;
    Ok(CK_SLOT_INFO { slotDescription, manufacturerID, flags, hardwareVersion, firmwareVersion })
}

/// Reads each member.
pub fn read_CK_TOKEN_INFO(r: &mut Reader<'_>) -> Result<CK_TOKEN_INFO, Refusal> {
    let mut label = [0; 32];
    label.copy_from_slice(r.bytes(32)?);
    let mut manufacturerID = [0; 32];
    manufacturerID.copy_from_slice(r.bytes(32)?);
    let mut model = [0; 16];
    model.copy_from_slice(r.bytes(16)?);
    let mut serialNumber = [0; 16];
    serialNumber.copy_from_slice(r.bytes(16)?);
    let flags = r.u64()?;
    let ulMaxSessionCount = r.u64()?;
    let ulSessionCount = r.u64()?;
    let ulMaxRwSessionCount = r.u64()?;
    let ulRwSessionCount = r.u64()?;
    let ulMaxPinLen = r.u64()?;
    let ulMinPinLen = r.u64()?;
    let ulTotalPublicMemory = r.u64()?;
    let ulFreePublicMemory = r.u64()?;
    let ulTotalPrivateMemory = r.u64()?;
    let ulFreePrivateMemory = r.u64()?;
    let hardwareVersion = read_CK_VERSION(r)?;
    let firmwareVersion = read_CK_VERSION(r)?;
    let mut utcTime = [0; 16];
    utcTime.copy_from_slice(r.bytes(16)?);
    Ok(CK_TOKEN_INFO {
        label,
        manufacturerID,
        model,
        serialNumber,
        flags,
        ulMaxSessionCount,
        ulSessionCount,
        ulMaxRwSessionCount,
        ulRwSessionCount,
        ulMaxPinLen,
        ulMinPinLen,
        ulTotalPublicMemory,
        ulFreePublicMemory,
        ulTotalPrivateMemory,
        ulFreePrivateMemory,
        hardwareVersion,
        firmwareVersion,
        utcTime,
    })
}

/// Reads each member.
pub fn read_CK_VERSION(r: &mut Reader<'_>) -> Result<CK_VERSION, Refusal> {
    let major = r.u8()?;
    let minor = r.u8()?;
    Ok(CK_VERSION { major, minor })
}

/// Whether this one cannot be filled by the host.
fn cannot_fill_CK_ATTRIBUTE(of: &CK_ATTRIBUTE) -> bool {
    is_refused_CK_ATTRIBUTE(of.type_)
}

/// The most room that each of `count` places may ask for, in bytes. A program may say that it has more.
fn room_for_CK_ATTRIBUTE(count: usize) -> u64 {
    (vfun_remoting_guest::limits::PLACES_BYTES / count.max(1)) as u64
}

/// Asks for each: what it is, and how much room there is.
fn ask_CK_ATTRIBUTE(w: &mut Writer<'_>, all: &[CK_ATTRIBUTE]) {
    let room = room_for_CK_ATTRIBUTE(all.len());
    w.length(all.iter().filter(|of| !cannot_fill_CK_ATTRIBUTE(of)).count());
    for of in all.iter().filter(|of| !cannot_fill_CK_ATTRIBUTE(of)) {
        w.u64(of.type_);
        w.u64(if of.pValue.is_null() { NOWHERE } else { of.ulValueLen.min(room) });
    }
}

/// Reads each length, and the bytes of each value that fitted.
///
/// # Safety
/// Its pointers are null or point to as many bytes as its lengths say.
unsafe fn fill_CK_ATTRIBUTE(r: &mut Reader<'_>, all: &mut [CK_ATTRIBUTE]) -> Result<(), Failure> {
    let most = room_for_CK_ATTRIBUTE(all.len());
    for of in all {
        if cannot_fill_CK_ATTRIBUTE(of) {
            of.ulValueLen = NOWHERE;
            continue;
        }
        let (room, length) = (of.ulValueLen.min(most), r.u64()?);
        of.ulValueLen = length;
        if !of.pValue.is_null() && length <= room {
            // SAFETY: the caller promises it: the host has written no more than there is room for.
            unsafe { out::fill(of.pValue.cast(), r.bytes(length as usize)?) };
        }
    }
    Ok(())
}

/// Ends what a call that fits no cell leaves, as the library's own would have. Nobody wants the answer.
#[cold]
fn end_by_C_EncryptFinal(link: &Link, session: Name) {
    let _ = link.call_secret(
        calls::C_ENCRYPTFINAL,
        |w| {
            w.name(session);
            w.u64(limits::LONG_BYTES as u64);
            w.pad();
        },
        |_| Ok(()),
    );
}

/// Ends what a call that fits no cell leaves, as the library's own would have. Nobody wants the answer.
#[cold]
fn end_by_C_DecryptFinal(link: &Link, session: Name) {
    let _ = link.call_secret(
        calls::C_DECRYPTFINAL,
        |w| {
            w.name(session);
            w.u64(limits::LONG_BYTES as u64);
            w.pad();
        },
        |_| Ok(()),
    );
}

/// Ends what a call that fits no cell leaves, as the library's own would have. Nobody wants the answer.
#[cold]
fn end_by_C_DigestFinal(link: &Link, session: Name) {
    let _ = link.call(
        calls::C_DIGESTFINAL,
        |w| {
            w.name(session);
            w.u64(limits::LONG_BYTES as u64);
        },
        |_| Ok(()),
    );
}

/// Ends what a call that fits no cell leaves, as the library's own would have. Nobody wants the answer.
#[cold]
fn end_by_C_SignFinal(link: &Link, session: Name) {
    let _ = link.call(
        calls::C_SIGNFINAL,
        |w| {
            w.name(session);
            w.u64(limits::LONG_BYTES as u64);
        },
        |_| Ok(()),
    );
}

/// Ends what a call that fits no cell leaves, as the library's own would have. Nobody wants the answer.
#[cold]
fn end_by_C_SignRecover(link: &Link, session: Name) {
    let _ = link.call_secret(
        calls::C_SIGNRECOVER,
        |w| {
            w.name(session);
            w.blob(Some(&[]));
            w.u64(limits::LONG_BYTES as u64);
            w.pad();
        },
        |_| Ok(()),
    );
}

/// Ends what a call that fits no cell leaves, as the library's own would have. Nobody wants the answer.
#[cold]
fn end_by_C_VerifyFinal(link: &Link, session: Name) {
    let _ = link.call(
        calls::C_VERIFYFINAL,
        |w| {
            w.name(session);
            w.blob(Some(&[]));
        },
        |_| Ok(()),
    );
}

/// Ends what a call that fits no cell leaves, as the library's own would have. Nobody wants the answer.
#[cold]
fn end_by_C_VerifyRecover(link: &Link, session: Name) {
    let _ = link.call_secret(
        calls::C_VERIFYRECOVER,
        |w| {
            w.name(session);
            w.blob(Some(&[]));
            w.u64(limits::LONG_BYTES as u64);
            w.pad();
        },
        |_| Ok(()),
    );
}

/// Call 16.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Initialize(init_args: *mut c_void) -> u64 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::C_Initialize(init_args) }
    })
}

/// Call 17.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Finalize(pReserved: *mut c_void) -> u64 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::C_Finalize(pReserved) }
    })
}

/// Call 18.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetInfo(info: *mut CK_INFO) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        // SAFETY: C's rules for this function.
        let info_place = unsafe { out::place(info) }?;
        let (returned, outs) = link.call(
            calls::C_GETINFO,
            |_| {},
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((read_CK_INFO(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((info_answer,)) = outs {
            info_place.write(info_answer);
        }
        Ok(returned)
    })
}

/// Call 19.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetFunctionList(function_list: *mut *mut CK_FUNCTION_LIST) -> u64 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::C_GetFunctionList(function_list) }
    })
}

/// Call 20.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetSlotList(
    token_present: u8,
    slot_list: *mut u64,
    ulCount: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        // SAFETY: C's rules for this function.
        let mut slot_list_room = unsafe { out::Room::of(slot_list, ulCount, ROOM / 8) }?;
        let slot_list_asked = slot_list_room.asked();
        let (returned, outs) = link.call(
            calls::C_GETSLOTLIST,
            |w| {
                w.u8(token_present);
                w.u64(slot_list_asked);
            },
            |r| {
                let returned = r.u64()?;
                if returned == OK || PARTIAL.contains(&returned) {
                    slot_list_room.read(r, returned == OK)?;
                }
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 21.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetSlotInfo(slotID: u64, info: *mut CK_SLOT_INFO) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        // SAFETY: C's rules for this function.
        let info_place = unsafe { out::place(info) }?;
        let (returned, outs) = link.call(
            calls::C_GETSLOTINFO,
            |w| {
                w.u64(slotID);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((read_CK_SLOT_INFO(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((info_answer,)) = outs {
            info_place.write(info_answer);
        }
        Ok(returned)
    })
}

/// Call 22.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetTokenInfo(slotID: u64, info: *mut CK_TOKEN_INFO) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        // SAFETY: C's rules for this function.
        let info_place = unsafe { out::place(info) }?;
        let (returned, outs) = link.call(
            calls::C_GETTOKENINFO,
            |w| {
                w.u64(slotID);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((read_CK_TOKEN_INFO(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((info_answer,)) = outs {
            info_place.write(info_answer);
        }
        Ok(returned)
    })
}

/// Call 23.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_WaitForSlotEvent(
    flags: u64,
    slot: *mut u64,
    pReserved: *mut c_void,
) -> u64 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::C_WaitForSlotEvent(flags, slot, pReserved) }
    })
}

/// Call 24.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetMechanismList(
    slotID: u64,
    mechanism_list: *mut u64,
    ulCount: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        // SAFETY: C's rules for this function.
        let mut mechanism_list_room = unsafe { out::Room::of(mechanism_list, ulCount, ROOM / 8) }?;
        let mechanism_list_asked = mechanism_list_room.asked();
        let (returned, outs) = link.call(
            calls::C_GETMECHANISMLIST,
            |w| {
                w.u64(slotID);
                w.u64(mechanism_list_asked);
            },
            |r| {
                let returned = r.u64()?;
                if returned == OK || PARTIAL.contains(&returned) {
                    mechanism_list_room.read(r, returned == OK)?;
                }
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 25.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetMechanismInfo(
    slotID: u64,
    type_: u64,
    info: *mut CK_MECHANISM_INFO,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        // SAFETY: C's rules for this function.
        let info_place = unsafe { out::place(info) }?;
        let (returned, outs) = link.call(
            calls::C_GETMECHANISMINFO,
            |w| {
                w.u64(slotID);
                w.u64(type_);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((read_CK_MECHANISM_INFO(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((info_answer,)) = outs {
            info_place.write(info_answer);
        }
        Ok(returned)
    })
}

/// Call 26.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_InitToken(
    slotID: u64,
    pin: *mut u8,
    pin_len: u64,
    label: *mut u8,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        // SAFETY: C's rules for this function.
        let pin_bytes = unsafe { out::blob(pin.cast(), pin_len as u64) }?;
        // SAFETY: C's rules for this function.
        let label_bytes = unsafe { out::blob(label.cast(), 32) }?;
        let (returned, outs) = link.call_secret(
            calls::C_INITTOKEN,
            |w| {
                w.u64(slotID);
                w.blob(pin_bytes);
                w.blob(label_bytes);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 27.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_InitPIN(session: u64, pin: *mut u8, pin_len: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let pin_bytes = unsafe { out::blob(pin.cast(), pin_len as u64) }?;
        let (returned, outs) = link.call_secret(
            calls::C_INITPIN,
            |w| {
                w.name(session_name);
                w.blob(pin_bytes);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 28.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SetPIN(
    session: u64,
    old_pin: *mut u8,
    old_len: u64,
    new_pin: *mut u8,
    new_len: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let old_pin_bytes = unsafe { out::blob(old_pin.cast(), old_len as u64) }?;
        // SAFETY: C's rules for this function.
        let new_pin_bytes = unsafe { out::blob(new_pin.cast(), new_len as u64) }?;
        let (returned, outs) = link.call_secret(
            calls::C_SETPIN,
            |w| {
                w.name(session_name);
                w.blob(old_pin_bytes);
                w.blob(new_pin_bytes);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 29.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_OpenSession(
    slotID: u64,
    flags: u64,
    application: *mut c_void,
    notify: Option<unsafe extern "C" fn(u64, u64, *mut c_void) -> u64>,
    session: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        // SAFETY: C's rules for this function.
        let session_place = unsafe { out::place(session) }?;
        let session_new = REMOTE.objects.make(kinds::SESSION, link.number(), None)?;
        let (returned, outs) = link
            .call(
                calls::C_OPENSESSION,
                |w| {
                    w.u64(slotID);
                    w.u64(flags);
                    w.name(session_new.name());
                },
                |r| {
                    let returned = r.u64()?;
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .map_err(|failure| failure.of_limit(177))?;
        if let Some(()) = outs {
            session_place.write(session_new.keep_named().value());
        }
        Ok(returned)
    })
}

/// Call 30.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_CloseSession(session: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // Before the call: what is made later is not what the host forgets with it.
        let turn = REMOTE.objects.turn();
        let (returned, outs) = link.call(
            calls::C_CLOSESESSION,
            |w| {
                w.name(session_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((r.bool()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((session_was_last_answer,)) = outs {
            REMOTE.objects.forget_name(session_name, kinds::SESSION);
            if session_was_last_answer {
                REMOTE.objects.forget_made_by(turn, kinds::OBJECT, link.number());
            }
        }
        Ok(returned)
    })
}

/// Call 31.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_CloseAllSessions(slotID: u64) -> u64 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::C_CloseAllSessions(slotID) }
    })
}

/// Call 32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetSessionInfo(session: u64, info: *mut CK_SESSION_INFO) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let info_place = unsafe { out::place(info) }?;
        let (returned, outs) = link.call(
            calls::C_GETSESSIONINFO,
            |w| {
                w.name(session_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((read_CK_SESSION_INFO(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((info_answer,)) = outs {
            info_place.write(info_answer);
        }
        Ok(returned)
    })
}

/// Call 33.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetOperationState(
    session: u64,
    operation_state: *mut u8,
    operation_state_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let mut operation_state_room =
            unsafe { out::Room::of(operation_state.cast::<u8>(), operation_state_len, ROOM) }?;
        let operation_state_asked = operation_state_room.asked();
        let (returned, outs) = link.call_secret(
            calls::C_GETOPERATIONSTATE,
            |w| {
                w.name(session_name);
                w.u64(operation_state_asked);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                if returned == OK || PARTIAL.contains(&returned) {
                    operation_state_room.read(r, returned == OK)?;
                }
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 34.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SetOperationState(
    session: u64,
    operation_state: *mut u8,
    operation_state_len: u64,
    encryption_key: u64,
    authentiation_key: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let encryption_key_name =
            REMOTE.objects.known(encryption_key, kinds::OBJECT, link.number());
        let authentiation_key_name =
            REMOTE.objects.known(authentiation_key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let operation_state_bytes =
            unsafe { out::blob(operation_state.cast(), operation_state_len as u64) }?;
        let (returned, outs) = link.call_secret(
            calls::C_SETOPERATIONSTATE,
            |w| {
                w.name(session_name);
                w.blob(operation_state_bytes);
                w.name(encryption_key_name);
                w.name(authentiation_key_name);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 35.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Login(session: u64, user_type: u64, pin: *mut u8, pin_len: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let pin_bytes = unsafe { out::blob(pin.cast(), pin_len as u64) }?;
        let (returned, outs) = link.call_secret(
            calls::C_LOGIN,
            |w| {
                w.name(session_name);
                w.u64(user_type);
                w.blob(pin_bytes);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 36.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Logout(session: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let (returned, outs) = link.call(
            calls::C_LOGOUT,
            |w| {
                w.name(session_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 37.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_CreateObject(
    session: u64,
    templ: *mut CK_ATTRIBUTE,
    ulCount: u64,
    object: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let templ_packed = unsafe { out::packed_list(templ, ulCount as u64, pack_CK_ATTRIBUTE) }?;
        // SAFETY: C's rules for this function.
        let object_place = unsafe { out::place(object) }?;
        let object_new = REMOTE.objects.make(kinds::OBJECT, link.number(), None)?;
        let (returned, outs) = link.call_secret(
            calls::C_CREATEOBJECT,
            |w| {
                w.name(session_name);
                w.bytes(&templ_packed);
                w.name(object_new.name());
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((r.bool()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((object_answer,)) = outs {
            let owner = (!object_answer).then_some(session_name);
            let kept = REMOTE.objects.keep_within(object_new, owner, kinds::SESSION);
            object_place.write(kept.value());
        }
        Ok(returned)
    })
}

/// Call 38.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_CopyObject(
    session: u64,
    object: u64,
    templ: *mut CK_ATTRIBUTE,
    ulCount: u64,
    new_object: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let object_name = REMOTE.objects.known(object, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let templ_packed = unsafe { out::packed_list(templ, ulCount as u64, pack_CK_ATTRIBUTE) }?;
        // SAFETY: C's rules for this function.
        let new_object_place = unsafe { out::place(new_object) }?;
        let new_object_new = REMOTE.objects.make(kinds::OBJECT, link.number(), None)?;
        let (returned, outs) = link.call_secret(
            calls::C_COPYOBJECT,
            |w| {
                w.name(session_name);
                w.name(object_name);
                w.bytes(&templ_packed);
                w.name(new_object_new.name());
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((r.bool()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((new_object_answer,)) = outs {
            let owner = (!new_object_answer).then_some(session_name);
            let kept = REMOTE.objects.keep_within(new_object_new, owner, kinds::SESSION);
            new_object_place.write(kept.value());
        }
        Ok(returned)
    })
}

/// Call 39.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DestroyObject(session: u64, object: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let object_name = REMOTE.objects.known(object, kinds::OBJECT, link.number());
        let (returned, outs) = link.call(
            calls::C_DESTROYOBJECT,
            |w| {
                w.name(session_name);
                w.name(object_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget_name(object_name, kinds::OBJECT);
        }
        Ok(returned)
    })
}

/// Call 40.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetObjectSize(session: u64, object: u64, size: *mut u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let object_name = REMOTE.objects.known(object, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let size_place = unsafe { out::place(size) }?;
        let (returned, outs) = link.call(
            calls::C_GETOBJECTSIZE,
            |w| {
                w.name(session_name);
                w.name(object_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((r.u64()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((size_answer,)) = outs {
            size_place.write(size_answer);
        }
        Ok(returned)
    })
}

/// Call 41.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetAttributeValue(
    session: u64,
    object: u64,
    templ: *mut CK_ATTRIBUTE,
    ulCount: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let object_name = REMOTE.objects.known(object, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let templ_list = unsafe { out::list_mut(templ, ulCount as u64) }?;
        let templ_asked = packed(|w| {
            ask_CK_ATTRIBUTE(w, templ_list);
            Ok(())
        })?;
        let (returned, outs) = link.call_secret(
            calls::C_GETATTRIBUTEVALUE,
            |w| {
                w.name(session_name);
                w.name(object_name);
                w.bytes(&templ_asked);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                if returned == OK || PARTIAL.contains(&returned) {
                    // SAFETY: C's rules for this function.
                    unsafe { fill_CK_ATTRIBUTE(r, templ_list) }?;
                }
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if returned == OK && templ_list.iter().any(cannot_fill_CK_ATTRIBUTE) {
            return Ok(18);
        }
        Ok(returned)
    })
}

/// Call 42.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SetAttributeValue(
    session: u64,
    object: u64,
    templ: *mut CK_ATTRIBUTE,
    ulCount: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let object_name = REMOTE.objects.known(object, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let templ_packed = unsafe { out::packed_list(templ, ulCount as u64, pack_CK_ATTRIBUTE) }?;
        let (returned, outs) = link.call_secret(
            calls::C_SETATTRIBUTEVALUE,
            |w| {
                w.name(session_name);
                w.name(object_name);
                w.bytes(&templ_packed);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 43.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_FindObjectsInit(
    session: u64,
    templ: *mut CK_ATTRIBUTE,
    ulCount: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let templ_packed = unsafe { out::packed_list(templ, ulCount as u64, pack_CK_ATTRIBUTE) }?;
        let (returned, outs) = link.call_secret(
            calls::C_FINDOBJECTSINIT,
            |w| {
                w.name(session_name);
                w.bytes(&templ_packed);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 44.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_FindObjects(
    session: u64,
    object: *mut u64,
    max_object_count: u64,
    object_count: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let object_places = unsafe { out::places(object, max_object_count) }?;
        // SAFETY: C's rules for this function.
        let object_count_place = unsafe { out::place(object_count) }?;
        let (returned, count) =
            found(&REMOTE.objects, kinds::OBJECT, link.number(), object_places, OK, |fresh| {
                link.call(
                    calls::C_FINDOBJECTS,
                    |w| {
                        w.name(session_name);
                        w.length(fresh.len());
                        fresh.iter().for_each(|one| w.name(one.name()));
                    },
                    |r| {
                        let returned = r.u64()?;
                        let names = if returned == OK { r.names(fresh.len())? } else { vec![] };
                        r.end()?;
                        Ok((returned, names))
                    },
                )
            })?;
        if returned == OK {
            object_count_place.write(count);
        }
        Ok(returned)
    })
}

/// Call 45.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_FindObjectsFinal(session: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let (returned, outs) = link.call(
            calls::C_FINDOBJECTSFINAL,
            |w| {
                w.name(session_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 46.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_EncryptInit(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    key: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let key_name = REMOTE.objects.known(key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        let (returned, outs) = link.call(
            calls::C_ENCRYPTINIT,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(key_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 47.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Encrypt(
    session: u64,
    data: *mut u8,
    data_len: u64,
    encrypted_data: *mut u8,
    encrypted_data_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let data_bytes = unsafe { out::blob(data.cast(), data_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut encrypted_data_room =
            unsafe { out::Room::of(encrypted_data.cast::<u8>(), encrypted_data_len, ROOM) }?;
        let encrypted_data_asked = encrypted_data_room.asked();
        let (returned, outs) = link
            .call_secret(
                calls::C_ENCRYPT,
                |w| {
                    w.name(session_name);
                    w.blob(data_bytes);
                    w.u64(encrypted_data_asked);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK || PARTIAL.contains(&returned) {
                        encrypted_data_room.read(r, returned == OK)?;
                    }
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_EncryptFinal(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(33))?;
        Ok(returned)
    })
}

/// Call 48.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_EncryptUpdate(
    session: u64,
    part: *mut u8,
    part_len: u64,
    encrypted_part: *mut u8,
    encrypted_part_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let part_bytes = unsafe { out::blob(part.cast(), part_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut encrypted_part_room =
            unsafe { out::Room::of(encrypted_part.cast::<u8>(), encrypted_part_len, ROOM) }?;
        parts_turned(
            part_bytes,
            &mut encrypted_part_room,
            [OK, SMALL],
            |part_bytes, part_instead, encrypted_part_room| {
                let encrypted_part_asked = encrypted_part_room.asked();
                link.call_secret(
                    calls::C_ENCRYPTUPDATE,
                    |w| {
                        w.name(session_name);
                        w.blob(part_bytes);
                        w.u64(part_instead);
                        w.u64(encrypted_part_asked);
                        w.pad();
                    },
                    |r| {
                        let returned = r.u64()?;
                        if returned == OK || PARTIAL.contains(&returned) {
                            encrypted_part_room.read(r, returned == OK)?;
                        }
                        r.end()?;
                        Ok(returned)
                    },
                )
            },
        )
        .inspect_err(|failure| {
            if *failure == Failure::Limit {
                end_by_C_EncryptFinal(link, session_name)
            }
        })
        .map_err(|failure| failure.of_limit(33))
    })
}

/// Call 49.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_EncryptFinal(
    session: u64,
    last_encrypted_part: *mut u8,
    last_encrypted_part_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let mut last_encrypted_part_room = unsafe {
            out::Room::of(last_encrypted_part.cast::<u8>(), last_encrypted_part_len, ROOM)
        }?;
        let last_encrypted_part_asked = last_encrypted_part_room.asked();
        let (returned, outs) = link
            .call_secret(
                calls::C_ENCRYPTFINAL,
                |w| {
                    w.name(session_name);
                    w.u64(last_encrypted_part_asked);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK || PARTIAL.contains(&returned) {
                        last_encrypted_part_room.read(r, returned == OK)?;
                    }
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_EncryptFinal(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(33))?;
        Ok(returned)
    })
}

/// Call 50.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DecryptInit(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    key: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let key_name = REMOTE.objects.known(key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        let (returned, outs) = link.call(
            calls::C_DECRYPTINIT,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(key_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 51.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Decrypt(
    session: u64,
    encrypted_data: *mut u8,
    encrypted_data_len: u64,
    data: *mut u8,
    data_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let encrypted_data_bytes =
            unsafe { out::blob(encrypted_data.cast(), encrypted_data_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut data_room = unsafe { out::Room::of(data.cast::<u8>(), data_len, ROOM) }?;
        let data_asked = data_room.asked();
        let (returned, outs) = link
            .call_secret(
                calls::C_DECRYPT,
                |w| {
                    w.name(session_name);
                    w.blob(encrypted_data_bytes);
                    w.u64(data_asked);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK || PARTIAL.contains(&returned) {
                        data_room.read(r, returned == OK)?;
                    }
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_DecryptFinal(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(65))?;
        Ok(returned)
    })
}

/// Call 52.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DecryptUpdate(
    session: u64,
    encrypted_part: *mut u8,
    encrypted_part_len: u64,
    part: *mut u8,
    part_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let encrypted_part_bytes =
            unsafe { out::blob(encrypted_part.cast(), encrypted_part_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut part_room = unsafe { out::Room::of(part.cast::<u8>(), part_len, ROOM) }?;
        parts_turned(
            encrypted_part_bytes,
            &mut part_room,
            [OK, SMALL],
            |encrypted_part_bytes, encrypted_part_instead, part_room| {
                let part_asked = part_room.asked();
                link.call_secret(
                    calls::C_DECRYPTUPDATE,
                    |w| {
                        w.name(session_name);
                        w.blob(encrypted_part_bytes);
                        w.u64(encrypted_part_instead);
                        w.u64(part_asked);
                        w.pad();
                    },
                    |r| {
                        let returned = r.u64()?;
                        if returned == OK || PARTIAL.contains(&returned) {
                            part_room.read(r, returned == OK)?;
                        }
                        r.end()?;
                        Ok(returned)
                    },
                )
            },
        )
        .inspect_err(|failure| {
            if *failure == Failure::Limit {
                end_by_C_DecryptFinal(link, session_name)
            }
        })
        .map_err(|failure| failure.of_limit(65))
    })
}

/// Call 53.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DecryptFinal(
    session: u64,
    last_part: *mut u8,
    last_part_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let mut last_part_room =
            unsafe { out::Room::of(last_part.cast::<u8>(), last_part_len, ROOM) }?;
        let last_part_asked = last_part_room.asked();
        let (returned, outs) = link
            .call_secret(
                calls::C_DECRYPTFINAL,
                |w| {
                    w.name(session_name);
                    w.u64(last_part_asked);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK || PARTIAL.contains(&returned) {
                        last_part_room.read(r, returned == OK)?;
                    }
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_DecryptFinal(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(65))?;
        Ok(returned)
    })
}

/// Call 54.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DigestInit(session: u64, mechanism: *mut CK_MECHANISM) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        let (returned, outs) = link.call(
            calls::C_DIGESTINIT,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 55.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Digest(
    session: u64,
    data: *mut u8,
    data_len: u64,
    digest: *mut u8,
    digest_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let data_bytes = unsafe { out::blob(data.cast(), data_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut digest_room = unsafe { out::Room::of(digest.cast::<u8>(), digest_len, ROOM) }?;
        let digest_asked = digest_room.asked();
        let (returned, outs) = link
            .call_secret(
                calls::C_DIGEST,
                |w| {
                    w.name(session_name);
                    w.blob(data_bytes);
                    w.u64(digest_asked);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK || PARTIAL.contains(&returned) {
                        digest_room.read(r, returned == OK)?;
                    }
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_DigestFinal(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(33))?;
        Ok(returned)
    })
}

/// Call 56.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DigestUpdate(session: u64, part: *mut u8, part_len: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let part_bytes = unsafe { out::blob(part.cast(), part_len as u64) }?;
        parts(part_bytes, OK, |part_bytes| {
            link.call_secret(
                calls::C_DIGESTUPDATE,
                |w| {
                    w.name(session_name);
                    w.blob(part_bytes);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    r.end()?;
                    Ok(returned)
                },
            )
        })
    })
}

/// Call 57.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DigestKey(session: u64, key: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let key_name = REMOTE.objects.known(key, kinds::OBJECT, link.number());
        let (returned, outs) = link.call(
            calls::C_DIGESTKEY,
            |w| {
                w.name(session_name);
                w.name(key_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 58.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DigestFinal(session: u64, digest: *mut u8, digest_len: *mut u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let mut digest_room = unsafe { out::Room::of(digest.cast::<u8>(), digest_len, ROOM) }?;
        let digest_asked = digest_room.asked();
        let (returned, outs) = link.call(
            calls::C_DIGESTFINAL,
            |w| {
                w.name(session_name);
                w.u64(digest_asked);
            },
            |r| {
                let returned = r.u64()?;
                if returned == OK || PARTIAL.contains(&returned) {
                    digest_room.read(r, returned == OK)?;
                }
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 59.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SignInit(session: u64, mechanism: *mut CK_MECHANISM, key: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let key_name = REMOTE.objects.known(key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        let (returned, outs) = link.call(
            calls::C_SIGNINIT,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(key_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 60.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Sign(
    session: u64,
    data: *mut u8,
    data_len: u64,
    signature: *mut u8,
    signature_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let data_bytes = unsafe { out::blob(data.cast(), data_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut signature_room =
            unsafe { out::Room::of(signature.cast::<u8>(), signature_len, ROOM) }?;
        let signature_asked = signature_room.asked();
        let (returned, outs) = link
            .call_secret(
                calls::C_SIGN,
                |w| {
                    w.name(session_name);
                    w.blob(data_bytes);
                    w.u64(signature_asked);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK || PARTIAL.contains(&returned) {
                        signature_room.read(r, returned == OK)?;
                    }
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_SignFinal(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(33))?;
        Ok(returned)
    })
}

/// Call 61.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SignUpdate(session: u64, part: *mut u8, part_len: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let part_bytes = unsafe { out::blob(part.cast(), part_len as u64) }?;
        parts(part_bytes, OK, |part_bytes| {
            link.call_secret(
                calls::C_SIGNUPDATE,
                |w| {
                    w.name(session_name);
                    w.blob(part_bytes);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    r.end()?;
                    Ok(returned)
                },
            )
        })
    })
}

/// Call 62.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SignFinal(
    session: u64,
    signature: *mut u8,
    signature_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let mut signature_room =
            unsafe { out::Room::of(signature.cast::<u8>(), signature_len, ROOM) }?;
        let signature_asked = signature_room.asked();
        let (returned, outs) = link.call(
            calls::C_SIGNFINAL,
            |w| {
                w.name(session_name);
                w.u64(signature_asked);
            },
            |r| {
                let returned = r.u64()?;
                if returned == OK || PARTIAL.contains(&returned) {
                    signature_room.read(r, returned == OK)?;
                }
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 63.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SignRecoverInit(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    key: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let key_name = REMOTE.objects.known(key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        let (returned, outs) = link.call(
            calls::C_SIGNRECOVERINIT,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(key_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SignRecover(
    session: u64,
    data: *mut u8,
    data_len: u64,
    signature: *mut u8,
    signature_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let data_bytes = unsafe { out::blob(data.cast(), data_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut signature_room =
            unsafe { out::Room::of(signature.cast::<u8>(), signature_len, ROOM) }?;
        let signature_asked = signature_room.asked();
        let (returned, outs) = link
            .call_secret(
                calls::C_SIGNRECOVER,
                |w| {
                    w.name(session_name);
                    w.blob(data_bytes);
                    w.u64(signature_asked);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK || PARTIAL.contains(&returned) {
                        signature_room.read(r, returned == OK)?;
                    }
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_SignRecover(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(33))?;
        Ok(returned)
    })
}

/// Call 65.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_VerifyInit(session: u64, mechanism: *mut CK_MECHANISM, key: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let key_name = REMOTE.objects.known(key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        let (returned, outs) = link.call(
            calls::C_VERIFYINIT,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(key_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 66.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_Verify(
    session: u64,
    data: *mut u8,
    data_len: u64,
    signature: *mut u8,
    signature_len: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let data_bytes = unsafe { out::blob(data.cast(), data_len as u64) }?;
        // SAFETY: C's rules for this function.
        let signature_bytes = unsafe { out::blob(signature.cast(), signature_len as u64) }?;
        let (returned, outs) = link
            .call_secret(
                calls::C_VERIFY,
                |w| {
                    w.name(session_name);
                    w.blob(data_bytes);
                    w.blob(signature_bytes);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_VerifyFinal(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(33))?;
        Ok(returned)
    })
}

/// Call 67.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_VerifyUpdate(session: u64, part: *mut u8, part_len: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let part_bytes = unsafe { out::blob(part.cast(), part_len as u64) }?;
        parts(part_bytes, OK, |part_bytes| {
            link.call_secret(
                calls::C_VERIFYUPDATE,
                |w| {
                    w.name(session_name);
                    w.blob(part_bytes);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    r.end()?;
                    Ok(returned)
                },
            )
        })
    })
}

/// Call 68.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_VerifyFinal(
    session: u64,
    signature: *mut u8,
    signature_len: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let signature_bytes = unsafe { out::blob(signature.cast(), signature_len as u64) }?;
        let (returned, outs) = link
            .call(
                calls::C_VERIFYFINAL,
                |w| {
                    w.name(session_name);
                    w.blob(signature_bytes);
                },
                |r| {
                    let returned = r.u64()?;
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_VerifyFinal(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(193))?;
        Ok(returned)
    })
}

/// Call 69.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_VerifyRecoverInit(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    key: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let key_name = REMOTE.objects.known(key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        let (returned, outs) = link.call(
            calls::C_VERIFYRECOVERINIT,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(key_name);
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 70.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_VerifyRecover(
    session: u64,
    signature: *mut u8,
    signature_len: u64,
    data: *mut u8,
    data_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let signature_bytes = unsafe { out::blob(signature.cast(), signature_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut data_room = unsafe { out::Room::of(data.cast::<u8>(), data_len, ROOM) }?;
        let data_asked = data_room.asked();
        let (returned, outs) = link
            .call_secret(
                calls::C_VERIFYRECOVER,
                |w| {
                    w.name(session_name);
                    w.blob(signature_bytes);
                    w.u64(data_asked);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK || PARTIAL.contains(&returned) {
                        data_room.read(r, returned == OK)?;
                    }
                    let outs = if returned == OK { Some(()) } else { None };
                    r.end()?;
                    Ok((returned, outs))
                },
            )
            .inspect_err(|failure| {
                if *failure == Failure::Limit {
                    end_by_C_VerifyRecover(link, session_name)
                }
            })
            .map_err(|failure| failure.of_limit(193))?;
        Ok(returned)
    })
}

/// Call 71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DigestEncryptUpdate(
    session: u64,
    part: *mut u8,
    part_len: u64,
    encrypted_part: *mut u8,
    encrypted_part_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let part_bytes = unsafe { out::blob(part.cast(), part_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut encrypted_part_room =
            unsafe { out::Room::of(encrypted_part.cast::<u8>(), encrypted_part_len, ROOM) }?;
        parts_turned(
            part_bytes,
            &mut encrypted_part_room,
            [OK, SMALL],
            |part_bytes, part_instead, encrypted_part_room| {
                let encrypted_part_asked = encrypted_part_room.asked();
                link.call_secret(
                    calls::C_DIGESTENCRYPTUPDATE,
                    |w| {
                        w.name(session_name);
                        w.blob(part_bytes);
                        w.u64(part_instead);
                        w.u64(encrypted_part_asked);
                        w.pad();
                    },
                    |r| {
                        let returned = r.u64()?;
                        if returned == OK || PARTIAL.contains(&returned) {
                            encrypted_part_room.read(r, returned == OK)?;
                        }
                        r.end()?;
                        Ok(returned)
                    },
                )
            },
        )
        .map_err(|failure| failure.of_limit(33))
    })
}

/// Call 72.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DecryptDigestUpdate(
    session: u64,
    encrypted_part: *mut u8,
    encrypted_part_len: u64,
    part: *mut u8,
    part_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let encrypted_part_bytes =
            unsafe { out::blob(encrypted_part.cast(), encrypted_part_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut part_room = unsafe { out::Room::of(part.cast::<u8>(), part_len, ROOM) }?;
        parts_turned(
            encrypted_part_bytes,
            &mut part_room,
            [OK, SMALL],
            |encrypted_part_bytes, encrypted_part_instead, part_room| {
                let part_asked = part_room.asked();
                link.call_secret(
                    calls::C_DECRYPTDIGESTUPDATE,
                    |w| {
                        w.name(session_name);
                        w.blob(encrypted_part_bytes);
                        w.u64(encrypted_part_instead);
                        w.u64(part_asked);
                        w.pad();
                    },
                    |r| {
                        let returned = r.u64()?;
                        if returned == OK || PARTIAL.contains(&returned) {
                            part_room.read(r, returned == OK)?;
                        }
                        r.end()?;
                        Ok(returned)
                    },
                )
            },
        )
        .map_err(|failure| failure.of_limit(65))
    })
}

/// Call 73.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SignEncryptUpdate(
    session: u64,
    part: *mut u8,
    part_len: u64,
    encrypted_part: *mut u8,
    encrypted_part_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let part_bytes = unsafe { out::blob(part.cast(), part_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut encrypted_part_room =
            unsafe { out::Room::of(encrypted_part.cast::<u8>(), encrypted_part_len, ROOM) }?;
        parts_turned(
            part_bytes,
            &mut encrypted_part_room,
            [OK, SMALL],
            |part_bytes, part_instead, encrypted_part_room| {
                let encrypted_part_asked = encrypted_part_room.asked();
                link.call_secret(
                    calls::C_SIGNENCRYPTUPDATE,
                    |w| {
                        w.name(session_name);
                        w.blob(part_bytes);
                        w.u64(part_instead);
                        w.u64(encrypted_part_asked);
                        w.pad();
                    },
                    |r| {
                        let returned = r.u64()?;
                        if returned == OK || PARTIAL.contains(&returned) {
                            encrypted_part_room.read(r, returned == OK)?;
                        }
                        r.end()?;
                        Ok(returned)
                    },
                )
            },
        )
        .map_err(|failure| failure.of_limit(33))
    })
}

/// Call 74.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DecryptVerifyUpdate(
    session: u64,
    encrypted_part: *mut u8,
    encrypted_part_len: u64,
    part: *mut u8,
    part_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let encrypted_part_bytes =
            unsafe { out::blob(encrypted_part.cast(), encrypted_part_len as u64) }?;
        // SAFETY: C's rules for this function.
        let mut part_room = unsafe { out::Room::of(part.cast::<u8>(), part_len, ROOM) }?;
        parts_turned(
            encrypted_part_bytes,
            &mut part_room,
            [OK, SMALL],
            |encrypted_part_bytes, encrypted_part_instead, part_room| {
                let part_asked = part_room.asked();
                link.call_secret(
                    calls::C_DECRYPTVERIFYUPDATE,
                    |w| {
                        w.name(session_name);
                        w.blob(encrypted_part_bytes);
                        w.u64(encrypted_part_instead);
                        w.u64(part_asked);
                        w.pad();
                    },
                    |r| {
                        let returned = r.u64()?;
                        if returned == OK || PARTIAL.contains(&returned) {
                            part_room.read(r, returned == OK)?;
                        }
                        r.end()?;
                        Ok(returned)
                    },
                )
            },
        )
        .map_err(|failure| failure.of_limit(65))
    })
}

/// Call 75.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GenerateKey(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    templ: *mut CK_ATTRIBUTE,
    ulCount: u64,
    key: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        // SAFETY: C's rules for this function.
        let templ_packed = unsafe { out::packed_list(templ, ulCount as u64, pack_CK_ATTRIBUTE) }?;
        // SAFETY: C's rules for this function.
        let key_place = unsafe { out::place(key) }?;
        let key_new = REMOTE.objects.make(kinds::OBJECT, link.number(), None)?;
        let (returned, outs) = link.call(
            calls::C_GENERATEKEY,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.bytes(&templ_packed);
                w.name(key_new.name());
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((r.bool()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((key_answer,)) = outs {
            let owner = (!key_answer).then_some(session_name);
            let kept = REMOTE.objects.keep_within(key_new, owner, kinds::SESSION);
            key_place.write(kept.value());
        }
        Ok(returned)
    })
}

/// Call 76.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GenerateKeyPair(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    public_key_template: *mut CK_ATTRIBUTE,
    public_key_attribute_count: u64,
    private_key_template: *mut CK_ATTRIBUTE,
    private_key_attribute_count: u64,
    public_key: *mut u64,
    private_key: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        // SAFETY: C's rules for this function.
        let public_key_template_packed = unsafe {
            out::packed_list(
                public_key_template,
                public_key_attribute_count as u64,
                pack_CK_ATTRIBUTE,
            )
        }?;
        // SAFETY: C's rules for this function.
        let private_key_template_packed = unsafe {
            out::packed_list(
                private_key_template,
                private_key_attribute_count as u64,
                pack_CK_ATTRIBUTE,
            )
        }?;
        // SAFETY: C's rules for this function.
        let public_key_place = unsafe { out::place(public_key) }?;
        let public_key_new = REMOTE.objects.make(kinds::OBJECT, link.number(), None)?;
        // SAFETY: C's rules for this function.
        let private_key_place = unsafe { out::place(private_key) }?;
        let private_key_new = REMOTE.objects.make(kinds::OBJECT, link.number(), None)?;
        let (returned, outs) = link.call(
            calls::C_GENERATEKEYPAIR,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.bytes(&public_key_template_packed);
                w.bytes(&private_key_template_packed);
                w.name(public_key_new.name());
                w.name(private_key_new.name());
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((r.bool()?, r.bool()?)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((public_key_answer, private_key_answer)) = outs {
            let owner = (!public_key_answer).then_some(session_name);
            let kept = REMOTE.objects.keep_within(public_key_new, owner, kinds::SESSION);
            public_key_place.write(kept.value());
            let owner = (!private_key_answer).then_some(session_name);
            let kept = REMOTE.objects.keep_within(private_key_new, owner, kinds::SESSION);
            private_key_place.write(kept.value());
        }
        Ok(returned)
    })
}

/// Call 77.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_WrapKey(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    wrapping_key: u64,
    key: u64,
    wrapped_key: *mut u8,
    wrapped_key_len: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let wrapping_key_name = REMOTE.objects.known(wrapping_key, kinds::OBJECT, link.number());
        let key_name = REMOTE.objects.known(key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        // SAFETY: C's rules for this function.
        let mut wrapped_key_room =
            unsafe { out::Room::of(wrapped_key.cast::<u8>(), wrapped_key_len, ROOM) }?;
        let wrapped_key_asked = wrapped_key_room.asked();
        let (returned, outs) = link.call_secret(
            calls::C_WRAPKEY,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(wrapping_key_name);
                w.name(key_name);
                w.u64(wrapped_key_asked);
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                if returned == OK || PARTIAL.contains(&returned) {
                    wrapped_key_room.read(r, returned == OK)?;
                }
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 78.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_UnwrapKey(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    unwrapping_key: u64,
    wrapped_key: *mut u8,
    wrapped_key_len: u64,
    templ: *mut CK_ATTRIBUTE,
    attribute_count: u64,
    key: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let unwrapping_key_name =
            REMOTE.objects.known(unwrapping_key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        // SAFETY: C's rules for this function.
        let wrapped_key_bytes = unsafe { out::blob(wrapped_key.cast(), wrapped_key_len as u64) }?;
        // SAFETY: C's rules for this function.
        let templ_packed =
            unsafe { out::packed_list(templ, attribute_count as u64, pack_CK_ATTRIBUTE) }?;
        // SAFETY: C's rules for this function.
        let key_place = unsafe { out::place(key) }?;
        let key_new = REMOTE.objects.make(kinds::OBJECT, link.number(), None)?;
        let (returned, outs) = link.call_secret(
            calls::C_UNWRAPKEY,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(unwrapping_key_name);
                w.blob(wrapped_key_bytes);
                w.bytes(&templ_packed);
                w.name(key_new.name());
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((r.bool()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((key_answer,)) = outs {
            let owner = (!key_answer).then_some(session_name);
            let kept = REMOTE.objects.keep_within(key_new, owner, kinds::SESSION);
            key_place.write(kept.value());
        }
        Ok(returned)
    })
}

/// Call 79.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_DeriveKey(
    session: u64,
    mechanism: *mut CK_MECHANISM,
    base_key: u64,
    templ: *mut CK_ATTRIBUTE,
    attribute_count: u64,
    key: *mut u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        let base_key_name = REMOTE.objects.known(base_key, kinds::OBJECT, link.number());
        // SAFETY: C's rules for this function.
        let mechanism_value = unsafe { out::value(mechanism) }?;
        // SAFETY: C's rules for this function.
        let mechanism_packed = packed(|w| unsafe { pack_CK_MECHANISM(w, &mechanism_value) })?;
        // SAFETY: C's rules for this function.
        let templ_packed =
            unsafe { out::packed_list(templ, attribute_count as u64, pack_CK_ATTRIBUTE) }?;
        // SAFETY: C's rules for this function.
        let key_place = unsafe { out::place(key) }?;
        let key_new = REMOTE.objects.make(kinds::OBJECT, link.number(), None)?;
        let (returned, outs) = link.call_secret(
            calls::C_DERIVEKEY,
            |w| {
                w.name(session_name);
                w.bytes(&mechanism_packed);
                w.name(base_key_name);
                w.bytes(&templ_packed);
                w.name(key_new.name());
                w.pad();
            },
            |r| {
                let returned = r.u64()?;
                let outs = if returned == OK { Some((r.bool()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((key_answer,)) = outs {
            let owner = (!key_answer).then_some(session_name);
            let kept = REMOTE.objects.keep_within(key_new, owner, kinds::SESSION);
            key_place.write(kept.value());
        }
        Ok(returned)
    })
}

/// Call 80.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_SeedRandom(session: u64, seed: *mut u8, seed_len: u64) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let seed_bytes = unsafe { out::blob(seed.cast(), seed_len as u64) }?;
        parts(seed_bytes, OK, |seed_bytes| {
            link.call_secret(
                calls::C_SEEDRANDOM,
                |w| {
                    w.name(session_name);
                    w.blob(seed_bytes);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    r.end()?;
                    Ok(returned)
                },
            )
        })
    })
}

/// Call 81.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GenerateRandom(
    session: u64,
    random_data: *mut u8,
    random_len: u64,
) -> u64 {
    answer(|| {
        let link = REMOTE.begun()?;
        let session_name = REMOTE.objects.known(session, kinds::SESSION, link.number());
        // SAFETY: C's rules for this function.
        let random_data_places = unsafe { out::places(random_data.cast::<u8>(), random_len) }?;
        parts_filled(random_data_places, OK, |random_data_places| {
            let random_len = random_data_places.len() as u64;
            link.call_secret(
                calls::C_GENERATERANDOM,
                |w| {
                    w.name(session_name);
                    w.u64(random_len);
                    w.pad();
                },
                |r| {
                    let returned = r.u64()?;
                    if returned == OK {
                        out::write_all(random_data_places, r.bytes(random_data_places.len())?);
                    }
                    r.end()?;
                    Ok(returned)
                },
            )
        })
    })
}

/// Call 82.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetFunctionStatus(session: u64) -> u64 {
    answer(|| {
        REMOTE.begun()?;
        Ok(81)
    })
}

/// Call 83.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_CancelFunction(session: u64) -> u64 {
    answer(|| {
        REMOTE.begun()?;
        Ok(81)
    })
}

/// All functions.
pub static TABLE: CK_FUNCTION_LIST = CK_FUNCTION_LIST {
    version: hand::VERSION,
    C_Initialize: Some(C_Initialize),
    C_Finalize: Some(C_Finalize),
    C_GetInfo: Some(C_GetInfo),
    C_GetFunctionList: Some(C_GetFunctionList),
    C_GetSlotList: Some(C_GetSlotList),
    C_GetSlotInfo: Some(C_GetSlotInfo),
    C_GetTokenInfo: Some(C_GetTokenInfo),
    C_GetMechanismList: Some(C_GetMechanismList),
    C_GetMechanismInfo: Some(C_GetMechanismInfo),
    C_InitToken: Some(C_InitToken),
    C_InitPIN: Some(C_InitPIN),
    C_SetPIN: Some(C_SetPIN),
    C_OpenSession: Some(C_OpenSession),
    C_CloseSession: Some(C_CloseSession),
    C_CloseAllSessions: Some(C_CloseAllSessions),
    C_GetSessionInfo: Some(C_GetSessionInfo),
    C_GetOperationState: Some(C_GetOperationState),
    C_SetOperationState: Some(C_SetOperationState),
    C_Login: Some(C_Login),
    C_Logout: Some(C_Logout),
    C_CreateObject: Some(C_CreateObject),
    C_CopyObject: Some(C_CopyObject),
    C_DestroyObject: Some(C_DestroyObject),
    C_GetObjectSize: Some(C_GetObjectSize),
    C_GetAttributeValue: Some(C_GetAttributeValue),
    C_SetAttributeValue: Some(C_SetAttributeValue),
    C_FindObjectsInit: Some(C_FindObjectsInit),
    C_FindObjects: Some(C_FindObjects),
    C_FindObjectsFinal: Some(C_FindObjectsFinal),
    C_EncryptInit: Some(C_EncryptInit),
    C_Encrypt: Some(C_Encrypt),
    C_EncryptUpdate: Some(C_EncryptUpdate),
    C_EncryptFinal: Some(C_EncryptFinal),
    C_DecryptInit: Some(C_DecryptInit),
    C_Decrypt: Some(C_Decrypt),
    C_DecryptUpdate: Some(C_DecryptUpdate),
    C_DecryptFinal: Some(C_DecryptFinal),
    C_DigestInit: Some(C_DigestInit),
    C_Digest: Some(C_Digest),
    C_DigestUpdate: Some(C_DigestUpdate),
    C_DigestKey: Some(C_DigestKey),
    C_DigestFinal: Some(C_DigestFinal),
    C_SignInit: Some(C_SignInit),
    C_Sign: Some(C_Sign),
    C_SignUpdate: Some(C_SignUpdate),
    C_SignFinal: Some(C_SignFinal),
    C_SignRecoverInit: Some(C_SignRecoverInit),
    C_SignRecover: Some(C_SignRecover),
    C_VerifyInit: Some(C_VerifyInit),
    C_Verify: Some(C_Verify),
    C_VerifyUpdate: Some(C_VerifyUpdate),
    C_VerifyFinal: Some(C_VerifyFinal),
    C_VerifyRecoverInit: Some(C_VerifyRecoverInit),
    C_VerifyRecover: Some(C_VerifyRecover),
    C_DigestEncryptUpdate: Some(C_DigestEncryptUpdate),
    C_DecryptDigestUpdate: Some(C_DecryptDigestUpdate),
    C_SignEncryptUpdate: Some(C_SignEncryptUpdate),
    C_DecryptVerifyUpdate: Some(C_DecryptVerifyUpdate),
    C_GenerateKey: Some(C_GenerateKey),
    C_GenerateKeyPair: Some(C_GenerateKeyPair),
    C_WrapKey: Some(C_WrapKey),
    C_UnwrapKey: Some(C_UnwrapKey),
    C_DeriveKey: Some(C_DeriveKey),
    C_SeedRandom: Some(C_SeedRandom),
    C_GenerateRandom: Some(C_GenerateRandom),
    C_GetFunctionStatus: Some(C_GetFunctionStatus),
    C_CancelFunction: Some(C_CancelFunction),
    C_WaitForSlotEvent: Some(C_WaitForSlotEvent),
};
