//! How a switch with DPDK gets the memory of a port: messages of 96 bytes from the switch's
//! driver and of 248 bytes from the manager, each a packet of its own, over the manager's
//! UNIX socket for ports (`SOCK_SEQPACKET`). `guest/dpdk/vfun_link.h` is the same in C.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `PORTASK3`, read as a little-endian number: what a driver's messages begin with.
pub const ASK_MAGIC: u64 = u64::from_le_bytes(*b"PORTASK3");
/// `PORTWRD3`: what the manager's messages begin with.
pub const WORD_MAGIC: u64 = u64::from_le_bytes(*b"PORTWRD3");
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
    /// It allows this epoch of a direct link (R-LNK-7). The handle is the link's number.
    pub const ALLOWED: u32 = 4;
    /// It has made the turn back of this epoch in a VM's place (R-LNK-10).
    pub const FORCED: u32 = 5;
    /// It does nothing more for this link: at *unlink*, or because it cannot.
    pub const UNLINKED: u32 = 6;
}

/// Bits of what a driver knows, in [`PortAsk::knows`].
pub mod knows {
    /// Direct links: kinds from [`word::LINK`](super::word::LINK) on.
    pub const LINKS: u32 = 1;
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
    /// A direct link begins at this port, to the port whose name stands in the sentence. The
    /// handle is its number; its memory comes along, which the driver reads for counts.
    pub const LINK: u32 = 5;
    /// An epoch of the link is allowed (R-LNK-7).
    pub const ALLOW: u32 = 6;
    /// The turn back of this epoch is to be made in the VM's place (R-LNK-10).
    pub const FORCE: u32 = 7;
    /// The link is over: nothing more is done for it.
    pub const UNLINK: u32 = 8;
}

/// From the driver.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct PortAsk {
    /// [`ASK_MAGIC`].
    pub magic: U64,
    /// One of [`ask`].
    pub kind: U32,
    /// With [`ask::WANT`]: bits of [`knows`]; else 0.
    pub knows: U32,
    /// Which memory, or which link; 0: none.
    pub handle: U64,
    /// With [`ask::ALLOWED`] and [`ask::FORCED`]: the epoch; else 0.
    pub epoch: U64,
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
    /// Which memory, or which link; 0: none.
    pub handle: U64,
    /// With [`word::MEMORY`]: the byte of the file at which the switch's side begins, header page first.
    /// With [`word::LINK`]: the sender's side of the link.
    pub mine: U64,
    /// The same of the VM's side, or of the receiver's.
    pub theirs: U64,
    /// Bytes of each ring.
    pub ring: U64,
    /// With a bell: the byte of the file at which the word *news* lies, which is counted up
    /// before the VM is rung (R-CHN-8).
    pub news: U64,
    /// With [`word::LINK`], [`word::ALLOW`] and [`word::FORCE`]: the epoch; else 0.
    pub epoch: U64,
    /// With [`word::REFUSED`]: why. With [`word::LINK`]: the other port's name. Padded with zeros.
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
    assert!(size_of::<PortAsk>() == 96);
    assert!(size_of::<PortWord>() == 64 + SENTENCE_BYTES);
    assert!(size_of::<PortWord>() == 248);
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
