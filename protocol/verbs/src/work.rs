//! Queues of work: a queue of lines, and beside each line an extension for what does not fit.

use crate::limits::{ENTRY_BYTES, EXTENSION_MAX, LINES_AHEAD};
use crate::receive::ReceiveEntry;
use crate::send::{self, BadEntry, SendBody, SendEntry, SendHead};
use vfun_queue::layout::ENTRIES_OFF;
use vfun_queue::{Broken, Consumer, Entry, Memory, Producer, Shape, ShapeError};
use vfun_window::sync::Ordering;
use vfun_wire::{LINE, PAGE};

const WORD: usize = size_of::<u64>();

/// Words of the NIC's header page of a work queue, beside those of every queue.
pub mod header {
    /// Not 0: entries of this queue pair are flushed, receives too (R-VRB-6).
    pub const FLUSHES: usize = 16;
}

/// How many entries a queue of work has, and how much stands beside each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkShape {
    lines: Shape,
    extension: usize,
}

impl WorkShape {
    /// A queue of `depth` entries with `extension` bytes beside each, which are whole lines.
    ///
    /// # Errors
    /// [`ShapeError::Depth`], [`ShapeError::EntryBytes`]: no such queue.
    pub fn new(depth: u32, extension: u32) -> Result<Self, ShapeError> {
        let bytes = extension as usize;
        if bytes > EXTENSION_MAX || !bytes.is_multiple_of(LINE) {
            return Err(ShapeError::EntryBytes(extension));
        }
        Ok(WorkShape { lines: Shape::new(ENTRY_BYTES as u32, depth)?, extension: bytes })
    }

    /// Entries at once.
    pub const fn depth(&self) -> u32 {
        self.lines.depth()
    }

    /// Bytes of the side that the program writes: whole pages.
    pub const fn program_bytes(&self) -> u64 {
        let beside = self.depth() as u64 * self.extension as u64;
        self.lines.producer_bytes() + beside.next_multiple_of(PAGE as u64)
    }

    /// Bytes of the side that the NIC writes: whole pages.
    pub const fn nic_bytes(&self) -> u64 {
        self.lines.consumer_bytes()
    }

    /// The first word beside the entry at a position: inside, whatever the position is.
    #[inline(always)]
    fn beside(&self, position: u64) -> usize {
        let place = (position & (u64::from(self.depth()) - 1)) as usize;
        let lines = ENTRIES_OFF + self.depth() as usize * ENTRY_BYTES;
        (lines + place * self.extension) / WORD
    }
}

/// Why an entry was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// No room: the NIC has not taken enough of what was posted.
    Full,
    /// The entry does not fit the queue.
    Bad(BadEntry),
    /// The queue serves no more.
    Broken(Broken),
}

impl core::fmt::Display for PostError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            PostError::Full => f.write_str("the queue is full"),
            PostError::Bad(bad) => bad.fmt(f),
            PostError::Broken(broken) => broken.fmt(f),
        }
    }
}
impl std::error::Error for PostError {}

/// The program's end; one thread's at a time.
pub struct WorkProducer<M> {
    queue: Producer<M, ENTRY_BYTES>,
    shape: WorkShape,
}

impl<M: Memory> WorkProducer<M> {
    /// Over memory of [`WorkShape::program_bytes`] and [`WorkShape::nic_bytes`], zeroed.
    ///
    /// # Errors
    /// [`ShapeError`]: never of a [`WorkShape`].
    pub fn new(mem: M, shape: WorkShape) -> Result<Self, ShapeError> {
        Ok(WorkProducer { queue: Producer::new(mem, shape.depth())?, shape })
    }

    /// The queue below: its counts, its end.
    pub fn queue(&mut self) -> &mut Producer<M, ENTRY_BYTES> {
        &mut self.queue
    }

    /// Posts a send: its position. Tell the NIC with [`crate::bells::ProgramBells::posted`].
    ///
    /// # Errors
    /// [`PostError`]: it was not posted.
    #[inline]
    pub fn post_send(&mut self, head: &SendHead, body: SendBody<'_>) -> Result<u64, PostError> {
        self.post(|line, beside| send::write(head, body, line, beside))
    }

    /// Posts a receive: its position.
    ///
    /// # Errors
    /// [`PostError`]: it was not posted.
    #[inline]
    pub fn post_receive(&mut self, entry: &ReceiveEntry) -> Result<u64, PostError> {
        self.post(|line, beside| entry.write(line, beside))
    }

