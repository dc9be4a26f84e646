//! Where results go.

use crate::error::{Error, Result};
use vfun_ring::{Caller, Ticket, WindowMemory};
use vfun_window::{OutOfBounds, ReadSpan};
use vfun_wire::limits::INLINE_BYTES;

/// Takes a call's results, once. Either private bytes, or a part of the
/// window that stays the call's until the sink returns.
pub(crate) trait Sink {
    type Out;
    fn private(self, bytes: &[u8]) -> Result<Self::Out>;
    /// Results in the line of an answered call, `len` bytes of at most 48. Frees its
    /// cell before anybody else's code runs.
    #[inline(always)]
    fn inline(self, len: usize, caller: &Caller<WindowMemory>, ticket: Ticket) -> Result<Self::Out>
    where
        Self: Sized,
    {
        let mut bytes = [0; INLINE_BYTES];
        let bytes = &mut bytes[..len];
        if caller.take_inline(ticket, bytes) { self.private(bytes) } else { Err(Error::Released) }
    }
    /// `off` and `len` were checked against the cell's data space.
    fn shared(self, span: &ReadSpan, off: usize, len: usize) -> Result<Self::Out>;
}

fn outside(_: OutOfBounds) -> Error {
    Error::HostNonsense("results lie outside their cell".into())
}

/// Into a vector of their size.
pub(crate) struct ToVec;

impl Sink for ToVec {
    type Out = Vec<u8>;
    fn private(self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
    fn shared(self, span: &ReadSpan, off: usize, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        span.read(off, &mut bytes).map_err(outside)?;
        Ok(bytes)
    }
}

/// To the start of a buffer; gives their length.
pub(crate) struct IntoBuffer<'a>(pub &'a mut [u8]);

impl Sink for IntoBuffer<'_> {
    type Out = usize;
    #[inline(always)]
    fn private(self, bytes: &[u8]) -> Result<usize> {
        let room = self.0.len();
        match self.0.get_mut(..bytes.len()) {
            Some(to) => to.copy_from_slice(bytes),
            None => return Err(Error::BufferTooSmall { len: bytes.len(), room }),
        }
        Ok(bytes.len())
    }
    #[inline(always)]
    fn inline(self, len: usize, caller: &Caller<WindowMemory>, ticket: Ticket) -> Result<usize> {
        let room = self.0.len();
        match self.0.get_mut(..len) {
            Some(to) => match caller.take_inline(ticket, to) {
                true => Ok(len),
                false => Err(Error::Released),
            },
            None => {
                caller.take(ticket);
                Err(Error::BufferTooSmall { len, room })
            }
        }
    }
    #[inline(always)]
    fn shared(self, span: &ReadSpan, off: usize, len: usize) -> Result<usize> {
        let room = self.0.len();
        match self.0.get_mut(..len) {
            Some(to) => span.read(off, to).map_err(outside)?,
            None => return Err(Error::BufferTooSmall { len, room }),
        }
        Ok(len)
    }
}

/// Read where they lie, by a function of the caller's.
pub(crate) struct ReadWith<F>(pub F);

impl<T, F: FnOnce(Results<'_>) -> T> Sink for ReadWith<F> {
    type Out = T;
    fn private(self, bytes: &[u8]) -> Result<T> {
        Ok((self.0)(Results(ResultBytes::Private(bytes))))
    }
    fn shared(self, span: &ReadSpan, off: usize, len: usize) -> Result<T> {
        let part = span.part(off, len).map_err(outside)?;
        Ok((self.0)(Results(ResultBytes::Shared(part))))
    }
}

/// A call's results where they lie, for one look without a copy of the whole.
/// The host may change them at any time: copy a part out once, check the
/// copy, use the copy.
pub struct Results<'a>(ResultBytes<'a>);

enum ResultBytes<'a> {
    Private(&'a [u8]),
    Shared(ReadSpan),
}

impl Results<'_> {
    /// Bytes of results, as the answer says; checked against the cell's room.
    pub fn len(&self) -> usize {
        match &self.0 {
            ResultBytes::Private(b) => b.len(),
            ResultBytes::Shared(s) => s.len(),
        }
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies the bytes from `off` on; fails if there are not as many.
    pub fn read(&self, off: usize, to: &mut [u8]) -> Result<()> {
        let (len, room) = (off.saturating_add(to.len()), self.len());
        let short = || Error::BufferTooSmall { len, room };
        match &self.0 {
            ResultBytes::Private(bytes) => {
                to.copy_from_slice(bytes.get(off..len).ok_or_else(short)?);
                Ok(())
            }
            ResultBytes::Shared(span) => span.read(off, to).map_err(|_| short()),
        }
    }
    /// The shared memory itself, if the results lie there.
    pub fn span(&self) -> Option<&ReadSpan> {
        match &self.0 {
            ResultBytes::Private(_) => None,
            ResultBytes::Shared(span) => Some(span),
        }
    }
}
