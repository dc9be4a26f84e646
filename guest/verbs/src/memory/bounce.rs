//! Copies of registered memory in the window.
#![allow(unsafe_code)]

use super::PAGE;
use std::sync::{Arc, Mutex, PoisonError};
use vfun_remoting_guest::{Failure, Lent, Link};
use vfun_verbs::Sge;

/// Buffers for copies are at least so large, so that not each region needs one: a connection lends some sixty.
const CHUNK: usize = 1 << 20;

/// A buffer with copies one behind the other.
struct Chunk {
    lent: Arc<Lent>,
    link: u32,
    used: usize,
}

static CHUNKS: Mutex<Vec<Chunk>> = Mutex::new(vec![]);

/// Room for so many bytes, whole pages: a buffer, and where in it.
fn room(link: &'static Link, bytes: usize) -> Result<(Arc<Lent>, usize), Failure> {
    let mut chunks = CHUNKS.lock().unwrap_or_else(PoisonError::into_inner);
    chunks.retain(|chunk| chunk.link == link.number() || Arc::strong_count(&chunk.lent) > 1);
    for chunk in chunks.iter_mut().filter(|chunk| chunk.link == link.number()) {
        if Arc::strong_count(&chunk.lent) == 1 {
            chunk.used = 0;
        }
        if chunk.lent.len() - chunk.used >= bytes {
            let at = chunk.used;
            chunk.used += bytes;
            return Ok((chunk.lent.clone(), at));
        }
    }
    let lent = link.lend(bytes.max(CHUNK)).or_else(|_| link.lend(bytes))?;
    let lent = Arc::new(lent);
    chunks.push(Chunk { lent: lent.clone(), link: link.number(), used: bytes });
    Ok((lent, 0))
}

/// The copy of one region. A byte has the same place in its page in both.
pub struct Bounce {
    lent: Arc<Lent>,
    /// Of the copy's first page in the buffer.
    offset: usize,
    addr: usize,
    len: usize,
}

impl Bounce {
    pub fn new(link: &'static Link, addr: usize, len: usize) -> Result<Self, Failure> {
        let bytes = (addr % PAGE + len).max(1).checked_next_multiple_of(PAGE);
        let (lent, offset) = room(link, bytes.ok_or(Failure::Limit)?)?;
        Ok(Bounce { lent, offset, addr, len })
    }

    /// What the NIC knows its memory by.
    pub fn handle(&self) -> u64 {
        self.lent.handle()
    }

    /// Its first page in the buffer, and how many it has.
    pub fn pages(&self) -> (u64, u64) {
        let count = (self.addr % PAGE + self.len).max(1).div_ceil(PAGE);
        ((self.offset / PAGE) as u64, count as u64)
    }

    /// Where the copy of these bytes is, if they are of the region. The NIC refuses others.
    fn place(&self, addr: usize, len: usize) -> Option<*mut u8> {
        let at = addr.checked_sub(self.addr)?;
        let inside = at.checked_add(len)? <= self.len;
        let first = self.offset + self.addr % PAGE;
        inside.then(|| self.lent.start().wrapping_add(first + at))
    }

    pub fn copy_in(&self, addr: usize, len: usize) {
        if let Some(to) = self.place(addr, len) {
            let from = std::ptr::with_exposed_provenance::<u8>(addr);
            // SAFETY: the program registered these bytes, and says in this call that they are to be read;
            // the copy is inside of its buffer, which the program does not have.
            unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        }
    }

    fn copy_out(&self, addr: usize, len: usize) {
        if let Some(from) = self.place(addr, len) {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(addr);
            // SAFETY: the program registered these bytes and gave them away to be written until it polls the
            // completion, which it does now. Whatever the host writes meanwhile is bytes.
            unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        }
    }
}

/// Memory that the NIC fills.
pub struct CopyBack(pub(super) Vec<(Sge, Option<Arc<Bounce>>)>);

impl CopyBack {
    /// Copies the first bytes of it, as many as came.
    pub fn copy(&self, bytes: u64) {
        let mut left = bytes;
        for (sge, bounce) in &self.0 {
            let part = left.min(sge.len.into());
            if let Some(bounce) = bounce {
                bounce.copy_out(sge.addr as usize, part as usize);
            }
            left -= part;
        }
    }
}
