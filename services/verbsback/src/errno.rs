//! What control calls answer.

use vfun_verbs_nic::Refused;

/// A number of errno.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The context's channel of queues is gone.
    pub const LOST: Errno = Errno(5);
    /// More than a limit allows.
    pub const LIMIT: Errno = Errno(12);
    /// More than the client's manifest allows the VM (`[rdma]`): `EDQUOT`.
    pub const QUOTA: Errno = Errno(122);
    /// It makes no sense, or there is no such object.
    pub const INVALID: Errno = Errno(22);
    /// Something still uses it.
    pub const BUSY: Errno = Errno(16);
    /// This NIC does not offer it.
    pub const UNSUPPORTED: Errno = Errno(95);
}

impl From<Refused> for Errno {
    fn from(refused: Refused) -> Self {
        Errno(refused.errno())
    }
}

/// The status of a call.
pub fn status(done: Result<(), Errno>) -> i32 {
    done.map_or_else(|errno| errno.0, |()| crate::generated::OK)
}
