//! Types of a fixed size: their names, their bytes, and the way there and back.

use crate::text::Shape;

/// Bytes that are no value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid(
    /// What is wrong with them.
    pub &'static str,
);

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Invalid {}

/// A type of a fixed size that arguments and results are made of.
///
/// Its bytes are C's: little-endian, members at their natural alignment,
/// padding zero. `#[derive(Value)]` makes a struct of such types one.
pub trait Value: Sized {
    /// As a signature has it.
    const SHAPE: Shape;
    /// Bytes, padding at the end included.
    const BYTES: usize;
    /// Alignment in a call's bytes.
    const ALIGN: usize;
    /// Writes it to the start of `to`, whose first [`Value::BYTES`] are zero.
    ///
    /// # Panics
    /// If `to` is shorter.
    fn put(&self, to: &mut [u8]);
    /// Reads it from the start of `from`.
    ///
    /// # Panics
    /// If `from` is shorter than [`Value::BYTES`].
    fn get(from: &[u8]) -> Result<Self, Invalid>;
}

macro_rules! numbers {
    ($($t:ident)*) => {$(
        impl Value for $t {
            const SHAPE: Shape = Shape::Scalar(stringify!($t));
            const BYTES: usize = size_of::<$t>();
            // As the signature has it, whatever this machine's is.
            const ALIGN: usize = size_of::<$t>();
            #[inline]
            fn put(&self, to: &mut [u8]) {
                to[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn get(from: &[u8]) -> Result<Self, Invalid> {
                let mut bytes = [0; size_of::<$t>()];
                bytes.copy_from_slice(&from[..Self::BYTES]);
                Ok(Self::from_le_bytes(bytes))
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

impl Value for bool {
    const SHAPE: Shape = Shape::Scalar("bool");
    const BYTES: usize = 1;
    const ALIGN: usize = 1;
    #[inline]
    fn put(&self, to: &mut [u8]) {
        to[0] = u8::from(*self);
    }
    #[inline]
    fn get(from: &[u8]) -> Result<Self, Invalid> {
        match from[0] {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Invalid("a bool is 0 or 1")),
        }
    }
}

impl<T: Value, const N: usize> Value for [T; N] {
    const SHAPE: Shape = Shape::Array(&T::SHAPE, N);
    const BYTES: usize = T::BYTES * N;
    const ALIGN: usize = T::ALIGN;
    #[inline]
    fn put(&self, to: &mut [u8]) {
        for (i, x) in self.iter().enumerate() {
            x.put(&mut to[i * T::BYTES..]);
        }
    }
    #[inline]
    fn get(from: &[u8]) -> Result<Self, Invalid> {
        let mut wrong = None;
        // An array of what was read, or of nothing where something was wrong.
        let all: [Option<T>; N] = std::array::from_fn(|i| {
            T::get(&from[i * T::BYTES..]).map_err(|e| wrong = Some(e)).ok()
        });
        match wrong {
            Some(e) => Err(e),
            None => Ok(all.map(|x| x.expect("nothing was wrong"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Value + PartialEq + std::fmt::Debug>(x: T, bytes: &[u8]) {
        let mut room = vec![0; T::BYTES];
        x.put(&mut room);
        assert_eq!(room, bytes, "{x:?}");
        assert_eq!(T::get(&room), Ok(x));
    }

    #[test]
    fn values_are_little_endian_and_come_back() {
        there_and_back(0x0102u16, &[2, 1]);
        there_and_back(-2i32, &[0xfe, 0xff, 0xff, 0xff]);
        there_and_back(1.5f64, &1.5f64.to_le_bytes());
        there_and_back([[1u8, 2], [3, 4]], &[1, 2, 3, 4]);
        there_and_back([true, false], &[1, 0]);
        assert!(bool::get(&[2]).is_err());
        assert!(<[bool; 2]>::get(&[1, 7]).is_err());
    }
}
