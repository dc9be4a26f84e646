//! Channels of queues: memory in two arenas, in which a program and a function lay out
//! queues themselves.

mod end;
mod waiter;

pub use end::EndWait;
pub use waiter::QueuesWaiter;

use crate::calls::{Calls, QueueSides, Way};
use crate::error::{Error, Result};
use crate::function::Active;
use crate::grant::{GrantInfo, HeldGrant, Stats};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use vfun_ring::WindowMemory;
use vfun_window::{MapError, ReadSpan, WriteSpan};
use vfun_wire::LINE;

/// An active channel of queues; threads may share it. Dropping it releases the grant.
///
/// It has two sides. The program writes the one, and its service the other; each may only
/// read the side of the other one. The first page of each ([`vfun_wire::PAGE`]) is the
/// channel's; behind it is room for queues ([`vfun_queue`]), which the two lay out as they
/// agree in calls. All of both sides is zero at first. A service that dies takes what it
/// knew of the queues with it: the channel is broken then for good
/// ([`crate::BreakReason::ServiceLost`]), and another one must be negotiated.
///
/// When the channel has ended, on this side or the host's, private memory takes the place
/// of its own: what is kept of it stays readable and writable and reaches nobody. A queue in
/// it may be found broken then, so that who sees a broken queue asks [`Queues::check`] first.
///
/// In a child of `fork` neither side is mapped: touching one ends the child.
pub struct Queues {
    inner: Arc<Active>,
    handle: u64,
    program: WriteSpan,
    host: ReadSpan,
    token: [u64; 2],
}

impl Queues {
    pub(crate) fn new(hold: HeldGrant, handle: u64, sides: QueueSides) -> Self {
        let (memory, token) = (sides.memory().clone(), sides.token());
        let inner = Arc::new(Active { calls: Calls::new(Way::Queues(Box::new(sides))), hold });
        inner.hold.session.adopt(&inner);
        let (program, host) = (memory.mine().clone(), memory.theirs().clone());
        Queues { inner, handle, program, host, token }
    }

    fn sides(&self) -> Result<&QueueSides> {
        match self.inner.calls.way()? {
            Way::Queues(sides) => Ok(sides),
            _ => Err(Error::Unsupported("this channel carries no queues")),
        }
    }

    pub(crate) fn active(&self) -> &Arc<Active> {
        &self.inner
    }

    /// The grant as the host recorded it.
    pub fn info(&self) -> &GrantInfo {
        &self.inner.hold.info
    }

    /// The channel's handle, by which a call names it.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// The channel's token: random numbers that stand in its head page. A call that bears
    /// them and the handle comes from this program, or from one that it told them.
    pub fn token(&self) -> [u64; 2] {
        self.token
    }

    /// The side that this program writes, its head page included.
    pub fn program(&self) -> &WriteSpan {
        &self.program
    }

    /// The side that the service writes, its head page included. Copy what you read, check
    /// the copy, then use it.
    pub fn host(&self) -> &ReadSpan {
        &self.host
    }

    /// A part of each side, as one end of a queue sees it: what this program writes lies in
    /// `program`, what it reads in `host`. Both are bytes from the side's start. It is safe to
    /// give what a service answered: it is checked here.
    ///
    /// # Errors
    /// [`Error::Map`]: a range is not inside of its side, or does not begin at a multiple of
    /// 64 bytes.
    pub fn memory(&self, program: Range<usize>, host: Range<usize>) -> Result<WindowMemory> {
        // Words are read and written as such: none may lie across two lines.
        let length = |r: &Range<usize>| match r.start.is_multiple_of(LINE) {
            true => r.end.checked_sub(r.start),
            false => None,
        };
        let part = || {
            let mine = self.program.part(program.start, length(&program)?).ok()?;
            let theirs = self.host.part(host.start, length(&host)?).ok()?;
            Some(WindowMemory::of_sides(mine, theirs))
        };
        part().ok_or(Error::Map(MapError::Shape))
    }

    /// Rings the service, whether or not it sleeps. What was stored before is seen by it. Where
    /// nothing can ring, the service looks by itself.
    pub fn ring(&self) {
        if let Ok(sides) = self.sides() {
            sides.ring();
        }
    }

    /// Rings the service if it has said, in the channel's head page, that it sleeps: whether
    /// it had. A fence comes first, so that it is called after what the service is to see.
    pub fn ring_sleeper(&self) -> bool {
        self.sides().is_ok_and(QueueSides::ring_sleeper)
    }

    /// Whether the channel is served.
    ///
    /// # Errors
    /// [`Error::Broken`] with the host's reason, [`Error::Released`], [`Error::DeviceGone`],
    /// [`Error::StaleGeneration`], [`Error::HostGone`] if neither manager nor service show that
    /// they live, [`Error::Forked`].
    pub fn check(&self) -> Result<()> {
        self.sides()?.check()
    }

    /// Waits until `ready` says so, as the session's waiting policy has it: looks for a while,
    /// then says in the head page that a thread sleeps, looks once more, and sleeps until the
    /// host rings. Without a doorbell it looks by the clock. False if `limit` passed first.
    ///
    /// # Errors
    /// As [`Queues::check`].
    pub fn wait(&self, limit: Option<Duration>, mut ready: impl FnMut() -> bool) -> Result<bool> {
        let sides = self.sides()?;
        let look = |hard: bool| match ready() {
            true => Some(Ok(true)),
            false if hard => sides.check().err().map(Err),
            false => None,
        };
        sides.wait(sides, limit, look).unwrap_or(Ok(false))
    }

    /// Says in the head page that one more thread sleeps, and fences. Look at everything that
    /// is waited for once more after this, then sleep, by a [`QueuesWaiter`]. For who does
    /// not wait by [`Queues::wait`].
    pub fn declare_sleep(&self) {
        if let Ok(sides) = self.sides() {
            sides.declare_sleep();
        }
    }

    /// Takes that back.
    pub fn declare_awake(&self) {
        if let Ok(sides) = self.sides() {
            sides.declare_awake();
        }
    }

    /// A descriptor that shows that the host rang.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where nothing rings this side: use [`Queues::wait`].
    /// [`Error::BadOption`]: no descriptor is left.
    pub fn waiter(&self) -> Result<QueuesWaiter> {
        let bell = self.sides()?.bell().ok_or(Error::Unsupported(
            "no doorbell rings this program: a descriptor to wait by needs the kernel module, or the host's own socket",
        ))?;
        QueuesWaiter::new(bell)
    }

    /// What the grant has done so far, as the host counts it. Asks the manager. Queues have
    /// no calls: only the rings count.
    pub fn stats(&self) -> Result<Stats> {
        self.inner.hold.stats()
    }

    /// Lets go of both sides, then gives the grant back.
    pub fn release(self) -> Result<Stats> {
        self.inner.end()
    }
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let i = self.info();
        write!(
            f,
            "Queues({} {}, {} pages for the program, {} for the host)",
            i.function, i.version, i.program_pages, i.host_pages
        )
    }
}
