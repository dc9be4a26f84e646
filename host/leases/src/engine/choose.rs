//! One decision: who is to hold a VF, and the fewest moves that lead there.

use super::{Engine, Move, Plan, Slot};
use crate::{GrantId, Policy, Reason, Vf};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A grant that could have a VF: higher ranks come first.
struct Candidate {
    id: GrantId,
    client: u32,
    /// Holds one that may not be taken yet.
    kept: bool,
    holds: bool,
    rank: f64,
}

impl Engine {
    pub(super) fn choose(&mut self, now: u64) -> Plan {
        let room = self.vfs.iter().filter(|s| **s != Slot::Lost).count();
        if self.settings.policy == Policy::None || room == 0 {
            self.grants.values_mut().for_each(|e| {
                e.reason = if room == 0 { Reason::Lost } else { Reason::PolicyNone };
            });
            return self.moves_to(&[]);
        }
        let mut candidates = self.candidates(now);
        candidates.sort_unstable_by(|a, b| {
            let key = |c: &Candidate| (Reverse(c.kept), Reverse(c.holds), c.id);
            // What may not move comes first; among equals the holder stays.
            Reverse(a.kept)
                .cmp(&Reverse(b.kept))
                .then(b.rank.total_cmp(&a.rank))
                .then(key(a).cmp(&key(b)))
        });
        let mut of_client: BTreeMap<u32, u16> = BTreeMap::new();
        let mut chosen = Vec::with_capacity(room);
        let mut capped = vec![];
        let mut rest = vec![];
        for c in candidates {
            if chosen.len() >= room {
                rest.push(c);
                continue;
            }
            if let Some(cap) = self.settings.client_vfs {
                let holds = of_client.entry(c.client).or_default();
                if *holds >= cap {
                    capped.push(c.id);
                    continue;
                }
                *holds += 1;
            }
            chosen.push(c);
        }
        self.explain(now, &chosen, &rest, &capped);
        let ids: Vec<GrantId> = chosen.iter().map(|c| c.id).collect();
        self.moves_to(&ids)
    }

    /// Who wants a VF, with what rank.
    fn candidates(&mut self, now: u64) -> Vec<Candidate> {
        let s = self.settings;
        let turn = s.min_hold_ms.max(s.interval_ms);
        self.draws = self.draws.wrapping_add(1);
        let draw = self.draws;
        let mut all = Vec::with_capacity(self.grants.len());
        for (&id, e) in &mut self.grants {
            let held = now.saturating_sub(e.since_ms);
            let kept = e.vf.is_some()
                && match s.policy {
                    Policy::First => true,
                    Policy::Fair => held < turn,
                    _ => held < s.min_hold_ms,
                };
            let idle = e.rate.per_s() <= 0.0;
            let useless = match s.policy {
                Policy::Fair | Policy::Activity => idle,
                Policy::Gain => e.score <= 0.0,
                _ => false,
            };
            if useless && !kept {
                e.reason = if idle { Reason::Idle } else { Reason::NoGain };
                continue;
            }
            let rank = match s.policy {
                Policy::Fair => -(e.held_ms as f64) / e.weight,
                Policy::Random => (mix(s.seed ^ draw.rotate_left(32) ^ id) >> 11) as f64,
                Policy::First => -(e.since_ms as f64),
                _ if e.vf.is_some() => e.score * (1.0 + s.hysteresis),
                _ => e.score,
            };
            all.push(Candidate { id, client: e.client, kept, holds: e.vf.is_some(), rank });
        }
        all
    }

    fn explain(&mut self, now: u64, chosen: &[Candidate], rest: &[Candidate], capped: &[GrantId]) {
        let s = self.settings;
        let scored = matches!(s.policy, Policy::Activity | Policy::Gain);
        let score = |e: &Engine, c: &Candidate| e.grants[&c.id].score;
        let next = rest.first().map_or(0.0, |c| score(self, c));
        let least = chosen
            .iter()
            .filter(|c| !c.kept)
            .map(|c| score(self, c))
            .min_by(f64::total_cmp)
            .unwrap_or(0.0);
        let reasons: Vec<(GrantId, Reason)> = chosen
            .iter()
            .map(|c| {
                let e = &self.grants[&c.id];
                let still = s.min_hold_ms.saturating_sub(now.saturating_sub(e.since_ms));
                let reason = if rest.is_empty() {
                    Reason::Free
                } else if c.kept && s.policy != Policy::First && still > 0 {
                    Reason::Held { ms: still }
                } else if scored && c.holds && e.score < next {
                    Reason::Hysteresis { score: e.score, challenger: next }
                } else if scored {
                    Reason::Among { score: e.score, next }
                } else if s.policy == Policy::Random {
                    Reason::Drawn
                } else {
                    Reason::Turn
                };
                (c.id, reason)
            })
            .chain(rest.iter().enumerate().map(|(i, c)| {
                let reason = match s.policy {
                    Policy::Random => Reason::NotDrawn,
                    Policy::Fair | Policy::First => Reason::Waits { before: i as u32 },
                    _ => Reason::Below { score: score(self, c), least },
                };
                (c.id, reason)
            }))
            .chain(capped.iter().map(|id| (*id, Reason::Capped)))
            .collect();
        for (id, reason) in reasons {
            if let Some(e) = self.grants.get_mut(&id) {
                e.reason = reason;
            }
        }
    }

    /// Those who hold one and are chosen keep it; the others' go to those
    /// who are chosen and hold none.
    fn moves_to(&self, chosen: &[GrantId]) -> Plan {
        let stays: std::collections::BTreeSet<GrantId> = chosen.iter().copied().collect();
        let mut wanting = chosen.iter().copied().filter(|id| self.grants[id].vf.is_none());
        let mut moves = vec![];
        // Free ones first: a VF that nobody holds need not be scrubbed.
        let order = [true, false];
        for free in order {
            for (vf, slot) in self.vfs.iter().enumerate() {
                let from = match *slot {
                    Slot::Free if free => None,
                    Slot::Held(id) if !free && !stays.contains(&id) => Some(id),
                    _ => continue,
                };
                let to = wanting.next();
                if from.is_some() || to.is_some() {
                    moves.push(Move { vf: vf as Vf, from, to });
                }
            }
        }
        Plan { moves }
    }
}

/// splitmix64's finisher: enough for a lot that anybody can draw again.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
