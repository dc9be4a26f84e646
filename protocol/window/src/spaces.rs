//! Data spaces that this side alone writes, lent out one borrower at a time,
//! so that arguments can be written where the service reads them.

use crate::span::{OutOfBounds, WriteSpan};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An array of equally large spaces in `dataout`.
pub struct Spaces {
    span: WriteSpan,
    bytes: usize,
    lent: Box<[AtomicBool]>,
}

impl Spaces {
    /// `count` spaces of `bytes` each, from the start of `span`.
    pub fn new(span: WriteSpan, bytes: usize, count: usize) -> Result<Arc<Self>, OutOfBounds> {
        match bytes.checked_mul(count) {
            Some(n) if n <= span.len() => {}
            _ => return Err(OutOfBounds),
        }
        let lent = (0..count).map(|_| AtomicBool::new(false)).collect();
        Ok(Arc::new(Spaces { span, bytes, lent }))
    }

    /// Bytes of one space.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The spaces that are lent now.
    pub fn lent(&self) -> impl Iterator<Item = usize> {
        let is = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        self.lent.iter().enumerate().filter(move |(_, f)| is(f)).map(|(i, _)| i)
    }

    /// Lends out space `index`; `None` while it is lent already or if there is no such space.
    pub fn lend(self: &Arc<Self>, index: usize) -> Option<Space> {
        let flag = self.lent.get(index)?;
        if flag.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Space { owner: self.clone(), index })
    }

    /// Copies `bytes` into space `index` at its start, without lending it.
    /// Fails if it is lent or too small.
    pub fn fill(&self, index: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let flag = self.lent.get(index).ok_or(OutOfBounds)?;
        if bytes.len() > self.bytes || flag.swap(true, Ordering::Acquire) {
            return Err(OutOfBounds);
        }
        let done = self.span.write(index * self.bytes, bytes);
        flag.store(false, Ordering::Release);
        done
    }
}

/// One space, lent: plain bytes to write in place. Gives itself back when dropped.
pub struct Space {
    owner: Arc<Spaces>,
    index: usize,
}

impl Deref for Space {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let (base, n) = (self.owner.span.as_mut_ptr(), self.owner.bytes);
        // SAFETY: `lent` makes this the only borrower of the range in this
        // process, `new` checked that it lies in the mapping, which `owner`
        // keeps alive, and by the protocol's law of one writer a page no peer
        // writes `dataout`. A guest's other programs could, against the law;
        // u8 has no invalid values and no decision is taken on these bytes.
        unsafe { std::slice::from_raw_parts(base.add(self.index * n), n) }
    }
}

impl DerefMut for Space {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (base, n) = (self.owner.span.as_mut_ptr(), self.owner.bytes);
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(base.add(self.index * n), n) }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.owner.lent[self.index].store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Mapping, memfd};

    #[test]
    fn a_space_is_lent_once() {
        let fd = memfd("t", 8192).unwrap();
        let w = Mapping::new(&fd, 0, 8192, Access::ReadWrite).unwrap().write().unwrap();
        assert!(Spaces::new(w.clone(), 4096, 3).is_err());
        let s = Spaces::new(w.clone(), 1024, 8).unwrap();
        let mut a = s.lend(1).unwrap();
        assert!(s.lend(1).is_none());
        assert!(s.lend(8).is_none());
        assert!(s.fill(1, b"x").is_err(), "lent");
        assert!(s.fill(2, &[0; 1025]).is_err(), "too long");
        assert_eq!(s.lent().collect::<Vec<_>>(), [1]);
        a[0] = 9;
        a[1023] = 8;
        drop(a);
        let mut got = [0; 1024];
        w.read(1024, &mut got).unwrap();
        assert_eq!((got[0], got[1023]), (9, 8));
        assert!(s.lend(1).is_some());
    }
}
