//! Reads values and bytes that the other side wrote.

use crate::{NOWHERE, Name, Refusal};

/// A body, read from its beginning. The bytes are a private copy: the other side cannot change
/// them between two looks.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! narrow {
    ($($name:ident: $ty:ty),*) => {$(
        /// The next value; refused if this type does not have it.
        #[inline]
        pub fn $name(&mut self) -> Result<$ty, Refusal> {
            let wide = self.u64()?;
            // Signed values are sign-extended on the wire.
            let value = wide as $ty;
            if value as i64 as u64 == wide { Ok(value) } else { Err(Refusal::Malformed) }
        }
    )*};
}

impl<'a> Reader<'a> {
    /// Of a body's bytes.
    #[inline]
    pub fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { rest: body }
    }

    /// The next value.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Refusal> {
        let (value, rest) = self.rest.split_first_chunk::<8>().ok_or(Refusal::Malformed)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*value))
    }

    narrow!(u8: u8, u16: u16, u32: u32, i8: i8, i16: i16, i32: i32, i64: i64);

    /// The next value, which is 0 or 1.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, Refusal> {
        match self.u64()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Refusal::Malformed),
        }
    }

    /// The next value, a floating-point number by its bits.
    #[inline]
    pub fn f32(&mut self) -> Result<f32, Refusal> {
        Ok(f32::from_bits(self.u32()?))
    }

    /// The next value, a floating-point number by its bits.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, Refusal> {
        Ok(f64::from_bits(self.u64()?))
    }

    /// The next value, a name.
    #[inline]
    pub fn name(&mut self) -> Result<Name, Refusal> {
        self.u64().map(Name::from_wire)
    }

    /// The next value, a count of at most `most`, and as many names.
    pub fn names(&mut self, most: usize) -> Result<Vec<Name>, Refusal> {
        let count = self.length(most)?;
        (0..count).map(|_| self.name()).collect()
    }

    /// The next value, a length or count of at most `most`.
    #[inline]
    pub fn length(&mut self, most: usize) -> Result<usize, Refusal> {
        match usize::try_from(self.u64()?) {
            Ok(length) if length <= most => Ok(length),
            _ => Err(Refusal::Limit),
        }
    }

    /// The next `len` bytes. Their padding is skipped.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let padded = len.checked_next_multiple_of(8).ok_or(Refusal::Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(padded).ok_or(Refusal::Malformed)?;
        self.rest = rest;
        Ok(&bytes[..len])
    }

    /// The next bytes with their length; none for a null pointer.
    #[inline]
    pub fn blob(&mut self) -> Result<Option<&'a [u8]>, Refusal> {
        match self.u64()? {
            NOWHERE => Ok(None),
            len => self.bytes(usize::try_from(len).map_err(|_| Refusal::Malformed)?).map(Some),
        }
    }

    /// What was not read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes that were not read.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// As [`Reader::end`], behind a [pad](crate::Writer::pad).
    pub fn end_padded(&self) -> Result<(), Refusal> {
        let short = self.rest.len() < crate::limits::SECRET_BYTES;
        if short && self.rest.iter().all(|byte| *byte == 0) {
            Ok(())
        } else {
            Err(Refusal::Malformed)
        }
    }

    /// Refused if anything is left: the two sides do not agree on the parameters.
    #[inline]
    pub fn end(&self) -> Result<(), Refusal> {
        if self.rest.is_empty() { Ok(()) } else { Err(Refusal::Malformed) }
    }
}
