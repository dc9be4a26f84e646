//! A grant: what a negotiation gave.

use crate::calls::{Calls, GrantedChannel, QueueSides, RawLines, TcpCalls, Way, WindowCalls};
use crate::control::{self, Control};
use crate::error::{Error, Result};
use crate::function::Function;
use crate::queues::Queues;
use crate::session::SessionInner;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfun_wire::kind::{ChannelKind, Shape};
use vfun_wire::limits::INLINE_BYTES;
use vfun_wire::message::{Kind, Location, OfGrant, WaitMode};
use vfun_wire::version::FunctionVersion;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// How long a grant that is dropped without release waits to give itself back.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// Said of queues over a path without shared memory.
pub(crate) const NO_WINDOW: &str =
    "queues are memory shared with the host: a session over TCP has none";

/// A grant as the host recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantInfo {
    /// Its handle, for the host's own tools.
    pub grant: u64,
    pub function: String,
    pub function_id: u32,
    pub version: FunctionVersion,
    /// Where calls are computed: in software or on which kind of hardware.
    pub location: Location,
    /// Calls that can be under way at once; 0 of queues.
    pub depth: u16,
    /// Bytes of arguments and of results a call can have beyond 48.
    pub cell_bytes: u32,
    /// Of queues: pages of the side that the program writes; else 0.
    pub program_pages: u32,
    /// Of queues: pages of the side that the service writes; else 0.
    pub host_pages: u32,
    /// How long a call may take.
    pub deadline: Duration,
    /// How the service waits for calls.
    pub wait: WaitMode,
    /// What the channel carries.
    pub kind: ChannelKind,
    /// Its channel's shape, as it stands on the wire.
    pub(crate) shape: Shape,
}

impl GrantInfo {
    /// Longest arguments of a call, bytes. Over TCP a frame's limit of 64 MiB comes before it.
    pub fn max_args(&self) -> usize {
        INLINE_BYTES.max(self.cell_bytes as usize)
    }

    /// How large its channel is, for people.
    pub(crate) fn measures(&self) -> String {
        match self.kind {
            ChannelKind::Calls | ChannelKind::Floor => {
                format!("{} of {} cells with {} bytes", self.kind, self.depth, self.cell_bytes)
            }
            ChannelKind::Queues => {
                format!("{} with {} and {} pages", self.kind, self.program_pages, self.host_pages)
            }
            ChannelKind::Packets => self.kind.to_string(),
        }
    }
}

/// What a grant did, by the host's account.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Calls that were answered, with errors too.
    pub calls: u64,
    /// Of these with an error.
    pub errors: u64,
    /// Bytes of arguments of all these calls.
    pub bytes_in: u64,
    /// Bytes of results of all these calls.
    pub bytes_out: u64,
    /// Times the service slept.
    pub slept: u64,
    /// Times the service rang.
    pub rang: u64,
    /// Times the service was started again.
    pub restarts: u32,
    /// The service's process id on the host, 0 if none.
    pub pid: u32,
    /// Age of the grant.
    pub age: Duration,
}

/// A function granted, not yet running. Dropping it gives it back.
pub struct Grant {
    hold: HeldGrant,
}

/// A grant held: released once, at the latest when dropped.
pub(crate) struct HeldGrant {
    pub session: Arc<SessionInner>,
    pub info: GrantInfo,
    released: AtomicBool,
}

impl HeldGrant {
    fn request(&self, kind: Kind, timeout: Duration) -> Result<Vec<u8>> {
        let of = OfGrant { grant: U64::new(self.info.grant) };
        self.session.request(kind, of.as_bytes(), timeout)
    }

    pub fn stats(&self) -> Result<Stats> {
        control::stats(&self.request(Kind::Stats, control::TIMEOUT)?, "stats")
    }

    /// Gives the grant back; a second time fails by the host's word. A session
    /// that was closed has given it back: nothing is left to do, or to tell.
    pub fn release(&self) -> Result<Stats> {
        if self.session.is_closed() {
            return Ok(Stats::default());
        }
        let body = self.request(Kind::Release, control::TIMEOUT)?;
        self.released.store(true, Ordering::Release);
        control::stats(&body, "release")
    }
}

impl Drop for HeldGrant {
    fn drop(&mut self) {
        if !self.released.load(Ordering::Acquire) {
            // Best effort: the host gives it back with the session.
            let _ = self.request(Kind::Release, DROP_TIMEOUT);
        }
    }
}

impl Grant {
    pub(crate) fn new(session: Arc<SessionInner>, info: GrantInfo) -> Self {
        Grant { hold: HeldGrant { session, info, released: AtomicBool::new(false) } }
    }

    /// The grant as the host recorded it.
    pub fn info(&self) -> &GrantInfo {
        &self.hold.info
    }

    /// Starts the function and lays out its channel of calls, or of raw lines.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a grant of queues: [`Grant::activate_queues`].
    pub fn activate(self) -> Result<Function> {
        if matches!(self.hold.info.kind, ChannelKind::Queues | ChannelKind::Packets) {
            return Err(Error::Unsupported(
                "this grant is of queues or of packets, which are not called: activate it as such",
            ));
        }
        let body = self.hold.request(Kind::Activate, control::TIMEOUT)?;
        let session = &self.hold.session;
        let way = match (&session.control, &session.window) {
            (Control::Tcp(connection), _) => {
                Way::Tcp(TcpCalls::new(connection.clone(), &self.hold.info)?)
            }
            (Control::Window(_) | Control::Module(..), window) => {
                let window =
                    window.as_ref().ok_or(Error::Unsupported("the session has no window"))?;
                let (info, policy) = (&self.hold.info, &session.policy);
                let placed = GrantedChannel::read(window, &body, info)?;
                if info.kind == ChannelKind::Calls {
                    let bell = session.info.doorbell;
                    let calls = WindowCalls::open(window.clone(), &placed, info, policy, bell)?;
                    Way::Window(Box::new(calls))
                } else {
                    Way::Floor(RawLines::open(window.clone(), &placed)?)
                }
            }
        };
        Ok(Function::new(self.hold, Calls::new(way)))
    }

    /// Starts the function and lays out its channel of queues, which was asked for by
    /// [`crate::FunctionRequest::queues`]. Its token stands in it when this returns.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a grant of another kind.
    pub fn activate_queues(self) -> Result<Queues> {
        let info = &self.hold.info;
        if info.kind != ChannelKind::Queues {
            return Err(Error::Unsupported(
                "this grant is not of queues: ask for queues when negotiating",
            ));
        }
        self.activate_sides()
    }

    /// The same for any channel that has two sides and nothing else.
    pub(crate) fn activate_sides(self) -> Result<Queues> {
        let info = &self.hold.info;
        let session = &self.hold.session;
        let window = session.window.as_ref().ok_or(Error::Unsupported(NO_WINDOW))?;
        let body = self.hold.request(Kind::Activate, control::TIMEOUT)?;
        let placed = GrantedChannel::read(window, &body, info)?;
        let bell = session.info.doorbell;
        let sides = QueueSides::open(window.clone(), &placed, &session.policy, bell)?;
        Ok(Queues::new(self.hold, placed.channel, sides))
    }

    /// Gives the grant back without running it.
    pub fn release(self) -> Result<Stats> {
        self.hold.release()
    }
}
