//! Buffers that programs lent, as windows of the NIC.
#![allow(unsafe_code)]

use crate::errno::Errno;
use crate::guest::GuestPages;
use vfun_remoting_host::{Attached, PagesPlace, Used};
use vfun_window::{Mapping, WriteSpan};

/// What a program lent, and what keeps it: let go of the bytes first.
pub struct LentBuffer {
    /// The buffer's bytes, or all memory of the VM.
    pub span: WriteSpan,
    /// Which of the VM's pages are the program's.
    pub pages: Option<GuestPages>,
    pub used: Used,
}

/// A buffer that the program has lent and that no other region's connection has.
pub fn lent(attached: &Attached, handle: u64) -> Result<LentBuffer, Errno> {
    if let Some((place, used)) = attached.hold_pages(handle).map_err(|_| Errno::INVALID)? {
        return lent_pages(place, used);
    }
    let held = attached.hold(handle).map_err(|_| Errno::INVALID)?;
    let (memory, used) = held.into_parts();
    // SAFETY: whole pages that the service has mapped for reading and writing. They stay so while
    // `used` is there, until the connection's objects have ended: `Nic::close` lets go of the span
    // before it drops `used`, and no object of a connection outlives it.
    let mapping = unsafe { Mapping::borrowed(memory.start, memory.len) };
    let span = mapping.and_then(|mapping| mapping.write()).ok_or(Errno::INVALID)?;
    Ok(LentBuffer { span, pages: None, used })
}

/// A table of pages that the VM's kernel module has written.
fn lent_pages(place: PagesPlace, used: Used) -> Result<LentBuffer, Errno> {
    let (table_len, vm_len) = (place.table_len as usize, place.vm_len as usize);
    // SAFETY: whole pages that the service has mapped, the first for reading. They stay so while `used` is
    // there, as above.
    let (table, vm) = unsafe {
        let table = Mapping::borrowed(place.table.cast_mut().cast(), table_len);
        (table, Mapping::borrowed(place.vm.cast(), vm_len))
    };
    let table = table.ok_or(Errno::INVALID)?.read();
    let span = vm.and_then(|vm| vm.write()).ok_or(Errno::INVALID)?;
    let pages = GuestPages::new(table, &span)?;
    Ok(LentBuffer { span, pages: Some(pages), used })
}
