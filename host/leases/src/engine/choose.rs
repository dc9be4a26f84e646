//! One decision: who is to hold a VF, and the fewest moves that lead there.

use super::{Engine, Move, Place, Plan, Slot, Stand};
use crate::{Policy, Reason, Vf};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A grant that could have a VF.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub place: Place,
    pub client: u32,
    class: Class,
    pub holds: bool,
    rank: f64,
    id: u64,
}

/// Who comes before whom, whatever their rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Holds one that may not be taken yet.
    Kept,
    Pinned,
    /// Its reserve owes it a turn.
    Due,
    /// By the policy it keeps the one that it holds.
    Settled,
    Competes,
    /// Better than a holder, at too few decisions in a row yet.
    Unconfirmed,
}

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Taken,
    /// Its client holds as many as it may.
    Capped,
    /// Its client is kept off those that it could have had.
    Off,
    /// There was no room left.
    Left,
}

/// Who comes first: by class; then by rank, and among equals the
/// holder, then the older.
fn order(a: &Candidate, b: &Candidate) -> Ordering {
    a.class
        .cmp(&b.class)
        .then_with(|| b.rank.total_cmp(&a.rank))
        .then_with(|| b.holds.cmp(&a.holds))
        .then_with(|| a.id.cmp(&b.id))
}

/// With a bound per client so many times the VFs are put in order first: only
/// if that many are of clients at their bound are all of them.
const FIRST_LOOK: usize = 4;

impl Engine {
    pub(super) fn choose(&mut self, now: u64) -> Plan {
        let room = self.vfs.iter().filter(|s| **s != Slot::Lost).count();
        if room == 0 {
            self.entries.iter_mut().flatten().for_each(|e| e.reason = Reason::Lost);
            return self.moves_to(&[]);
        }
        let mut all = self.candidates(now);
        self.confirm(&mut all);
        if !self.off.is_empty() {
            all.sort_unstable_by(order);
            let (taken, plan) = self.seat(&all, room);
            self.explain(now, &all, &taken, room);
            return plan;
        }
        let first = if self.settings.client_vfs.is_some() { room * FIRST_LOOK } else { room };
        let sorted = all.len().min(first);
        if sorted < all.len() {
            all.select_nth_unstable_by(sorted, order);
        }
        all[..sorted].sort_unstable_by(order);
        let mut taken = self.take(&all[..sorted], room);
        if count(&taken) < room && sorted < all.len() {
            all.sort_unstable_by(order);
            taken = self.take(&all, room);
        }
        self.explain(now, &all, &taken, room);
        let chosen: Vec<Place> = all
            .iter()
            .zip(&taken)
            .filter(|(_, o)| **o == Outcome::Taken)
            .map(|(c, _)| c.place)
            .collect();
        self.moves_to(&chosen)
    }

    /// Of candidates in order, who gets one.
    fn take(&self, ordered: &[Candidate], room: usize) -> Vec<Outcome> {
        let mut of_client: BTreeMap<u32, u16> = BTreeMap::new();
        let mut left = room;
        let taken = ordered.iter().map(|c| {
            if left == 0 {
                return Outcome::Left;
            }
            if let Some(cap) = self.settings.client_vfs {
                let holds = of_client.entry(c.client).or_default();
                if *holds >= cap {
                    return Outcome::Capped;
                }
                *holds += 1;
            }
            left -= 1;
            Outcome::Taken
        });
        taken.collect()
    }

    /// Who wants a VF, with what rank.
    fn candidates(&mut self, now: u64) -> Vec<Candidate> {
        let s = self.settings;
        let turn = s.turn_ms();
        self.draws = self.draws.wrapping_add(1);
        let draw = self.draws;
        let mut all = Vec::with_capacity(self.places.len());
        for (place, e) in self.entries.iter_mut().enumerate() {
            let Some(e) = e else { continue };
            if e.terms.stand == Stand::Out {
                e.reason = Reason::Out;
                continue;
            }
            let held = now.saturating_sub(e.since_ms);
            let holds = e.vf.is_some();
            let kept = holds
                && match s.policy {
                    Policy::Random => false,
                    Policy::None => e.by_terms && held < s.min_hold_ms,
                    Policy::Fair => held < turn,
                    _ => held < s.min_hold_ms,
                };
            let idle = e.rate.per_s() <= 0.0;
            let useless = match s.policy {
                Policy::Fair | Policy::Activity => idle,
                Policy::Gain => e.score <= 0.0,
                _ => false,
            };
            if e.is_capped() && !kept {
                (e.reason, e.ahead) = (Reason::ShareUsed, 0);
                continue;
            }
            let class = match e.terms.stand {
                _ if kept => Class::Kept,
                Stand::Pinned => Class::Pinned,
                _ if e.is_due(turn) => Class::Due,
                _ if holds && s.policy == Policy::First => Class::Settled,
                _ => Class::Competes,
            };
            if class != Class::Kept {
                e.by_terms = matches!(class, Class::Pinned | Class::Due);
            }
            if s.policy == Policy::None && class == Class::Competes {
                (e.reason, e.ahead) = (Reason::PolicyNone, 0);
                continue;
            }
            if useless && class == Class::Competes {
                e.ahead = 0;
                e.reason = if idle { Reason::Idle } else { Reason::NoGain };
                continue;
            }
            e.rank = match s.policy {
                Policy::Fair => -(e.held_ms as f64) / e.weight,
                Policy::Random => (mix(s.seed ^ draw.rotate_left(32) ^ e.id) >> 11) as f64,
                Policy::First => -(e.since_ms as f64),
                _ if holds => e.score * (1.0 + s.hysteresis),
                _ => e.score,
            };
            let place = place as Place;
            all.push(Candidate { place, client: e.client, class, holds, rank: e.rank, id: e.id });
        }
        all
    }

