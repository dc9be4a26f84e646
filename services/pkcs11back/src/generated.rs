//! The host's half of the API `pkcs11`.
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
use std::any::Any;
use std::ffi::c_void;
use vfun_remoting_host::{
    Context, NOWHERE, Name, Places, Reader, Refusal, Returned, Room, Writer, limits, room,
};

/// Stands for the whole description: the guest's half must have the same.
pub const FINGERPRINT: u64 = 0x6e1186540a22dcb4;

/// Longest call and answer, bytes. The manifest says the same.
pub const CELL_BYTES: u32 = 69632;

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

/// The functions of the library that does the work, as it gives them out.
pub type Native = CK_FUNCTION_LIST;

/// Whether the bytes of a `CK_ATTRIBUTE` with this tag may have pointers.
fn is_refused_CK_ATTRIBUTE(tag: u64) -> bool {
    tag & 0xc0000000 != 0 && tag != 1073743360
}

/// Writes each member.
pub fn write_CK_INFO(w: &mut Writer<'_>, of: &CK_INFO) {
    write_CK_VERSION(w, &of.cryptokiVersion);
    w.bytes(&of.manufacturerID);
    w.u64(of.flags);
    w.bytes(&of.libraryDescription);
    write_CK_VERSION(w, &of.libraryVersion);
}

/// Writes each member.
pub fn write_CK_MECHANISM_INFO(w: &mut Writer<'_>, of: &CK_MECHANISM_INFO) {
    w.u64(of.ulMinKeySize);
    w.u64(of.ulMaxKeySize);
    w.u64(of.flags);
}

/// Writes each member.
pub fn write_CK_SESSION_INFO(w: &mut Writer<'_>, of: &CK_SESSION_INFO) {
    w.u64(of.slotID);
    w.u64(of.state);
    w.u64(of.flags);
    w.u64(of.ulDeviceError);
}

/// Writes each member.
pub fn write_CK_SLOT_INFO(w: &mut Writer<'_>, of: &CK_SLOT_INFO) {
    w.bytes(&of.slotDescription);
    w.bytes(&of.manufacturerID);
    w.u64(of.flags);
    write_CK_VERSION(w, &of.hardwareVersion);
    write_CK_VERSION(w, &of.firmwareVersion);
}

/// Writes each member.
pub fn write_CK_TOKEN_INFO(w: &mut Writer<'_>, of: &CK_TOKEN_INFO) {
    w.bytes(&of.label);
    w.bytes(&of.manufacturerID);
    w.bytes(&of.model);
    w.bytes(&of.serialNumber);
    w.u64(of.flags);
    w.u64(of.ulMaxSessionCount);
    w.u64(of.ulSessionCount);
    w.u64(of.ulMaxRwSessionCount);
    w.u64(of.ulRwSessionCount);
    w.u64(of.ulMaxPinLen);
    w.u64(of.ulMinPinLen);
    w.u64(of.ulTotalPublicMemory);
    w.u64(of.ulFreePublicMemory);
    w.u64(of.ulTotalPrivateMemory);
    w.u64(of.ulFreePrivateMemory);
    write_CK_VERSION(w, &of.hardwareVersion);
    write_CK_VERSION(w, &of.firmwareVersion);
    w.bytes(&of.utcTime);
}

/// Writes each member.
pub fn write_CK_VERSION(w: &mut Writer<'_>, of: &CK_VERSION) {
    w.u8(of.major);
    w.u8(of.minor);
}

/// Reads numbers, and bytes behind their lengths. It points to the call's bytes, and is good as long as these.
fn read_CK_AES_CBC_ENCRYPT_DATA_PARAMS(
    r: &mut Reader<'_>,
) -> Result<CK_AES_CBC_ENCRYPT_DATA_PARAMS, Refusal> {
    let mut iv = [0; 16];
    iv.copy_from_slice(r.bytes(16)?);
    let pData = r.blob()?;
    Ok(CK_AES_CBC_ENCRYPT_DATA_PARAMS {
        iv,
        pData: room::start(pData).cast(),
        length: room::length(pData),
    })
}

/// Reads numbers, and bytes behind their lengths. It points to the call's bytes, and is good as long as these.
fn read_CK_ATTRIBUTE(r: &mut Reader<'_>) -> Result<CK_ATTRIBUTE, Refusal> {
    let type_ = r.u64()?;
    let pValue = r.blob()?;
    if is_refused_CK_ATTRIBUTE(type_) {
        return Err(Refusal::Argument);
    }
    Ok(CK_ATTRIBUTE { type_, pValue: room::start(pValue).cast(), ulValueLen: room::length(pValue) })
}

/// Reads numbers, and bytes behind their lengths. It points to the call's bytes, and is good as long as these.
fn read_CK_DES_CBC_ENCRYPT_DATA_PARAMS(
    r: &mut Reader<'_>,
) -> Result<CK_DES_CBC_ENCRYPT_DATA_PARAMS, Refusal> {
    let mut iv = [0; 8];
    iv.copy_from_slice(r.bytes(8)?);
    let pData = r.blob()?;
    Ok(CK_DES_CBC_ENCRYPT_DATA_PARAMS {
        iv,
        pData: room::start(pData).cast(),
        length: room::length(pData),
    })
}

