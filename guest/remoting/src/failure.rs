//! Why a call of an API failed, before the API's own status is made of it.

use vfun::Error;
use vfun_remoting::Refusal;

/// What went wrong on the way. Each API has a status for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// An argument is not possible, such as a null pointer where the answer is to go.
    Argument,
    /// A pointer or number stands for no object of this kind, or for one that was freed.
    Object,
    /// Beyond a limit: of objects, of bytes in a call, of the host's policy.
    Limit,
    /// The host does not offer this.
    Unsupported,
    /// There is no host to ask, or it does not offer this API to this program.
    NoHost,
    /// The service of this connection died, or the process was forked: its objects are lost.
    Lost,
    /// A fault of VirtFun's: the two halves do not understand each other.
    Internal,
    /// The API was not begun in this process, or was ended.
    Closed,
    /// A status of the API's own, which the guest's half knows without the host.
    Own(i64),
}

impl Failure {
    /// A limit becomes this status of the API's own.
    pub fn of_limit(self, status: i64) -> Failure {
        if self == Failure::Limit { Failure::Own(status) } else { self }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Argument => Failure::Argument,
            Refusal::Object => Failure::Object,
            Refusal::Limit | Refusal::Budget => Failure::Limit,
            Refusal::Unsupported | Refusal::Unknown => Failure::Unsupported,
            Refusal::Fresh => Failure::Lost,
            Refusal::Malformed | Refusal::Different => Failure::Internal,
        }
    }
}

impl From<&Error> for Failure {
    /// Of a call on an open connection.
    fn from(error: &Error) -> Failure {
        match error {
            Error::ArgumentsTooLong { .. } | Error::ResultTooLarge | Error::Full { .. } => {
                Failure::Limit
            }
            Error::HostNonsense(_) | Error::BufferTooSmall { .. } => Failure::Internal,
            // Whatever else ends a call of this core leaves the service's state unknown.
            _ => Failure::Lost,
        }
    }
}
