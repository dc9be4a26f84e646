//! Secrets do not stay in memory that is used no longer.

use std::ops::{Deref, DerefMut};

/// Makes bytes zeros. The compiler does not leave it out, though nobody reads them again.
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    std::hint::black_box(bytes);
}

/// Bytes that are wiped when they are dropped. A vector that grows leaves its bytes behind: give it
/// its room at once, or fill it by a [`Writer`](crate::Writer), which wipes what it leaves.
#[derive(Debug, Default)]
pub struct Wiped(pub Vec<u8>);

impl Wiped {
    /// Without bytes, and with room for so many.
    pub fn with_room(bytes: usize) -> Wiped {
        Wiped(Vec::with_capacity(bytes))
    }
}

impl Deref for Wiped {
    type Target = Vec<u8>;
    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Wiped {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}
