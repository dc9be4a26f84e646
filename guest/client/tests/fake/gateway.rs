//! A gateway: frames in, frames out, calls computed on the spot.

use super::{Fake, Host, Setup};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
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

fn serve(host: Arc<Host>, mut s: TcpStream, spoil: Option<SpoilFrame>, stop: Arc<AtomicBool>) {
    s.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    s.set_nodelay(true).unwrap();
    let held: Mutex<Vec<u64>> = Mutex::default();
    let mut session = 0;
    loop {
        let mut head = FrameHead::new_zeroed();
        if !read_exact(&mut s, head.as_mut_bytes(), &stop) {
            return;
        }
        let mut body = vec![0; head.body_bytes.get() as usize];
        if !read_exact(&mut s, &mut body, &stop) {
            return;
        }
        let mut answers = vec![];
        let answer = |status: Status, broken: u32, results: &[u8]| {
            let a = CallAnswer { status: U32::new(status.to_wire()), broken: U32::new(broken) };
            [a.as_bytes(), results].concat()
        };
        match head.kind.get() {
            ATTACH => {
                assert_eq!(session, 0);
                host.questions.lock().unwrap().push(Attach::read_from_bytes(&body).unwrap());
                answers.push((ACK, head.id.get(), vec![]));
            }
            CALL => {
                let (_, args) = CallHead::read_from_prefix(&body).unwrap();
                let id = head.id.get();
                match args {
                    b"!hold" => held.lock().unwrap().push(id),
                    b"!let-go" => {
                        // The newest first: answers come in any order.
                        for held in held.lock().unwrap().drain(..).rev() {
                            answers.push((CALL, held, answer(Status::Ok, 0, b"event")));
                        }
                        answers.push((CALL, id, answer(Status::Ok, 0, &[])));
                    }
                    b"!driver" => {
                        answers.push((CALL, id, answer(Status::DriverError, 0, b"\x07\0\0\0no")))
                    }
                    b"!broken" => answers.push((CALL, id, answer(Status::ChannelBroken, 2, &[]))),
                    b"!hang-up" => return,
                    _ => answers.push((CALL, id, answer(Status::Ok, 0, args))),
                }
            }
            kind => {
                if kind == 1 {
                    session = 0;
                }
                if kind == Kind::Release.to_wire() {
                    // One function a connection holds calls: those are this grant's.
                    for held in held.lock().unwrap().drain(..) {
                        answers.push((CALL, held, answer(Status::Released, 4, &[])));
                    }
                }
                let (kind, body) = match host.serve(kind, session, &body) {
                    Ok(body) => (ACK, body),
                    Err(nack) => (NACK, nack.encode().as_bytes().to_vec()),
                };
                session = 1;
                answers.push((kind, head.id.get(), body));
            }
        }
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
