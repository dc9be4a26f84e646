//! A connection: reads its frames and serves its short calls.

use crate::calls::{Calls, Functions};
use crate::certificates::Certificates;
use crate::control::{self, Request};
use crate::door::{Door, Greeting, Place};
use crate::greet::{self, Asked};
use crate::input::{Ended, Frame, Input};
use crate::limits::*;
use crate::output::{Output, push_answer};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;
use vfun::Session;
use vfun_tls::Line;
use vfun_wire::frame::{ATTACH, CALL};
use vfun_wire::limits::FRAME_BYTES_MAX;
use vfun_wire::message::Kind;
use vfun_wire::{Nack, NackCode};

/// A connection, not served yet.
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    socket: PathBuf,
    door: Arc<Door>,
    certificates: Option<Arc<Certificates>>,
}

/// A connection that has said who it is.
struct Caller<'a> {
    line: &'a Line,
    peer: SocketAddr,
    input: Input,
    output: Arc<Output>,
    functions: Arc<Functions>,
    requests: SyncSender<Request>,
    calls: Calls,
    out: Vec<u8>,
    nacked: u64,
}

impl Connection {
    /// One that was just accepted. With certificates it must speak TLS.
    pub fn new(
        stream: TcpStream,
        peer: SocketAddr,
        socket: PathBuf,
        door: Arc<Door>,
        certificates: Option<Arc<Certificates>>,
    ) -> Self {
        Connection { stream, peer, socket, door, certificates }
    }

    /// Serves it to its end.
    pub fn run(self, greeting: Greeting) {
        let (peer, door) = (self.peer, self.door.clone());
        match self.serve(greeting) {
            Ok(()) | Err(Ended::Closed) => tracing::debug!(%peer, "ended"),
            Err(Ended::Broken(why)) => match door.lines.say(Instant::now()) {
                None => tracing::debug!(%peer, "ended: {why}"),
                Some(0) => tracing::info!(%peer, "ended: {why}"),
                Some(n) => {
                    tracing::info!(%peer, "ended: {why} ({n} lines like this were left out before it)")
                }
            },
        }
    }

    fn serve(self, greeting: Greeting) -> Result<(), Ended> {
        let until = Instant::now() + GREETING;
        let io = |e: std::io::Error| Ended::Broken(format!("its socket could not be set up: {e}"));
        self.stream.set_nodelay(true).map_err(io)?;
        self.stream.set_read_timeout(Some(READ_TICK)).map_err(io)?;
        sockopt::set_socket_keepalive(&self.stream, true)?;
        sockopt::set_tcp_keepidle(&self.stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&self.stream, KEEPALIVE_BETWEEN)?;
        sockopt::set_tcp_keepcnt(&self.stream, KEEPALIVE_PROBES)?;
        let line = Arc::new(self.line(until)?);
        let output = Arc::new(Output::new(line.clone()).map_err(io)?);
        let mut input = Input::new();
        let (session, _place) = self.greet(&line, &mut input, &output, until)?;
        drop(greeting);
        tracing::debug!(peer = %self.peer, client = session.info().client, "serving");
        let functions = Arc::new(Functions::default());
        let (requests, inbox) = sync_channel(CONTROL_WAITING);
        let thread = {
            let (functions, output) = (functions.clone(), output.clone());
            let run = move || control::run(session, functions, &inbox, &output);
            std::thread::Builder::new().name("vfun-control".into()).spawn(run).map_err(io)?
        };
        let caller = Caller {
            line: &line,
            peer: self.peer,
            input,
            output,
            functions,
            requests,
            calls: Calls::default(),
            out: Vec::new(),
            nacked: 0,
        };
        caller.run(thread)
    }

    /// The line, after the handshake where there is one.
    fn line(&self, until: Instant) -> Result<Line, Ended> {
        let stream = self.stream.try_clone().map_err(|e| Ended::Broken(e.to_string()))?;
        let speaks_tls = first_byte(&stream, until)? == vfun_tls::FIRST_BYTE;
        match &self.certificates {
            Some(certificates) if speaks_tls => {
                Line::accept(stream, &certificates.current(), until).map_err(|e| {
                    Ended::Broken(format!("no TLS with it: {}", vfun_tls::of_caller(&e)))
                })
            }
            // With TLS it is refused by its first frame's answer, which it understands.
            _ if !speaks_tls => Ok(Line::plain(stream)),
            _ => {
                // What is left unread would turn the answer into a reset.
                let _ = recv(&stream, &mut [0; GREETING_FRAME_BYTES], RecvFlags::DONTWAIT);
                let _ = (&stream).write_all(&vfun_tls::NOT_HERE);
                Err(Ended::Broken(
                    "it speaks TLS and this gateway does not: start vfund with --tcp-tls-cert, or \
                     let it use the endpoint tcp:HOST:PORT"
                        .into(),
                ))
            }
        }
    }

