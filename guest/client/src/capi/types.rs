//! What C reads and writes by name.

use super::edge::Failure;
use crate::grant::GrantInfo;
use crate::session::{Description, FunctionInfo, SessionInfo};
use std::ffi::{c_char, c_void};

/// Room for a name and its terminating zero.
pub const VFUN_NAME_ROOM: usize = 65;
/// Room for a transport's name and its terminating zero.
pub const VFUN_TRANSPORT_ROOM: usize = 16;
/// cell_bytes of a function whose arguments and results have at most 48 bytes.
pub const VFUN_CELL_BYTES_NONE: u32 = u32::MAX;

/// Who connects, and how. Set all to zero, then size to
/// sizeof(struct vfun_connect_options), then what is to differ.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_connect_options {
    /// sizeof(struct vfun_connect_options), for later versions.
    pub size: usize,
    /// The app's name; null: "app".
    pub app: *const c_char,
    /// `auto`, `host[:SOCKET]`, `module[:/dev/vfunN]`, `ivshmem[:PCIADDRESS]`,
    /// `pmem[:/dev/daxN.M]`, `dir:FOLDER`, `tcp:HOST:PORT` or `tls:HOST:PORT` (with
    /// VFUN_TLS_CA); null: `auto`.
    pub endpoint: *const c_char,
    /// The client to act for; null where the endpoint settles it.
    pub client: *const c_char,
    /// What proves the right to; null for none.
    pub credential: *const c_void,
    /// Bytes of credential, at most 64.
    pub credential_len: usize,
    /// How calls wait: a vfun_wait_policy.
    pub wait: u32,
    /// 0; anything else is refused.
    pub reserved: u32,
}

/// How calls wait for their answers, and their services for calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum vfun_wait_policy {
    /// Spin while that is likely to pay, then sleep.
    Hybrid = 0,
    /// Never sleep: lowest latency, one processor for each waiting thread.
    Spin = 1,
    /// Sleep after one look: least processor time.
    Sleep = 2,
}

/// Where a function should run.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum vfun_preference {
    /// Wherever there is room, hardware first.
    Any = 0,
    /// Hardware or a refusal.
    Hardware = 1,
    /// In software, on the host's processors.
    Software = 2,
}

/// What is wanted of a function. Set all to zero, then size to
/// sizeof(struct vfun_function_options), then what is to differ.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_function_options {
    /// sizeof(struct vfun_function_options), for later versions.
    pub size: usize,
    /// major << 16 | minor; 0 for any.
    pub version: u32,
    /// One of enum vfun_preference.
    pub preference: u32,
    /// Calls that can be under way at once, a power of two; 0 for the default.
    pub depth: u32,
    /// Most bytes of arguments and of results of a call; 0 for the default
    /// (4096, or what the function's signature needs), VFUN_CELL_BYTES_NONE for
    /// at most 48.
    pub cell_bytes: u32,
    /// How long a call may take, ms; 0 for the function's own deadline.
    pub deadline_ms: u32,
    /// 0; anything else is refused.
    pub reserved: u32,
    /// Fingerprint of the signature that the program was made for, as `vfun
    /// bindgen` writes it: a function with another one is refused. 0: any.
    pub signature: u64,
}

/// What the host said of a session.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_session_info {
    /// Name of the client, UTF-8, zero-terminated.
    pub client: [c_char; VFUN_NAME_ROOM],
    /// The path in use: host, ivshmem or tcp.
    pub transport: [c_char; VFUN_TRANSPORT_ROOM],
    /// 1 if sleepers are woken by a doorbell.
    pub doorbell: u8,
    /// Number of the client on its host.
    pub client_id: u32,
    /// Number of this session among the client's apps.
    pub app_id: u32,
    /// Protocol version in force.
    pub protocol: u32,
    /// Features that both the library and the host offered, a bit each.
    pub features: u64,
    /// Bytes of the window; 0 over TCP.
    pub window_bytes: u64,
    /// Goes up each time the manager makes the window again, empty.
    pub generation: u64,
}

/// A function on offer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_offer {
    /// Its name, UTF-8, zero-terminated.
    pub name: [c_char; VFUN_NAME_ROOM],
    /// Number of the function on its host.
    pub function_id: u32,
    /// major << 16 | minor.
    pub version: u32,
    /// Longest arguments of a call, bytes.
    pub max_args: u32,
    /// Longest results of a call, bytes.
    pub max_result: u32,
    /// Where it can run: bit 1 software, 2 GPU, 3 FPGA, 4 simulated FPGA.
    pub locations: u32,
    /// Deadline of its calls, ms.
    pub deadline_ms: u64,
}

/// Room for the meaning of an error code, its ending zero included.
pub const VFUN_MEANING_ROOM: usize = 257;
const _: () = assert!(VFUN_MEANING_ROOM == vfun_wire::limits::MEANING_BYTES + 1);

