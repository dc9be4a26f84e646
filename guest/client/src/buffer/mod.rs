//! Buffers: memory of the window that the app and its host's services both write.
//!
//! Each access copies, bounded, and takes nothing for granted of what it finds: the
//! other side may write at any moment.

mod life;
mod moving;
mod place;
mod request;
mod table;

pub(crate) use life::{Adopted, Over};
pub use moving::{BufferFile, FileKind, MemoryPlace, MemoryToMove, Unmovable};
pub use request::BufferRequest;
pub use table::PageTable;

use crate::control;
use crate::error::{Error, Result};
use crate::function::Function;
use crate::session::Session;
use life::{Inner, put};
use std::sync::Arc;

/// Memory that this app and the services of its host both write. A driver reaches it
/// by its [handle](Buffer::handle), passed in a call's arguments: nothing is copied
/// between the two sides. It is full of zeros at first.
///
/// Any number of threads may use it at once. Nothing orders their accesses, nor the
/// host's: let a call, or another hand-over of the program's own, stand between a write
/// and the read that is to see it. What is read while somebody writes is some mix of
/// old and new.
///
/// It ends with [`Buffer::close`] or when dropped, with its function (if it is one's)
/// and with its session. Its bytes are zeros of this process's own from then on, and
/// every access says why: [`Error::Released`], [`Error::Closed`],
/// [`Error::StaleGeneration`] or [`Error::DeviceGone`]. In a child of `fork` it is
/// [`Error::Forked`], and the bytes are not mapped there.
pub struct Buffer {
    inner: Arc<Inner>,
}

impl Buffer {
    /// What names it to the host: pass it in a call's arguments. Never 0; means nothing
    /// to other clients' functions.
    pub fn handle(&self) -> u64 {
        self.inner.handle
    }

    /// Bytes of it, as asked for.
    pub fn len(&self) -> usize {
        self.inner.bytes
    }

    /// Never: a buffer has at least a byte.
    pub fn is_empty(&self) -> bool {
        self.inner.bytes == 0
    }

    /// Fails if it is over as far as this process knows, and says why. It asks the host
    /// nothing: it finds that this process gave the buffer back, that its function was
    /// released or taken away by the host, that its session was closed here, and that the
    /// window was made again or is gone. That the host ended the session, because its
    /// heartbeat stopped, a buffer of the session does not show: a request of that session
    /// does ([`Session::ping`]). Its pages may be another app's of this client then.
    pub fn check(&self) -> Result<()> {
        self.inner.check()
    }

    /// Copies bytes in, from `off` on.
    ///
    /// # Errors
    /// [`Error::BadOption`] if they do not lie inside: nothing was written; and if the
    /// buffer is over.
    pub fn write(&self, off: usize, from: &[u8]) -> Result<()> {
        self.inside(off, from.len())?;
        self.inner.check()?;
        self.inner.span.write(off, from).map_err(|_| self.outside(off, from.len()))?;
        // What was written while it ended went nowhere.
        self.inner.check()
    }

    /// Copies bytes out, from `off` on.
    ///
    /// # Errors
    /// As [`Buffer::write`]; what `to` holds then is of no use.
    pub fn read(&self, off: usize, to: &mut [u8]) -> Result<()> {
        self.inside(off, to.len())?;
        self.inner.check()?;
        self.inner.span.read(off, to).map_err(|_| self.outside(off, to.len()))?;
        self.inner.check()
    }

    fn inside(&self, off: usize, len: usize) -> Result<()> {
        let end = off.checked_add(len).filter(|&end| end <= self.inner.bytes);
        end.map(drop).ok_or_else(|| self.outside(off, len))
    }

    #[cold]
    fn outside(&self, off: usize, len: usize) -> Error {
        let room = self.inner.bytes;
        Error::BadOption(format!("{len} bytes from {off} on are not inside a buffer of {room}"))
    }

