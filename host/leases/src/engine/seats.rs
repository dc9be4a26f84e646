//! Who gets which VF where some clients are kept off some VFs.
//!
//! Candidates come in order, and each gets a VF if all before it can still have
//! one each: whoever sits on one that this one needs moves on to another free
//! one (augmenting paths). So the best set gets them, and no VF stays unused
//! because somebody was chosen who cannot have it.

use super::choose::{Candidate, Outcome};
use super::{Engine, Move, Place, Plan, Slot};
use crate::{Reason, Vf};
use std::collections::{BTreeMap, BTreeSet};

impl Engine {
    /// Which clients are not given which VFs, from now on; nobody else is. A
    /// grant of theirs that holds one loses it.
    pub fn keep_off(&mut self, now: u64, off: BTreeSet<(u32, Vf)>) {
        self.off = off;
        for &(client, vf) in &self.off {
            let Some(slot) = self.vfs.get_mut(usize::from(vf)) else { continue };
            let Slot::Held(place) = *slot else { continue };
            let Some(e) = self.entries[place as usize].as_mut() else { continue };
            if e.client == client {
                (e.vf, e.since_ms, e.reason) = (None, now, Reason::Lost);
                *slot = Slot::Free;
            }
        }
    }

    /// Whether a client may be given a VF.
    pub(super) fn may_have(&self, client: u32, vf: Vf) -> bool {
        !self.off.contains(&(client, vf))
    }

    /// Of candidates in order, who gets a VF, and the moves that lead there.
    pub(super) fn seat(&self, ordered: &[Candidate], room: usize) -> (Vec<Outcome>, Plan) {
        let mut seats = Seats::new(self);
        let mut of_client: BTreeMap<u32, u16> = BTreeMap::new();
        // Who found nothing once finds nothing later, when more is taken; and all of a
        // client that hold none may have the same ones. So one search for each client
        // is in vain, and not one for each of its grants.
        let mut in_vain: BTreeSet<u32> = BTreeSet::new();
        let mut left = room;
        let taken = ordered.iter().map(|c| {
            let holds = of_client.entry(c.client).or_default();
            if left == 0 {
                return Outcome::Left;
            }
            if self.settings.client_vfs.is_some_and(|cap| *holds >= cap) {
                return Outcome::Capped;
            }
            if !c.holds && in_vain.contains(&c.client) {
                return Outcome::Off;
            }
            seats.seen.fill(false);
            if !seats.take(c.place) {
                if c.holds {
                    return Outcome::Left;
                }
                in_vain.insert(c.client);
                return Outcome::Off;
            }
            *holds += 1;
            left -= 1;
            Outcome::Taken
        });
        let taken = taken.collect();
        (taken, seats.moves())
    }
}

struct Seats<'a> {
    engine: &'a Engine,
    /// VFs that can be given, those that nobody holds first: they need not be scrubbed.
    vfs: Vec<Vf>,
    of: Vec<Option<Place>>,
    /// VFs that this search came by.
    seen: Vec<bool>,
}

impl<'a> Seats<'a> {
    fn new(engine: &'a Engine) -> Self {
        let vfs = |free: bool| {
            engine.vfs.iter().enumerate().filter_map(move |(vf, slot)| match slot {
                Slot::Free if free => Some(vf as Vf),
                Slot::Held(_) if !free => Some(vf as Vf),
                _ => None,
            })
        };
        Seats {
            engine,
            vfs: vfs(true).chain(vfs(false)).collect(),
            of: vec![None; engine.vfs.len()],
            seen: vec![false; engine.vfs.len()],
        }
    }

    /// Who holds one may have only that one: from one VF to another nobody is moved.
    fn may_have(&self, place: Place, vf: Vf) -> bool {
        let Some(e) = self.engine.entry(place) else { return false };
        match e.vf {
            Some(own) => own == vf,
            None => self.engine.may_have(e.client, vf),
        }
    }

    fn take(&mut self, place: Place) -> bool {
        let can: Vec<Vf> =
            self.vfs.iter().copied().filter(|vf| self.may_have(place, *vf)).collect();
        if let Some(vf) = can.iter().find(|vf| self.of[usize::from(**vf)].is_none()) {
            self.of[usize::from(*vf)] = Some(place);
            return true;
        }
        for vf in can.into_iter().map(usize::from) {
            if std::mem::replace(&mut self.seen[vf], true) {
                continue;
            }
            if self.of[vf].is_some_and(|other| self.take(other)) {
                self.of[vf] = Some(place);
                return true;
            }
        }
        false
    }

    fn moves(&self) -> Plan {
        let id = |place: Place| self.engine.entry(place).map(|e| e.id);
        let all = self.vfs.iter().map(|&vf| {
            let at = usize::from(vf);
            let from = match self.engine.vfs[at] {
                Slot::Held(place) if self.of[at] != Some(place) => id(place),
                Slot::Held(_) => return Move { vf, from: None, to: None },
                _ => None,
            };
            Move { vf, from, to: self.of[at].and_then(id) }
        });
        Plan { moves: all.filter(|m| m.from.is_some() || m.to.is_some()).collect() }
    }
}
