//! The driver interface as C sees it; `include/vfun_driver.h` is the same for
//! C, with the words. The test `c_header` compares the two.

use std::ffi::{c_char, c_int, c_void};

/// Version of the interface that this SDK is of.
pub const ABI: u32 = 4;
/// Versions that a service loads. Each one only adds to the one before, and a
/// driver is told its own in `init`.
pub const ABIS: std::ops::RangeInclusive<u32> = 1..=ABI;
/// Longest name of a driver, without the terminating zero.
pub const NAME_BYTES: usize = 63;
/// Results up to this many bytes travel in the cell's own line.
pub const INLINE_BYTES: usize = 48;
/// Bytes for a sentence, the terminating zero included.
pub const SENTENCE_BYTES: usize = 256;

/// Command of a call: compute.
pub const COMMAND_SET: u32 = 1;
/// Command: forget what the channel's state keeps.
pub const COMMAND_RST: u32 = 3;

/// Flag of a call: the caller can change the arguments while they are read.
pub const CALL_SHARED_ARGS: u32 = 1;

/// What a driver's function returns when it succeeded.
pub const OK: c_int = 0;
/// The driver caught itself in a bug; the Rust SDK: it panicked.
pub const PANIC: c_int = -1;
/// The results do not fit.
pub const RESULT_TOO_LARGE: c_int = -2;
/// The arguments make no sense.
pub const BAD_ARGS: c_int = -3;
/// The device is gone, and the call did nothing: where the grant may run in
/// software, it is run there, else it fails with this.
pub const DEVICE_LOST: c_int = -4;
/// Of `vfun_driver_function` only: the call is answered later, through the
/// handle that was taken during it.
pub const LATER: c_int = -5;

/// Flag of a handle: the call waits for an event, and nothing was done for it yet.
pub const LATER_EVENT: u32 = 1;

/// What an answer comes to: it is on its way.
pub const ANSWERED: c_int = 0;
/// The call had ended before: the answer goes nowhere.
pub const CANCELLED: c_int = 1;

/// What the driver is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DriverInfo {
    /// [`ABI`] of who filled this in; another one is refused.
    pub abi: u32,
    /// 0; other values have no meaning yet.
    pub flags: u32,
    /// The function's name, zero-terminated.
    pub name: [u8; NAME_BYTES + 1],
    /// The function's version: its first number.
    pub version_major: u16,
    /// The function's version: its second number.
    pub version_minor: u16,
    /// Longest arguments of a call, bytes; longer ones do not reach the driver.
    pub max_args: u32,
    /// Longest results of a call, bytes; up to 48 `out` is a private buffer.
    pub max_result: u32,
    /// 0; other values have no meaning yet.
    pub reserved: [u32; 3],
}

impl DriverInfo {
    /// A driver's constant. Fails to compile (as a constant) for a name that
    /// is empty or too long.
    pub const fn new(name: &str, version: (u16, u16), max_args: u32, max_result: u32) -> Self {
        let bytes = name.as_bytes();
        assert!(
            !bytes.is_empty() && bytes.len() <= NAME_BYTES,
            "a driver's name has 1 to 63 bytes"
        );
        let mut buf = [0; NAME_BYTES + 1];
        let mut i = 0;
        while i < bytes.len() {
            buf[i] = bytes[i];
            i += 1;
        }
        DriverInfo {
            abi: ABI,
            flags: 0,
            name: buf,
            version_major: version.0,
            version_minor: version.1,
            max_args,
            max_result,
            reserved: [0; 3],
        }
    }
}

/// One of the manifest's settings.
#[repr(C)]
pub struct DriverSetting {
    pub key: *const c_char,
    /// The setting's text, whatever type it has in the manifest.
    pub value: *const c_char,
}

