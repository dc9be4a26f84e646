//! Messages of OpenFlow in a stream of bytes.

pub use vfun_links::frames::HEADER;
use vfun_links::frames::{BadLength, Frames};

/// Bytes of a connection, of which whole messages are taken.
#[derive(Default)]
pub struct Messages(Frames);

impl Messages {
    /// Adds bytes as they were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }

    /// Takes the next message, if it is whole.
    ///
    /// # Errors
    /// A sentence: it cannot be as long as it says.
    pub fn take(&mut self) -> Result<Option<Message>, String> {
        match self.0.take() {
            Ok(whole) => Ok(whole.map(|bytes| Message(bytes.to_vec()))),
            Err(BadLength { length, kind }) => Err(format!(
                "a message of type {kind} says that it has {length} bytes, and one has at least {HEADER}: see whether OpenFlow is spoken there"
            )),
        }
    }
}

/// The versions whose rules are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// OpenFlow 1.0.
    V10,
    /// OpenFlow 1.3.
    V13,
}

/// A part of a request or of an answer about many things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    Flow,
    Aggregate,
    /// Rules as Open vSwitch writes them by an extension of 1.0.
    Nicira,
    Other,
}

/// What a message is, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Error,
    Features,
    /// Rules that an extension tells the end of are not understood.
    FlowRemoved {
        by_extension: bool,
    },
    /// Rules, or what frames meet with them, may change.
    Changes,
    Request(Stats),
    Reply {
        stats: Stats,
        more: bool,
    },
    Other,
}

/// A whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message(pub Vec<u8>);

const NICIRA: u32 = 0x2320;
const ONF: u32 = 0x4f4e_4600;

impl Message {
    pub fn number(&self) -> u8 {
        self.0[0]
    }

    /// Its version, if rules of this version are understood.
    pub fn version(&self) -> Option<Version> {
        match self.0[0] {
            1 => Some(Version::V10),
            4 => Some(Version::V13),
            _ => None,
        }
    }

    pub fn xid(&self) -> u32 {
        self.u32(4).unwrap_or(0)
    }

    /// The same, with another number.
    pub fn with_xid(mut self, xid: u32) -> Message {
        self.0[4..HEADER].copy_from_slice(&xid.to_be_bytes());
        self
    }

    pub fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    pub fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    pub fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_be_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    pub fn set_u64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }

    /// What it is. All versions have the same numbers of these types, but for requests and answers of
    /// 1.0, and changes of what later versions have in addition.
    pub fn kind(&self) -> Kind {
        let is_first = self.0[0] == 1;
        match (self.0[1], is_first) {
            (1, _) => Kind::Error,
            (4, _) => self.extension(),
            (6, _) => Kind::Features,
            (11, _) => Kind::FlowRemoved { by_extension: false },
            // Rules; groups or ports; ports or tables; meters.
            (14 | 15, _) | (16 | 17 | 29, false) => Kind::Changes,
            (16, true) | (18, false) => Kind::Request(self.stats()),
            (17, true) | (19, false) => {
                let more = self.u16(10).is_some_and(|flags| flags & 1 != 0);
                Kind::Reply { stats: self.stats(), more }
            }
            _ => Kind::Other,
        }
    }

    fn stats(&self) -> Stats {
        match self.u16(8) {
            Some(1) => Stats::Flow,
            Some(2) => Stats::Aggregate,
            Some(0xffff) if self.u32(12) == Some(NICIRA) => Stats::Nicira,
            _ => Stats::Other,
        }
    }

    /// What an extension of OpenFlow does: changes of rules of its own, and bundles of them.
    fn extension(&self) -> Kind {
        match (self.u32(8), self.u32(12)) {
            (Some(NICIRA), Some(13)) | (Some(ONF), Some(2300 | 2301)) => Kind::Changes,
            (Some(NICIRA), Some(14)) => Kind::FlowRemoved { by_extension: true },
            _ => Kind::Other,
        }
    }

    /// The request for the rules that a request for their sum is about: it is the same but for its type.
    pub fn for_rules(&self, xid: u32) -> Message {
        let mut same = self.clone().with_xid(xid);
        same.0[8..10].copy_from_slice(&1u16.to_be_bytes());
        same
    }
}
