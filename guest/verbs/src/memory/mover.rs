//! Memory is moved, or pinned where it is, by the guest's kernel module.
#![allow(unsafe_code)]

use super::PAGE;
use super::moving::{Mover, Pages};
use std::collections::HashMap;
use std::sync::Arc;
use vfun::{MemoryPlace, MemoryToMove, Unmovable};
use vfun_remoting_guest::{Lent, LentPages, Link};

/// The module, by the session of a connection.
pub struct ByModule(pub &'static Link);

/// The program's memory.
fn memory(Pages { addr, bytes, written }: Pages) -> MemoryToMove {
    let at = std::ptr::with_exposed_provenance_mut(addr);
    // SAFETY: the program registers it: it is not this library's, which has no references to it.
    let memory = unsafe { MemoryToMove::new(at, bytes) };
    if written { memory.to_be_written() } else { memory }
}

impl Mover for ByModule {
    type Buffer = Lent;
    const GIVES_BACK: bool = true;

    fn lend(&self, bytes: usize) -> Option<Lent> {
        self.0.lend(bytes).ok()
    }

    fn handle(buffer: &Lent) -> u64 {
        buffer.handle()
    }

    fn bytes(buffer: &Lent) -> usize {
        buffer.len()
    }

    fn find(
        &self,
        _held: &HashMap<u64, Arc<Lent>>,
        pages: Pages,
    ) -> Result<MemoryPlace, Unmovable> {
        self.0.find_memory(memory(pages))
    }

    fn take(&self, buffer: &Lent, offset: usize, pages: Pages) -> Result<MemoryPlace, Unmovable> {
        buffer.take_over(offset, memory(pages))
    }
}

/// The module pins the program's pages, and the NIC reaches them where they are.
pub struct ByPages(pub &'static Link);

impl Mover for ByPages {
    type Buffer = LentPages;
    const GIVES_BACK: bool = true;
    const KEPT: usize = 64 << 20;
    const UNPINS: bool = true;

    fn lend(&self, bytes: usize) -> Option<LentPages> {
        self.0.lend_pages(bytes / PAGE).ok()
    }

    fn handle(buffer: &LentPages) -> u64 {
        buffer.handle()
    }

    fn bytes(buffer: &LentPages) -> usize {
        buffer.places() * PAGE
    }

    fn find(
        &self,
        _held: &HashMap<u64, Arc<LentPages>>,
        pages: Pages,
    ) -> Result<MemoryPlace, Unmovable> {
        self.0.find_pages(memory(pages))
    }

    fn take(
        &self,
        buffer: &LentPages,
        offset: usize,
        pages: Pages,
    ) -> Result<MemoryPlace, Unmovable> {
        buffer.pin(offset / PAGE, memory(pages))
    }
}