    /// Where it lies in this process, for a library in C. Aligned
    /// to a page. It stays mapped for as long as this `Buffer` lives, also when the buffer
    /// is over. What is done through it is the caller's unsafe code: the host may write
    /// at any moment, so that no reference to these bytes may be made.
    pub fn as_ptr(&self) -> *mut u8 {
        self.inner.span.as_mut_ptr()
    }

    /// Does something with this buffer's place in the window's file. The buffer does not end meanwhile.
    ///
    /// # Errors
    /// [`Unmovable::BufferOver`]: its pages may be somebody else's by now. [`Unmovable::NoFile`].
    #[doc(hidden)]
    pub fn in_file<T>(
        &self,
        f: impl FnOnce(BufferFile<'_>) -> T,
    ) -> std::result::Result<T, Unmovable> {
        self.inner.in_file(f)
    }

    /// Moves memory of this process into the buffer, from its byte `offset` on, a multiple of 4096: its pages take the
    /// place of the memory's, which keeps its addresses and bytes. So a service reaches the program's own
    /// memory. As much moves as lies in one mapping: call again for the rest. Memory that is in a buffer of the
    /// session already stays there. Where it is now.
    ///
    /// The memory stays the program's when the buffer ends, and a child of `fork` has a copy. Until it is unmapped
    /// the kernel does not reach it by its pages (`O_DIRECT` and `vmsplice` fail). Needs the kernel module.
    ///
    /// # Errors
    /// [`Unmovable`]; nothing has moved.
    pub fn take_over(
        &self,
        offset: usize,
        memory: MemoryToMove,
    ) -> std::result::Result<MemoryPlace, Unmovable> {
        let inside = self.inside(offset, memory.place().1);
        inside.and_then(|()| self.inner.check()).map_err(|_| Unmovable::BufferOver)?;
        self.inner.take_over(offset as u64, memory)
    }

    /// Gives it back. Its pages may be another buffer's at once; calls that still use it
    /// on the host are the caller's to wait for first.
    pub fn close(self) -> Result<()> {
        self.close_shared()
    }

    /// As [`Buffer::close`], while others still hold it: they read zeros from then on,
    /// and what they write goes nowhere.
    #[doc(hidden)]
    pub fn close_shared(&self) -> Result<()> {
        match self.inner.end(Over::Closed)? {
            Some(session) => put(&session, self.inner.handle, control::TIMEOUT),
            None => Ok(()),
        }
    }
}

impl Session {
    /// Asks for memory that this app and the host both write. `request` is a number of
    /// bytes or a [`BufferRequest`]. It is the session's; see [`Function::buffer`].
    ///
    /// # Errors
    /// [`Error::BadOption`] for a size or alignment that cannot be; [`Error::Refused`] with
    /// what the host says (over quota, no room, no contiguous memory of that size);
    /// [`Error::Unsupported`] where the host is too old, and over TCP.
    pub fn buffer(&self, request: impl Into<BufferRequest>) -> Result<Buffer> {
        place::get(self.inner(), None, request.into())
    }
}

impl Session {
    /// Whether memory of this process is in a buffer of this session, by [`Buffer::take_over`], and in which.
    ///
    /// # Errors
    /// [`Unmovable`]: it is in none, and could not move.
    pub fn find_memory(&self, memory: MemoryToMove) -> std::result::Result<MemoryPlace, Unmovable> {
        let window = self.inner().window.as_ref().ok_or(Unmovable::NoModule)?;
        window.transport.take_over(0, 0, memory)
    }
}

impl Function {
    /// As [`Session::buffer`], for this function alone: it ends when the function is
    /// released.
    pub fn buffer(&self, request: impl Into<BufferRequest>) -> Result<Buffer> {
        place::get(&self.inner.hold.session, Some(&self.inner), request.into())
    }
}

impl Function {
    /// Whether it was opened from this session.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        Arc::ptr_eq(&self.inner.hold.session, session.inner())
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes)", self.inner.handle, self.inner.bytes)
    }
}
