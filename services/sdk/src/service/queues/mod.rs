//! Channels of queues, and of packets: what an engine gets of one, and what it owes.
//!
//! Such a channel has no thread of its own here: the engine serves it by one that it
//! has, beside any number of others. The main thread opens it, shows that the service
//! lives, and ends it.

mod opening;
mod port;
mod waiter;

pub use opening::{RunningQueues, open};
pub use port::{Port, port};
pub use waiter::RungWaiter;

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use vfun_ring::WindowMemory;
use vfun_window::{Bell, Mapping, OutOfBounds, ReadSpan, WriteSpan};
use vfun_wire::channel::in_header;
use vfun_wire::queues::{host_head, program_head};
use vfun_wire::{LINE, PAGE};

/// What an engine keeps of a channel of queues, as the service sees it.
pub trait QueuesHeld: Send {
    /// The channel ends: it was released, its program died, or the service is to end. Tell
    /// the thread that serves it, and return at once: the service's main thread waits. The
    /// channel has ended when the engine has dropped all that it has of it: the
    /// [`QueuesChannel`], its spans and memories, its [`ProgramBell`]s. Until then its pages
    /// are not given out again, and a manager ends a service that takes seconds for it.
    /// An engine that drops all of that before it is told so ends the channel by itself:
    /// its program sees a channel whose service is lost.
    fn end(self: Box<Self>);

    /// What was done in the channel, for people. The service's main thread asks each second.
    fn counts(&self) -> Option<QueuesCounts> {
        None
    }
}

/// What was done in a channel of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuesCounts {
    /// Pieces of work that ended, with errors too.
    pub done: u64,
    /// Of these with an error.
    pub failed: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// What the function says of the channel.
    pub facts: [u64; host_head::FACTS_WORDS],
}

/// A channel of queues or of packets, the service's side. Threads may share it.
pub struct QueuesChannel {
    handle: u64,
    client: String,
    app: String,
    vm: Option<String>,
    address: Option<IpAddr>,
    program: ReadSpan,
    host: WriteSpan,
    /// The bell that the program rings, which other channels may share.
    rung: Option<Bell>,
    /// Which one that is, of all windows; `None` if that is not known.
    which: Option<(u64, u16)>,
    bell: ProgramBell,
}

/// Bytes of a range, if it is one and begins at a line: words are read and written as such,
/// and none may lie across two lines.
fn length(range: &Range<usize>) -> Result<usize, OutOfBounds> {
    let bytes = range.end.checked_sub(range.start);
    bytes.filter(|_| range.start.is_multiple_of(LINE)).ok_or(OutOfBounds)
}

impl QueuesChannel {
    /// A channel over its two sides, with the bell that its program rings and the one that
    /// rings it, of which nothing else is known. For tests of engines; a service is given
    /// its channels.
    ///
    /// # Errors
    /// A sentence: the host's side is mapped for reading alone, or a side has no page.
    #[doc(hidden)]
    pub fn over(
        handle: u64,
        (program, host): (&Arc<Mapping>, &Arc<Mapping>),
        (rung, app): (Option<Bell>, Option<Bell>),
    ) -> Result<Self, String> {
        let (program, host) = (program.read(), host.write());
        let host = host.ok_or("the host's side cannot be written")?;
        let bell = ProgramBell::new(&program, &host, app).map_err(|e| e.to_string())?;
        let (client, app) = (String::new(), String::new());
        let (vm, address, which) = (None, None, None);
        Ok(QueuesChannel { handle, client, app, vm, address, program, host, rung, which, bell })
    }

    /// The channel's handle, by which its program names it in calls.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// The client that the service works for.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// The client's app that has the channel.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The VM that the program is in, by its name; `None`: it runs on the host. The manager
    /// says so: no program can choose it.
    pub fn vm(&self) -> Option<&str> {
        self.vm.as_deref()
    }

