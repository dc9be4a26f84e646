//! What we say to the switch. Nothing of it changes what the switch does.

use super::{FlowKey, HEADER, VERSION};

/// A message to the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message, with the one version that we speak.
    Hello,
    /// An answer, with the bytes of the question.
    EchoReply {
        /// The number of the question.
        xid: u32,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// Asks whether the switch is there.
    Echo,
    /// Asks for its number.
    Features,
    /// Of this connection alone: events about ports, and no others.
    PortEventsOnly,
    /// Asks for all ports.
    Ports,
    /// Asks for each change of rules from now on.
    Monitor,
    /// Asks for all rules.
    AllFlows {
        /// The number that its answers bear.
        xid: u32,
    },
    /// Asks for one rule, and gets those that match less with it.
    OneFlow {
        /// The number that its answers bear.
        xid: u32,
        /// Which one.
        key: FlowKey,
    },
    /// Asks what tables do when they are full.
    Tables {
        /// The number that its answers bear.
        xid: u32,
    },
    /// Asks how fragments are treated.
    Config {
        /// The number that its answer bears.
        xid: u32,
    },
}

const ANY: u32 = u32::MAX;

impl Request {
    /// The bytes of the message.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            // One version, as a bitmap: the answer is an error where it is not spoken.
            Request::Hello => framed(0, 0, &[0, 1, 0, 8, 0, 0, 0, 1 << VERSION]),
            Request::Echo => framed(2, 0, &[]),
            Request::EchoReply { xid, data } => framed(3, *xid, data),
            Request::Features => framed(5, 0, &[]),
            Request::Config { xid } => framed(7, *xid, &[]),
            Request::PortEventsOnly => framed(28, 0, &port_events()),
            Request::Ports => multipart(13, 0, &[]),
            Request::Tables { xid } => multipart(14, *xid, &[]),
            Request::Monitor => multipart(16, 0, &monitor()),
            Request::AllFlows { xid } => multipart(1, *xid, &flows(0xff, &[])),
            Request::OneFlow { xid, key } => multipart(1, *xid, &flows(key.table, &key.fields)),
        }
    }
}

fn framed(kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER + body.len()).expect("what we ask is short");
    let mut all = vec![VERSION, kind];
    all.extend(length.to_be_bytes());
    all.extend(xid.to_be_bytes());
    all.extend(body);
    all
}

fn multipart(kind: u16, xid: u32, body: &[u8]) -> Vec<u8> {
    let mut all = kind.to_be_bytes().to_vec();
    all.extend([0; 6]);
    all.extend(body);
    framed(18, xid, &all)
}

/// A mask for each kind of event, in each of two roles that a connection may have.
fn port_events() -> Vec<u8> {
    const KINDS: u16 = 12;
    const PORT_STATUS: [u16; 2] = [2, 3];
    const CAME_WENT_CHANGED: u32 = 0b111;
    let mut all = vec![];
    for kind in 0..KINDS {
        all.extend(kind.to_be_bytes());
        all.extend(8u16.to_be_bytes());
        let mask = if PORT_STATUS.contains(&kind) { CAME_WENT_CHANGED } else { 0 };
        all.extend(mask.to_be_bytes());
    }
    all
}

fn monitor() -> Vec<u8> {
    // Rules that come, go and change, with what they do. Not those that are there: an answer
    // to the question for rules has their flags, too.
    const FLAGS: u16 = 0b1_1110;
    const ALL_TABLES: u8 = 0xff;
    let mut all = 1u32.to_be_bytes().to_vec();
    all.extend(ANY.to_be_bytes());
    all.extend(ANY.to_be_bytes());
    all.extend(FLAGS.to_be_bytes());
    all.extend([ALL_TABLES, 0]);
    all.extend(matching(&[]));
    all
}

fn flows(table: u8, fields: &[u8]) -> Vec<u8> {
    let mut all = vec![table, 0, 0, 0];
    all.extend(ANY.to_be_bytes());
    all.extend(ANY.to_be_bytes());
    // Then: filled up, any cookie.
    all.extend([0; 4 + 8 + 8]);
    all.extend(matching(fields));
    all
}

fn matching(fields: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + fields.len()).expect("the switch wrote it into one message");
    let mut all = vec![0, 1];
    all.extend(length.to_be_bytes());
    all.extend(fields);
    all.resize(usize::from(length).next_multiple_of(8), 0);
    all
}
