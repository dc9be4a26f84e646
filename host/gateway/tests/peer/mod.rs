//! A scripted peer of the gateway, which says what the test wants said.
#![allow(dead_code)] // Each test uses a part of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;
use vfun_gateway::Gateway;
use vfun_wire::attach::{ATTACH_MAGIC, Attach};
use vfun_wire::frame::{ACK, ATTACH, CALL, CallAnswer, CallHead, FrameHead, NACK};
use vfun_wire::kind::CallsShape;
use vfun_wire::limits::{CREDENTIAL_BYTES, NAME_BYTES};
use vfun_wire::message::{ActivateAck, Hello, HelloAck, Kind, Negotiate, NegotiateAck, OfGrant};
use vfun_wire::{Nack, names};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// A gateway to the manager whose socket this is; it lives as long as the test.
pub fn gateway(socket: &Path) -> SocketAddr {
    served(Gateway::new(socket.to_owned()))
}

/// A gateway as it is set up, which lives as long as the test.
pub fn served(gateway: Gateway) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || gateway.serve(&listener));
    at
}

pub struct Peer(pub TcpStream);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub kind: u16,
    pub id: u64,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn nack(&self) -> Nack {
        assert_eq!(self.kind, NACK, "{self:?}");
        Nack::decode(&self.body)
    }
    pub fn ack(self) -> Vec<u8> {
        if self.kind == NACK {
            panic!("{}", self.nack());
        }
        assert_eq!(self.kind, ACK);
        self.body
    }
    /// Status, break reason, results.
    pub fn call(&self) -> (u32, u32, &[u8]) {
        assert_eq!(self.kind, CALL, "{self:?}");
        let (head, results) = CallAnswer::read_from_prefix(&self.body).unwrap();
        (head.status.get(), head.broken.get(), results)
    }
}

pub fn frame(kind: u16, id: u64, body: &[u8]) -> Vec<u8> {
    let head = FrameHead {
        body_bytes: U32::new(body.len() as u32),
        kind: U16::new(kind),
        reserved: U16::ZERO,
        id: U64::new(id),
    };
    [head.as_bytes(), body].concat()
}

pub fn attach(client: &str) -> Attach {
    let mut a = Attach::new_zeroed();
    a.magic = U64::new(ATTACH_MAGIC);
    a.client = names::encode(client).unwrap();
    a
}

pub fn hello() -> Hello {
    Hello {
        version_min: U16::new(2),
        version_max: U16::new(2),
        pid: U32::new(7),
        features: U64::new(3),
        app: names::encode("scripted").unwrap(),
        credential_len: U16::ZERO,
        reserved: [0; 6],
        credential: [0; CREDENTIAL_BYTES],
    }
}

pub fn negotiate(function: &str) -> Negotiate {
    let mut n = Negotiate::new_zeroed();
    n.function = names::encode(function).unwrap();
    n.kind = U16::new(1);
    n.shape = CallsShape::new(0, u32::MAX).shape();
    n
}

pub fn call(id: u64, grant: u64, command: u8, args: &[u8]) -> Vec<u8> {
    let head = CallHead { grant: U64::new(grant), command, reserved: [0; 7] };
    frame(CALL, id, &[head.as_bytes(), args].concat())
}

impl Peer {
    pub fn connect(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Peer(stream)
    }

    /// Attached, with a session.
    pub fn greeted(at: SocketAddr, client: &str) -> Self {
        let mut peer = Self::connect(at);
        assert!(peer.ask(ATTACH, attach(client).as_bytes()).ack().is_empty());
        let ack =
            HelloAck::read_from_bytes(&peer.ask(Kind::Hello.to_wire(), hello().as_bytes()).ack())
                .unwrap();
        assert_eq!((names::decode(&ack.client).unwrap(), ack.heartbeat_ms.get()), (client, 0));
        peer
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub fn hear(&mut self) -> Answer {
        let mut head = [0; size_of::<FrameHead>()];
        self.0.read_exact(&mut head).expect("an answer");
        let head = FrameHead::read_from_bytes(&head).unwrap();
        let mut body = vec![0; head.body_bytes.get() as usize];
        self.0.read_exact(&mut body).unwrap();
        Answer { kind: head.kind.get(), id: head.id.get(), body }
    }

    pub fn ask(&mut self, kind: u16, body: &[u8]) -> Answer {
        self.say(&frame(kind, 99, body));
        let answer = self.hear();
        assert_eq!(answer.id, 99);
        answer
    }

    pub fn of_grant(&mut self, kind: Kind, grant: u64) -> Answer {
        self.ask(kind.to_wire(), OfGrant { grant: U64::new(grant) }.as_bytes())
    }

    /// An active function's grant.
    pub fn activate(&mut self, function: &str) -> u64 {
        let body = self.ask(Kind::Negotiate.to_wire(), negotiate(function).as_bytes()).ack();
        let grant = NegotiateAck::read_from_bytes(&body).unwrap().grant.get();
        let ack = self.of_grant(Kind::Activate, grant).ack();
        let ack = ActivateAck::read_from_bytes(&ack).expect("no range follows");
        assert_eq!((ack.channel.get(), ack.kind.get(), ack.count.get()), (grant, 1, 0));
        assert_eq!(CallsShape::read(&ack.shape), Ok(CallsShape::new(64, 4096)));
        grant
    }

    /// Whether the gateway closes the connection, and soon.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = vec![];
        !matches!(self.0.read_to_end(&mut rest), Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut))
    }
}

pub const NO_NAME: [u8; NAME_BYTES] = [0; NAME_BYTES];
