//! A grant: what a negotiation gave.

use crate::calls::{Calls, GrantedChannel, RawLines, TcpCalls, Way, WindowCalls};
use crate::control::{self, Control};
use crate::error::{Error, Result};
use crate::function::Function;
use crate::session::SessionInner;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfun_wire::kind::ChannelKind;
use vfun_wire::limits::INLINE_BYTES;
use vfun_wire::message::{Kind, Location, OfGrant, WaitMode};
use vfun_wire::version::FunctionVersion;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// How long a grant that is dropped without release waits to give itself back.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

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
    /// Calls that can be under way at once.
    pub depth: u16,
    /// Bytes of arguments and of results a call can have beyond 48.
    pub cell_bytes: u32,
    /// How long a call may take.
    pub deadline: Duration,
    /// How the service waits for calls.
    pub wait: WaitMode,
    /// What the channel carries.
    pub kind: ChannelKind,
}

impl GrantInfo {
    /// Longest arguments of a call, bytes. Over TCP a frame's limit of 64 MiB comes before it.
    pub fn max_args(&self) -> usize {
        INLINE_BYTES.max(self.cell_bytes as usize)
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

    /// Starts the function and lays out its channel.
    pub fn activate(self) -> Result<Function> {
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
                match info.kind {
                    ChannelKind::Calls => {
                        let bell = session.info.doorbell;
                        let calls = WindowCalls::open(window.clone(), &placed, info, policy, bell)?;
                        Way::Window(Box::new(calls))
                    }
                    ChannelKind::Floor => Way::Floor(RawLines::open(window.clone(), &placed)?),
                }
            }
        };
        Ok(Function::new(self.hold, Calls::new(way)))
    }

    /// Gives the grant back without running it.
    pub fn release(self) -> Result<Stats> {
        self.hold.release()
    }
}
