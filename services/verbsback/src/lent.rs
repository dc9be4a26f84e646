//! Buffers that programs lent, as windows of the NIC.
#![allow(unsafe_code)]

use crate::errno::Errno;
use vfun_remoting_host::{Attached, Used};
use vfun_window::{Mapping, WriteSpan};

/// A buffer's bytes, and what keeps them: let go of the bytes first.
pub type LentBuffer = (WriteSpan, Used);

/// A buffer that the program has lent and that no other region's connection has.
pub fn lent(attached: &Attached, handle: u64) -> Result<LentBuffer, Errno> {
    let held = attached.hold(handle).map_err(|_| Errno::INVALID)?;
    let (memory, used) = held.into_parts();
    // SAFETY: whole pages that the service has mapped for reading and writing. They stay so while
    // `used` is there, until the connection's objects have ended: `Nic::close` lets go of the span
    // before it drops `used`, and no object of a connection outlives it.
    let mapping = unsafe { Mapping::borrowed(memory.start, memory.len) };
    let span = mapping.and_then(|mapping| mapping.write()).ok_or(Errno::INVALID)?;
    Ok((span, used))
}
