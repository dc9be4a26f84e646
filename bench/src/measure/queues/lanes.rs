//! Ways for entries through shared memory: the queue, and what it is held against.

use crate::error::Doing;
use crate::{BenchError, Result};
use std::sync::atomic::Ordering;
use vfun_queue::layout::{CONSUMER_BYTES, ENTRIES_OFF, header};
use vfun_queue::{Consumer, Entry, Producer, Shape, WindowMemory};
use vfun_window::{Access, Mapping, ReadSpan, WriteSpan, memfd};

/// Entries of each lane, if not said.
const DEPTH: u32 = 1024;

/// Where entries go in.
pub trait Out: Send {
    /// An entry in private memory.
    type Item: Copy + Send + Sync;
    /// Puts as many of the batch in as fit, and says how many.
    fn put(&mut self, batch: &[Self::Item]) -> Result<usize>;
}

/// Where entries come out.
pub trait In: Send {
    /// An entry in private memory.
    type Item: Copy + Send + Sync;
    /// Copies what is there, at most as much as `to` holds, and says how many.
    fn take(&mut self, to: &mut [Self::Item]) -> Result<usize>;
}

/// A way from one thread to another.
pub trait Lane {
    /// What an entry carries.
    type Item: Copy + Send + Sync;
    /// The end that sends.
    type Out: Out<Item = Self::Item>;
    /// The end that receives.
    type In: In<Item = Self::Item>;
    /// Both ends, over memory of their own.
    fn open() -> Result<(Self::Out, Self::In)>;
    /// An entry to send.
    fn blank() -> Self::Item;
}

/// Two sides of shared memory, of which one end writes each.
pub(super) fn sides(producer: u64, consumer: u64) -> Result<(WriteSpan, WriteSpan)> {
    let (p, c) = (producer as usize, consumer as usize);
    let doing = || "shared memory for a queue".to_owned();
    let fd = memfd("vfun-bench-queue", producer + consumer).doing(doing)?;
    let no_memory = |e: &dyn std::fmt::Display| BenchError::Driver(format!("no memory: {e}"));
    let map = Mapping::new(&fd, 0, p + c, Access::ReadWrite).map_err(|e| no_memory(&e))?;
    map.populate(p + c);
    let all = map.write().ok_or_else(|| no_memory(&"it is read-only"))?;
    let part = |off, len| all.part(off, len).map_err(|e| no_memory(&e));
    Ok((part(0, p)?, part(p, c)?))
}

fn broken(e: vfun_queue::Broken) -> BenchError {
    BenchError::Driver(e.to_string())
}

/// The queue of `vfun-queue`, with entries of `N` bytes.
pub struct Queue<const N: usize>;

impl<const N: usize> Lane for Queue<N> {
    type Item = Entry<N>;
    type Out = Producer<WindowMemory, N>;
    type In = Consumer<WindowMemory, N>;

    fn open() -> Result<(Self::Out, Self::In)> {
        let bad = |e: vfun_queue::ShapeError| BenchError::Driver(e.to_string());
        let shape = Shape::new(N as u32, DEPTH).map_err(bad)?;
        let (p, c) = sides(shape.producer_bytes(), shape.consumer_bytes())?;
        let out = Producer::over(p.clone(), c.reader(), DEPTH).map_err(bad)?;
        Ok((out, Consumer::over(c, p.reader(), DEPTH).map_err(bad)?))
    }

    fn blank() -> Entry<N> {
        Entry::default()
    }
}

impl<const N: usize> Out for Producer<WindowMemory, N> {
    type Item = Entry<N>;
    #[inline]
    fn put(&mut self, batch: &[Entry<N>]) -> Result<usize> {
        self.produce(batch).map_err(broken)
    }
}

impl<const N: usize> In for Consumer<WindowMemory, N> {
    type Item = Entry<N>;
    #[inline]
    fn take(&mut self, to: &mut [Entry<N>]) -> Result<usize> {
        self.consume(to).map_err(broken)
    }
}

/// A ring at the speed of memcpy: a batch is one copy (two at the ring's end) and
/// one store of an index that the other end reads. Nothing is checked, and nobody
/// can sleep. It has `D` entries, a power of two.
pub struct Ring<const N: usize, const D: u32 = DEPTH>;

/// The end of a [`Ring`] that writes entries.
pub struct RingOut<const N: usize, const D: u32> {
    mine: WriteSpan,
    theirs: ReadSpan,
    head: u64,
    tail: u64,
}

