//! Numbers in bytes, little-endian. Places are constants of this crate and inside.

macro_rules! at {
    ($get:ident, $put:ident, $of:ty) => {
        #[inline(always)]
        pub(crate) fn $get(bytes: &[u8], at: usize) -> $of {
            <$of>::from_le_bytes(bytes[at..at + size_of::<$of>()].try_into().expect("its size"))
        }

        #[inline(always)]
        pub(crate) fn $put(bytes: &mut [u8], at: usize, value: $of) {
            bytes[at..at + size_of::<$of>()].copy_from_slice(&value.to_le_bytes());
        }
    };
}

at!(get16, put16, u16);
at!(get32, put32, u32);
at!(get64, put64, u64);