/// Reads numbers, and bytes behind their lengths. It points to the call's bytes, and is good as long as these.
fn read_CK_ECDH1_DERIVE_PARAMS(r: &mut Reader<'_>) -> Result<CK_ECDH1_DERIVE_PARAMS, Refusal> {
    let kdf = r.u64()?;
    let pSharedData = r.blob()?;
    let pPublicData = r.blob()?;
    Ok(CK_ECDH1_DERIVE_PARAMS {
        kdf,
        pSharedData: room::start(pSharedData).cast(),
        ulSharedDataLen: room::length(pSharedData),
        pPublicData: room::start(pPublicData).cast(),
        ulPublicDataLen: room::length(pPublicData),
    })
}

/// Reads numbers, and bytes behind their lengths. It points to the call's bytes, and is good as long as these.
fn read_CK_GCM_PARAMS(r: &mut Reader<'_>) -> Result<CK_GCM_PARAMS, Refusal> {
    let pIv = r.blob()?;
    let ulIvBits = r.u64()?;
    let pAAD = r.blob()?;
    let ulTagBits = r.u64()?;
    Ok(CK_GCM_PARAMS {
        pIv: room::start(pIv).cast(),
        ulIvLen: room::length(pIv),
        ulIvBits,
        pAAD: room::start(pAAD).cast(),
        ulAADLen: room::length(pAAD),
        ulTagBits,
    })
}

/// Reads numbers, and bytes behind their lengths. It points to the call's bytes, and is good as long as these.
fn read_CK_KEY_DERIVATION_STRING_DATA(
    r: &mut Reader<'_>,
) -> Result<CK_KEY_DERIVATION_STRING_DATA, Refusal> {
    let pData = r.blob()?;
    Ok(CK_KEY_DERIVATION_STRING_DATA {
        pData: room::start(pData).cast(),
        ulLen: room::length(pData),
    })
}

/// Reads what the number says that is there: nothing else gets to the library. It points to the call's bytes, or to what comes with it.
fn read_CK_MECHANISM(r: &mut Reader<'_>) -> Result<(CK_MECHANISM, Box<dyn Any>), Refusal> {
    let (mechanism, mut look) = (r.u64()?, *r);
    let flat = |bytes: Option<&[u8]>| CK_MECHANISM {
        mechanism,
        pParameter: room::start(bytes).cast(),
        ulParameterLen: room::length(bytes),
    };
    match (mechanism, look.u64()?) {
        (_, NOWHERE) => {
            *r = look;
            Ok((flat(None), Box::new(())))
        }
        (33, 1..=2048) => Ok((flat(r.blob()?), Box::new(()))),
        (8458, 4..=4) => Ok((flat(r.blob()?), Box::new(()))),
        (
            290 | 293 | 307 | 309 | 310 | 311 | 546 | 594 | 599 | 610 | 626 | 4228 | 4235 | 8457,
            8..=8,
        ) => Ok((flat(r.blob()?), Box::new(()))),
        (4226 | 4229 | 4233 | 8452 | 8453 | 8454 | 8455, 16..=16) => {
            Ok((flat(r.blob()?), Box::new(())))
        }
        (13 | 14 | 67 | 68 | 69 | 71 | 4230, 24..=24) => Ok((flat(r.blob()?), Box::new(()))),
        (4357, ulParameterLen)
            if ulParameterLen == size_of::<CK_AES_CBC_ENCRYPT_DATA_PARAMS>() as u64 =>
        {
            *r = look;
            let kept = Box::new(read_CK_AES_CBC_ENCRYPT_DATA_PARAMS(r)?);
            let pParameter = std::ptr::from_ref(&*kept).cast_mut().cast();
            Ok((CK_MECHANISM { mechanism, pParameter, ulParameterLen }, kept))
        }
        (4355, ulParameterLen)
            if ulParameterLen == size_of::<CK_DES_CBC_ENCRYPT_DATA_PARAMS>() as u64 =>
        {
            *r = look;
            let kept = Box::new(read_CK_DES_CBC_ENCRYPT_DATA_PARAMS(r)?);
            let pParameter = std::ptr::from_ref(&*kept).cast_mut().cast();
            Ok((CK_MECHANISM { mechanism, pParameter, ulParameterLen }, kept))
        }
        (4176 | 4177, ulParameterLen)
            if ulParameterLen == size_of::<CK_ECDH1_DERIVE_PARAMS>() as u64 =>
        {
            *r = look;
            let kept = Box::new(read_CK_ECDH1_DERIVE_PARAMS(r)?);
            let pParameter = std::ptr::from_ref(&*kept).cast_mut().cast();
            Ok((CK_MECHANISM { mechanism, pParameter, ulParameterLen }, kept))
        }
        (4231, ulParameterLen) if ulParameterLen == size_of::<CK_GCM_PARAMS>() as u64 => {
            *r = look;
            let kept = Box::new(read_CK_GCM_PARAMS(r)?);
            let pParameter = std::ptr::from_ref(&*kept).cast_mut().cast();
            Ok((CK_MECHANISM { mechanism, pParameter, ulParameterLen }, kept))
        }
        (866 | 867 | 868 | 4354 | 4356, ulParameterLen)
            if ulParameterLen == size_of::<CK_KEY_DERIVATION_STRING_DATA>() as u64 =>
        {
            *r = look;
            let kept = Box::new(read_CK_KEY_DERIVATION_STRING_DATA(r)?);
            let pParameter = std::ptr::from_ref(&*kept).cast_mut().cast();
            Ok((CK_MECHANISM { mechanism, pParameter, ulParameterLen }, kept))
        }
        (9, ulParameterLen) if ulParameterLen == size_of::<CK_RSA_PKCS_OAEP_PARAMS>() as u64 => {
            *r = look;
            let kept = Box::new(read_CK_RSA_PKCS_OAEP_PARAMS(r)?);
            let pParameter = std::ptr::from_ref(&*kept).cast_mut().cast();
            Ok((CK_MECHANISM { mechanism, pParameter, ulParameterLen }, kept))
        }
        _ => Err(Refusal::Argument),
    }
}

