//! A program that has queues with the function `mirror`: what it sends comes back.

use std::time::Duration;
use vfun::WindowMemory;
use vfun::queue::{Broken, Consumer, End, Entry, Producer, Shape};
use vfun::{EndWait, Error, Function, FunctionRequest, Queues, Result, Session};
use vfun_mirror::{ENTRY_BYTES, Pair, PairRequest};
use vfun_wire::PAGE;

/// Entries at once.
const BATCH: usize = 16;
/// Long enough for anything on a crowded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A channel of calls and one of queues.
pub struct Mirrored {
    pub calls: Function,
    pub queues: Queues,
}

/// A pair of queues, the program's ends.
pub struct MirrorPair {
    pub there: Producer<WindowMemory, ENTRY_BYTES>,
    pub back: Consumer<WindowMemory, ENTRY_BYTES>,
    sent: u64,
    taken: u64,
}

impl Mirrored {
    /// Negotiates both, with so many pages on each side of the second.
    ///
    /// # Errors
    /// The library's.
    pub fn open(session: &Session, pages: u32) -> Result<Self> {
        let calls = session.function("mirror")?;
        Ok(Mirrored { calls, queues: queues(session, pages)? })
    }

    /// A pair of queues.
    ///
    /// # Errors
    /// The library's.
    pub fn pair(&self, depth: u32) -> Result<MirrorPair> {
        pair(&self.calls, &self.queues, depth)
    }
}

/// A channel of queues.
///
/// # Errors
/// The library's.
pub fn queues(session: &Session, pages: u32) -> Result<Queues> {
    session.negotiate(&FunctionRequest::new("mirror").queues(pages, pages))?.activate_queues()
}

/// Asks by a call for a pair of queues in a channel.
///
/// # Errors
/// The library's.
pub fn pair(calls: &Function, queues: &Queues, depth: u32) -> Result<MirrorPair> {
    let request = PairRequest { channel: queues.handle(), token: queues.token(), depth };
    let answer = calls.call(&request.to_bytes())?;
    let at = Pair::from_bytes(&answer).expect("an answer of the function");
    let shape = Shape::new(ENTRY_BYTES as u32, depth).expect("the function took it");
    let range = |off: u64, bytes: u64| off as usize..(off + bytes) as usize;
    let (entries, taken) = (shape.producer_bytes(), PAGE as u64);
    let there = queues.memory(range(at.there, entries), range(at.there_taken, taken))?;
    let back = queues.memory(range(at.back_taken, taken), range(at.back, entries))?;
    Ok(MirrorPair {
        there: Producer::new(there, depth).expect("the shape is one"),
        back: Consumer::new(back, depth).expect("the shape is one"),
        sent: 0,
        taken: 0,
    })
}

/// Waits at an end of a queue; the queue's end is the host's nonsense.
fn ready<E: End>(queues: &Queues, end: &mut E) -> Result<()> {
    match queues.wait_end(end, Some(PATIENCE))? {
        EndWait::Ready => Ok(()),
        EndWait::TimedOut => Err(Error::TimedOut(PATIENCE)),
        EndWait::Broken(why) => Err(Error::HostNonsense(format!("of a queue: {why}"))),
    }
}

impl MirrorPair {
    /// Sends one entry, which bears its number.
    ///
    /// # Errors
    /// [`Error::HostNonsense`]: the queue is over. [`Error::TimedOut`]: it stays full.
    pub fn send(&mut self, queues: &Queues) -> Result<()> {
        ready(queues, &mut self.there)?;
        self.send_some(queues, 1).map(drop)
    }

    /// Takes one entry, and looks at its number.
    ///
    /// # Errors
    /// As [`MirrorPair::send`].
    pub fn take(&mut self, queues: &Queues) -> Result<()> {
        ready(queues, &mut self.back)?;
        self.take_some(queues, 1).map(drop)
    }

    /// Sends so many entries, numbered, and takes them back. Sleeps as the session does.
    ///
    /// # Errors
    /// The library's: why the channel or a queue is over.
    pub fn there_and_back(&mut self, queues: &Queues, count: u64) -> Result<()> {
        let until = self.taken + count;
        while self.taken < until {
            let batch = (until - self.sent).min(BATCH as u64) as usize;
            // Where not all of them fit, room comes with what is taken.
            if self.send_some(queues, batch)? == batch && batch > 0 && self.sent < until {
                continue;
            }
            ready(queues, &mut self.back)?;
            self.take_some(queues, BATCH)?;
        }
        Ok(())
    }

    /// The same one by one, each with a rest of this side until it is back.
    ///
    /// # Errors
    /// As [`MirrorPair::there_and_back`].
    pub fn one_by_one(&mut self, queues: &Queues, count: u64) -> Result<()> {
        (0..count).try_for_each(|_| self.there_and_back(queues, 1))
    }

    /// Sends as many as there is room for, at most a batch.
    fn send_some(&mut self, queues: &Queues, most: usize) -> Result<usize> {
        let mut entries = [Entry::default(); BATCH];
        for (entry, number) in entries[..most].iter_mut().zip(self.sent..) {
            *entry = Entry::of(&number.to_le_bytes());
        }
        let sent = over(queues, self.there.produce(&entries[..most]))?;
        self.sent += sent as u64;
        if sent > 0 && self.there.must_ring() {
            queues.ring();
        }
        Ok(sent)
    }

    /// Takes what is there, at most so many: each has the next number.
    fn take_some(&mut self, queues: &Queues, most: usize) -> Result<usize> {
        let mut entries = [Entry::default(); BATCH];
        let taken = over(queues, self.back.consume(&mut entries[..most]))?;
        for entry in &entries[..taken] {
            assert_eq!(entry.payload()[..8], self.taken.to_le_bytes(), "in their order");
            self.taken += 1;
        }
        if taken > 0 && self.back.must_ring() {
            queues.ring();
        }
        Ok(taken)
    }
}

/// The error of a queue: the channel's, if that is over.
fn over<T>(queues: &Queues, done: std::result::Result<T, Broken>) -> Result<T> {
    done.or_else(|why| {
        queues.check()?;
        Err(Error::HostNonsense(format!("of a queue: {why}")))
    })
}
