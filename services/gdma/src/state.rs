//! What a context has: buffers, transfers, pools. No thread and no engine.

use crate::edge::PoolMemory;
use crate::engine::{Completion, Descriptor, global};
use crate::limits::{ALIGNMENT, BUFFERS, LONGEST, NODES, TRANSFERS};
use crate::places::Places;
use crate::registers::DONE_OKAY;
use crate::status::{BUSY, GdmaError, OK};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Called with the transfer's identifier and how it ended.
pub type Done = Box<dyn FnOnce(u32, i32) + Send>;

/// A buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub node: u32,
    /// Where in its node's pool.
    pub offset: u64,
    /// As asked for; the place in the pool is a multiple of [`ALIGNMENT`].
    pub bytes: u64,
    /// Its entry in the engines' tables of windows.
    pub entry: u32,
    /// Transfers under way that have it as an end.
    uses: u32,
}

impl Buffer {
    fn place(&self) -> u64 {
        self.bytes.next_multiple_of(ALIGNMENT)
    }

    /// The global address of `bytes` bytes of it, if it has them.
    fn range(&self, offset: u64, bytes: u64) -> Result<u64, GdmaError> {
        if offset > self.bytes || bytes > self.bytes - offset {
            return Err(GdmaError::Range);
        }
        Ok(global(self.node, self.offset + offset))
    }
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// [`BUSY`], or how it ended.
    pub status: i32,
    pub moved: u64,
    pub cycles: u64,
}

/// A function of the program's that is to be called.
pub(crate) struct Call {
    pub done: Done,
    pub transfer: u32,
    pub status: i32,
}

/// Whether the context's thread waits to be woken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    None,
    /// Nothing is under way: for whatever comes.
    Asleep,
    /// A caller steps the engine: for calls, and not for long.
    Away,
}

struct Transfer {
    ends: [u32; 2],
    descriptor: Descriptor,
    progress: Progress,
    done: Option<Done>,
}

/// A part of a buffer: which, and from where on.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub buffer: u32,
    pub offset: u64,
}

pub(crate) struct State {
    local: u32,
    buffers: BTreeMap<u32, Buffer>,
    transfers: HashMap<u32, Transfer, BuildHasherDefault<Ids>>,
    /// Transfers that the engine does not have yet, oldest first.
    waiting: VecDeque<u32>,
    /// By node, from 0 for node 1.
    pools: Vec<(Arc<PoolMemory>, Places)>,
    /// Entries of the tables of windows that are taken.
    entries: [bool; BUFFERS as usize],
    last_buffer: u32,
    last_transfer: u32,
    pub closing: bool,
    pub lost: bool,
    /// Transfers that have not ended.
    pub under_way: u32,
    /// What the thread is to call, oldest first.
    calls: VecDeque<Call>,
    pub rest: Rest,
}

/// Of identifiers, which the library gives one after the other: no program chooses them.
#[derive(Default)]
struct Ids(u64);

