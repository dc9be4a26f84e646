//! Writes values and bytes for the other side.

use crate::{AnswerHead, CallHead, HEAD_BYTES, NOWHERE, Name, wipe};

/// Room that is kept for values behind bytes: those of one struct, which have no secrets.
const VALUES_BYTES: usize = 256;

/// A call or an answer, written from its beginning. It can only be fed values, names and
/// bytes; an address has no way in.
#[derive(Debug)]
pub struct Writer<'a> {
    to: &'a mut Vec<u8>,
    start: usize,
}

macro_rules! values {
    ($($name:ident: $ty:ty),*) => {$(
        /// Appends a value.
        #[inline]
        pub fn $name(&mut self, value: $ty) {
            // Signed values are sign-extended.
            self.u64(value as i64 as u64);
        }
    )*};
}

impl<'a> Writer<'a> {
    /// A body at the end of `to`, which keeps what it has.
    #[inline]
    pub fn append(to: &'a mut Vec<u8>) -> Writer<'a> {
        let start = to.len();
        Writer { to, start }
    }

    /// A call in `to`, which is emptied first.
    #[inline]
    pub fn call(to: &'a mut Vec<u8>, head: CallHead) -> Writer<'a> {
        to.clear();
        to.extend_from_slice(&head.to_bytes());
        Writer { to, start: HEAD_BYTES }
    }

    /// An answer in `to`, which is emptied first. [`Writer::set_head`] changes its head later.
    #[inline]
    pub fn answer(to: &'a mut Vec<u8>) -> Writer<'a> {
        to.clear();
        to.extend_from_slice(&AnswerHead::default().to_bytes());
        Writer { to, start: HEAD_BYTES }
    }

    /// The head of an answer that [`Writer::answer`] began.
    #[inline]
    pub fn set_head(&mut self, head: AnswerHead) {
        debug_assert_eq!(self.start, HEAD_BYTES, "an answer");
        self.to[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
    }

    /// Drops the body: of a call that failed in the middle.
    #[inline]
    pub fn forget_body(&mut self) {
        self.to.truncate(self.start);
    }

    /// Bytes of the body so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.to.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a value.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.to.extend_from_slice(&value.to_le_bytes());
    }

    values!(u8: u8, u16: u16, u32: u32, i8: i8, i16: i16, i32: i32, i64: i64, bool: bool);

    /// Appends a floating-point number by its bits.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// Appends a floating-point number by its bits.
    pub fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    /// Appends a name.
    #[inline]
    pub fn name(&mut self, name: Name) {
        self.u64(name.value());
    }

    /// Appends a length or a count.
    #[inline]
    pub fn length(&mut self, length: usize) {
        self.u64(length as u64);
    }

    /// Makes room for so many bytes. Those that move are wiped where they were: they may be secrets.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        let needed = bytes + VALUES_BYTES;
        if self.to.capacity() - self.to.len() < needed {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, by: usize) {
        let mut larger = Vec::with_capacity((self.to.len() + by).max(2 * self.to.capacity()));
        larger.extend_from_slice(self.to);
        wipe(self.to);
        *self.to = larger;
    }

    /// Appends bytes, and zeros up to a multiple of 8.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.to.extend_from_slice(bytes);
        self.to.resize(self.to.len().next_multiple_of(8), 0);
    }

    /// Appends bytes behind their length; [`NOWHERE`] stands for a null pointer.
    #[inline]
    pub fn blob(&mut self, bytes: Option<&[u8]>) {
        self.u64(bytes.map_or(NOWHERE, |bytes| bytes.len() as u64));
        self.bytes(bytes.unwrap_or_default());
    }

    /// Appends zeros until call and head have [`SECRET_BYTES`](crate::limits::SECRET_BYTES).
    pub fn pad(&mut self) {
        let most = crate::limits::SECRET_BYTES - HEAD_BYTES;
        (self.len()..most).step_by(8).for_each(|_| self.u64(0));
    }

    /// Appends `len` zeros and their padding, which `fill` may change: bytes that a library writes.
    pub fn room<T>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
        let at = self.to.len();
        self.make_room(len.next_multiple_of(8));
        self.to.resize(at + len.next_multiple_of(8), 0);
        fill(&mut self.to[at..at + len])
    }
}
