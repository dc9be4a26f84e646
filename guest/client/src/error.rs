//! Everything that can go wrong, one variant each, so that a program can say
//! in one `match` what it does about it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use vfun_submit::Code as SubmitCode;
use vfun_wire::header::HeaderError;
use vfun_wire::limits::{CELL_BYTES_MAX, CONTROL_TIMEOUT_MS};
use vfun_wire::nack::{Nack, NackCode};
use vfun_wire::status::{BreakReason, Status};

/// What every fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something failed. Its text says what is wrong; [`Error::advice`] says
/// what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An endpoint's text is none of the known forms.
    #[error(
        "'{0}' is not an endpoint: write auto, host[:SOCKET], module[:/dev/vfunN], ivshmem[:PCIADDRESS], pmem[:/dev/daxN.M], dir:FOLDER, tcp:HOST:PORT or tls:HOST:PORT"
    )]
    BadEndpoint(String),
    /// An app's, client's or function's name is not a name.
    #[error("the {what} name '{name}' is not possible: {why}")]
    BadName {
        /// Which of the names.
        what: &'static str,
        /// The name, as it was given.
        name: String,
        /// What is wrong with it.
        why: vfun_wire::names::NameError,
    },
    /// An option is beyond its limit; nothing was sent.
    #[error("{0}")]
    BadOption(String),
    /// No endpoint was named and none of those tried is there.
    #[error("no VirtFun host was found. Tried {}", list_tried(.tried))]
    NoHost {
        /// Each endpoint that was tried, and why it failed.
        tried: Vec<(String, Error)>,
    },
    /// The manager's socket could not be reached.
    #[error("cannot reach the manager's socket {}: {source}", .path.display())]
    HostSocket {
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No PCI device of this kind is in this machine.
    #[error("no ivshmem device (PCI 1af4:1110){} is in this machine", of_address(.0))]
    NoDevice(Option<String>),
    /// No device or folder of this kind holds a window.
    #[error("{0}")]
    NoWindow(String),
    /// A file that is no memory shared with the host.
    #[error("{} is on {by}, which keeps pages of its own: it is no memory shared with the host", path.display())]
    NotShared {
        path: PathBuf,
        /// The kind of file system.
        by: &'static str,
    },
    /// The guest's kernel module is not loaded, or found no window.
    #[error("{}", no_module(.0))]
    NoModule(Option<PathBuf>),
    /// The guest's kernel module speaks another version of its interface.
    #[error("the kernel module speaks version {theirs} of its interface, this library {ours}")]
    ModuleVersion {
        /// Version of the module's interface.
        theirs: u32,
        /// Version that this library speaks.
        ours: u32,
    },
    /// A driver holds the device, so that no program can map it.
    #[error("the device {address} is held by the driver '{driver}'")]
    DeviceHeld {
        /// Address on the PCI bus, such as `0000:00:05.0`.
        address: String,
        driver: String,
    },
    /// The device that carried the window was unplugged.
    #[error("the window's device was unplugged from this machine")]
    DeviceGone,
    /// The device is there but cannot be opened or mapped.
    #[error("cannot open the window {}: {source}", .path.display())]
    Device {
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Several devices hold a VirtFun window; one must be named.
    #[error("several VirtFun windows are in this machine ({})", .0.join(", "))]
    SeveralWindows(Vec<String>),
    /// What was mapped is not a window that this version reads.
    #[error("{place}: {why}")]
    NotAWindow {
        /// Where it was looked for.
        place: String,
        /// What is wrong with it.
        why: HeaderError,
    },
    /// A part of the window could not be mapped.
    #[error("a part of the window could not be mapped: {0}")]
    Map(vfun_window::MapError),
    /// The TCP connection could not be made.
    #[error("cannot connect to the gateway {address}: {source}")]
    Gateway {
        /// The address, as it was given.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The gateway and this program do not come together by TLS, or what this
    /// program was given for it will not do.
    #[error("no TLS with the gateway {address}: {why}")]
    Tls {
        /// The address, as it was given.
        address: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The TCP connection ended.
    #[error("the connection to the gateway ended: {0}")]
    ConnectionLost(String),
    /// The manager refused, and says why.
    #[error("refused: {0}")]
    Refused(Nack),
    /// The manager is not there to ask.
    #[error("the manager is not running ({0}); calls of active functions go on")]
    ManagerGone(&'static str),
    /// The manager did not answer a control request in time.
    #[error("the manager did not answer '{request}' within {} ms", .waited.as_millis())]
    ControlTimeout {
        /// Name of the request, such as `activate`.
        request: &'static str,
        /// How long this app waited.
        waited: Duration,
    },
    /// All control cells stayed in use.
    #[error("all control cells of this window stayed in use for {} ms", .0.as_millis())]
    ControlBusy(Duration),
    /// The host sent bytes that make no sense.
    #[error("the host sent nonsense: {0}")]
    HostNonsense(String),
    /// The manager laid the window out anew: sessions and functions from before are gone.
    #[error("the window was made again, empty (generation {found}, this session is of {ours})")]
    StaleGeneration {
        /// Generation with which this session began.
        ours: u64,
        /// Of the window now.
        found: u64,
    },
    /// Every cell of the channel is in use.
    #[error("all {depth} cells of the channel are in use")]
    Full {
        /// Cells of the channel.
        depth: usize,
    },
    /// More arguments than a cell of this channel takes; nothing was sent.
    #[error("the arguments have {len} bytes, a cell of this channel takes at most {max}")]
    ArgumentsTooLong {
        /// Bytes of the arguments.
        len: usize,
        /// Most bytes that it may have.
        max: usize,
    },
    /// The results do not fit the caller's buffer. The call was made.
    #[error("the results have {len} bytes, the buffer {room}")]
    BufferTooSmall {
        /// Bytes of the results.
        len: usize,
        /// Bytes of the buffer.
        room: usize,
    },
    /// The function refused these arguments or failed by its own account.
    #[error("the function returned an error ({}): {sentence}", of_code(*.code))]
    Driver {
        /// Positive: the function's own, which its documentation tells. Negative:
        /// one of those that all have in common (`VFUN_DRIVER_...` of vfun_driver.h).
        code: i32,
        /// The function's own sentence.
        sentence: String,
    },
    /// The host did not take a submitted module.
    #[error("not accepted ({code}): {sentence}")]
    NotAccepted {
        /// Why it was refused, as a code for programs.
        code: SubmitCode,
        /// The host's, or the compiler's, own sentence.
        sentence: String,
    },
    /// The function crashed during this call. It may have had effects.
    #[error("the function crashed during this call")]
    DriverCrashed,
    /// The call ran past its deadline and its service was ended.
    #[error("the call ran past its deadline and was ended")]
    Deadline,
    /// The service was ended for another call's sake while it computed this one.
    #[error("the service was ended while it computed this call")]
    ServiceLost,
    /// The function has more results than the cell holds.
    #[error("the function's results do not fit the cell")]
    ResultTooLarge,
    /// The service refused the cell itself.
    #[error("the service refused the cell: {0}")]
    BadCall(Status),
    /// The channel broke; no further call of it is served.
    #[error("the channel is broken: {0}")]
    Broken(BreakReason),
    /// The session was closed.
    #[error("the session was closed")]
    Closed,
    /// The grant was released, by this app or by the host.
    #[error("the grant was released")]
    Released,
    /// This was opened by the process that this one was forked from. Nothing was sent.
    #[error("this was opened by the parent process; a child of fork has no part in it")]
    Forked,
    /// The caller's own time limit passed; the call goes on without it.
    #[error("the call was not answered within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// Neither an answer nor the deadline's error came: service and manager are both gone.
    #[error("no answer came, {} ms after the call's deadline: neither the service nor the manager shows a sign of life", .0.as_millis())]
    Unanswered(Duration),
    /// The manager is gone (its socket was closed or, in a guest, its beat stands
    /// still), and the service of this function shows no sign of life: nobody is
    /// there to answer.
    #[error("neither the manager of this host nor the function's service shows a sign of life, for {} ms", .0.as_millis())]
    HostGone(Duration),
    /// The function's channel, or its transport, has no such operation.
    #[error("{0}")]
    Unsupported(&'static str),
}

fn list_tried(tried: &[(String, Error)]) -> String {
    let each: Vec<_> = tried.iter().map(|(what, why)| format!("{what}: {why}")).collect();
    each.join("; ")
}

fn no_module(path: &Option<PathBuf>) -> String {
    match path {
        Some(path) => format!("{} is not in this machine", path.display()),
        None => "no device of VirtFun's kernel module (/dev/vfunN) is in this machine".into(),
    }
}

/// What a code means that drivers have in common (vfun_driver.h), and what to do.
fn common_code(code: i32) -> Option<(&'static str, &'static str)> {
    Some(match code {
        -1 => ("a bug in the function", "Report it to the function's author; other calls go on."),
        -2 => ("its results do not fit", "Ask for greater cell_bytes when negotiating."),
        -3 => {
            ("bad arguments", "Correct the arguments: the function's sentence says what is wrong.")
        }
        -4 => ("its device is gone", "Negotiate the function again, perhaps in software."),
        _ => return None,
    })
}

fn of_code(code: i32) -> String {
    common_code(code).map_or(format!("code {code}"), |(what, _)| format!("code {code}, {what}"))
}

fn of_address(address: &Option<String>) -> String {
    address.as_ref().map(|a| format!(" at {a}")).unwrap_or_default()
}

impl Error {
    /// Whether the same call or request may succeed if it is simply made again.
    /// [`Error::DriverCrashed`] is not among them: the call may have had effects.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Full { .. }
            | Error::ControlBusy(_)
            | Error::ControlTimeout { .. }
            | Error::ManagerGone(_)
            | Error::HostSocket { .. }
            | Error::Gateway { .. }
            | Error::Tls { .. }
            | Error::ServiceLost => true,
            Error::Refused(nack) => matches!(
                nack.code,
                NackCode::NoCapacity
                    | NackCode::DeviceBusy
                    | NackCode::Draining
                    | NackCode::ServiceFailed
            ),
            Error::NotAccepted { code, .. } => {
                matches!(code, SubmitCode::TooFast | SubmitCode::HostTrouble)
            }
            Error::NoHost { tried } => tried.iter().any(|(_, e)| e.is_retryable()),
            Error::BadEndpoint(_)
            | Error::BadName { .. }
            | Error::BadOption(_)
            | Error::NoDevice(_)
            | Error::NoWindow(_)
            | Error::NotShared { .. }
            | Error::NoModule(_)
            | Error::ModuleVersion { .. }
            | Error::DeviceHeld { .. }
            | Error::DeviceGone
            | Error::Device { .. }
            | Error::SeveralWindows(_)
            | Error::NotAWindow { .. }
            | Error::Map(_)
            | Error::ConnectionLost(_)
            | Error::HostNonsense(_)
            | Error::StaleGeneration { .. }
            | Error::ArgumentsTooLong { .. }
            | Error::BufferTooSmall { .. }
            | Error::Driver { .. }
            | Error::DriverCrashed
            | Error::Deadline
            | Error::ResultTooLarge
            | Error::BadCall(_)
            | Error::Broken(_)
            | Error::Released
            | Error::Closed
            | Error::Forked
            | Error::TimedOut(_)
            | Error::HostGone(_)
            | Error::Unanswered(_)
            | Error::Unsupported(_) => false,
        }
    }

    /// Whether the session is of no use any more: connect again.
    pub fn ends_session(&self) -> bool {
        matches!(
            self,
            Error::StaleGeneration { .. }
                | Error::DeviceGone
                | Error::ConnectionLost(_)
                | Error::ManagerGone(_)
                | Error::Closed
                | Error::HostGone(_)
                | Error::Forked
                | Error::Unanswered(_)
        )
    }

    /// What to do about it, in a sentence.
    pub fn advice(&self) -> String {
        match self {
            // A door that is closed to this user is what to open.
            Error::NoHost { tried } => match tried.iter().find(|(_, e)| e.is_denied()) {
                Some((_, denied)) => denied.advice(),
                None => self.advice_to_connect().into(),
            },
            Error::ControlTimeout { .. } => format!(
                "Try again; if it persists, see on the host whether vfund is overloaded (limit {CONTROL_TIMEOUT_MS} ms)."
            ),
            Error::ArgumentsTooLong { len, .. } if *len <= CELL_BYTES_MAX as usize => {
                format!("Ask for cell_bytes of at least {len} when negotiating.")
            }
            Error::ArgumentsTooLong { .. } => {
                format!("Split them: a cell has at most {CELL_BYTES_MAX} bytes.")
            }
            Error::BufferTooSmall { len, .. } => format!("Give a buffer of at least {len} bytes."),
            _ => self.plain_advice().into(),
        }
    }

    /// The same, where it says nothing of the error's own figures.
    fn plain_advice(&self) -> &'static str {
        match self {
            Error::BadEndpoint(_)
            | Error::BadName { .. }
            | Error::NoHost { .. }
            | Error::HostSocket { .. }
            | Error::NoDevice(_)
            | Error::NoWindow(_)
            | Error::NotShared { .. }
            | Error::NoModule(_)
            | Error::ModuleVersion { .. }
            | Error::DeviceHeld { .. }
            | Error::Device { .. }
            | Error::SeveralWindows(_)
            | Error::NotAWindow { .. }
            | Error::Map(_)
            | Error::Gateway { .. }
            | Error::Tls { .. } => self.advice_to_connect(),
            Error::BadOption(_) | Error::BufferTooSmall { .. } | Error::ArgumentsTooLong { .. } => {
                "Stay within the limit that the error names."
            }
            Error::DeviceGone => {
                "Plug the window in again on the host, then connect again; calls under way may have had effects."
            }
            Error::ConnectionLost(_) => "Connect again; calls under way may have had effects.",
            Error::Refused(nack) if nack.software_instead => {
                "Ask for software: `--on software`, or the preference for software."
            }
            Error::Refused(_) => "The sentence above says what to do.",
            Error::ManagerGone(_) | Error::Unanswered(_) => {
                "Start vfund again on the host, then connect again."
            }
            Error::ControlTimeout { .. } | Error::ControlBusy(_) => {
                "Try again; other apps of this window are starting or ending."
            }
            Error::HostNonsense(_) | Error::BadCall(_) => {
                "Update the older of the two sides; if both are current, report it."
            }
            Error::StaleGeneration { .. } | Error::Closed => "Connect again.",
            Error::Full { .. } => "Take finished results, or negotiate a greater depth.",
            Error::Driver { code, .. } => common_code(*code)
                .map_or("This is one of the function's own codes: see its documentation.", |c| c.1),
            Error::NotAccepted { code, .. } => advice_to_submit(*code),
            Error::DriverCrashed => {
                "The service starts again by itself; repeat the call only if that is harmless."
            }
            Error::Deadline => {
                "Ask for less work a call, or for a longer deadline when negotiating."
            }
            Error::ServiceLost => "Repeat the call: another call of this service was at fault.",
            Error::ResultTooLarge => "Ask for greater cell_bytes when negotiating.",
            Error::Broken(_) | Error::Released => "Negotiate the function again.",
            Error::Forked => "Connect in the child itself, after the fork.",
            Error::TimedOut(_) => {
                "Wait longer, or go on: the cell frees itself when the answer comes."
            }
            Error::HostGone(_) => {
                "Start vfund again on the host, then connect again; calls under way may have had effects."
            }
            Error::Unsupported(_) => "Use another kind of channel or another transport.",
        }
    }

    /// What to do about an error on the way to a window.
    fn advice_to_connect(&self) -> &'static str {
        let denied = |e: &std::io::Error| e.kind() == std::io::ErrorKind::PermissionDenied;
        match self {
            Error::BadEndpoint(_) => "Correct the endpoint, or leave it out to have one found.",
            Error::BadName { .. } => {
                "Use at most 64 of A-Z a-z 0-9 . _ - and begin with neither . nor -."
            }
            Error::NoHost { .. } => {
                "Start vfund on the host and give this machine its window, or name another endpoint \
                 (option or VFUN_ENDPOINT), such as tcp:HOST:PORT."
            }
            Error::HostSocket { source, .. } if denied(source) => {
                "Run as a user who may open the socket: its group, or the manager's own user."
            }
            Error::HostSocket { .. } => {
                "Start vfund on this machine, or say where its socket is (host:SOCKET, or VFUN_ROOT for \
                 its folder)."
            }
            Error::NoDevice(_) => {
                "Give the VM an ivshmem device on the client's window file, or use another endpoint."
            }
            Error::NoWindow(_) => {
                "Give the VM what `vfun client show NAME` prints on the host, or use another endpoint."
            }
            Error::NotShared { .. } => {
                "Mount the folder with DAX, bind-mount it, or use another endpoint."
            }
            Error::NoModule(_) => {
                "Load it (modprobe vfun) in a VM that has its window. Without it only root's programs \
                 can use the device."
            }
            Error::ModuleVersion { theirs, ours } if theirs < ours => {
                "Install the kernel module of this library's release."
            }
            Error::ModuleVersion { .. } => "Update this library (libvfun) to the module's release.",
            Error::DeviceHeld { driver, .. } if driver == MODULE => {
                "Use the module's device: the endpoint 'module' (or auto), as a user of the group vfun."
            }
            Error::DeviceHeld { .. } => {
                "Unbind that driver, or load VirtFun's kernel module in its place and use /dev/vfunN."
            }
            Error::Device { path, .. } if self.is_denied() && is_modules(path) => {
                "Add the user to the group vfun (usermod -aG vfun USER) and log in again, or run as root."
            }
            Error::Device { source, .. } if denied(source) => {
                "Run as root, or load the kernel module (modprobe vfun), whose device is for any user of \
                 the group vfun."
            }
            Error::Device { .. } => {
                "Check that no other driver holds the device and that it was not unplugged."
            }
            Error::SeveralWindows(_) => {
                "Name one of them (module:/dev/vfunN or ivshmem:PCIADDRESS), or its client."
            }
            Error::NotAWindow { .. } => {
                "Start vfund on the host before connecting, with the file that backs this device."
            }
            Error::Map(_) => "Check the process's limit on address space, then connect again.",
            Error::Gateway { .. } => "Check the address, and that vfun-gateway runs there.",
            Error::Tls { .. } => {
                "See VFUN_TLS_CA, VFUN_TLS_NAME, VFUN_TLS_CERT and VFUN_TLS_KEY in docs/transports.md."
            }
            _ => "Connect again.",
        }
    }

    /// Whether this user may not open a device.
    fn is_denied(&self) -> bool {
        matches!(self, Error::Device { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied)
    }

    /// The error of a call's status, with its results; `None` for [`Status::Ok`].
    pub(crate) fn of_status(status: u32, results: &[u8]) -> Option<Error> {
        let Some(status) = Status::from_wire(status) else {
            return Some(Error::HostNonsense(format!(
                "a call ended with status {status}, which this version does not know"
            )));
        };
        Some(match status {
            Status::Ok => return None,
            Status::DriverError => match results.split_first_chunk::<4>() {
                Some((code, sentence)) => Error::Driver {
                    code: i32::from_le_bytes(*code),
                    sentence: String::from_utf8_lossy(sentence).into_owned(),
                },
                None => Error::Driver { code: 0, sentence: "(it gave no reason)".into() },
            },
            Status::DriverCrashed => Error::DriverCrashed,
            Status::Deadline => Error::Deadline,
            Status::ServiceLost => Error::ServiceLost,
            Status::ResultTooLarge => Error::ResultTooLarge,
            Status::ChannelBroken => Error::Broken(BreakReason::NoService),
            Status::Released => Error::Released,
            Status::BadCommand | Status::BadLength | Status::BadFlags => Error::BadCall(status),
        })
    }

    /// The error of a channel that no longer serves.
    pub(crate) fn of_break(reason: BreakReason) -> Error {
        match reason {
            BreakReason::Released => Error::Released,
            BreakReason::DeviceGone => Error::DeviceGone,
            other => Error::Broken(other),
        }
    }
}

/// The kernel module's name, with which its devices' names begin.
const MODULE: &str = "vfun";

/// Whether a path is that of a device of the kernel module.
fn is_modules(path: &Path) -> bool {
    path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(MODULE))
}

/// Longest sentence of a driver that is carried over, bytes.
pub(crate) const DRIVER_SENTENCE: usize = 4096;

/// What to do about a module that the host did not accept.
fn advice_to_submit(code: SubmitCode) -> &'static str {
    match code {
        SubmitCode::BadModule | SubmitCode::Malformed => {
            "See docs/wasm.md for what a module must be."
        }
        SubmitCode::Denied => "Ask the host's operator to allow it (submit in the host's policy).",
        SubmitCode::HostTrouble => "Try again; the host's log says more.",
        _ => "The sentence above says what to do.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_door_is_what_to_open() {
        let denied = |path: &str| {
            let source = std::io::ErrorKind::PermissionDenied.into();
            Error::Device { path: path.into(), source }
        };
        let none =
            |e| Error::NoHost { tried: vec![("a".into(), Error::NoDevice(None)), ("b".into(), e)] };
        assert!(none(denied("/dev/vfun0")).advice().contains("group vfun (usermod"));
        assert!(none(denied("/sys/x/resource2")).advice().contains("modprobe vfun"));
        assert!(none(Error::NoModule(None)).advice().contains("Start vfund"));
    }

    #[test]
    fn every_status_is_an_error_of_its_own() {
        assert!(Error::of_status(0, &[]).is_none());
        for s in &Status::ALL[1..] {
            let e = Error::of_status(s.to_wire(), b"\x07\0\0\0too small").unwrap();
            assert!(!e.to_string().is_empty() && e.advice().ends_with('.'), "{e}");
        }
        assert!(matches!(
            Error::of_status(4, b"\x07\0\0\0too small"),
            Some(Error::Driver { code: 7, sentence }) if sentence == "too small"
        ));
        assert!(matches!(Error::of_status(4, b"\x07"), Some(Error::Driver { code: 0, .. })));
        assert!(matches!(Error::of_status(999, &[]), Some(Error::HostNonsense(_))));
    }
}