    /// Whether the NIC flushes what is posted here. After a fence: [`crate::bells`].
    pub fn is_flushed(&self) -> bool {
        self.queue.memory().load(header::FLUSHES, Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn post(
        &mut self,
        write: impl FnOnce(&mut [u8], &mut [u8]) -> Result<usize, BadEntry>,
    ) -> Result<u64, PostError> {
        if self.queue.room(1).map_err(PostError::Broken)? == 0 {
            return Err(PostError::Full);
        }
        let mut entry = Entry::default();
        let mut beside = [0; EXTENSION_MAX];
        let beside = &mut beside[..self.shape.extension];
        let used = write(entry.payload_mut(), beside).map_err(PostError::Bad)?;
        let position = self.queue.produced();
        // R-VRB-3: what stands beside the entry is there before the entry is.
        if used > 0 {
            let used = used.next_multiple_of(WORD);
            self.queue.memory().write(self.shape.beside(position), &beside[..used]);
        }
        match self.queue.produce(&[entry]).map_err(PostError::Broken)? {
            0 => Err(PostError::Full),
            _ => {
                self.queue.prefetch(LINES_AHEAD);
                Ok(position)
            }
        }
    }
}

/// What a look at a queue of work found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Nothing,
    /// An entry, now in private memory.
    Entry,
    /// An entry that makes no sense; its `wr_id` is known.
    Bad(BadEntry),
}

/// The NIC's end; one thread's.
pub struct WorkConsumer<M> {
    queue: Consumer<M, ENTRY_BYTES>,
    shape: WorkShape,
}

impl<M: Memory> WorkConsumer<M> {
    /// Over memory of [`WorkShape::nic_bytes`] and [`WorkShape::program_bytes`].
    ///
    /// # Errors
    /// [`ShapeError`]: never of a [`WorkShape`].
    pub fn new(mem: M, shape: WorkShape) -> Result<Self, ShapeError> {
        Ok(WorkConsumer { queue: Consumer::new(mem, shape.depth())?, shape })
    }

    /// The queue below: its counts, its end.
    pub fn queue(&mut self) -> &mut Consumer<M, ENTRY_BYTES> {
        &mut self.queue
    }

    /// Position of the entry whose turn it is.
    #[inline]
    pub fn position(&self) -> u64 {
        self.queue.consumed()
    }

    /// Takes the next send.
    ///
    /// # Errors
    /// [`Broken`]: the program broke the queue's rules.
    #[inline(always)]
    pub fn take_send(&mut self, to: &mut SendEntry) -> Result<Taken, Broken> {
        let Some(line) = self.queue.copy_next()? else { return Ok(Taken::Nothing) };
        let taken = match to.read(line.payload(), self.shape.extension) {
            Ok(far) => {
                self.read_beside(far, to.beside_mut());
                Taken::Entry
            }
            Err(bad) => Taken::Bad(bad),
        };
        self.queue.count();
        Ok(taken)
    }

    /// Takes the next receive.
    ///
    /// # Errors
    /// [`Broken`]: the program broke the queue's rules.
    #[inline]
    pub fn take_receive(&mut self, to: &mut ReceiveEntry) -> Result<Taken, Broken> {
        let Some(line) = self.queue.copy_next()? else { return Ok(Taken::Nothing) };
        let taken = match to.begin(line.payload(), self.shape.extension) {
            Ok(far) => {
                let mut beside = [0; EXTENSION_MAX];
                self.read_beside(far, &mut beside);
                to.finish(line.payload(), &beside);
                Taken::Entry
            }
            Err(bad) => Taken::Bad(bad),
        };
        self.queue.count();
        Ok(taken)
    }

    /// R-VRB-3: the bytes beside an entry are copied before the entry is counted.
    #[inline(always)]
    fn read_beside(&self, far: usize, to: &mut [u8; EXTENSION_MAX]) {
        if far > 0 {
            let at = self.shape.beside(self.queue.consumed());
            self.queue.memory().read(at, &mut to[..far.next_multiple_of(WORD)]);
        }
    }

    /// Says whether what is posted here is flushed from now on (R-VRB-6).
    pub fn say_flushes(&self, flushes: bool) {
        let mem = self.queue.memory();
        mem.store(header::FLUSHES, flushes.into(), Ordering::SeqCst);
        vfun_window::sync::fence(Ordering::SeqCst);
    }

    /// Takes away what is posted, and looks at nothing of it: at most a queue full.
    ///
    /// # Errors
    /// [`Broken`]: the program broke the queue's rules.
    pub fn discard(&mut self) -> Result<(), Broken> {
        for _ in 0..self.shape.depth() {
            if self.queue.copy_next()?.is_none() {
                break;
            }
            self.queue.count();
        }
        Ok(())
    }

    /// How many entries the program says that it has posted and were not taken: a hint, at
    /// most the depth.
    pub fn posted_hint(&self) -> u64 {
        let posted =
            self.queue.memory().load(vfun_queue::layout::header::POSITION, Ordering::Relaxed);
        posted.wrapping_sub(self.queue.consumed()).min(self.shape.depth().into())
    }
}