/// Reads numbers, and bytes behind their lengths. It points to the call's bytes, and is good as long as these.
fn read_CK_RSA_PKCS_OAEP_PARAMS(r: &mut Reader<'_>) -> Result<CK_RSA_PKCS_OAEP_PARAMS, Refusal> {
    let hashAlg = r.u64()?;
    let mgf = r.u64()?;
    let source = r.u64()?;
    let pSourceData = r.blob()?;
    Ok(CK_RSA_PKCS_OAEP_PARAMS {
        hashAlg,
        mgf,
        source,
        pSourceData: room::start(pSourceData).cast(),
        ulSourceDataLen: room::length(pSourceData),
    })
}

/// Reads which are asked for, and makes room for them.
fn ask_CK_ATTRIBUTE(r: &mut Reader<'_>) -> Result<(Vec<CK_ATTRIBUTE>, Places), Refusal> {
    let count = r.length(limits::STRUCTS_MAX)?;
    let (mut all, mut places) = (Vec::with_capacity(count), Places::default());
    for _ in 0..count {
        let type_ = r.u64()?;
        if is_refused_CK_ATTRIBUTE(type_) {
            return Err(Refusal::Argument);
        }
        places.ask(r.u64()?)?;
        all.push(CK_ATTRIBUTE { type_, pValue: std::ptr::null_mut(), ulValueLen: 0 });
    }
    places.make();
    for (at, one) in all.iter_mut().enumerate() {
        one.pValue = places.start(at).cast();
        one.ulValueLen = places.room(at);
    }
    Ok((all, places))
}

/// Writes what was filled.
fn write_filled_CK_ATTRIBUTE(reply: &mut Writer<'_>, all: &[CK_ATTRIBUTE], places: &Places) {
    for (at, one) in all.iter().enumerate() {
        places.write(reply, at, one.ulValueLen);
    }
}

fn C_GetInfo(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    args.end()?;
    let mut info = CK_INFO {
        cryptokiVersion: CK_VERSION { major: 0, minor: 0 },
        manufacturerID: [0; 32],
        flags: 0,
        libraryDescription: [0; 32],
        libraryVersion: CK_VERSION { major: 0, minor: 0 },
    };
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe { (native.C_GetInfo.ok_or(Refusal::Unsupported)?)(&mut info) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_CK_INFO(reply, &info);
    Ok(Returned::Fine)
}

fn C_GetSlotInfo(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let slotID = args.u64()?;
    args.end()?;
    if !hand::may_use_slot(state, native, slotID) {
        reply.u64(3);
        return Ok(Returned::Failure(3));
    }
    let mut info = CK_SLOT_INFO {
        slotDescription: [0; 64],
        manufacturerID: [0; 32],
        flags: 0,
        hardwareVersion: CK_VERSION { major: 0, minor: 0 },
        firmwareVersion: CK_VERSION { major: 0, minor: 0 },
    };
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.C_GetSlotInfo.ok_or(Refusal::Unsupported)?)(slotID, &mut info) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_CK_SLOT_INFO(reply, &info);
    Ok(Returned::Fine)
}

fn C_GetTokenInfo(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let slotID = args.u64()?;
    args.end()?;
    if !hand::may_use_slot(state, native, slotID) {
        reply.u64(3);
        return Ok(Returned::Failure(3));
    }
    let mut info = CK_TOKEN_INFO {
        label: [0; 32],
        manufacturerID: [0; 32],
        model: [0; 16],
        serialNumber: [0; 16],
        flags: 0,
        ulMaxSessionCount: 0,
        ulSessionCount: 0,
        ulMaxRwSessionCount: 0,
        ulRwSessionCount: 0,
        ulMaxPinLen: 0,
        ulMinPinLen: 0,
        ulTotalPublicMemory: 0,
        ulFreePublicMemory: 0,
        ulTotalPrivateMemory: 0,
        ulFreePrivateMemory: 0,
        hardwareVersion: CK_VERSION { major: 0, minor: 0 },
        firmwareVersion: CK_VERSION { major: 0, minor: 0 },
        utcTime: [0; 16],
    };
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.C_GetTokenInfo.ok_or(Refusal::Unsupported)?)(slotID, &mut info) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_CK_TOKEN_INFO(reply, &info);
    Ok(Returned::Fine)
}

fn C_GetMechanismList(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let slotID = args.u64()?;
    let mut mechanism_list = Room::<u64>::asked(args.u64()?, ROOM / 8)?;
    args.end()?;
    if !hand::may_use_slot(state, native, slotID) {
        reply.u64(3);
        return Ok(Returned::Failure(3));
    }
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_GetMechanismList.ok_or(Refusal::Unsupported)?)(
            slotID,
            mechanism_list.start().cast(),
            mechanism_list.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        mechanism_list.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_GetMechanismInfo(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let slotID = args.u64()?;
    let type_ = args.u64()?;
    args.end()?;
    if !hand::may_use_slot(state, native, slotID) {
        reply.u64(3);
        return Ok(Returned::Failure(3));
    }
    let mut info = CK_MECHANISM_INFO { ulMinKeySize: 0, ulMaxKeySize: 0, flags: 0 };
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_GetMechanismInfo.ok_or(Refusal::Unsupported)?)(slotID, type_, &mut info)
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_CK_MECHANISM_INFO(reply, &info);
    Ok(Returned::Fine)
}