/// What `init` is told of its channel.
#[repr(C)]
pub struct DriverConfig {
    /// [`ABI`] of who filled this in; another one is refused.
    pub abi: u32,
    /// Cells of the channel.
    pub depth: u32,
    /// The channel's handle, for logs.
    pub channel: u64,
    /// The client that the service works for.
    pub client: *const c_char,
    /// The client's app that opened the channel.
    pub app: *const c_char,
    pub function: *const c_char,
    /// The function's version: its first number.
    pub version_major: u16,
    /// The function's version: its second number.
    pub version_minor: u16,
    /// Data space of a cell on each side, bytes.
    pub cell_bytes: u32,
    /// Settings, sorted by key.
    pub settings: *const DriverSetting,
    /// How many entries `settings` has.
    pub settings_count: u64,
    /// Room for a sentence that says why `init` failed.
    pub sentence: *mut c_char,
    /// Bytes that `sentence` has room for, its zero included.
    pub sentence_capacity: u64,
    /// Since version 2: answers calls later. Null where nobody does.
    pub service: *const DriverService,
}

/// What a driver may ask of its service.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DriverService {
    /// A handle of the call under way, or null. The channel's thread alone asks.
    pub later: unsafe extern "C" fn(*const DriverService, u32) -> *mut OpenCall,
    /// Answers: 0 and results, or an error's code and sentence. The handle ends.
    pub answer: unsafe extern "C" fn(*mut OpenCall, c_int, *const c_void, u64) -> c_int,
    /// 1 while the call can be answered, else 0.
    pub is_open: unsafe extern "C" fn(*const OpenCall) -> c_int,
    /// Since version 3: where a buffer of the app that makes the call lies, and its
    /// bytes; [`BAD_ARGS`] if it has no such buffer. The channel's thread alone asks.
    pub buffer:
        unsafe extern "C" fn(*const DriverService, u64, *mut *mut c_void, *mut u64) -> c_int,
    /// Since version 4: a table of pages of the caller's VM, and that VM's memory; [`BAD_ARGS`] if the app has
    /// no such table. The channel's thread alone asks.
    pub pages: unsafe extern "C" fn(*const DriverService, u64, *mut PagesPlace) -> c_int,
}

/// Where a table of pages and the VM's memory lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesPlace {
    /// The table, for reading alone.
    pub table: *const c_void,
    /// Its bytes: whole pages.
    pub table_len: u64,
    /// The VM's memory, as its file has it.
    pub vm: *mut c_void,
    /// Its bytes: whole pages.
    pub vm_len: u64,
}

/// The handle of a call that is answered later. What follows is the service's.
#[repr(C)]
pub struct OpenCall {
    /// Whose it is; good as long as the handle.
    pub service: *const DriverService,
}

/// One call: the service fills it, the driver writes results, `out_len` and the sentence.
#[repr(C)]
pub struct Call {
    /// What is asked: [`COMMAND_SET`], to compute, or [`COMMAND_RST`], to forget.
    pub command: u32,
    /// [`CALL_SHARED_ARGS`] where the caller can still change the arguments, else 0.
    pub flags: u32,
    /// The arguments; `flags` says whether the caller can change them meanwhile.
    pub args: *const c_void,
    /// Bytes of `args`; at most the driver's `max_args`.
    pub args_len: u64,
    /// Where results go. To be written only: what is read back may differ.
    pub out: *mut c_void,
    /// Bytes that `out` has room for.
    pub out_capacity: u64,
    /// Bytes of results; the driver sets it.
    pub out_len: u64,
    /// Room for a sentence that says why the call failed.
    pub sentence: *mut c_char,
    /// Bytes that `sentence` has room for, its zero included.
    pub sentence_capacity: u64,
}

/// `vfun_driver_init`: begins a channel, and may give a pointer that later calls get.
pub type InitFn = unsafe extern "C" fn(*const DriverConfig, *mut *mut c_void) -> c_int;
/// `vfun_driver_function`: answers one call.
pub type FunctionFn = unsafe extern "C" fn(*mut c_void, *mut Call) -> c_int;
/// `vfun_driver_exit`: ends a channel, with the pointer that its init gave.
pub type ExitFn = unsafe extern "C" fn(*mut c_void);

const _: () = {
    assert!(size_of::<DriverInfo>() == 96);
    assert!(size_of::<Call>() == 64);
    assert!(size_of::<usize>() != 8 || size_of::<DriverConfig>() == 88);
};