    /// The address that the client's manifest gives that VM, or programs on the host. No
    /// program can choose it.
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The program's side, its head page included. The program may change any byte of it
    /// at any time: copy once, check the copy, use the copy.
    pub fn program(&self) -> &ReadSpan {
        &self.program
    }

    /// The host's side, its head page included. On some transports a guest's root can
    /// write it too, so that nothing that is read back from it may be relied on.
    pub fn host(&self) -> &WriteSpan {
        &self.host
    }

    /// A part of each side, as one end of a queue sees it: what is written lies in `host`,
    /// what is read in `program`. Both are bytes from the side's start.
    ///
    /// # Errors
    /// [`OutOfBounds`]: a range is not inside of its side, or does not begin at a multiple of
    /// 64 bytes.
    pub fn memory(
        &self,
        host: Range<usize>,
        program: Range<usize>,
    ) -> Result<WindowMemory, OutOfBounds> {
        let mine = self.host.part(host.start, length(&host)?)?;
        let theirs = self.program.part(program.start, length(&program)?)?;
        Ok(WindowMemory::of_sides(mine, theirs))
    }

    /// What the program says now that the channel's token is; zeros before it said so.
    pub fn token(&self) -> [u64; 2] {
        [program_head::TOKEN0, program_head::TOKEN1]
            .map(|w| self.program.load(w, Ordering::Relaxed))
    }

    /// Whether a call means this channel: it has its handle, and the token that its program
    /// wrote. A token of zeros names none.
    pub fn is_named(&self, handle: u64, token: [u64; 2]) -> bool {
        handle == self.handle && token != [0; 2] && token == self.token()
    }

    /// What rings the program. Any number of threads may have one.
    pub fn bell(&self) -> ProgramBell {
        self.bell.clone()
    }

    /// The bell that the program rings: readable once it rang, and nobody may read it. Each
    /// ring is an edge for each epoll that has it with `EPOLLIN | EPOLLET`. Channels of one
    /// window may share a bell, each with a descriptor of its own; [`RungWaiter`] listens to
    /// each bell once. `None`: nothing can ring, and the engine looks by the clock.
    pub fn rung(&self) -> Option<&Bell> {
        self.rung.as_ref()
    }

    /// Says that the service sleeps, and fences (R-SLP-1). Look at everything once more
    /// after this, then sleep.
    pub fn declare_sleep(&self) {
        self.host.store(host_head::SLEEPS, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Takes that back.
    pub fn declare_awake(&self) {
        self.host.store(host_head::SLEEPS, 0, Ordering::SeqCst);
    }
}

/// Rings a channel's program. It keeps the channel's pages mapped.
#[derive(Clone)]
pub struct ProgramBell {
    program: ReadSpan,
    host: WriteSpan,
    bell: Option<Bell>,
}

impl ProgramBell {
    /// Over the two sides' head pages.
    fn new(program: &ReadSpan, host: &WriteSpan, bell: Option<Bell>) -> Result<Self, OutOfBounds> {
        Ok(ProgramBell { program: program.part(0, PAGE)?, host: host.part(0, PAGE)?, bell })
    }

    /// Rings, whether or not a thread of the program has said that it sleeps. What was
    /// stored before it is seen by who is woken.
    pub fn ring(&self) {
        let Some(bell) = &self.bell else { return };
        // R-CHN-8: before the ring.
        self.host.fetch_add(in_header::NEWS, 1, Ordering::Release);
        self.host.fetch_add(host_head::RANG, 1, Ordering::Relaxed);
        bell.ring();
    }

    /// Rings if a thread of the program sleeps (R-SLP-2): whether it did.
    pub fn ring_sleeper(&self) -> bool {
        fence(Ordering::SeqCst);
        let sleeps = self.program.load(program_head::SLEEPERS, Ordering::Relaxed) != 0;
        if sleeps {
            self.ring();
        }
        sleeps
    }
}
