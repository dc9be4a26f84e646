//! The messages of OpenFlow 1.4 that are needed, as bytes in and messages out. They come from
//! another program: what makes no sense is an error, and what is not known is kept as such.

mod flow;
mod request;

pub use flow::{ActionFault, Flow, FlowKey, Instructions, Match, Step, Update};
pub use request::Request;

use crate::frames::{Frames, HEADER};

/// OpenFlow 1.4, as messages name it.
const VERSION: u8 = 5;
/// Versions that a switch's greeting may name, with room for later ones.
const VERSIONS: std::ops::RangeInclusive<u8> = 1..=15;
/// Ports from here on have a meaning of their own, such as NORMAL.
const RESERVED_PORTS: u32 = 0xffff_ff00;
/// Bytes that are not OpenFlow 1.4. The connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Another version.
    #[error(
        "the bridge speaks OpenFlow version {0:#04x}, not 1.4 (0x05): add OpenFlow14 to its column `protocols`"
    )]
    Version(u8),
    /// It refused ours at the beginning.
    #[error("the bridge does not speak OpenFlow 1.4: add OpenFlow14 to its column `protocols`")]
    NotSpoken,
    /// A length that does not fit.
    #[error("a message of OpenFlow ends in the middle of {0}")]
    Short(&'static str),
    /// A value that OpenFlow has not.
    #[error("a message of OpenFlow has a wrong {0}")]
    Wrong(&'static str),
}

/// A port as the switch describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfPort {
    /// Its number.
    pub number: u32,
    /// Its name, cut to 15 bytes by the switch.
    pub name: String,
    /// Bits of its configuration.
    pub config: u32,
    /// Bits of its state.
    pub state: u32,
}

impl OfPort {
    /// Configuration: an operator set it down.
    pub const DOWN: u32 = 1;
    /// Configuration: what it receives is dropped.
    pub const NO_RECEIVE: u32 = 1 << 2;
    /// Configuration: nothing is sent to it.
    pub const NO_FORWARD: u32 = 1 << 5;
    /// State: no carrier.
    pub const LINK_DOWN: u32 = 1;
}

/// What became of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortNews {
    /// It is there, or is another than before.
    Is(OfPort),
    /// It is gone.
    Gone(OfPort),
}

/// A message of the switch. `more`: further parts of the same answer follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first message of a connection.
    Hello,
    /// A refusal.
    Error {
        /// The request that it answers.
        xid: u32,
        /// OpenFlow's class of error.
        class: u16,
        /// What exactly.
        code: u16,
    },
    /// Asks whether we are there; the answer bears the same bytes.
    EchoRequest {
        /// The number of the request.
        xid: u32,
        /// What the answer bears, too.
        data: Vec<u8>,
    },
    /// Answers us.
    EchoReply,
    /// What kind of switch it is.
    Features,
    /// How it treats fragments: 0 means that they are frames as others.
    Config {
        /// The request that it answers.
        xid: u32,
        /// Bits of the configuration.
        flags: u16,
    },
    /// A port came, went or changed.
    Port(PortNews),
    /// All ports.
    Ports {
        /// Those of this part.
        ports: Vec<OfPort>,
        /// Whether more parts follow.
        more: bool,
    },
    /// Rules that were asked for.
    Flows {
        /// The request that it answers.
        xid: u32,
        /// Those of this part.
        flows: Vec<Flow>,
        /// Whether more parts follow.
        more: bool,
    },
    /// Rules that changed.
    Updates(Vec<Update>),
    /// Tables that throw rules away when they are full.
    Tables {
        /// The request that it answers.
        xid: u32,
        /// Those of this part.
        evicting: Vec<u8>,
        /// Whether more parts follow.
        more: bool,
    },
    /// Anything else; it says nothing that is needed.
    Other,
}

/// Bytes of a connection, of which messages are taken.
#[derive(Default)]
pub struct Messages(Frames);

impl Messages {
    /// Adds bytes as they were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }

    /// Takes the next message, if it is whole.
    pub fn take(&mut self) -> Result<Option<Message>, Malformed> {
        // What is not OpenFlow at all would be waited for, up to its length.
        if self.0.header().is_some_and(|header| !VERSIONS.contains(&header[0])) {
            return Err(Malformed::Wrong("version"));
        }
        let whole = self.0.take().map_err(|_| Malformed::Wrong("length"))?;
        whole.map(message).transpose()
    }
}