fn C_InitToken(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let slotID = args.u64()?;
    let pin = args.blob()?;
    let label = room::exactly(args.blob()?, 32)?;
    args.end_padded()?;
    if !hand::may_use_slot(state, native, slotID) {
        reply.u64(3);
        return Ok(Returned::Failure(3));
    }
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_InitToken.ok_or(Refusal::Unsupported)?)(
            slotID,
            room::start(pin).cast(),
            room::length(pin) as _,
            room::start(label).cast(),
        )
    };
    reply.u64(returned);
    hand::audit(state, native, "C_InitToken", &[("slotID", slotID as u64)], returned as u64);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_InitPIN(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let pin = args.blob()?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_InitPIN.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(pin).cast(),
            room::length(pin) as _,
        )
    };
    reply.u64(returned);
    hand::audit(state, native, "C_InitPIN", &[("session", session as u64)], returned as u64);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SetPIN(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let old_pin = args.blob()?;
    let new_pin = args.blob()?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SetPIN.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(old_pin).cast(),
            room::length(old_pin) as _,
            room::start(new_pin).cast(),
            room::length(new_pin) as _,
        )
    };
    reply.u64(returned);
    hand::audit(state, native, "C_SetPIN", &[("session", session as u64)], returned as u64);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_OpenSession(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let slotID = args.u64()?;
    let flags = args.u64()?;
    let session_name = args.name()?;
    cx.objects.check_free(session_name)?;
    cx.objects.check_most(kinds::SESSION, 1024)?;
    cx.objects.check_client_most(kinds::SESSION, 4096)?;
    args.end()?;
    if !hand::may_use_slot(state, native, slotID) {
        reply.u64(3);
        return Ok(Returned::Failure(3));
    }
    let mut session = 0u64;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_OpenSession.ok_or(Refusal::Unsupported)?)(
            slotID,
            flags,
            std::ptr::null_mut(),
            None,
            &mut session,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent = Name::NONE;
    cx.objects.insert(session_name, kinds::SESSION, session as usize, parent);

    Ok(Returned::Fine)
}

fn C_CloseSession(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.check_owned(session_name, kinds::SESSION).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe { (native.C_CloseSession.ok_or(Refusal::Unsupported)?)(session) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(session_name);
    reply.bool(cx.objects.remove_with_last(kinds::SESSION, kinds::OBJECT));
    Ok(Returned::Fine)
}

fn C_GetSessionInfo(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    args.end()?;
    let mut info = CK_SESSION_INFO { slotID: 0, state: 0, flags: 0, ulDeviceError: 0 };
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.C_GetSessionInfo.ok_or(Refusal::Unsupported)?)(session, &mut info) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_CK_SESSION_INFO(reply, &info);
    Ok(Returned::Fine)
}

