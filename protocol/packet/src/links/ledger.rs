//! What two VMs say of the frames between them, held against each other.

use crate::layout::ALIGN;
use crate::layout::header::{FULL, LONG, REFUSED, SENT, SENT_BYTES, STARTS, TAKEN, TAKEN_BYTES};
use crate::limits::LINK_STARTS;
use crate::ring::Ring;
use vfun_window::Memory;
use vfun_window::sync::{Ordering, fence};

/// More frames than any link carries between two looks: a count that grows by so many lies.
const TOO_MANY: u64 = 1 << 40;

/// The counts of a link's ring, of which one VM writes half and the other VM half. They
/// begin at 0 with the link's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Frames that the sender put into it, and their bytes.
    pub sent: u64,
    pub sent_bytes: u64,
    /// Frames of the sender that had no room, and those that were too long or empty.
    pub full: u64,
    pub too_long: u64,
    /// Frames that the receiver took out, and their bytes.
    pub taken: u64,
    pub taken_bytes: u64,
    /// Frames for which the receiver had no place.
    pub refused: u64,
}

impl Claims {
    /// Frames that are on their way.
    pub fn under_way(&self) -> u64 {
        self.sent.saturating_sub(self.taken).saturating_sub(self.refused)
    }

    /// Whether no count is less than before, or so much more that nobody could have done it.
    fn has_grown_from(&self, before: &Claims) -> bool {
        [
            (self.sent, before.sent),
            (self.full, before.full),
            (self.too_long, before.too_long),
            (self.taken, before.taken),
            (self.refused, before.refused),
        ]
        .into_iter()
        .all(|(new, old)| new >= old && new - old < TOO_MANY)
            && self.sent_bytes >= before.sent_bytes
            && self.taken_bytes >= before.taken_bytes
    }
}

/// Claims, as they were read while both VMs went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub claims: Claims,
    /// The same counts, looked at once more after all others.
    pub sent_later: u64,
    pub taken_later: u64,
    pub refused_later: u64,
    /// How often an end of either VM has taken the link up.
    pub starts: u64,
}

impl Reading {
    /// What stands in a link's memory: `sender`'s peer is the sender's side, and
    /// `receiver`'s peer the receiver's. Any time may pass from one word to the next. So SENT
    /// is read between two looks at what was taken: it is no less than at the first one, and no
    /// more than a ring ahead of the second one.
    pub fn of<M: Memory>(sender: &M, receiver: &M) -> Reading {
        let of = |mem: &M, word| mem.load(word, Ordering::Acquire);
        let (taken, taken_bytes) = (of(receiver, TAKEN), of(receiver, TAKEN_BYTES));
        let refused = of(receiver, REFUSED);
        fence(Ordering::SeqCst);
        let (sent, sent_bytes) = (of(sender, SENT), of(sender, SENT_BYTES));
        let (full, too_long) = (of(sender, FULL), of(sender, LONG));
        let sent_later = of(sender, SENT);
        fence(Ordering::SeqCst);
        let (taken_later, refused_later) = (of(receiver, TAKEN), of(receiver, REFUSED));
        // Last: whoever was started again has said so before it counted on.
        let starts = of(sender, STARTS).saturating_add(of(receiver, STARTS));
        let claims = Claims { sent, sent_bytes, full, too_long, taken, taken_bytes, refused };
        Reading { claims, sent_later, taken_later, refused_later, starts }
    }
}

/// What the claims cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// More was taken than sent, or more is under way than the ring holds.
    UnderWay,
    /// A count went back or grew beyond measure, or frames and bytes do not belong together.
    Growth,
}

/// Believes claims that can be true, and keeps the last of them (R-LNK-8).
pub struct Ledger {
    believed: Claims,
    most: u64,
    longest: u64,
}

impl Ledger {
    /// Of a link that is new, or of which these claims were believed last.
    pub const fn new(ring: Ring, believed: Claims) -> Self {
        let (most, longest) = (ring.bytes() / ALIGN, ring.longest() as u64);
        Ledger { believed, most, longest }
    }

    /// The last claims that could be true.
    pub const fn believed(&self) -> Claims {
        self.believed
    }

    /// # Errors
    /// [`Breach`]: one of the two VMs lies. Look once more; if it is so again, end the link.
    pub fn look(&mut self, reading: Reading) -> Result<Claims, Breach> {
        let Reading { claims, sent_later, taken_later, refused_later, starts } = reading;
        // An end that died between two of its counts, or before it showed what it had counted,
        // left them wrong by what the ring holds at most. The first two starts followed nobody.
        let slack = self.most * starts.saturating_sub(2).min(LINK_STARTS);
        let near = self.most + slack;
        // A second look is trusted no more than the first one.
        let follows = |later: u64, first: u64| later >= first && later - first < TOO_MANY;
        if !follows(sent_later, claims.sent)
            || !follows(taken_later, claims.taken)
            || !follows(refused_later, claims.refused)
        {
            return Err(Breach::Growth);
        }
        let is_pair = |bytes: u64, frames: u64, later: u64| {
            let most = u128::from(later) + u128::from(near);
            bytes >= frames.saturating_sub(near)
                && u128::from(bytes) <= most * u128::from(self.longest)
        };
        if !claims.has_grown_from(&self.believed)
            || !is_pair(claims.sent_bytes, claims.sent, sent_later)
            || !is_pair(claims.taken_bytes, claims.taken, taken_later)
        {
            return Err(Breach::Growth);
        }
        let gone = claims.taken.saturating_add(claims.refused);
        let gone_later = taken_later.saturating_add(refused_later);
        if gone > claims.sent.saturating_add(slack) || claims.sent > gone_later.saturating_add(near)
        {
            return Err(Breach::UnderWay);
        }
        self.believed = claims;
        Ok(claims)
    }
}
