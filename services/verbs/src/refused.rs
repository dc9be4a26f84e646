//! Why a control call was refused.

use core::fmt;

/// A control call that changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such object, or it is another program's.
    NoSuch(&'static str),
    /// Other objects still use it.
    Busy(&'static str),
    /// There are as many as there may be.
    Limit(&'static str),
    /// It makes no sense.
    Invalid(&'static str),
}

impl Refused {
    /// The number that verbs return for it.
    pub const fn errno(self) -> i32 {
        match self {
            Refused::NoSuch(_) | Refused::Invalid(_) => 22,
            Refused::Busy(_) => 16,
            Refused::Limit(_) => 12,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoSuch(what) => write!(f, "this program has no such {what}"),
            Refused::Busy(why) => f.write_str(why),
            Refused::Limit(what) => write!(f, "there are as many {what} as there may be"),
            Refused::Invalid(why) => f.write_str(why),
        }
    }
}
impl std::error::Error for Refused {}