fn C_GetOperationState(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let mut operation_state = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_GetOperationState.ok_or(Refusal::Unsupported)?)(
            session,
            operation_state.start().cast(),
            operation_state.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        operation_state.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SetOperationState(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let operation_state = args.blob()?;
    let encryption_key_name = args.name()?;
    let encryption_key = cx.objects.find(encryption_key_name, kinds::OBJECT).unwrap_or(0) as u64;
    let authentiation_key_name = args.name()?;
    let authentiation_key =
        cx.objects.find(authentiation_key_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SetOperationState.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(operation_state).cast(),
            room::length(operation_state) as _,
            encryption_key,
            authentiation_key,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_Login(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let user_type = args.u64()?;
    let pin = args.blob()?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_Login.ok_or(Refusal::Unsupported)?)(
            session,
            user_type,
            room::start(pin).cast(),
            room::length(pin) as _,
        )
    };
    reply.u64(returned);
    hand::audit(
        state,
        native,
        "C_Login",
        &[("session", session as u64), ("user_type", user_type as u64)],
        returned as u64,
    );
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_Logout(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe { (native.C_Logout.ok_or(Refusal::Unsupported)?)(session) };
    reply.u64(returned);
    hand::audit(state, native, "C_Logout", &[("session", session as u64)], returned as u64);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_CreateObject(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let mut templ = room::list(&mut args, read_CK_ATTRIBUTE)?;
    let object_name = args.name()?;
    cx.objects.check_free(object_name)?;
    cx.objects.check_most(kinds::OBJECT, 60000)?;
    args.end_padded()?;
    let mut object = 0u64;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_CreateObject.ok_or(Refusal::Unsupported)?)(
            session,
            room::items(&mut templ),
            room::count(&templ) as _,
            &mut object,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent =
        if hand::is_of_token(state, native, session, object) { Name::NONE } else { session_name };
    cx.objects.insert(object_name, kinds::OBJECT, object as usize, parent);
    reply.bool(parent.is_none());

    Ok(Returned::Fine)
}

fn C_CopyObject(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let object_name = args.name()?;
    let object = cx.objects.find(object_name, kinds::OBJECT).unwrap_or(0) as u64;
    let mut templ = room::list(&mut args, read_CK_ATTRIBUTE)?;
    let new_object_name = args.name()?;
    cx.objects.check_free(new_object_name)?;
    cx.objects.check_most(kinds::OBJECT, 60000)?;
    args.end_padded()?;
    let mut new_object = 0u64;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_CopyObject.ok_or(Refusal::Unsupported)?)(
            session,
            object,
            room::items(&mut templ),
            room::count(&templ) as _,
            &mut new_object,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent = if hand::is_of_token(state, native, session, new_object) {
        Name::NONE
    } else {
        session_name
    };
    cx.objects.insert(new_object_name, kinds::OBJECT, new_object as usize, parent);
    reply.bool(parent.is_none());

    Ok(Returned::Fine)
}

fn C_DestroyObject(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let object_name = args.name()?;
    let object = cx.objects.find(object_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.C_DestroyObject.ok_or(Refusal::Unsupported)?)(session, object) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(object_name);
    Ok(Returned::Fine)
}

fn C_GetObjectSize(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let object_name = args.name()?;
    let object = cx.objects.find(object_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    let mut size = 0;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_GetObjectSize.ok_or(Refusal::Unsupported)?)(session, object, &mut size)
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.u64(size);
    Ok(Returned::Fine)
}

fn C_GetAttributeValue(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let object_name = args.name()?;
    let object = cx.objects.find(object_name, kinds::OBJECT).unwrap_or(0) as u64;
    let (mut templ, templ_places) = ask_CK_ATTRIBUTE(&mut args)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_GetAttributeValue.ok_or(Refusal::Unsupported)?)(
            session,
            object,
            templ.as_mut_ptr(),
            templ.len() as _,
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        write_filled_CK_ATTRIBUTE(reply, &templ, &templ_places);
        if reply.len() as u64 > ROOM {
            return Err(Refusal::Limit);
        }
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SetAttributeValue(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let object_name = args.name()?;
    let object = cx.objects.find(object_name, kinds::OBJECT).unwrap_or(0) as u64;
    let mut templ = room::list(&mut args, read_CK_ATTRIBUTE)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SetAttributeValue.ok_or(Refusal::Unsupported)?)(
            session,
            object,
            room::items(&mut templ),
            room::count(&templ) as _,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_FindObjectsInit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let mut templ = room::list(&mut args, read_CK_ATTRIBUTE)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_FindObjectsInit.ok_or(Refusal::Unsupported)?)(
            session,
            room::items(&mut templ),
            room::count(&templ) as _,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_FindObjects(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let object_names = args.names(limits::FOUND_MAX)?;
    object_names.iter().try_for_each(|name| cx.objects.check_free(*name))?;
    cx.objects.check_apart(&object_names)?;
    cx.objects.check_most(kinds::OBJECT, 60000)?;
    args.end()?;
    let mut object_shown = vec![];
    let returned = loop {
        let (mut object, mut object_count) =
            (vec![0u64; object_names.len() - object_shown.len()], 0u64);
        // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
        let returned = unsafe {
            (native.C_FindObjects.ok_or(Refusal::Unsupported)?)(
                session,
                object.as_mut_ptr(),
                (object_names.len() - object_shown.len()) as _,
                &mut object_count,
            )
        };
        object.truncate(usize::try_from(object_count).unwrap_or(usize::MAX));
        let none = object.is_empty();
        object.retain(|found| {
            cx.objects.is_known(kinds::OBJECT, *found as usize)
                || hand::is_of_token(state, native, session, *found)
        });
        object_shown.append(&mut object);
        if returned != OK || none || object_shown.len() == object_names.len() {
            break returned;
        }
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.length(object_shown.len());
    for (native, proposed) in object_shown.iter().zip(object_names) {
        reply.name(cx.objects.found(proposed, kinds::OBJECT, *native as usize, Name::NONE));
    }
    Ok(Returned::Fine)
}

fn C_FindObjectsFinal(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe { (native.C_FindObjectsFinal.ok_or(Refusal::Unsupported)?)(session) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_EncryptInit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let key_name = args.name()?;
    let key = cx.objects.find(key_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_EncryptInit.ok_or(Refusal::Unsupported)?)(session, &mut mechanism, key)
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_Encrypt(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let data = args.blob()?;
    let mut encrypted_data = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_Encrypt.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(data).cast(),
            room::length(data) as _,
            encrypted_data.start().cast(),
            encrypted_data.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        encrypted_data.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_EncryptUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let part = args.blob()?;
    let part_instead = args.u64()?;
    let mut encrypted_part = Room::<u8>::asked(args.u64()?, ROOM)?;
    let mut part_zeros = vec![];
    let part = room::instead(part, part_instead, &mut part_zeros, &encrypted_part)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_EncryptUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(part).cast(),
            room::length(part) as _,
            encrypted_part.start().cast(),
            encrypted_part.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        encrypted_part.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_EncryptFinal(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let mut last_encrypted_part = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_EncryptFinal.ok_or(Refusal::Unsupported)?)(
            session,
            last_encrypted_part.start().cast(),
            last_encrypted_part.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        last_encrypted_part.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DecryptInit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let key_name = args.name()?;
    let key = cx.objects.find(key_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DecryptInit.ok_or(Refusal::Unsupported)?)(session, &mut mechanism, key)
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_Decrypt(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let encrypted_data = args.blob()?;
    let mut data = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_Decrypt.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(encrypted_data).cast(),
            room::length(encrypted_data) as _,
            data.start().cast(),
            data.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        data.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DecryptUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let encrypted_part = args.blob()?;
    let encrypted_part_instead = args.u64()?;
    let mut part = Room::<u8>::asked(args.u64()?, ROOM)?;
    let mut encrypted_part_zeros = vec![];
    let encrypted_part =
        room::instead(encrypted_part, encrypted_part_instead, &mut encrypted_part_zeros, &part)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DecryptUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(encrypted_part).cast(),
            room::length(encrypted_part) as _,
            part.start().cast(),
            part.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        part.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DecryptFinal(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let mut last_part = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DecryptFinal.ok_or(Refusal::Unsupported)?)(
            session,
            last_part.start().cast(),
            last_part.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        last_part.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DigestInit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.C_DigestInit.ok_or(Refusal::Unsupported)?)(session, &mut mechanism) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_Digest(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let data = args.blob()?;
    let mut digest = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_Digest.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(data).cast(),
            room::length(data) as _,
            digest.start().cast(),
            digest.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        digest.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DigestUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let part = args.blob()?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DigestUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(part).cast(),
            room::length(part) as _,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DigestKey(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let key_name = args.name()?;
    let key = cx.objects.find(key_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe { (native.C_DigestKey.ok_or(Refusal::Unsupported)?)(session, key) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DigestFinal(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let mut digest = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DigestFinal.ok_or(Refusal::Unsupported)?)(
            session,
            digest.start().cast(),
            digest.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        digest.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SignInit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let key_name = args.name()?;
    let key = cx.objects.find(key_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.C_SignInit.ok_or(Refusal::Unsupported)?)(session, &mut mechanism, key) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_Sign(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let data = args.blob()?;
    let mut signature = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_Sign.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(data).cast(),
            room::length(data) as _,
            signature.start().cast(),
            signature.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        signature.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SignUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let part = args.blob()?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SignUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(part).cast(),
            room::length(part) as _,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SignFinal(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let mut signature = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SignFinal.ok_or(Refusal::Unsupported)?)(
            session,
            signature.start().cast(),
            signature.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        signature.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SignRecoverInit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let key_name = args.name()?;
    let key = cx.objects.find(key_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SignRecoverInit.ok_or(Refusal::Unsupported)?)(session, &mut mechanism, key)
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SignRecover(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let data = args.blob()?;
    let mut signature = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SignRecover.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(data).cast(),
            room::length(data) as _,
            signature.start().cast(),
            signature.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        signature.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_VerifyInit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let key_name = args.name()?;
    let key = cx.objects.find(key_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.C_VerifyInit.ok_or(Refusal::Unsupported)?)(session, &mut mechanism, key) };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_Verify(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let data = args.blob()?;
    let signature = args.blob()?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_Verify.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(data).cast(),
            room::length(data) as _,
            room::start(signature).cast(),
            room::length(signature) as _,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_VerifyUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let part = args.blob()?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_VerifyUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(part).cast(),
            room::length(part) as _,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_VerifyFinal(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let signature = args.blob()?;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_VerifyFinal.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(signature).cast(),
            room::length(signature) as _,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_VerifyRecoverInit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let key_name = args.name()?;
    let key = cx.objects.find(key_name, kinds::OBJECT).unwrap_or(0) as u64;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_VerifyRecoverInit.ok_or(Refusal::Unsupported)?)(session, &mut mechanism, key)
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_VerifyRecover(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let signature = args.blob()?;
    let mut data = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_VerifyRecover.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(signature).cast(),
            room::length(signature) as _,
            data.start().cast(),
            data.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        data.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DigestEncryptUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let part = args.blob()?;
    let part_instead = args.u64()?;
    let mut encrypted_part = Room::<u8>::asked(args.u64()?, ROOM)?;
    let mut part_zeros = vec![];
    let part = room::instead(part, part_instead, &mut part_zeros, &encrypted_part)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DigestEncryptUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(part).cast(),
            room::length(part) as _,
            encrypted_part.start().cast(),
            encrypted_part.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        encrypted_part.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DecryptDigestUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let encrypted_part = args.blob()?;
    let encrypted_part_instead = args.u64()?;
    let mut part = Room::<u8>::asked(args.u64()?, ROOM)?;
    let mut encrypted_part_zeros = vec![];
    let encrypted_part =
        room::instead(encrypted_part, encrypted_part_instead, &mut encrypted_part_zeros, &part)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DecryptDigestUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(encrypted_part).cast(),
            room::length(encrypted_part) as _,
            part.start().cast(),
            part.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        part.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_SignEncryptUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let part = args.blob()?;
    let part_instead = args.u64()?;
    let mut encrypted_part = Room::<u8>::asked(args.u64()?, ROOM)?;
    let mut part_zeros = vec![];
    let part = room::instead(part, part_instead, &mut part_zeros, &encrypted_part)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SignEncryptUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(part).cast(),
            room::length(part) as _,
            encrypted_part.start().cast(),
            encrypted_part.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        encrypted_part.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_DecryptVerifyUpdate(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let encrypted_part = args.blob()?;
    let encrypted_part_instead = args.u64()?;
    let mut part = Room::<u8>::asked(args.u64()?, ROOM)?;
    let mut encrypted_part_zeros = vec![];
    let encrypted_part =
        room::instead(encrypted_part, encrypted_part_instead, &mut encrypted_part_zeros, &part)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DecryptVerifyUpdate.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(encrypted_part).cast(),
            room::length(encrypted_part) as _,
            part.start().cast(),
            part.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        part.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_GenerateKey(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let mut templ = room::list(&mut args, read_CK_ATTRIBUTE)?;
    let key_name = args.name()?;
    cx.objects.check_free(key_name)?;
    cx.objects.check_most(kinds::OBJECT, 60000)?;
    args.end()?;
    let mut key = 0u64;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_GenerateKey.ok_or(Refusal::Unsupported)?)(
            session,
            &mut mechanism,
            room::items(&mut templ),
            room::count(&templ) as _,
            &mut key,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent =
        if hand::is_of_token(state, native, session, key) { Name::NONE } else { session_name };
    cx.objects.insert(key_name, kinds::OBJECT, key as usize, parent);
    reply.bool(parent.is_none());

    Ok(Returned::Fine)
}

fn C_GenerateKeyPair(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let mut public_key_template = room::list(&mut args, read_CK_ATTRIBUTE)?;
    let mut private_key_template = room::list(&mut args, read_CK_ATTRIBUTE)?;
    let public_key_name = args.name()?;
    cx.objects.check_free(public_key_name)?;
    cx.objects.check_most(kinds::OBJECT, 60000)?;
    let private_key_name = args.name()?;
    cx.objects.check_free(private_key_name)?;
    cx.objects.check_most(kinds::OBJECT, 60000)?;
    cx.objects.check_apart(&[public_key_name, private_key_name])?;
    args.end()?;
    let mut public_key = 0u64;
    let mut private_key = 0u64;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_GenerateKeyPair.ok_or(Refusal::Unsupported)?)(
            session,
            &mut mechanism,
            room::items(&mut public_key_template),
            room::count(&public_key_template) as _,
            room::items(&mut private_key_template),
            room::count(&private_key_template) as _,
            &mut public_key,
            &mut private_key,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent = if hand::is_of_token(state, native, session, public_key) {
        Name::NONE
    } else {
        session_name
    };
    cx.objects.insert(public_key_name, kinds::OBJECT, public_key as usize, parent);
    reply.bool(parent.is_none());

    let parent = if hand::is_of_token(state, native, session, private_key) {
        Name::NONE
    } else {
        session_name
    };
    cx.objects.insert(private_key_name, kinds::OBJECT, private_key as usize, parent);
    reply.bool(parent.is_none());

    Ok(Returned::Fine)
}

fn C_WrapKey(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let wrapping_key_name = args.name()?;
    let wrapping_key = cx.objects.find(wrapping_key_name, kinds::OBJECT).unwrap_or(0) as u64;
    let key_name = args.name()?;
    let key = cx.objects.find(key_name, kinds::OBJECT).unwrap_or(0) as u64;
    let mut wrapped_key = Room::<u8>::asked(args.u64()?, ROOM)?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_WrapKey.ok_or(Refusal::Unsupported)?)(
            session,
            &mut mechanism,
            wrapping_key,
            key,
            wrapped_key.start().cast(),
            wrapped_key.length(),
        )
    };
    reply.u64(returned);
    if returned == OK || PARTIAL.contains(&returned) {
        wrapped_key.write(reply, returned == OK)?;
    }
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_UnwrapKey(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let unwrapping_key_name = args.name()?;
    let unwrapping_key = cx.objects.find(unwrapping_key_name, kinds::OBJECT).unwrap_or(0) as u64;
    let wrapped_key = args.blob()?;
    let mut templ = room::list(&mut args, read_CK_ATTRIBUTE)?;
    let key_name = args.name()?;
    cx.objects.check_free(key_name)?;
    cx.objects.check_most(kinds::OBJECT, 60000)?;
    args.end_padded()?;
    let mut key = 0u64;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_UnwrapKey.ok_or(Refusal::Unsupported)?)(
            session,
            &mut mechanism,
            unwrapping_key,
            room::start(wrapped_key).cast(),
            room::length(wrapped_key) as _,
            room::items(&mut templ),
            room::count(&templ) as _,
            &mut key,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent =
        if hand::is_of_token(state, native, session, key) { Name::NONE } else { session_name };
    cx.objects.insert(key_name, kinds::OBJECT, key as usize, parent);
    reply.bool(parent.is_none());

    Ok(Returned::Fine)
}

fn C_DeriveKey(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let (mut mechanism, _mechanism_kept) = read_CK_MECHANISM(&mut args)?;
    let base_key_name = args.name()?;
    let base_key = cx.objects.find(base_key_name, kinds::OBJECT).unwrap_or(0) as u64;
    let mut templ = room::list(&mut args, read_CK_ATTRIBUTE)?;
    let key_name = args.name()?;
    cx.objects.check_free(key_name)?;
    cx.objects.check_most(kinds::OBJECT, 60000)?;
    args.end_padded()?;
    let mut key = 0u64;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_DeriveKey.ok_or(Refusal::Unsupported)?)(
            session,
            &mut mechanism,
            base_key,
            room::items(&mut templ),
            room::count(&templ) as _,
            &mut key,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent =
        if hand::is_of_token(state, native, session, key) { Name::NONE } else { session_name };
    cx.objects.insert(key_name, kinds::OBJECT, key as usize, parent);
    reply.bool(parent.is_none());

    Ok(Returned::Fine)
}

fn C_SeedRandom(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let seed = args.blob()?;
    args.end_padded()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_SeedRandom.ok_or(Refusal::Unsupported)?)(
            session,
            room::start(seed).cast(),
            room::length(seed) as _,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn C_GenerateRandom(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let session_name = args.name()?;
    let session = cx.objects.find(session_name, kinds::SESSION).unwrap_or(0) as u64;
    let random_len = args.u64()?;
    args.end_padded()?;
    let mut random_data = Room::<u8>::exactly(random_len as u64, ROOM)?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.C_GenerateRandom.ok_or(Refusal::Unsupported)?)(
            session,
            random_data.start().cast(),
            random_len,
        )
    };
    reply.u64(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.bytes(random_data.all());
    Ok(Returned::Fine)
}

type Call = fn(
    &mut hand::State,
    &Native,
    &mut Context<'_>,
    Reader<'_>,
    &mut Writer<'_>,
) -> Result<Returned, Refusal>;

/// Calls by their numbers, from 16 on.
const CALLS: [Option<Call>; 66] = [
    None,
    None,
    Some(C_GetInfo),
    None,
    Some(hand::C_GetSlotList),
    Some(C_GetSlotInfo),
    Some(C_GetTokenInfo),
    Some(hand::C_WaitForSlotEvent),
    Some(C_GetMechanismList),
    Some(C_GetMechanismInfo),
    Some(C_InitToken),
    Some(C_InitPIN),
    Some(C_SetPIN),
    Some(C_OpenSession),
    Some(C_CloseSession),
    Some(hand::C_CloseAllSessions),
    Some(C_GetSessionInfo),
    Some(C_GetOperationState),
    Some(C_SetOperationState),
    Some(C_Login),
    Some(C_Logout),
    Some(C_CreateObject),
    Some(C_CopyObject),
    Some(C_DestroyObject),
    Some(C_GetObjectSize),
    Some(C_GetAttributeValue),
    Some(C_SetAttributeValue),
    Some(C_FindObjectsInit),
    Some(C_FindObjects),
    Some(C_FindObjectsFinal),
    Some(C_EncryptInit),
    Some(C_Encrypt),
    Some(C_EncryptUpdate),
    Some(C_EncryptFinal),
    Some(C_DecryptInit),
    Some(C_Decrypt),
    Some(C_DecryptUpdate),
    Some(C_DecryptFinal),
    Some(C_DigestInit),
    Some(C_Digest),
    Some(C_DigestUpdate),
    Some(C_DigestKey),
    Some(C_DigestFinal),
    Some(C_SignInit),
    Some(C_Sign),
    Some(C_SignUpdate),
    Some(C_SignFinal),
    Some(C_SignRecoverInit),
    Some(C_SignRecover),
    Some(C_VerifyInit),
    Some(C_Verify),
    Some(C_VerifyUpdate),
    Some(C_VerifyFinal),
    Some(C_VerifyRecoverInit),
    Some(C_VerifyRecover),
    Some(C_DigestEncryptUpdate),
    Some(C_DecryptDigestUpdate),
    Some(C_SignEncryptUpdate),
    Some(C_DecryptVerifyUpdate),
    Some(C_GenerateKey),
    Some(C_GenerateKeyPair),
    Some(C_WrapKey),
    Some(C_UnwrapKey),
    Some(C_DeriveKey),
    Some(C_SeedRandom),
    Some(C_GenerateRandom),
];

/// Makes one call, by its number.
pub fn dispatch(
    state: &mut hand::State,
    native: &Native,
    call: u16,
    cx: &mut Context<'_>,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let at = usize::from(call).wrapping_sub(16);
    let make = CALLS.get(at).copied().flatten().ok_or(Refusal::Unknown)?;
    make(state, native, cx, args, reply)
}

/// Whether a call and its answer are wiped after use.
pub fn is_secret(call: u16) -> bool {
    matches!(
        call,
        calls::C_INITTOKEN
            | calls::C_INITPIN
            | calls::C_SETPIN
            | calls::C_GETOPERATIONSTATE
            | calls::C_SETOPERATIONSTATE
            | calls::C_LOGIN
            | calls::C_CREATEOBJECT
            | calls::C_COPYOBJECT
            | calls::C_GETATTRIBUTEVALUE
            | calls::C_SETATTRIBUTEVALUE
            | calls::C_FINDOBJECTSINIT
            | calls::C_ENCRYPT
            | calls::C_ENCRYPTUPDATE
            | calls::C_ENCRYPTFINAL
            | calls::C_DECRYPT
            | calls::C_DECRYPTUPDATE
            | calls::C_DECRYPTFINAL
            | calls::C_DIGEST
            | calls::C_DIGESTUPDATE
            | calls::C_SIGN
            | calls::C_SIGNUPDATE
            | calls::C_SIGNRECOVER
            | calls::C_VERIFY
            | calls::C_VERIFYUPDATE
            | calls::C_VERIFYRECOVER
            | calls::C_DIGESTENCRYPTUPDATE
            | calls::C_DECRYPTDIGESTUPDATE
            | calls::C_SIGNENCRYPTUPDATE
            | calls::C_DECRYPTVERIFYUPDATE
            | calls::C_WRAPKEY
            | calls::C_UNWRAPKEY
            | calls::C_DERIVEKEY
            | calls::C_SEEDRANDOM
            | calls::C_GENERATERANDOM
    )
}

/// Frees an object whose program is gone, and says whether the library did. Objects without a
/// function here end with their parents.
pub fn destroy(native: &Native, kind: u16, object: usize) -> bool {
    match kind {
        kinds::SESSION => {
            // SAFETY: the library made it, and nobody uses it any more.
            native.C_CloseSession.is_some_and(|end| OK == unsafe { end(object as u64) })
        }
        _ => true,
    }
}
