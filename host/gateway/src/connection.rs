//! A connection: reads its frames and serves its short calls.

use crate::calls::{Calls, Functions};
use crate::control::{self, Request};
use crate::greet::{self, Asked};
use crate::input::{Ended, Frame, Input};
use crate::limits::*;
use crate::output::{Output, push_answer};
use rustix::net::sockopt;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;
use vfun::Session;
use vfun_wire::frame::{ATTACH, CALL};
use vfun_wire::limits::FRAME_BYTES_MAX;
use vfun_wire::message::Kind;
use vfun_wire::{Nack, NackCode};

/// A connection, not served yet.
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    socket: PathBuf,
}

/// A connection that has said who it is.
struct Caller<'a> {
    stream: &'a TcpStream,
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
    pub fn new(stream: TcpStream, peer: SocketAddr, socket: PathBuf) -> Self {
        Connection { stream, peer, socket }
    }

    /// Serves it to its end.
    pub fn run(self) {
        let peer = self.peer;
        match self.serve() {
            Ok(()) | Err(Ended::Closed) => tracing::debug!(%peer, "ended"),
            Err(Ended::Broken(why)) => tracing::info!(%peer, "ended: {why}"),
        }
    }

    fn serve(&self) -> Result<(), Ended> {
        let io = |e: std::io::Error| Ended::Broken(format!("its socket could not be set up: {e}"));
        self.stream.set_nodelay(true).map_err(io)?;
        self.stream.set_read_timeout(Some(READ_TICK)).map_err(io)?;
        sockopt::set_socket_keepalive(&self.stream, true)?;
        sockopt::set_tcp_keepidle(&self.stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&self.stream, KEEPALIVE_BETWEEN)?;
        sockopt::set_tcp_keepcnt(&self.stream, KEEPALIVE_PROBES)?;
        let output = Arc::new(Output::new(self.stream.try_clone().map_err(io)?).map_err(io)?);

        let mut input = Input::new();
        let session = self.greet(&mut input, &output)?;
        tracing::debug!(peer = %self.peer, client = session.info().client, "serving");
        let functions = Arc::new(Functions::default());
        let (requests, inbox) = sync_channel(CONTROL_WAITING);
        let thread = {
            let (functions, output) = (functions.clone(), output.clone());
            let run = move || control::run(session, functions, &inbox, &output);
            std::thread::Builder::new().name("vfun-control".into()).spawn(run).map_err(io)?
        };
        let caller = Caller {
            stream: &self.stream,
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

    /// The first two frames. Both must come within a time, whatever their pace.
    fn greet(&self, input: &mut Input, output: &Output) -> Result<Session, Ended> {
        let began = Instant::now();
        let next = |input: &mut Input| loop {
            if let Some(frame) = input.take(GREETING_FRAME_BYTES)? {
                return Ok(frame);
            }
            if began.elapsed() > GREETING {
                return Err(Ended::Broken(format!(
                    "it did not say who it is within {} s",
                    GREETING.as_secs()
                )));
            }
            input.fill(&self.stream, true)?;
        };
        let refuse = |id: u64, nack: Nack| {
            let why = format!("refused: {nack}");
            let mut out = Vec::new();
            push_answer(&mut out, id, &Err(nack));
            output.send(&out);
            Ended::Broken(why)
        };
        let first = next(input)?;
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
        let opened = greet::hello(&asked, input.body(&second), &self.socket);
        let (session, ack) = opened.map_err(|n| refuse(second.id, n))?;
        out.clear();
        push_answer(&mut out, second.id, &Ok(ack));
        output.send(&out);
        Ok(session)
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
                if !self.input.fill(self.stream, true)? {
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
            if self.input.fill(self.stream, false)? {
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