/// Reads one whole message.
fn message(bytes: &[u8]) -> Result<Message, Malformed> {
    let mut r = Reader(bytes);
    let (version, kind) = (r.u8("the header")?, r.u8("the header")?);
    let length = r.u16("the header")?;
    let xid = r.u32("the header")?;
    if usize::from(length) != bytes.len() {
        return Err(Malformed::Wrong("length"));
    }
    match (kind, version) {
        // A greeting bears the highest version of its sender, an error before
        // it was agreed any.
        (0, _) => return Ok(Message::Hello),
        (1, _) => {
            let (class, code) = (r.u16("an error")?, r.u16("an error")?);
            return Ok(Message::Error { xid, class, code });
        }
        (_, VERSION) => {}
        (_, other) => return Err(Malformed::Version(other)),
    }
    Ok(match kind {
        2 => Message::EchoRequest { xid, data: r.0.to_vec() },
        3 => Message::EchoReply,
        6 => Message::Features,
        8 => Message::Config { xid, flags: r.u16("its configuration")? },
        12 => Message::Port(port_status(&mut r)?),
        19 => multipart(&mut r, xid)?,
        _ => Message::Other,
    })
}

fn multipart(r: &mut Reader<'_>, xid: u32) -> Result<Message, Malformed> {
    let (kind, flags) = (r.u16("an answer's header")?, r.u16("an answer's header")?);
    r.skip(4, "an answer's header")?;
    let more = flags & 1 != 0;
    Ok(match kind {
        1 => Message::Flows { xid, flows: flow::flows(r)?, more },
        13 => {
            let mut ports = vec![];
            while !r.0.is_empty() {
                ports.push(port(r)?);
            }
            Message::Ports { ports, more }
        }
        14 => Message::Tables { xid, evicting: evicting(r)?, more },
        16 => Message::Updates(flow::updates(r)?),
        _ => Message::Other,
    })
}

fn port_status(r: &mut Reader<'_>) -> Result<PortNews, Malformed> {
    let reason = r.u8("what became of a port")?;
    r.skip(7, "what became of a port")?;
    let port = port(r)?;
    match reason {
        0 | 2 => Ok(PortNews::Is(port)),
        1 => Ok(PortNews::Gone(port)),
        _ => Err(Malformed::Wrong("reason of a port's change")),
    }
}

fn port(r: &mut Reader<'_>) -> Result<OfPort, Malformed> {
    const WHAT: &str = "a port";
    let number = r.u32(WHAT)?;
    let length = r.u16(WHAT)?;
    let mut r =
        r.part(usize::from(length).checked_sub(6).ok_or(Malformed::Wrong("length"))?, WHAT)?;
    r.skip(2 + 6 + 2, WHAT)?;
    let name = r.part(16, WHAT)?.0;
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Ok(OfPort { number, name, config: r.u32(WHAT)?, state: r.u32(WHAT)? })
}

fn evicting(r: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    const WHAT: &str = "a table";
    const EVICTION: u32 = 1 << 2;
    let mut found = vec![];
    while !r.0.is_empty() {
        let length = r.u16(WHAT)?;
        let length = usize::from(length).checked_sub(2).ok_or(Malformed::Wrong("length"))?;
        let mut table = r.part(length, WHAT)?;
        let number = table.u8(WHAT)?;
        table.skip(1, WHAT)?;
        if table.u32(WHAT)? & EVICTION != 0 {
            found.push(number);
        }
    }
    Ok(found)
}

/// What is left to read. Each error names the part that ends too early.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short(what))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.take::<1>(what).map(|b| b[0])
    }

    fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.take(what).map(u16::from_be_bytes)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.take(what).map(u32::from_be_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.take(what).map(u64::from_be_bytes)
    }

    fn part(&mut self, bytes: usize, what: &'static str) -> Result<Reader<'a>, Malformed> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or(Malformed::Short(what))?;
        self.0 = rest;
        Ok(Reader(head))
    }

    fn skip(&mut self, bytes: usize, what: &'static str) -> Result<(), Malformed> {
        self.part(bytes, what).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
