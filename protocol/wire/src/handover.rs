//! How a switch with DPDK gets the memory of a port: messages of 88 bytes from the switch's
//! driver and of 240 bytes from the manager, each a packet of its own, over the manager's
//! UNIX socket for ports (`SOCK_SEQPACKET`). `guest/dpdk/vfun_link.h` is the same in C.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `PORTASK2`, read as a little-endian number: what a driver's messages begin with.
pub const ASK_MAGIC: u64 = u64::from_le_bytes(*b"PORTASK2");
/// `PORTWRD2`: what the manager's messages begin with.
pub const WORD_MAGIC: u64 = u64::from_le_bytes(*b"PORTWRD2");
/// Bytes of a port's name on the host, with room: names of interfaces have 15.
pub const NAME_BYTES: usize = 64;
/// Bytes of a sentence for people.
pub const SENTENCE_BYTES: usize = 184;

/// What a driver says.
pub mod ask {
    /// First: it wants the port of this name. The handle is of memory that it has already.
    pub const WANT: u32 = 1;
    /// It will not touch this memory any more.
    pub const LET_GO: u32 = 2;
    /// It has no memory, takes none any more, and hangs up.
    pub const GOODBYE: u32 = 3;
}

/// What the manager says.
pub mod word {
    /// There is such a port; its memory comes when there is some.
    pub const WELCOME: u32 = 1;
    /// There is none, and the sentence says why.
    pub const REFUSED: u32 = 2;
    /// Here is its memory, and what rings the VM, where something does.
    pub const MEMORY: u32 = 3;
    /// This memory is to be let go of.
    pub const DROP: u32 = 4;
}

/// From the driver.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct PortAsk {
    /// [`ASK_MAGIC`].
    pub magic: U64,
    /// One of [`ask`].
    pub kind: U32,
    /// Zero.
    pub zero: U32,
    /// Which memory; 0: none.
    pub handle: U64,
    /// With [`ask::WANT`]: the port's name on the host, padded with zeros.
    pub name: [u8; NAME_BYTES],
}

/// From the manager.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct PortWord {
    /// [`WORD_MAGIC`].
    pub magic: U64,
    /// One of [`word`].
    pub kind: U32,
    /// With [`word::REFUSED`]: not 0.
    pub code: U32,
    /// Which memory; 0: none.
    pub handle: U64,
    /// With [`word::MEMORY`]: the byte of the file at which the switch's side begins, header page first.
    pub mine: U64,
    /// The same of the VM's side.
    pub theirs: U64,
    /// Bytes of each ring.
    pub ring: U64,
    /// With a bell: the byte of the file at which the word *news* lies, which is counted up
    /// before the VM is rung (R-CHN-8).
    pub news: U64,
    /// With [`word::REFUSED`]: why, padded with zeros.
    pub sentence: [u8; SENTENCE_BYTES],
}

impl PortWord {
    /// A message in which all else is zero.
    pub fn new(kind: u32, handle: u64) -> Self {
        let mut word = PortWord::new_zeroed();
        word.magic = U64::new(WORD_MAGIC);
        word.kind = U32::new(kind);
        word.handle = U64::new(handle);
        word
    }

    /// Says why not. A sentence that is too long is cut between two characters.
    pub fn refused(why: &str) -> Self {
        let mut word = PortWord::new(word::REFUSED, 0);
        word.code = U32::new(1);
        let mut end = why.len().min(SENTENCE_BYTES - 1);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        word.sentence[..end].copy_from_slice(&why.as_bytes()[..end]);
        word
    }
}

impl PortAsk {
    /// The name in it, without its padding; none if it is no text.
    pub fn name(&self) -> Option<&str> {
        let end = self.name.iter().position(|b| *b == 0).unwrap_or(self.name.len());
        std::str::from_utf8(&self.name[..end]).ok()
    }
}

const _: () = {
    assert!(size_of::<PortAsk>() == 88);
    assert!(size_of::<PortWord>() == 56 + SENTENCE_BYTES);
    assert!(size_of::<PortWord>() == 240);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sentences_are_padded() {
        let mut ask = PortAsk::new_zeroed();
        ask.name[..6].copy_from_slice(b"web.e1");
        assert_eq!(ask.name(), Some("web.e1"));
        ask.name = [b'x'; 64];
        assert_eq!(ask.name().map(str::len), Some(64));
        ask.name[3] = 0xff;
        assert_eq!(ask.name(), None);
        let long = PortWord::refused(&"ä".repeat(200));
        assert_eq!(long.sentence[SENTENCE_BYTES - 2..], [0, 0]);
        assert!(std::str::from_utf8(&long.sentence[..SENTENCE_BYTES - 2]).is_ok());
    }
}
