//! Errors as C sees them: one number each.

use crate::error::Error;

/// How a function of this library ended. The numbers do not change; later
/// versions may add some.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum vfun_status {
    /// It did what was asked.
    Ok = 0,
    /// An argument is null, not UTF-8, or of an impossible size.
    BadArgument = 1,
    /// A defect of the library; the sentence says where.
    Panic = 2,
    /// The endpoint's text is none of the known forms.
    BadEndpoint = 3,
    /// A name is not possible.
    BadName = 4,
    /// An option is beyond its limit.
    BadOption = 5,
    /// No host was found; the sentence lists what was tried.
    NoHost = 6,
    /// The manager's socket could not be reached.
    HostSocket = 7,
    /// No such device in this machine.
    NoDevice = 8,
    /// The device cannot be opened or mapped.
    Device = 9,
    /// Several windows: one must be named.
    SeveralWindows = 10,
    /// What was mapped is not a window.
    NotAWindow = 11,
    /// A part of the window could not be mapped.
    Map = 12,
    /// The gateway could not be reached.
    Gateway = 13,
    /// The connection to the gateway ended.
    ConnectionLost = 14,
    /// The manager refused; `vfun_last_code` has its code.
    Refused = 15,
    /// The manager is not running.
    ManagerGone = 16,
    /// The manager did not answer in time.
    ControlTimeout = 17,
    /// All control cells stayed in use.
    ControlBusy = 18,
    /// The host sent bytes that make no sense.
    HostNonsense = 19,
    /// The window was made again, empty: connect again.
    StaleGeneration = 20,
    /// Every cell of the channel is in use.
    Full = 21,
    /// More arguments than a cell takes.
    ArgumentsTooLong = 22,
    /// The results do not fit the buffer; their length is given.
    BufferTooSmall = 23,
    /// The function returned an error; `vfun_last_code` has its code.
    Driver = 24,
    /// The function crashed during this call.
    DriverCrashed = 25,
    /// The call ran past its deadline.
    Deadline = 26,
    /// The service was ended for another call's sake.
    ServiceLost = 27,
    /// The function's results do not fit the cell.
    ResultTooLarge = 28,
    /// The service refused the cell itself.
    BadCall = 29,
    /// The channel is broken.
    Broken = 30,
    /// The grant was released.
    Released = 31,
    /// The caller's own time limit passed.
    TimedOut = 32,
    /// No answer will come: service and manager are both gone.
    Unanswered = 33,
    /// The channel or transport has no such operation.
    Unsupported = 34,
    /// The window's device was unplugged: connect again.
    DeviceGone = 35,
    /// A driver holds the device: use the kernel module's /dev/vfunN.
    DeviceHeld = 36,
    /// The guest's kernel module is not loaded, or found no window.
    NoModule = 37,
    /// Kernel module and library are of different releases.
    ModuleVersion = 38,
    /// The host did not take a submitted module; `vfun_last_code` has a
    /// `vfun_submit_code`.
    NotAccepted = 39,
    /// The session was closed.
    Closed = 40,
    /// The handle is of the process that this one was forked from: connect in
    /// the child itself.
    Forked = 45,
}

impl From<&Error> for vfun_status {
    fn from(e: &Error) -> Self {
        match e {
            Error::BadEndpoint(_) => vfun_status::BadEndpoint,
            Error::BadName { .. } => vfun_status::BadName,
            Error::BadOption(_) => vfun_status::BadOption,
            Error::NoHost { .. } => vfun_status::NoHost,
            Error::HostSocket { .. } => vfun_status::HostSocket,
            Error::NoDevice(_) | Error::NoWindow(_) | Error::NotShared { .. } => {
                vfun_status::NoDevice
            }
            Error::Device { .. } => vfun_status::Device,
            Error::SeveralWindows(_) => vfun_status::SeveralWindows,
            Error::NotAWindow { .. } => vfun_status::NotAWindow,
            Error::Map(_) => vfun_status::Map,
            Error::Gateway { .. } | Error::Tls { .. } => vfun_status::Gateway,
            Error::ConnectionLost(_) => vfun_status::ConnectionLost,
            Error::Refused(_) => vfun_status::Refused,
            Error::ManagerGone(_) => vfun_status::ManagerGone,
            Error::ControlTimeout { .. } => vfun_status::ControlTimeout,
            Error::ControlBusy(_) => vfun_status::ControlBusy,
            Error::HostNonsense(_) => vfun_status::HostNonsense,
            Error::StaleGeneration { .. } => vfun_status::StaleGeneration,
            Error::Full { .. } => vfun_status::Full,
            Error::ArgumentsTooLong { .. } => vfun_status::ArgumentsTooLong,
            Error::BufferTooSmall { .. } => vfun_status::BufferTooSmall,
            Error::Driver { .. } => vfun_status::Driver,
            Error::DriverCrashed => vfun_status::DriverCrashed,
            Error::Deadline => vfun_status::Deadline,
            Error::ServiceLost => vfun_status::ServiceLost,
            Error::ResultTooLarge => vfun_status::ResultTooLarge,
            Error::BadCall(_) => vfun_status::BadCall,
            Error::Broken(_) => vfun_status::Broken,
            Error::Released => vfun_status::Released,
            Error::TimedOut(_) => vfun_status::TimedOut,
            Error::Unanswered(_) | Error::HostGone(_) => vfun_status::Unanswered,
            Error::Unsupported(_) => vfun_status::Unsupported,
            Error::DeviceGone => vfun_status::DeviceGone,
            Error::DeviceHeld { .. } => vfun_status::DeviceHeld,
            Error::NoModule(_) => vfun_status::NoModule,
            Error::ModuleVersion { .. } => vfun_status::ModuleVersion,
            Error::NotAccepted { .. } => vfun_status::NotAccepted,
            Error::Closed => vfun_status::Closed,
            Error::Forked => vfun_status::Forked,
        }
    }
}