    /// Puts those behind all holders that are better than one of them at too few
    /// decisions in a row yet.
    fn confirm(&mut self, all: &mut [Candidate]) {
        let s = self.settings;
        if s.confirm <= 1 || !matches!(s.policy, Policy::Activity | Policy::Gain) {
            return;
        }
        let held = all.iter().filter(|c| c.holds && c.class != Class::Pinned);
        let least = held.map(|c| c.rank).fold(f64::INFINITY, f64::min);
        for c in all.iter_mut().filter(|c| c.class == Class::Competes) {
            let Some(e) = self.entry_mut(c.place) else { continue };
            e.ahead = if !c.holds && c.rank > least { e.ahead.saturating_add(1) } else { 0 };
            if !c.holds && e.ahead < s.confirm {
                c.class = Class::Unconfirmed;
            }
        }
    }

    /// Notes why each stands as it does; `taken` are the first of `all`, in order.
    fn explain(&mut self, now: u64, all: &[Candidate], taken: &[Outcome], room: usize) {
        let s = self.settings;
        let scored = matches!(s.policy, Policy::Activity | Policy::Gain);
        let outcome = |i: usize| taken.get(i).copied().unwrap_or(Outcome::Left);
        let score = |e: &Engine, c: &Candidate| e.entry(c.place).map_or(0.0, |e| e.score);
        let (mut next, mut least) = (0.0f64, f64::INFINITY);
        if scored {
            for (i, c) in all.iter().enumerate() {
                let free = matches!(c.class, Class::Competes | Class::Unconfirmed);
                match (outcome(i), free) {
                    (Outcome::Taken, true) => least = least.min(score(self, c)),
                    (Outcome::Taken, false) | (Outcome::Capped | Outcome::Off, _) => {}
                    (Outcome::Left, _) => next = next.max(score(self, c)),
                }
            }
        }
        for (i, c) in all.iter().enumerate() {
            let Some(e) = self.entry_mut(c.place) else { continue };
            let still = s.min_hold_ms.saturating_sub(now.saturating_sub(e.since_ms));
            e.reason = match (outcome(i), s.policy) {
                (Outcome::Capped, _) => Reason::Capped,
                (Outcome::Off, _) => Reason::KeptOff,
                (Outcome::Left, Policy::Random) => Reason::NotDrawn,
                (Outcome::Left, Policy::Fair | Policy::First) => Reason::Waits { before: 0 },
                (Outcome::Left, _) if e.ahead > 0 && e.ahead < s.confirm => {
                    Reason::Unconfirmed { score: e.score }
                }
                (Outcome::Left, _) if least == f64::INFINITY => Reason::AllKept { score: e.score },
                (Outcome::Left, _) if e.score > least => {
                    Reason::TooLittle { score: e.score, least }
                }
                (Outcome::Left, _) => Reason::Below { score: e.score, least },
                (Outcome::Taken, _) if c.class == Class::Pinned => Reason::Pinned,
                (Outcome::Taken, _) if c.class == Class::Due => Reason::Reserved,
                (Outcome::Taken, _) if all.len() <= room => Reason::Free,
                (Outcome::Taken, p)
                    if c.class == Class::Kept && p != Policy::First && still > 0 =>
                {
                    Reason::Held { ms: still }
                }
                (Outcome::Taken, _) if scored && c.holds && e.score < next => {
                    Reason::Hysteresis { score: e.score, challenger: next }
                }
                (Outcome::Taken, _) if scored => Reason::Among { score: e.score, next },
                (Outcome::Taken, Policy::Random) => Reason::Drawn,
                (Outcome::Taken, _) => Reason::Turn,
            };
        }
    }

    /// Those who hold one and are chosen keep it; the others' go to those
    /// who are chosen and hold none.
    fn moves_to(&self, chosen: &[Place]) -> Plan {
        let id = |place: Place| self.entry(place).map(|e| e.id);
        let mut stays = vec![false; self.vfs.len()];
        let mut wanting = vec![];
        for &place in chosen {
            match self.entry(place).and_then(|e| e.vf) {
                Some(vf) => stays[usize::from(vf)] = true,
                None => wanting.push(place),
            }
        }
        let mut wanting = wanting.into_iter();
        let mut moves = vec![];
        // Free ones first: a VF that nobody holds need not be scrubbed.
        for free in [true, false] {
            for (vf, slot) in self.vfs.iter().enumerate() {
                let from = match *slot {
                    Slot::Free if free => None,
                    Slot::Held(place) if !free && !stays[vf] => id(place),
                    _ => continue,
                };
                let to = wanting.next().and_then(id);
                if from.is_some() || to.is_some() {
                    moves.push(Move { vf: vf as Vf, from, to });
                }
            }
        }
        Plan { moves }
    }
}

fn count(taken: &[Outcome]) -> usize {
    taken.iter().filter(|o| **o == Outcome::Taken).count()
}

/// splitmix64's finisher: enough for a lot that anybody can draw again.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
