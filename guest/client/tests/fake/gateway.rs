//! A gateway: frames in, frames out, calls computed on the spot.

use super::{Fake, Host, Setup};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun::{ConnectOptions, Endpoint, Status};
use vfun_wire::attach::Attach;
use vfun_wire::frame::*;
use vfun_wire::message::Kind;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// What a test may do to an answer's frame: its head and body.
pub type SpoilFrame = Arc<dyn Fn(&mut FrameHead, &mut Vec<u8>) + Send + Sync>;

pub struct Gateway {
    pub fake: Fake,
    pub address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    pub fn new(spoil: Option<SpoilFrame>) -> Gateway {
        let fake = Fake::new(Setup { window_bytes: 256 << 20, ..Setup::default() });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (host, stop2) = (fake.host.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut each = vec![];
            while !stop2.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (host, spoil, stop) = (host.clone(), spoil.clone(), stop2.clone());
                        stream.set_nonblocking(false).unwrap();
                        each.push(std::thread::spawn(move || serve(host, stream, spoil, stop)));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            each.into_iter().for_each(|t| t.join().unwrap());
        });
        Gateway { fake, address, stop, thread: Some(thread) }
    }

    pub fn options(&self) -> ConnectOptions {
        ConnectOptions::new("test").endpoint(Endpoint::Tcp(self.address.clone()))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn read_exact(s: &mut TcpStream, room: &mut [u8], stop: &AtomicBool) -> bool {
    let mut got = 0;
    while got < room.len() {
        match s.read(&mut room[got..]) {
            Ok(0) => return false,
            Ok(n) => got += n,
            Err(_) if stop.load(Ordering::Relaxed) => return false,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}

/// Kind, number and body of an answer.
type Answer = (u16, u64, Vec<u8>);

fn serve(host: Arc<Host>, mut s: TcpStream, spoil: Option<SpoilFrame>, stop: Arc<AtomicBool>) {
    s.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    s.set_nodelay(true).unwrap();
    let mut served = Served { host, held: vec![], session: 0 };
    loop {
        let mut head = FrameHead::new_zeroed();
        if !read_exact(&mut s, head.as_mut_bytes(), &stop) {
            return;
        }
        let mut body = vec![0; head.body_bytes.get() as usize];
        if !read_exact(&mut s, &mut body, &stop) {
            return;
        }
        let Some(answers) = served.answers(head.kind.get(), head.id.get(), &body) else { return };
        for (kind, id, mut body) in answers {
            let mut head = FrameHead {
                body_bytes: U32::new(body.len() as u32),
                kind: U16::new(kind),
                reserved: U16::ZERO,
                id: U64::new(id),
            };
            if let Some(spoil) = &spoil {
                spoil(&mut head, &mut body);
            }
            if s.write_all(head.as_bytes()).is_err() || s.write_all(&body).is_err() {
                return;
            }
        }
    }
}

/// A connection.
struct Served {
    host: Arc<Host>,
    /// Calls that were not answered.
    held: Vec<u64>,
    session: u64,
}

impl Served {
    /// What is answered to a frame; `None`: the connection is closed.
    fn answers(&mut self, kind: u16, id: u64, body: &[u8]) -> Option<Vec<Answer>> {
        match kind {
            ATTACH => {
                assert_eq!(self.session, 0);
                self.host.questions.lock().unwrap().push(Attach::read_from_bytes(body).unwrap());
                Some(vec![(ACK, id, vec![])])
            }
            CALL => {
                let (_, args) = CallHead::read_from_prefix(body).unwrap();
                self.call(id, args)
            }
            kind => Some(self.control(kind, id, body)),
        }
    }

    fn call(&mut self, id: u64, args: &[u8]) -> Option<Vec<Answer>> {
        let answer = |id, status: Status, broken: u32, results: &[u8]| {
            let a = CallAnswer { status: U32::new(status.to_wire()), broken: U32::new(broken) };
            (CALL, id, [a.as_bytes(), results].concat())
        };
        Some(match args {
            b"!hold" => {
                self.held.push(id);
                vec![]
            }
            b"!let-go" => {
                // The newest first: answers come in any order.
                let held = self.held.drain(..).rev();
                let mut all: Vec<_> = held.map(|h| answer(h, Status::Ok, 0, b"event")).collect();
                all.push(answer(id, Status::Ok, 0, &[]));
                all
            }
            b"!driver" => vec![answer(id, Status::DriverError, 0, b"\x07\0\0\0no")],
            b"!broken" => vec![answer(id, Status::ChannelBroken, 2, &[])],
            b"!hang-up" => return None,
            _ => vec![answer(id, Status::Ok, 0, args)],
        })
    }

    fn control(&mut self, kind: u16, id: u64, body: &[u8]) -> Vec<Answer> {
        if kind == 1 {
            self.session = 0;
        }
        let mut answers = vec![];
        if kind == Kind::Release.to_wire() {
            // One function a connection holds calls: those are this grant's.
            let a =
                CallAnswer { status: U32::new(Status::Released.to_wire()), broken: U32::new(4) };
            answers.extend(self.held.drain(..).map(|held| (CALL, held, a.as_bytes().to_vec())));
        }
        answers.push(match self.host.serve(kind, self.session, body) {
            Ok(body) => (ACK, id, body),
            Err(nack) => (NACK, id, nack.encode().as_bytes().to_vec()),
        });
        self.session = 1;
        answers
    }
}
