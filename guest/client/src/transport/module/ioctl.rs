//! The one place where this library makes the module's system calls: an edge
//! to foreign code, so that `unsafe` may stand here. Everything above it is
//! safe.

#![allow(unsafe_code)]

use super::abi::{self, BufferQuestion, Eventfd, Info, Link, Pin, Remap, Request, Ring, Wait};
use crate::buffer::{MemoryPlace, MemoryToMove};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Setter, Updater, ioctl};
use std::time::Duration;

/// What the module knows of its device.
pub(super) fn info(fd: BorrowedFd<'_>) -> Result<Info, Errno> {
    // SAFETY: INFO's number says that the kernel fills an `Info`, of which any
    // bytes are one. A device of another driver refuses the number.
    unsafe { ioctl(fd, Getter::<{ abi::INFO }, Info>::new()) }
}

/// An answer's length, and whether it is an ack.
pub(super) struct Answered {
    pub len: usize,
    pub acked: bool,
}

/// Makes a control request; the answer is copied into `answer`.
pub(super) fn request(
    fd: BorrowedFd<'_>,
    kind: u16,
    body: &[u8],
    answer: &mut [u8],
    timeout: Duration,
) -> Result<Answered, Errno> {
    let mut r = Request {
        kind,
        body_len: u16::try_from(body.len()).map_err(|_| Errno::INVAL)?,
        // 0 would be the default.
        timeout_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1),
        body: body.as_ptr() as u64,
        answer: answer.as_mut_ptr() as u64,
        answer_room: u32::try_from(answer.len()).map_err(|_| Errno::INVAL)?,
        ..Request::default()
    };
    // SAFETY: REQUEST's number says that the kernel reads and writes a
    // `Request`. It reads `body_len` bytes at `body`, which are lent to this
    // function, and writes at most `answer_room` at `answer`, which are lent to
    // it alone, until the call returns.
    unsafe { ioctl(fd, Updater::<{ abi::REQUEST }, Request>::new(&mut r))? };
    match usize::try_from(r.answer_len) {
        Ok(len) if len <= answer.len() && r.acked <= 1 => Ok(Answered { len, acked: r.acked == 1 }),
        _ => Err(Errno::PROTO),
    }
}

/// Waits until a channel's event count is not `seen`, or `timeout` passes
/// (nothing: only reads it). The count now.
pub(super) fn wait(
    fd: BorrowedFd<'_>,
    channel: u64,
    seen: u64,
    timeout: Duration,
) -> Result<u64, Errno> {
    // All ones would be no limit.
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX - 1);
    let mut w = Wait { channel, seen, timeout_ns };
    // SAFETY: WAIT's number says that the kernel reads and writes a `Wait`.
    unsafe { ioctl(fd, Updater::<{ abi::WAIT }, Wait>::new(&mut w))? };
    Ok(w.seen)
}

/// Rings a channel's service.
pub(super) fn ring(fd: BorrowedFd<'_>, channel: u64) -> Result<(), Errno> {
    // SAFETY: RING's number says that the kernel reads a `Ring`.
    unsafe { ioctl(fd, Setter::<{ abi::RING }, Ring>::new(Ring { channel })) }
}

/// Fails if a buffer is not this file's, or is over.
pub(super) fn buffer(fd: BorrowedFd<'_>, buffer: u64) -> Result<(), Errno> {
    // SAFETY: BUFFER's number says that the kernel reads a `Buffer`.
    unsafe { ioctl(fd, Setter::<{ abi::BUFFER }, BufferQuestion>::new(BufferQuestion { buffer })) }
}

/// Has an eventfd rung each time a channel's event count moves; it takes the place
/// of the one before.
pub(super) fn eventfd(fd: BorrowedFd<'_>, channel: u64, bell: BorrowedFd<'_>) -> Result<(), Errno> {
    let e = Eventfd { channel, fd: bell.as_raw_fd(), reserved: 0 };
    // SAFETY: EVENTFD's number says that the kernel reads an `Eventfd`.
    unsafe { ioctl(fd, Setter::<{ abi::EVENTFD }, Eventfd>::new(e)) }
}

/// Moves memory of this process into a buffer, at the same addresses; with no buffer (0) only asks. Where it
/// is now.
pub(super) fn remap(
    fd: BorrowedFd<'_>,
    buffer: u64,
    offset: u64,
    memory: MemoryToMove,
) -> Result<MemoryPlace, Errno> {
    let (addr, bytes) = memory.place();
    let write = memory.is_written().into();
    let (addr, length) = (addr as u64, bytes as u64);
    let mut r = Remap { buffer, offset, addr, bytes: length, write, reserved: 0 };
    // SAFETY: REMAP's number says that the kernel reads and writes a `Remap`. The memory keeps its bytes
    // and stays readable, and writable if it was; who made a `MemoryToMove` promised that it is the
    // program's own.
    unsafe { ioctl(fd, Updater::<{ abi::REMAP }, Remap>::new(&mut r))? };
    match usize::try_from(r.bytes) {
        Ok(said) if (1..=bytes).contains(&said) => {
            Ok(MemoryPlace { buffer: r.buffer, offset: r.offset, bytes: said })
        }
        _ => Err(Errno::PROTO),
    }
}

/// Pins memory of this process and names its pages in a table, from a place on; with no table (0) only asks.
/// Where it is now: the offset is that of the first page, as if a table were a buffer of these pages.
pub(super) fn pin(
    fd: BorrowedFd<'_>,
    buffer: u64,
    index: u64,
    memory: MemoryToMove,
) -> Result<MemoryPlace, Errno> {
    let (addr, bytes) = memory.place();
    let write = memory.is_written().into();
    let (addr, length) = (addr as u64, bytes as u64);
    let mut p = Pin { buffer, index, addr, bytes: length, write, reserved: 0 };
    // SAFETY: PIN's number says that the kernel reads and writes a `Pin`. The memory stays as it is.
    unsafe { ioctl(fd, Updater::<{ abi::PIN }, Pin>::new(&mut p))? };
    let offset = p.index.checked_mul(vfun_wire::PAGE as u64);
    match (usize::try_from(p.bytes), offset) {
        (Ok(said), Some(offset)) if (1..=bytes).contains(&said) => {
            Ok(MemoryPlace { buffer: p.buffer, offset, bytes: said })
        }
        _ => Err(Errno::PROTO),
    }
}

/// Asks for the memory of a direct link of a port, or says what becomes of it.
pub(super) fn link(fd: BorrowedFd<'_>, channel: u64, way: u32, word: u32) -> Result<Link, Errno> {
    let mut l = Link { channel, way, word, ..Link::default() };
    // SAFETY: LINK's number says that the kernel reads and writes a `Link`.
    unsafe { ioctl(fd, Updater::<{ abi::LINK }, Link>::new(&mut l))? };
    Ok(l)
}
