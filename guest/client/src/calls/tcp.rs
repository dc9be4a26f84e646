//! Calls in frames to a gateway: copied, pipelined.

use super::results::Sink;
use super::{CallEnd, Flight};
use crate::error::{DRIVER_SENTENCE, Error, Result};
use crate::grant::GrantInfo;
use crate::tcp::{Connection, Frame, Load};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfun_wire::channel::Command;
use vfun_wire::frame::{CALL, CallAnswer, CallHead, NACK};
use vfun_wire::kind::ChannelKind;
use vfun_wire::limits::FRAME_BYTES_MAX;
use vfun_wire::nack::Nack;
use vfun_wire::status::BreakReason;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

/// How much longer than a call's deadline a call waits for a free place.
const GRACE: Duration = Duration::from_secs(5);

/// An active function behind a gateway.
pub(crate) struct TcpCalls {
    connection: Arc<Connection>,
    grant: u64,
    depth: usize,
    max_args: usize,
    deadline: Duration,
    load: Load,
    ended: AtomicBool,
}

impl TcpCalls {
    pub fn new(connection: Arc<Connection>, info: &GrantInfo) -> Result<Self> {
        if info.kind != ChannelKind::Calls {
            return Err(Error::Unsupported(
                "over TCP there are only calls: raw lines need shared memory",
            ));
        }
        Ok(TcpCalls {
            connection,
            grant: info.grant,
            depth: info.depth.into(),
            max_args: info.max_args().min(FRAME_BYTES_MAX as usize - size_of::<CallHead>()),
            deadline: info.deadline,
            load: Load::default(),
            ended: AtomicBool::new(false),
        })
    }

    /// No call is sent from here on. One that another thread is just sending may
    /// come to the gateway after the release, which refuses it.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether calls may be sent.
    pub fn check_open(&self) -> Result<()> {
        if self.ended.load(Ordering::Acquire) { Err(Error::Released) } else { Ok(()) }
    }

    /// Longest arguments: what the grant has room for, and a frame.
    pub fn max_args(&self) -> usize {
        self.max_args
    }

    /// What its frames go through.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Submits as soon as there is a place, waiting at most until `limit`.
    pub fn submit_until(
        &self,
        command: Command,
        args: &[u8],
        limit: Option<Instant>,
    ) -> Result<u64> {
        let latest = Instant::now() + self.deadline + GRACE;
        let until = limit.map_or(latest, |limit| limit.min(latest));
        loop {
            match self.submit(command, args) {
                Err(Error::Full { .. }) if Instant::now() < until => {
                    self.connection.wait_for_any(until)?
                }
                other => return other,
            }
        }
    }

    pub fn call<S: Sink>(&self, command: Command, args: &[u8], sink: S) -> Result<S::Out> {
        let id = self.submit_until(command, args, None)?;
        match self.wait(id, None, sink) {
            CallEnd::Done(result) => result,
            CallEnd::Flying(_) => Err(Error::TimedOut(Duration::ZERO)),
        }
    }

    pub fn submit(&self, command: Command, args: &[u8]) -> Result<u64> {
        if args.len() > self.max_args {
            return Err(Error::ArgumentsTooLong { len: args.len(), max: self.max_args });
        }
        self.check_open()?;
        let room = |n: usize| (n < self.depth).then_some(n + 1);
        if self.load.fetch_update(Ordering::AcqRel, Ordering::Relaxed, room).is_err() {
            return Err(Error::Full { depth: self.depth });
        }
        let head =
            CallHead { grant: U64::new(self.grant), command: command.to_wire(), reserved: [0; 7] };
        let sent = self.connection.ask(CALL, &[head.as_bytes(), args], Some(self.load.clone()));
        if sent.is_err() {
            self.load.fetch_sub(1, Ordering::Release);
        }
        sent
    }

    pub fn wait<S: Sink>(&self, id: u64, until: Option<Instant>, sink: S) -> CallEnd<S::Out> {
        match self.connection.wait(id, until) {
            Ok(Some(frame)) => CallEnd::Done(read(&frame, sink)),
            Ok(None) => CallEnd::Flying(Flight::Frame(id)),
            Err(e) => CallEnd::Done(Err(e)),
        }
    }

    pub fn ready(&self, id: u64, until: Option<Instant>) -> bool {
        self.connection.ready(id, until)
    }
    pub fn poll(&self, id: u64) -> bool {
        self.connection.poll(id)
    }
    pub fn abandon(&self, id: u64) {
        self.connection.abandon(id);
    }
}

pub(super) fn read<S: Sink>(frame: &Frame, sink: S) -> Result<S::Out> {
    match frame.kind {
        CALL => {}
        NACK => return Err(Error::Refused(Nack::decode(&frame.body))),
        kind => {
            return Err(Error::HostNonsense(format!(
                "the answer to a call is of unknown kind {kind:#x}"
            )));
        }
    }
    let Ok((head, results)) = CallAnswer::read_from_prefix(&frame.body) else {
        return Err(Error::HostNonsense(format!(
            "the answer to a call has only {} bytes",
            frame.body.len()
        )));
    };
    let words = &results[..results.len().min(DRIVER_SENTENCE)];
    match Error::of_status(head.status.get(), words) {
        None => sink.private(results),
        Some(Error::Broken(_)) => {
            let reason =
                BreakReason::from_wire(head.broken.get()).filter(|&r| r != BreakReason::None);
            Err(Error::of_break(reason.unwrap_or(BreakReason::NoService)))
        }
        Some(e) => Err(e),
    }
}
