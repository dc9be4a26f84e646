//! What holds for one grant beyond the policy: a pin, a ban, the least and the most of
//! the time that it holds a VF.

use super::{Engine, Entry, Slot};
use crate::{GrantId, Move, Reason, Vf};
use serde::{Deserialize, Serialize};

/// Whether a grant takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stand {
    /// It competes.
    #[default]
    Competes,
    /// It gets a VF before all that compete, and keeps it.
    Pinned,
    /// It gets none now. What it had is taken away.
    Out,
}

/// What holds for one grant beyond the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub stand: Stand,
    /// Percent of the time that it holds a VF at least, even if its score is low.
    pub reserve_percent: u8,
    /// Percent of the time that it holds a VF at most; 100 for no bound.
    pub cap_percent: u8,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { stand: Stand::Competes, reserve_percent: 0, cap_percent: 100 }
    }
}

/// How much of the time a grant held a VF, against its terms.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Time that its reserve owes it, ms.
    owed_ms: f64,
    /// Time that it held a VF beyond its cap, ms; below zero while some is left.
    over_ms: f64,
    /// It is over its cap, until a whole turn is left again.
    capped: bool,
}

fn share(percent: u8) -> f64 {
    f64::from(percent.min(100)) / 100.0
}

impl Account {
    /// Takes `ms` in, of which it held a VF for `held`. `turn_ms` is what one lease lasts at least. Nobody saves up, or
    /// owes, more than one turn, so that what was long ago does not count.
    pub(super) fn take(&mut self, terms: Terms, held: f64, ms: f64, turn_ms: f64) {
        let (reserve, cap) = (share(terms.reserve_percent), share(terms.cap_percent));
        self.owed_ms = (self.owed_ms + ms * reserve - held).clamp(-turn_ms, turn_ms);
        let left = turn_ms * (1.0 - cap);
        self.over_ms = (self.over_ms + held - ms * cap).clamp(-left, 10.0 * turn_ms);
        self.capped = match self.capped {
            true => self.over_ms > -left,
            false => cap < 1.0 && self.over_ms > 0.0,
        };
    }

    /// Whether its reserve owes it a whole turn. Holding one pays it.
    fn is_due(&self, terms: Terms, turn_ms: f64) -> bool {
        terms.reserve_percent > 0 && self.owed_ms >= turn_ms * (1.0 - share(terms.reserve_percent))
    }
}

impl Entry {
    pub(super) fn is_capped(&self) -> bool {
        self.account.capped
    }

    pub(super) fn is_due(&self, turn_ms: u64) -> bool {
        self.account.is_due(self.terms, turn_ms as f64)
    }

    pub(super) fn takes_part(&self) -> bool {
        self.terms.stand != Stand::Out && !self.account.capped
    }
}

impl Engine {
    /// Changes a grant's terms. The VF that it loses by that, if it is
    /// [`Out`](Stand::Out) now and held one.
    pub fn set_terms(&mut self, now: u64, id: GrantId, terms: Terms) -> Option<Vf> {
        let place = self.places.get(&id).copied()?;
        let e = self.entry_mut(place)?;
        e.terms = terms;
        if terms.stand != Stand::Out {
            return None;
        }
        e.ahead = 0;
        let vf = e.vf.take()?;
        (e.since_ms, e.reason) = (now, Reason::Out);
        self.vfs[usize::from(vf)] = Slot::Free;
        Some(vf)
    }

    /// A grant's terms.
    pub fn terms(&self, id: GrantId) -> Option<Terms> {
        Some(self.entry(*self.places.get(&id)?)?.terms)
    }

    /// Gives a grant that holds none a free VF at once, if nobody waits for it: whether
    /// it stays there is decided later.
    pub fn offer(&mut self, now: u64, id: GrantId) -> Option<Move> {
        use crate::Policy;
        let place = self.places.get(&id).copied()?;
        let e = self.entry(place)?;
        if matches!(self.settings.policy, Policy::None | Policy::Random)
            || e.vf.is_some()
            || !e.takes_part()
            || self.at_cap(e.client)
        {
            return None;
        }
        let vf = self.unclaimed(e.client, id)?;
        self.vfs[usize::from(vf)] = Slot::Held(place);
        let e = self.entry_mut(place)?;
        (e.vf, e.since_ms, e.reason) = (Some(vf), now, Reason::Free);
        Some(Move { vf, from: None, to: Some(id) })
    }

    /// A grant was found to hold this VF already, after a new start. False if the VF is
    /// not free or the grant holds another.
    pub fn hold(&mut self, now: u64, id: GrantId, vf: Vf) -> bool {
        let Some(place) = self.places.get(&id).copied() else { return false };
        let free = self.vfs.get(usize::from(vf)).is_some_and(|s| *s == Slot::Free);
        let Some(e) = self.entry_mut(place).filter(|e| free && e.vf.is_none()) else {
            return false;
        };
        (e.vf, e.since_ms, e.reason) = (Some(vf), now, Reason::Free);
        // What else could have given it one under a policy that gives none?
        e.by_terms = e.terms.reserve_percent > 0;
        self.vfs[usize::from(vf)] = Slot::Held(place);
        true
    }

    /// Counts the time that a grant keeps its VF at least from now: where a move takes
    /// long, that time begins when it is done. Time before counts for its reserve and cap
    /// as time without a VF.
    pub fn begin_turn(&mut self, now: u64, id: GrantId) {
        let place = self.places.get(&id).copied();
        if let Some(e) = place.and_then(|p| self.entry_mut(p)).filter(|e| e.vf.is_some()) {
            e.since_ms = now;
        }
    }
}