impl Hasher for Ids {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }
    fn write_u32(&mut self, id: u32) {
        // The table takes its place by the lower bits, and tells keys apart by the upper ones.
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 32;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The identifier after `last` that nothing has. Not the lowest: one that was
/// given back is not somebody else's soon.
fn next_id(last: &mut u32, taken: impl Fn(&u32) -> bool) -> u32 {
    loop {
        *last = last.checked_add(1).unwrap_or(1);
        if !taken(last) {
            return *last;
        }
    }
}

impl State {
    pub fn new(local: u32, pools: Vec<Arc<PoolMemory>>) -> Self {
        let pools = pools.into_iter().map(|m| (m.clone(), Places::new(m.bytes()))).collect();
        State {
            local,
            buffers: BTreeMap::new(),
            transfers: HashMap::default(),
            waiting: VecDeque::new(),
            pools,
            entries: [false; BUFFERS as usize],
            last_buffer: 0,
            last_transfer: 0,
            closing: false,
            lost: false,
            under_way: 0,
            calls: VecDeque::new(),
            rest: Rest::None,
        }
    }

    fn open(&self) -> Result<(), GdmaError> {
        if self.closing || self.lost { Err(GdmaError::Lost) } else { Ok(()) }
    }

    pub fn pool(&self, node: u32) -> &Arc<PoolMemory> {
        &self.pools[node as usize - 1].0
    }

    /// Another memory for the local node.
    pub fn use_pool(&mut self, memory: Arc<PoolMemory>) -> Result<(), GdmaError> {
        self.open()?;
        if self.buffers.values().any(|b| b.node == self.local) {
            return Err(GdmaError::Busy);
        }
        let places = Places::new(memory.bytes());
        self.pools[self.local as usize - 1] = (memory, places);
        Ok(())
    }

    /// A place for a buffer: its identifier.
    pub fn allocate(&mut self, node: u32, bytes: u64) -> Result<u32, GdmaError> {
        self.open()?;
        if !(1..=NODES).contains(&node) {
            return Err(GdmaError::Node);
        }
        if bytes == 0 {
            return Err(GdmaError::Argument);
        }
        if bytes > LONGEST {
            return Err(GdmaError::Limit);
        }
        // The lowest: the engine looks at them from there on.
        let entry = self.entries.iter().position(|taken| !taken).ok_or(GdmaError::Limit)?;
        let places = &mut self.pools[node as usize - 1].1;
        let offset = places.take(bytes.next_multiple_of(ALIGNMENT)).ok_or(GdmaError::Memory)?;
        self.entries[entry] = true;
        let id = next_id(&mut self.last_buffer, |id| self.buffers.contains_key(id));
        self.buffers.insert(id, Buffer { node, offset, bytes, entry: entry as u32, uses: 0 });
        Ok(id)
    }

    pub fn buffer(&self, id: u32) -> Result<&Buffer, GdmaError> {
        self.buffers.get(&id).ok_or(GdmaError::Argument)
    }

    /// The buffer, if no transfer uses it.
    pub fn idle_buffer(&self, id: u32) -> Result<Buffer, GdmaError> {
        let buffer = self.buffer(id)?;
        if buffer.uses > 0 { Err(GdmaError::Busy) } else { Ok(*buffer) }
    }

    /// Gives back a buffer that no engine knows any more.
    pub fn forget_buffer(&mut self, id: u32) {
        if let Some(buffer) = self.buffers.remove(&id) {
            self.entries[buffer.entry as usize] = false;
            let places = &mut self.pools[buffer.node as usize - 1].1;
            places.give_back(buffer.offset, buffer.place());
        }
    }

    /// A transfer, for the engine to take.
    pub fn start(
        &mut self,
        to: End,
        from: End,
        bytes: u64,
        done: Option<Done>,
    ) -> Result<u32, GdmaError> {
        self.open()?;
        let (into, out_of) = (self.buffer(to.buffer)?, self.buffer(from.buffer)?);
        if into.node != self.local && out_of.node != self.local {
            return Err(GdmaError::Node);
        }
        if bytes > LONGEST {
            return Err(GdmaError::Limit);
        }
        let destination = into.range(to.offset, bytes)?;
        let source = out_of.range(from.offset, bytes)?;
        if source < destination + bytes && destination < source + bytes {
            return Err(GdmaError::Range);
        }
        if self.transfers.len() >= TRANSFERS as usize {
            return Err(GdmaError::Limit);
        }
        let tag = next_id(&mut self.last_transfer, |id| self.transfers.contains_key(id));
        let bytes = u32::try_from(bytes).map_err(|_| GdmaError::Limit)?;
        let descriptor = Descriptor { source, destination, bytes, tag };
        let progress = Progress { status: BUSY, moved: 0, cycles: 0 };
        let ends = [to.buffer, from.buffer];
        self.transfers.insert(tag, Transfer { ends, descriptor, progress, done });
        self.waiting.push_back(tag);
        self.under_way += 1;
        self.count_uses(ends, 1);
        Ok(tag)
    }

    fn count_uses(&mut self, ends: [u32; 2], by: i32) {
        for id in ends {
            let buffer = self.buffers.get_mut(&id).expect("a buffer in use is not freed");
            buffer.uses = buffer.uses.checked_add_signed(by).expect("counted up before down");
        }
    }

    pub fn query(&self, id: u32) -> Result<Progress, GdmaError> {
        self.transfers.get(&id).map(|t| t.progress).ok_or(GdmaError::Argument)
    }

    pub fn release(&mut self, id: u32) -> Result<(), GdmaError> {
        match self.transfers.entry(id) {
            Entry::Occupied(transfer) if transfer.get().progress.status == BUSY => {
                Err(GdmaError::Busy)
            }
            Entry::Occupied(transfer) => {
                transfer.remove();
                Ok(())
            }
            Entry::Vacant(_) => Err(GdmaError::Argument),
        }
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next transfer for the engine.
    pub fn next_waiting(&mut self) -> Option<Descriptor> {
        let id = self.waiting.pop_front()?;
        self.transfers.get(&id).map(|t| t.descriptor)
    }

    /// Notes how far a transfer is.
    pub fn moved(&mut self, id: u32, moved: u32, cycles: u32) {
        if let Some(t) = self.transfers.get_mut(&id).filter(|t| t.progress.status == BUSY) {
            t.progress = Progress { status: BUSY, moved: moved.into(), cycles: cycles.into() };
        }
    }

    /// Notes a transfer's end.
    pub fn ended(&mut self, done: &Completion) {
        let status = if done.status == DONE_OKAY { OK } else { GdmaError::Device.code() };
        self.moved(done.tag, done.moved, done.cycles);
        self.end(done.tag, status);
    }

    fn end(&mut self, id: u32, status: i32) {
        let transfer = self.transfers.get_mut(&id).filter(|t| t.progress.status == BUSY);
        let Some(transfer) = transfer else { return };
        transfer.progress.status = status;
        let (ends, done) = (transfer.ends, transfer.done.take());
        self.count_uses(ends, -1);
        self.under_way -= 1;
        self.calls.extend(done.map(|done| Call { done, transfer: id, status }));
    }

    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub fn next_call(&mut self) -> Option<Call> {
        self.calls.pop_front()
    }

    /// The engine is gone: all transfers under way end.
    pub fn lose(&mut self) {
        self.lost = true;
        self.waiting.clear();
        let mut all: Vec<_> = self.transfers.keys().copied().collect();
        all.sort_unstable();
        all.into_iter().for_each(|id| self.end(id, GdmaError::Lost.code()));
    }
}
