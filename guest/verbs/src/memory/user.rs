//! Memory is moved by the library itself, where there is no kernel module: on the host, and in a guest by its PCI
//! device. Only if the program's user asks for it, because it breaks what a program may
//! expect: what another thread writes in the moment of registering may be lost, a child
//! of `fork` has the parent's memory and not a copy, so that a program must not fork, and memory stays in the window
//! until the program ends.
#![allow(unsafe_code)]

use super::PAGE;
use super::maps::{Mapping, Maps};
use super::moving::{Mover, Pages};
use std::collections::HashMap;
use std::sync::Arc;
use vfun::{MemoryPlace, Unmovable};
use vfun_remoting_guest::{Lent, Link};

/// This library, by system calls.
pub struct ByHand(pub &'static Link);

/// Where a buffer begins in the file that is mapped.
fn file_offset(maps: &mut Maps, buffer: &Lent) -> Option<(Mapping, u64)> {
    let start = buffer.start().expose_provenance();
    let mapping = maps.at(start)?;
    let offset = mapping.offset + (start - mapping.from) as u64;
    Some((mapping, offset))
}

fn last_error() -> Unmovable {
    Unmovable::System(crate::errno::last().0)
}

impl Mover for ByHand {
    type Buffer = Lent;
    // Their memory is the program's, by a mapping that nobody takes away.
    const GIVES_BACK: bool = false;

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
        held: &HashMap<u64, Arc<Lent>>,
        Pages { addr, bytes, written }: Pages,
    ) -> Result<MemoryPlace, Unmovable> {
        let mut maps = Maps::open().ok_or(Unmovable::NotThere)?;
        let mapping = maps.at(addr).ok_or(Unmovable::NotThere)?;
        let bytes = bytes.min(mapping.to - addr);
        if written && !mapping.is_writable {
            return Err(Unmovable::ReadOnly);
        }
        if mapping.is_shared {
            let at = mapping.offset + (addr - mapping.from) as u64;
            for (handle, buffer) in held {
                let Some((of, begin)) = file_offset(&mut maps, buffer) else { continue };
                let inside = at.checked_sub(begin).filter(|off| *off < buffer.len() as u64);
                if let Some(offset) = inside.filter(|_| of.file == mapping.file) {
                    let bytes = bytes.min(buffer.len() - offset as usize);
                    return Ok(MemoryPlace { buffer: *handle, offset, bytes });
                }
            }
            return Err(Unmovable::Shared);
        }
        if !mapping.is_readable {
            return Err(Unmovable::NotThere);
        }
        if mapping.is_executable {
            return Err(Unmovable::Executable);
        }
        Ok(MemoryPlace { buffer: 0, offset: 0, bytes })
    }

    fn take(
        &self,
        buffer: &Lent,
        offset: usize,
        Pages { addr, bytes, .. }: Pages,
    ) -> Result<MemoryPlace, Unmovable> {
        let here = 0u8;
        let sp = (&raw const here).addr();
        let mapping = Maps::open().and_then(|mut maps| maps.at(addr)).ok_or(Unmovable::NotThere)?;
        // The stack that this runs on cannot be taken away from under it.
        if (mapping.from..mapping.to).contains(&sp) {
            return Err(Unmovable::Special);
        }
        let bytes = bytes.min(mapping.to - addr);
        let from = std::ptr::with_exposed_provenance_mut::<u8>(addr);
        let to = buffer.start().wrapping_add(offset);
        // All pages at once, where the kernel can (Linux 5.14): a fault for each costs more than the copy.
        // SAFETY: this library's memory, of so many bytes; it changes nothing of what is in it.
        unsafe { libc::madvise(to.cast(), bytes, libc::MADV_POPULATE_WRITE) };
        // SAFETY: the program's memory, which is readable, and this library's, of so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: an old length of 0 maps the same pages once more; the program's memory, which they take the
        // place of, has the same bytes.
        if unsafe { libc::mremap(to.cast(), 0, bytes, flags, from) } == libc::MAP_FAILED {
            return Err(last_error());
        }
        if !mapping.is_writable {
            // SAFETY: it was so before. It cannot fail for a mapping of this process.
            unsafe { libc::mprotect(from.cast(), bytes, libc::PROT_READ) };
        }
        // The buffer's own mapping does not go on to children; the program's memory must.
        // SAFETY: the mapping that was just made.
        unsafe { libc::madvise(from.cast(), bytes, libc::MADV_DOFORK) };
        // The last page is another mapping for the kernel, so that mremap cannot make the memory longer
        // into the next buffer.
        let last = from.wrapping_add(bytes - PAGE);
        // SAFETY: a page of the mapping that was just made.
        unsafe { libc::madvise(last.cast(), PAGE, libc::MADV_DONTDUMP) };
        Ok(MemoryPlace { buffer: buffer.handle(), offset: offset as u64, bytes })
    }
}
