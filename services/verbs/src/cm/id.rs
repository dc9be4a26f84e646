//! What the connection manager knows of an id, and what it tells.

use crate::attributes::Address;
use crate::limits::CM_DATA;

/// The address of a VM, which all of its programs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Home(pub [u8; 16]);

/// Ports are counted in each of these apart (`rdma_port_space`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CmSpace {
    /// Reliable connections: RDMA_PS_TCP, and RDMA_PS_IB, which differ in how programs name them.
    Tcp,
    /// Datagrams: RDMA_PS_UDP.
    Udp,
}

impl CmSpace {
    /// By the number of `rdma_cma.h`.
    pub const fn from_wire(n: u32) -> Option<Self> {
        match n {
            0x106 | 0x13F => Some(CmSpace::Tcp),
            0x111 => Some(CmSpace::Udp),
            _ => None,
        }
    }
}

/// Bytes that one program tells the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CmData(Vec<u8>);

impl CmData {
    /// `None`: they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= CM_DATA).then(|| CmData(bytes.to_vec()))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a side says of its queue pair. Where it is, the NIC says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CmOffer {
    pub at: Address,
    pub qpn: u32,
    pub qkey: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub srq: u8,
}

/// `rdma_cm_event_type`, as far as it comes from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CmKind {
    ConnectRequest = 4,
    ConnectResponse = 5,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
}

/// What a program is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmEvent {
    pub kind: CmKind,
    pub status: i32,
    /// The id that it is about.
    pub id: u32,
    /// The new id of a request; otherwise 0.
    pub other: u32,
    /// The port of who asks; otherwise 0.
    pub peer_port: u16,
    pub offer: CmOffer,
    pub data: CmData,
}

impl CmEvent {
    /// With nothing else said.
    pub(super) fn of(kind: CmKind, id: u32) -> Self {
        let (offer, data) = (CmOffer::default(), CmData::default());
        CmEvent { kind, status: 0, id, other: 0, peer_port: 0, offer, data }
    }
}

/// What an id is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Listening {
        backlog: u32,
        /// Requests that nobody has answered.
        waiting: u32,
    },
    /// It asks, and nobody listens yet.
    Early,
    /// It has asked; `peer` stands for the request.
    Connecting {
        peer: u32,
    },
    /// It is a request.
    Requested {
        peer: u32,
        listener: u32,
    },
    /// It was a request that nobody has taken, and who asked has gone. It still counts as one, since
    /// the program has been told of it.
    Withdrawn {
        listener: u32,
    },
    /// Passive: it has accepted, and waits for the other one.
    Accepted {
        peer: u32,
    },
    /// Active: it was accepted.
    Answered {
        peer: u32,
    },
    Connected {
        peer: u32,
    },
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct CmId {
    pub owner: u32,
    pub home: Home,
    pub space: CmSpace,
    /// 0: none yet.
    pub port: u16,
    /// The program knows it: always but for a request that it was only told of.
    pub taken: bool,
    pub state: State,
}
