//! What two VMs say of the frames between them, held against each other.

use crate::layout::ALIGN;
use crate::layout::header::{REFUSED, SENT, SENT_BYTES, TAKEN, TAKEN_BYTES};
use crate::limits::FRAME_MAX;
use crate::ring::Ring;
use vfun_window::Memory;
use vfun_window::sync::{Ordering, fence};

/// The counts of a link's ring, of which one VM writes half and the other VM half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Frames that the sender put into it, and their bytes.
    pub sent: u64,
    pub sent_bytes: u64,
    /// Frames that the receiver took out, and their bytes.
    pub taken: u64,
    pub taken_bytes: u64,
    /// Frames for which the receiver had no place.
    pub refused: u64,
}

impl Claims {
    /// As they stand in a link's memory: `sender`'s peer is the sender's side, and
    /// `receiver`'s peer the receiver's. First what was taken, so that it is never more than
    /// what was sent.
    pub fn read<M: Memory>(sender: &M, receiver: &M) -> Claims {
        let of = |mem: &M, word| mem.load(word, Ordering::Acquire);
        let (taken, taken_bytes) = (of(receiver, TAKEN), of(receiver, TAKEN_BYTES));
        let refused = of(receiver, REFUSED);
        fence(Ordering::SeqCst);
        let (sent, sent_bytes) = (of(sender, SENT), of(sender, SENT_BYTES));
        Claims { sent, sent_bytes, taken, taken_bytes, refused }
    }

    /// Frames that are on their way.
    pub fn under_way(&self) -> u64 {
        self.sent.wrapping_sub(self.taken).wrapping_sub(self.refused)
    }

    fn since(&self, before: &Claims) -> Claims {
        Claims {
            sent: self.sent.wrapping_sub(before.sent),
            sent_bytes: self.sent_bytes.wrapping_sub(before.sent_bytes),
            taken: self.taken.wrapping_sub(before.taken),
            taken_bytes: self.taken_bytes.wrapping_sub(before.taken_bytes),
            refused: self.refused.wrapping_sub(before.refused),
        }
    }
}

/// What the claims cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// More was taken than sent, or more is under way than the ring holds.
    UnderWay,
    /// A count went back, or frames and bytes do not belong together.
    Growth,
}

/// Believes claims that can be true, and keeps the last of them (R-LNK-8).
pub struct Ledger {
    believed: Claims,
    most: u64,
}

impl Ledger {
    /// Of a link whose counts stand at 0, or of an earlier ledger.
    pub const fn new(ring: Ring, believed: Claims) -> Self {
        Ledger { believed, most: ring.bytes() / ALIGN }
    }

    /// The last claims that could be true.
    pub const fn believed(&self) -> Claims {
        self.believed
    }

    /// # Errors
    /// [`Breach`]: one of the two VMs lies. Look once more; if it is so again, end the link.
    pub fn look(&mut self, claims: Claims) -> Result<Claims, Breach> {
        let new = claims.since(&self.believed);
        let is_pair = |frames: u64, bytes: u64| {
            frames < 1 << 40 && bytes >= frames && bytes <= frames * u64::from(FRAME_MAX)
        };
        if !is_pair(new.sent, new.sent_bytes)
            || !is_pair(new.taken, new.taken_bytes)
            || new.refused >= 1 << 40
        {
            return Err(Breach::Growth);
        }
        if claims.under_way() > self.most {
            return Err(Breach::UnderWay);
        }
        self.believed = claims;
        Ok(claims)
    }
}
