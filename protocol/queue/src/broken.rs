//! Why a queue no longer serves.

use core::fmt;

/// What a side says when it ends a queue, in its header's word `BROKEN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An entry bore a number that made no sense.
    BadStamp,
    /// The consumer's count made no sense.
    BadCount,
    /// Orderly: nothing more will come, or be taken.
    Closed,
    /// A number that this side does not know.
    Other(u64),
}

impl Reason {
    /// As it stands on the wire; never 0.
    pub const fn to_wire(self) -> u64 {
        match self {
            Reason::BadStamp => 1,
            Reason::BadCount => 2,
            Reason::Closed => 3,
            Reason::Other(n) => n,
        }
    }

    /// From the wire; `None` of 0, a queue that serves.
    pub const fn from_wire(word: u64) -> Option<Self> {
        match word {
            0 => None,
            1 => Some(Reason::BadStamp),
            2 => Some(Reason::BadCount),
            3 => Some(Reason::Closed),
            n => Some(Reason::Other(n)),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::BadStamp => f.write_str("an entry bore a wrong number"),
            Reason::BadCount => f.write_str("the consumer's count was wrong"),
            Reason::Closed => f.write_str("it was closed"),
            Reason::Other(n) => write!(f, "reason {n}"),
        }
    }
}

/// The queue no longer serves. It stays so until it is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The producer broke the protocol: the entry at `position` (from 0) bears
    /// neither its own number nor that of the lap before.
    Stamp {
        /// Position of the entry, counted from the queue's first.
        position: u64,
        /// Stamp that the window shows there.
        found: u32,
    },
    /// The consumer broke the protocol: its count went back, or beyond what was
    /// produced.
    Count {
        /// What it was known to have consumed.
        known: u64,
        /// Entries that this side has produced.
        produced: u64,
        /// Entries that the other side says it has consumed.
        found: u64,
    },
    /// A side ended the queue: the peer, or this side when it closed it.
    Ended(Reason),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Stamp { position, found } => write!(
                f,
                "the queue is broken: entry {position} bears number {found}, which is neither its own nor that of the lap before"
            ),
            Broken::Count { known, produced, found } => write!(
                f,
                "the queue is broken: the consumer counts {found} entries, and had consumed {known} of {produced}"
            ),
            Broken::Ended(reason) => write!(f, "the queue has ended: {reason}"),
        }
    }
}
impl std::error::Error for Broken {}