/// The end of a [`Ring`] that reads entries.
pub struct RingIn<const N: usize, const D: u32> {
    mine: WriteSpan,
    theirs: ReadSpan,
    head: u64,
    tail: u64,
}

/// Where a run of entries begins, bytes, and how many fit before the ring's end.
#[inline]
fn run<const N: usize, const D: u32>(position: u64, count: usize) -> (usize, usize) {
    let at = (position & (u64::from(D) - 1)) as usize;
    (ENTRIES_OFF + at * N, count.min(D as usize - at))
}

fn outside(e: vfun_window::OutOfBounds) -> BenchError {
    BenchError::Driver(e.to_string())
}

impl<const N: usize, const D: u32> Out for RingOut<N, D> {
    type Item = [u8; N];
    #[inline]
    fn put(&mut self, batch: &[[u8; N]]) -> Result<usize> {
        if self.head - self.tail + batch.len() as u64 > u64::from(D) {
            self.tail = self.theirs.load(header::POSITION, Ordering::Acquire);
        }
        let count = batch.len().min((u64::from(D) - (self.head - self.tail)) as usize);
        if count == 0 {
            return Ok(0);
        }
        let (at, before) = run::<N, D>(self.head, count);
        self.mine.write(at, batch[..before].as_flattened()).map_err(outside)?;
        if before < count {
            let rest = batch[before..count].as_flattened();
            self.mine.write(ENTRIES_OFF, rest).map_err(outside)?;
        }
        self.head += count as u64;
        self.mine.store(header::POSITION, self.head, Ordering::Release);
        Ok(count)
    }
}

impl<const N: usize, const D: u32> In for RingIn<N, D> {
    type Item = [u8; N];
    #[inline]
    fn take(&mut self, to: &mut [[u8; N]]) -> Result<usize> {
        if self.head == self.tail {
            self.head = self.theirs.load(header::POSITION, Ordering::Acquire);
        }
        let count = to.len().min((self.head - self.tail) as usize);
        if count == 0 {
            return Ok(0);
        }
        let (at, before) = run::<N, D>(self.tail, count);
        self.theirs.read(at, to[..before].as_flattened_mut()).map_err(outside)?;
        if before < count {
            let rest = to[before..count].as_flattened_mut();
            self.theirs.read(ENTRIES_OFF, rest).map_err(outside)?;
        }
        self.tail += count as u64;
        self.mine.store(header::POSITION, self.tail, Ordering::Release);
        Ok(count)
    }
}

impl<const N: usize, const D: u32> Lane for Ring<N, D> {
    type Item = [u8; N];
    type Out = RingOut<N, D>;
    type In = RingIn<N, D>;

    fn open() -> Result<(RingOut<N, D>, RingIn<N, D>)> {
        let bytes = ENTRIES_OFF as u64 + u64::from(D) * N as u64;
        let (p, c) = sides(bytes.next_multiple_of(CONSUMER_BYTES), CONSUMER_BYTES)?;
        let out = RingOut { mine: p.clone(), theirs: c.reader(), head: 0, tail: 0 };
        Ok((out, RingIn { mine: c, theirs: p.reader(), head: 0, tail: 0 }))
    }

    fn blank() -> [u8; N] {
        [0; N]
    }
}

/// The floor: a word in one line, and nothing else. It holds one entry at a time,
/// so it is for round trips alone.
pub struct Line;

/// The end of a [`Line`] that stores.
pub struct LineOut(WriteSpan);

/// The end of a [`Line`] that loads, and what it saw last.
pub struct LineIn(ReadSpan, u64);

impl Out for LineOut {
    type Item = u64;
    #[inline]
    fn put(&mut self, batch: &[u64]) -> Result<usize> {
        let [word, ..] = batch else { return Ok(0) };
        self.0.store(header::POSITION, word + 1, Ordering::Release);
        Ok(1)
    }
}

impl In for LineIn {
    type Item = u64;
    #[inline]
    fn take(&mut self, to: &mut [u64]) -> Result<usize> {
        let found = self.0.load(header::POSITION, Ordering::Acquire);
        if found == self.1 {
            return Ok(0);
        }
        self.1 = found;
        to[..1].fill(found);
        Ok(1)
    }
}

impl Lane for Line {
    type Item = u64;
    type Out = LineOut;
    type In = LineIn;

    fn open() -> Result<(LineOut, LineIn)> {
        let (line, _) = sides(CONSUMER_BYTES, CONSUMER_BYTES)?;
        Ok((LineOut(line.clone()), LineIn(line.reader(), 0)))
    }

    fn blank() -> u64 {
        0
    }
}