/// What one of a function's own error codes means.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_code {
    /// The code, as vfun_last_code gives it.
    pub code: i32,
    /// Its meaning: UTF-8, ended by a zero.
    pub meaning: [c_char; VFUN_MEANING_ROOM],
}

/// What a function takes and gives.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_description {
    /// Number of the function on its host.
    pub function_id: u32,
    /// major << 16 | minor.
    pub version: u32,
    /// Longest arguments of a call, bytes.
    pub max_args: u32,
    /// Longest results of a call, bytes.
    pub max_result: u32,
    /// Fingerprint of the signature; 0 if the function has none.
    pub signature: u64,
}

/// A grant as the host recorded it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_grant_info {
    /// Its handle, for the host's own tools.
    pub grant: u64,
    /// Number of the function on its host.
    pub function_id: u32,
    /// major << 16 | minor.
    pub version: u32,
    /// Where it runs: 1 software, 2 GPU, 3 FPGA, 4 simulated FPGA.
    pub location: u32,
    /// Calls that can be under way at once.
    pub depth: u32,
    /// Bytes of arguments and of results a call can have beyond 48.
    pub cell_bytes: u32,
    /// How long a call may take, ms.
    pub deadline_ms: u64,
}

/// What a grant did, by the host's account.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_stats_info {
    /// Calls that were answered, with errors too.
    pub calls: u64,
    /// Of these with an error.
    pub errors: u64,
    /// Bytes of arguments of all these calls.
    pub bytes_in: u64,
    /// Bytes of results of all these calls.
    pub bytes_out: u64,
    /// Times the service slept.
    pub slept: u64,
    /// Times the service rang.
    pub rang: u64,
    /// Times the service was started again.
    pub restarts: u32,
    /// The service's process id on the host, 0 if none.
    pub pid: u32,
    /// Age of the grant, ms.
    pub age_ms: u64,
}

/// A name in its room, ended by a zero; names are at most 64 bytes.
pub(super) fn room<const N: usize>(name: &str) -> [c_char; N] {
    let mut room = [0; N];
    for (to, from) in room.iter_mut().take(N - 1).zip(name.bytes()) {
        *to = from as c_char;
    }
    room
}

fn ms(d: std::time::Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

impl From<&SessionInfo> for vfun_session_info {
    fn from(i: &SessionInfo) -> Self {
        vfun_session_info {
            client: room(&i.client),
            transport: room(i.transport.as_str()),
            doorbell: i.doorbell.into(),
            client_id: i.client_id,
            app_id: i.app_id,
            protocol: i.version.into(),
            features: i.features.0,
            window_bytes: i.window_bytes,
            generation: i.generation,
        }
    }
}

impl From<&FunctionInfo> for vfun_offer {
    fn from(i: &FunctionInfo) -> Self {
        vfun_offer {
            name: room(&i.name),
            function_id: i.function_id,
            version: i.version.0,
            max_args: i.max_args,
            max_result: i.max_result,
            locations: i.locations.iter().map(|l| 1 << l.to_wire()).sum(),
            deadline_ms: ms(i.deadline),
        }
    }
}

impl From<&(i32, String)> for vfun_code {
    fn from((code, meaning): &(i32, String)) -> Self {
        vfun_code { code: *code, meaning: room(meaning) }
    }
}

impl From<&GrantInfo> for vfun_grant_info {
    fn from(i: &GrantInfo) -> Self {
        vfun_grant_info {
            grant: i.grant,
            function_id: i.function_id,
            version: i.version.0,
            location: i.location.to_wire().into(),
            depth: i.depth.into(),
            cell_bytes: i.cell_bytes,
            deadline_ms: ms(i.deadline),
        }
    }
}

impl From<&crate::grant::Stats> for vfun_stats_info {
    fn from(s: &crate::grant::Stats) -> Self {
        vfun_stats_info {
            calls: s.calls,
            errors: s.errors,
            bytes_in: s.bytes_in,
            bytes_out: s.bytes_out,
            slept: s.slept,
            rang: s.rang,
            restarts: s.restarts,
            pid: s.pid,
            age_ms: ms(s.age),
        }
    }
}

impl From<&Description> for vfun_description {
    fn from(d: &Description) -> Self {
        vfun_description {
            function_id: d.function_id,
            version: d.version.0,
            max_args: d.max_args,
            max_result: d.max_result,
            signature: d.fingerprint(),
        }
    }
}

/// Checks an options struct's size: this version's, or a later one's.
pub(super) fn check_size<T>(size: usize, what: &'static str) -> Result<(), Failure> {
    if size >= size_of::<T>() { Ok(()) } else { Err(Failure::Argument(what)) }
}

/// Checks a field that later versions may give a meaning.
pub(super) fn check_reserved(reserved: u32) -> Result<(), Failure> {
    if reserved == 0 { Ok(()) } else { Err(Failure::Argument("options->reserved is not 0")) }
}