    /// The first two frames. Both must come within a time, whatever their pace.
    fn greet(
        &self,
        line: &Line,
        input: &mut Input,
        output: &Output,
        until: Instant,
    ) -> Result<(Session, Place), Ended> {
        let next = |input: &mut Input| loop {
            if let Some(frame) = input.take(GREETING_FRAME_BYTES)? {
                return Ok(frame);
            }
            if Instant::now() > until {
                return Err(said_nothing());
            }
            input.fill(line, true)?;
        };
        let refuse = |id: u64, nack: Nack| {
            let why = format!("refused: {nack}");
            let mut out = Vec::new();
            push_answer(&mut out, id, &Err(nack));
            output.send(&out);
            Ended::Broken(why)
        };
        let first = next(input)?;
        if self.certificates.is_some() && !line.encrypted() {
            let sentence = "this gateway takes callers by TLS only: use the endpoint tls:HOST:PORT, \
                            with VFUN_TLS_CA";
            return Err(refuse(first.id, Nack::new(NackCode::Unsupported, sentence)));
        }
        let asked: Asked = match first.kind {
            ATTACH => greet::attach(input.body(&first)).map_err(|n| refuse(first.id, n))?,
            kind => {
                let nack =
                    Nack::new(NackCode::WrongState, format!("frame {kind:#x} came before attach"));
                return Err(refuse(first.id, nack));
            }
        };
        let mut out = Vec::new();
        push_answer(&mut out, first.id, &Ok(vec![]));
        output.send(&out);
        let second = next(input)?;
        if second.kind != Kind::Hello.to_wire() {
            let nack = Nack::new(
                NackCode::WrongState,
                format!("frame {:#x} came before hello", second.kind),
            );
            return Err(refuse(second.id, nack));
        }
        let place = Door::place(&self.door).map_err(|nack| refuse(second.id, nack))?;
        let opened = greet::hello(&asked, input.body(&second), &self.socket);
        let (session, ack) = opened.map_err(|n| refuse(second.id, n))?;
        out.clear();
        push_answer(&mut out, second.id, &Ok(ack));
        output.send(&out);
        Ok((session, place))
    }
}

fn said_nothing() -> Ended {
    Ended::Broken(format!("it did not say who it is within {} s", GREETING.as_secs()))
}

/// The first byte that a connection sends, which stays to be read.
fn first_byte(stream: &TcpStream, until: Instant) -> Result<u8, Ended> {
    let mut byte = [0];
    loop {
        match recv(stream, &mut byte, RecvFlags::PEEK) {
            Ok((0, _)) | Err(Errno::CONNRESET) => return Err(Ended::Closed),
            Ok(_) => return Ok(byte[0]),
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() <= until => {}
            Err(Errno::AGAIN | Errno::INTR) => return Err(said_nothing()),
            Err(e) => return Err(e.into()),
        }
    }
}

impl Caller<'_> {
    fn run(mut self, control: JoinHandle<()>) -> Result<(), Ended> {
        let ended = self.serve();
        if self.nacked > 0 {
            tracing::info!(peer = %self.peer, "{} of its frames were refused", self.nacked);
        }
        self.output.end();
        // With the last request's sender gone the control thread gives everything back.
        let Caller { requests, calls, .. } = self;
        drop(requests);
        drop(calls);
        let _ = control.join();
        ended
    }

    fn serve(&mut self) -> Result<(), Ended> {
        loop {
            // Whatever fits the buffer that is there anyway is answered by name.
            let limit = FETCH.max(self.functions.longest()).min(FRAME_BYTES_MAX as usize);
            while let Some(frame) = self.input.take(limit)? {
                self.frame(&frame)?;
            }
            if self.calls.is_empty() {
                self.flush();
                if !self.input.fill(self.line, true)? {
                    if self.output.ended() {
                        return Ok(());
                    }
                    self.calls.forget_last();
                    self.input.shrink();
                    self.out.shrink_to(FETCH);
                }
            } else {
                self.wait()?;
            }
        }
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), Ended> {
        let started = match frame.kind {
            CALL => {
                self.calls.start(&self.functions, frame.id, self.input.body(frame), &mut self.out)
            }
            ATTACH => return Err(Ended::Broken("a second attach".into())),
            kind => match Kind::from_wire(kind) {
                Some(kind) => self.request(kind, frame),
                None => Err(Nack::new(
                    NackCode::Unsupported,
                    format!("frame kind {kind:#x} is not one of this version"),
                )),
            },
        };
        if let Err(nack) = started {
            self.nacked += 1;
            tracing::debug!(peer = %self.peer, "refused: {nack}");
            push_answer(&mut self.out, frame.id, &Err(nack));
        }
        // So that a peer that only sends cannot make this grow.
        if self.out.len() >= BATCH_BYTES {
            self.flush();
        }
        Ok(())
    }

    fn request(&mut self, kind: Kind, frame: &Frame) -> Result<(), Nack> {
        self.calls.forget_last();
        let request = Request { kind, id: frame.id, body: self.input.body(frame).to_vec() };
        self.requests.try_send(request).map_err(|e| match e {
            TrySendError::Full(_) => Nack::new(
                NackCode::OverQuota,
                format!("{CONTROL_WAITING} control requests wait already: wait for an answer"),
            ),
            TrySendError::Disconnected(_) => {
                Nack::new(NackCode::WrongState, "this connection has said goodbye")
            }
        })
    }

    /// Looks at the calls under way until they are answered, more frames come,
    /// or they take so long that another thread waits for them.
    fn wait(&mut self) -> Result<(), Ended> {
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS {
                self.calls.look(&mut self.out);
                if self.calls.is_empty() {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            self.flush();
            if self.input.fill(self.line, false)? {
                return Ok(());
            }
            let waited = start.elapsed();
            if waited >= INLINE {
                self.calls.hand_over(INLINE, &self.output);
                if self.calls.is_empty() {
                    return Ok(());
                }
            }
            if waited >= INLINE_SPIN {
                std::thread::yield_now();
            }
        }
    }

    fn flush(&mut self) {
        self.output.send(&self.out);
        self.out.clear();
    }
}
