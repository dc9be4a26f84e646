//! Copies of registered memory in the window.
#![allow(unsafe_code)]

use super::PAGE;
use std::sync::Arc;
use vfun_remoting_guest::{Failure, Lent, Link};
use vfun_verbs::Sge;

/// The copy of one region. A byte has the same place in its page in both.
pub struct Bounce {
    lent: Lent,
    addr: usize,
    len: usize,
}

impl Bounce {
    pub fn new(link: &'static Link, addr: usize, len: usize) -> Result<Self, Failure> {
        let bytes = (addr % PAGE + len).max(1).checked_next_multiple_of(PAGE);
        let lent = link.lend(bytes.ok_or(Failure::Limit)?)?;
        Ok(Bounce { lent, addr, len })
    }

    /// What the NIC knows its memory by.
    pub fn handle(&self) -> u64 {
        self.lent.handle()
    }

    pub fn pages(&self) -> u64 {
        ((self.addr % PAGE + self.len).max(1).div_ceil(PAGE)) as u64
    }

    /// Where the copy of these bytes is, if they are of the region. The NIC refuses others.
    fn place(&self, addr: usize, len: usize) -> Option<*mut u8> {
        let at = addr.checked_sub(self.addr)?;
        let inside = at.checked_add(len)? <= self.len;
        inside.then(|| self.lent.start().wrapping_add(self.addr % PAGE + at))
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
