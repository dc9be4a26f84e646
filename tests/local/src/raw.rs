//! An app without the library: every byte of its window is the test's to write.

use crate::Stand;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_window::{Access, Bell, Mapping, WriteSpan, fdpass};
use vfun_wire::attach::{ATTACH_MAGIC, Attach, AttachAck};
use vfun_wire::control::{self, Posted, WORD_ANSWERED, WORD_POSTED, WORD_SESSION};
use vfun_wire::header::POSTED_OFF;
use vfun_wire::kind::CallsShape;
use vfun_wire::limits::*;
use vfun_wire::message::{Hello, HelloAck, Kind, Negotiate};
use vfun_wire::version::{Features, VERSION};
use vfun_wire::{LINE, Nack, NackCode, names};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, IntoBytes};

/// A window without the library: every byte of it is this test's to write.
pub struct Raw {
    _socket: Option<OwnedFd>,
    pub window: WriteSpan,
    pub bell: Option<Bell>,
    /// What this app rings, by vector; none where its window has no doorbells.
    pub bells: Vec<Bell>,
    /// What the host rings for this app.
    pub ears: Vec<OwnedFd>,
    pub seq: u32,
}

impl Raw {
    pub fn attach(stand: &Stand) -> Self {
        Self::attach_as(stand, "", 0).unwrap()
    }

    /// As a client; `remote` as the gateway does.
    pub fn attach_as(stand: &Stand, client: &str, remote: u8) -> Result<Self, Nack> {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let address = SocketAddrUnix::new(stand.root().join("host.sock")).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        let ask = Attach {
            magic: U64::new(ATTACH_MAGIC),
            client: if client.is_empty() {
                [0; NAME_BYTES]
            } else {
                names::encode(client).unwrap()
            },
            credential_len: U16::new(0),
            remote,
            reserved: [0; 5],
            credential: [0; CREDENTIAL_BYTES],
        };
        fdpass::send(&socket, ask.as_bytes(), &[]).unwrap();
        let mut bytes = [0; size_of::<AttachAck>()];
        let (n, mut fds) = fdpass::receive(&socket, &mut bytes).unwrap();
        let ack = AttachAck::read_from_bytes(&bytes[..n]).unwrap();
        if let Some(code) = NackCode::from_wire(ack.code.get()) {
            let sentence = &ack.sentence[..usize::from(ack.sentence_len.get())];
            return Err(Nack::new(code, String::from_utf8_lossy(sentence)));
        }
        assert_eq!((ack.code.get(), fds.len()), (0, 1 + 2 * usize::from(VECTORS)));
        let map =
            Mapping::new(fds[0].as_fd(), 0, ack.window_bytes.get() as usize, Access::ReadWrite)
                .unwrap();
        let ears = fds.split_off(1 + usize::from(VECTORS));
        let bells: Vec<Bell> = fds.split_off(1).into_iter().map(Bell::from_fd).collect();
        Ok(Raw {
            _socket: Some(socket),
            window: map.write().unwrap(),
            bell: bells.first().cloned(),
            bells,
            ears,
            seq: 0,
        })
    }

    /// A plain window, by its file.
    pub fn of_file(path: &std::path::Path) -> Self {
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let bytes = file.metadata().unwrap().len() as usize;
        let map = Mapping::guarded(&file, 0, bytes, Access::ReadWrite).unwrap();
        let window = map.write().unwrap();
        // It goes on where another app stopped.
        let last = window.load(control::request_off(0) / 8 + WORD_POSTED, Ordering::Acquire);
        let seq = Posted::unpack(last).seq;
        Raw { _socket: None, window, bell: None, bells: vec![], ears: vec![], seq }
    }

    pub fn ring(&self) {
        self.window.fetch_add(POSTED_OFF / 8, 1, Ordering::SeqCst);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Posts whatever is given into control cell 0 and waits for the answer to it.
    pub fn post(&mut self, posted: Posted, session: u64, body: &[u8]) -> Result<Vec<u8>, Nack> {
        let at = control::request_off(0) / 8;
        self.window.write(control::request_off(0) + LINE, body).unwrap();
        self.window.store(at + WORD_SESSION, session, Ordering::Relaxed);
        self.window.store(at + WORD_POSTED, posted.pack(), Ordering::Release);
        self.ring();
        self.seq = posted.seq;
        let answer = control::answer_off(0) / 8;
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let got = Posted::unpack(self.window.load(answer + WORD_ANSWERED, Ordering::Acquire));
            if got.seq == posted.seq {
                let mut bytes = vec![0; usize::from(got.len)];
                self.window.read(control::answer_off(0) + LINE, &mut bytes).unwrap();
                return if got.kind == control::ANSWER_ACK {
                    Ok(bytes)
                } else {
                    Err(Nack::decode(&bytes))
                };
            }
            assert!(Instant::now() < until, "no answer to {posted:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn ask(&mut self, kind: Kind, session: u64, body: &[u8]) -> Result<Vec<u8>, Nack> {
        let posted =
            Posted { seq: self.seq.wrapping_add(1), kind: kind.to_wire(), len: body.len() as u16 };
        self.post(posted, session, body)
    }

    pub fn hello(&mut self) -> u64 {
        self.hello_with(Features(0))
    }

    /// As an app that has these features.
    pub fn hello_with(&mut self, features: Features) -> u64 {
        let mut h = Hello::read_from_bytes(&[0; size_of::<Hello>()]).unwrap();
        (h.version_min, h.version_max) = (U16::new(VERSION), U16::new(VERSION));
        h.app = names::encode("raw").unwrap();
        h.features = U64::new(features.0);
        let ack = self.ask(Kind::Hello, 0, h.as_bytes()).unwrap();
        HelloAck::read_from_bytes(&ack).unwrap().session.get()
    }
}

/// A small channel of this function.
pub fn negotiate(name: &str) -> Negotiate {
    let mut n = Negotiate::read_from_bytes(&[0; size_of::<Negotiate>()]).unwrap();
    n.function = names::encode(name).unwrap();
    n.kind = U16::new(1);
    n.shape = CallsShape::new(0, 64).shape();
    n
}
