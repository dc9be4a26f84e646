//! The engine: grants and VFs in, moves out.

mod choose;
mod clients;
mod seats;
mod terms;

pub use terms::{Stand, Terms};

use crate::limits::*;
use crate::{GrantId, Policy, Rate, Reason, Sample, Standing, Vf};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How one device's VFs are leased.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How leases are given.
    pub policy: Policy,
    /// Between two decisions, ms.
    pub interval_ms: u64,
    /// A lease lasts at least so long, ms.
    pub min_hold_ms: u64,
    /// A challenger's score must be higher by this fraction: without it two
    /// equal grants would take the VF from each other at each interval.
    pub hysteresis: f64,
    /// Decisions in a row at which a challenger must be better before a VF is taken from
    /// its holder; 1 for at once.
    #[serde(default = "one")]
    pub confirm: u32,
    /// VFs that one client may hold at once; `None` for no bound.
    pub client_vfs: Option<u16>,
    /// Rate beyond which more calls a second count for nothing.
    pub rate_cap: Option<f64>,
    /// Seed of [`Policy::Random`].
    pub seed: u64,
}

fn one() -> u32 {
    1
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: Policy::Gain,
            interval_ms: 1000,
            min_hold_ms: 2000,
            hysteresis: 0.1,
            confirm: 1,
            client_vfs: None,
            rate_cap: None,
            seed: 1,
        }
    }
}

impl Settings {
    /// How long a lease lasts at least, ms: nothing moves between two decisions.
    fn turn_ms(&self) -> u64 {
        self.min_hold_ms.max(self.interval_ms)
    }

    /// Whether they make sense; else a sentence that says which does not.
    pub fn check(&self) -> Result<(), String> {
        if !(INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(&self.interval_ms) {
            return Err(format!(
                "an interval is from {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX} ms, not {}",
                self.interval_ms
            ));
        }
        if self.min_hold_ms > INTERVAL_MS_MAX {
            return Err(format!("min_hold_ms is at most {INTERVAL_MS_MAX}"));
        }
        if !(0.0..=10.0).contains(&self.hysteresis) {
            return Err(format!("hysteresis is from 0 to 10 (1000 %), not {}", self.hysteresis));
        }
        if !(1..=CONFIRM_MAX).contains(&self.confirm) {
            return Err(format!("confirm is from 1 to {CONFIRM_MAX}, not {}", self.confirm));
        }
        match self.rate_cap {
            Some(cap) if cap.is_nan() || cap <= 0.0 => Err("rate_cap is a rate above zero".into()),
            _ => Ok(()),
        }
    }
}

/// A lease moves. With both, the VF is scrubbed in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Which VF.
    pub vf: Vf,
    /// Who loses it.
    pub from: Option<GrantId>,
    /// Who gets it.
    pub to: Option<GrantId>,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Moves, each of another VF.
    pub moves: Vec<Move>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: GrantId,
    client: u32,
    /// Its place among [`Engine::clients`].
    voice: u32,
    weight: f64,
    usual_ns: f64,
    pending: Sample,
    rate: Rate,
    vf: Option<Vf>,
    since_ms: u64,
    /// Time it has held a VF, ms, as [`Policy::Fair`] counts it: whoever
    /// comes later starts with the least that anybody has.
    held_ms: u64,
    reason: Reason,
    score: f64,
    /// What the last decision ordered it by.
    rank: f64,
    /// Decisions in a row at which it was better than one that holds a VF.
    ahead: u32,
    terms: Terms,
    /// It got its VF by its terms (a pin, a reserve), not by the policy.
    by_terms: bool,
    account: terms::Account,
}

/// Each step doubles it.
fn weight(priority: u8) -> f64 {
    2f64.powi(i32::from(priority.min(PRIORITY_MAX)) - i32::from(PRIORITY_DEFAULT))
}

/// Where a grant is in [`Engine::entries`].
type Place = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Held(Place),
    Lost,
}

/// Who holds which VF of one device.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    vfs: Vec<Slot>,
    /// Where each grant is.
    places: BTreeMap<GrantId, Place>,
    /// One behind the other: a decision goes through all of them.
    entries: Vec<Option<Entry>>,
    unused: Vec<Place>,
    clients: clients::Clients,
    /// Clients that are not given these VFs.
    off: BTreeSet<(u32, Vf)>,
    decided_ms: u64,
    draws: u64,
}

impl Engine {
    /// A device with so many VFs, all free. Errors name the setting that is wrong.
    pub fn new(now: u64, vfs: u16, settings: Settings) -> Result<Self, String> {
        settings.check()?;
        if vfs > VFS_MAX {
            return Err(format!("a device has at most {VFS_MAX} VFs here, not {vfs}"));
        }
        Ok(Engine {
            settings,
            vfs: vec![Slot::Free; vfs.into()],
            places: BTreeMap::new(),
            entries: vec![],
            unused: vec![],
            clients: clients::Clients::default(),
            off: BTreeSet::new(),
            decided_ms: now,
            draws: 0,
        })
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes them; leases move at the next decision.
    pub fn set(&mut self, settings: Settings) -> Result<(), String> {
        settings.check()?;
        self.settings = settings;
        Ok(())
    }

    /// A grant that could run on this device. `usual_ns`: what a VF usually
    /// saves a call of its function, before anything is measured.
    pub fn add(
        &mut self,
        now: u64,
        id: GrantId,
        client: u32,
        priority: u8,
        usual_ns: f64,
    ) -> Result<Option<Move>, String> {
        self.enter(now, id, client, priority, usual_ns)?;
        // A VF that is free helps at once; whether it stays is decided later.
        Ok(self.offer(now, id))
    }

    /// Like [`add`](Engine::add), and gives it nothing now.
    pub fn enter(
        &mut self,
        now: u64,
        id: GrantId,
        client: u32,
        priority: u8,
        usual_ns: f64,
    ) -> Result<(), String> {
        if self.places.len() >= GRANTS_MAX {
            return Err(format!("{GRANTS_MAX} grants compete for this device already"));
        }
        if self.places.contains_key(&id) {
            return Err(format!("grant {id} is known already"));
        }
        let least = self.entries.iter().flatten().map(|e| e.held_ms).min().unwrap_or(0);
        let entry = Entry {
            id,
            client,
            voice: self.clients.enter(client),
            weight: weight(priority),
            usual_ns: if usual_ns.is_finite() { usual_ns } else { 0.0 },
            pending: Sample::default(),
            rate: Rate::default(),
            vf: None,
            since_ms: now,
            held_ms: least,
            reason: Reason::New,
            score: 0.0,
            rank: 0.0,
            ahead: 0,
            terms: Terms::default(),
            by_terms: false,
            account: terms::Account::default(),
        };
        let place = self.unused.pop().unwrap_or(self.entries.len() as Place);
        match self.entries.get_mut(place as usize) {
            Some(room) => *room = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.places.insert(id, place);
        Ok(())
    }

    /// Changes a grant's priority; false if it is not known.
    pub fn prioritise(&mut self, id: GrantId, priority: u8) -> bool {
        let place = self.places.get(&id).copied();
        let Some(e) = place.and_then(|p| self.entry_mut(p)) else { return false };
        e.weight = weight(priority);
        true
    }

    fn entry(&self, place: Place) -> Option<&Entry> {
        self.entries.get(place as usize)?.as_ref()
    }

    fn entry_mut(&mut self, place: Place) -> Option<&mut Entry> {
        self.entries.get_mut(place as usize)?.as_mut()
    }

    fn at_cap(&self, client: u32) -> bool {
        self.settings.client_vfs.is_some_and(|cap| {
            let holds = self.vfs.iter().filter(|s| match s {
                Slot::Held(place) => self.entry(*place).is_some_and(|e| e.client == client),
                _ => false,
            });
            holds.count() >= cap.into()
        })
    }

    /// A free VF that this client may have and nobody else waits for: who comes later, or
    /// ends and comes back as somebody new, does not go before those who wait for
    /// the next decision.
    fn unclaimed(&self, client: u32, id: GrantId) -> Option<Vf> {
        let mut free = self
            .vfs
            .iter()
            .enumerate()
            .filter(|(_, slot)| **slot == Slot::Free)
            .map(|(vf, _)| vf as Vf)
            .filter(|vf| self.may_have(client, *vf))
            .peekable();
        free.peek()?;
        let waits = |e: &&Entry| {
            e.id != id
                && e.vf.is_none()
                && e.takes_part()
                && !matches!(e.reason, Reason::Idle | Reason::NoGain)
        };
        let mut waiting: BTreeSet<u32> =
            self.entries.iter().flatten().filter(waits).map(|e| e.client).collect();
        waiting.retain(|other| !self.at_cap(*other));
        free.find(|vf| !waiting.iter().any(|other| self.may_have(*other, *vf)))
    }

    /// A grant ends; the VF that it gives back, if it held one. It is given to
    /// somebody else at the next decision.
    pub fn remove(&mut self, id: GrantId) -> Option<Vf> {
        let place = self.places.remove(&id)?;
        self.unused.push(place);
        let entry = self.entries[place as usize].take()?;
        self.clients.leave(entry.client);
        let vf = entry.vf?;
        self.vfs[usize::from(vf)] = Slot::Free;
        Some(vf)
    }

    /// What a grant did since it was last told of.
    pub fn sample(&mut self, id: GrantId, s: Sample) {
        let place = self.places.get(&id).copied();
        if let Some(e) = place.and_then(|p| self.entry_mut(p)) {
            e.pending.calls = e.pending.calls.saturating_add(s.calls);
            e.pending.soft_ns = s.soft_ns.or(e.pending.soft_ns);
            e.pending.hard_ns = s.hard_ns.or(e.pending.hard_ns);
        }
    }

    /// A VF is gone (reset, unplugged): whoever held it runs in software.
    pub fn lose(&mut self, now: u64, vf: Vf) -> Option<Move> {
        let slot = self.vfs.get_mut(usize::from(vf))?;
        let was = std::mem::replace(slot, Slot::Lost);
        let Slot::Held(place) = was else { return None };
        let e = self.entry_mut(place)?;
        (e.vf, e.since_ms, e.reason) = (None, now, Reason::Lost);
        Some(Move { vf, from: Some(e.id), to: None })
    }

    /// A VF that was lost is there again.
    pub fn restore(&mut self, vf: Vf) {
        if let Some(slot @ Slot::Lost) = self.vfs.get_mut(usize::from(vf)) {
            *slot = Slot::Free;
        }
    }

    /// When the next decision is due, ms.
    pub fn due_ms(&self) -> u64 {
        self.decided_ms.saturating_add(self.settings.interval_ms)
    }

    /// Decides and takes the decision as done.
    pub fn decide(&mut self, now: u64) -> Plan {
        self.take_samples(now);
        let plan = self.choose(now);
        for m in &plan.moves {
            let place = |id: Option<GrantId>| id.and_then(|id| self.places.get(&id).copied());
            let (from, to) = (place(m.from), place(m.to));
            if let Some(e) = from.and_then(|p| self.entry_mut(p)) {
                (e.vf, e.since_ms) = (None, now);
            }
            self.vfs[usize::from(m.vf)] = to.map_or(Slot::Free, Slot::Held);
            if let Some(e) = to.and_then(|p| self.entry_mut(p)) {
                (e.vf, e.since_ms) = (Some(m.vf), now);
            }
        }
        plan
    }

    /// What would be decided now; nothing changes.
    pub fn dry_run(&self, now: u64) -> Plan {
        let mut copy = self.clone();
        copy.take_samples(now);
        copy.choose(now)
    }

    fn take_samples(&mut self, now: u64) {
        let ms = now.saturating_sub(self.decided_ms);
        self.decided_ms = now;
        let s = self.settings;
        // What others lose by it says nothing of one that was not tried: else a
        // few whose calls are badly suited would keep all others from being measured.
        let others = self.boost().filter(|b| s.policy == Policy::Gain && *b > 0.0);
        for e in self.entries.iter_mut().flatten() {
            let pending = std::mem::take(&mut e.pending);
            e.rate.take(&pending, ms, s.rate_cap);
            if e.vf.is_some() {
                e.held_ms = e.held_ms.saturating_add(ms);
            }
            if e.terms.stand != Stand::Out {
                // A turn that has not begun is not held yet.
                let held_ms = e.vf.map_or(0, |_| ms.min(now.saturating_sub(e.since_ms)));
                e.account.take(e.terms, held_ms as f64, ms as f64, s.turn_ms() as f64);
            }
            e.score = match s.policy {
                Policy::Activity => e.rate.per_s() * e.weight,
                Policy::Gain => {
                    // Seconds saved a second, so that scores compare across functions.
                    let saved_ns = e.rate.saved_ns(e.usual_ns, others);
                    e.rate.per_s() * saved_ns * 1e-9 * e.weight
                }
                _ => 0.0,
            };
        }
        // Whoever does not want a VF, or may not have one, saves up no turns: later
        // it would keep one for as long as others had it before.
        let wants =
            |e: &Entry| e.takes_part() && e.rate.per_s() > 0.0 && e.reason != Reason::KeptOff;
        let least = self.entries.iter().flatten().filter(|e| wants(e)).map(|e| e.held_ms).min();
        let least = least.unwrap_or(0);
        for e in self.entries.iter_mut().flatten().filter(|e| !wants(e)) {
            e.held_ms = e.held_ms.max(least);
        }
    }

    /// The boost of the grants that were measured in both places: what one
    /// that was not may expect, whose calls are larger or smaller than theirs.
    fn boost(&self) -> Option<f64> {
        let measured =
            self.entries.iter().flatten().filter_map(|e| Some((e.voice, e.rate.boost()?)));
        self.clients.median(measured)
    }

    /// Where a grant stands, and why.
    pub fn standing(&self, id: GrantId) -> Option<Standing> {
        let e = self.entry(*self.places.get(&id)?)?;
        let reason = match e.reason {
            // Counted when somebody asks: ten thousand need not be put in order for that.
            Reason::Waits { .. } => Reason::Waits {
                before: self
                    .entries
                    .iter()
                    .flatten()
                    .filter(|o| matches!(o.reason, Reason::Waits { .. }) && o.rank > e.rank)
                    .count() as u32,
            },
            reason => reason,
        };
        Some(Standing {
            vf: e.vf,
            since_ms: e.since_ms,
            reason,
            score: e.score,
            per_s: e.rate.per_s(),
            boost: e.rate.boost(),
        })
    }

    /// Who holds a VF.
    pub fn holder(&self, vf: Vf) -> Option<GrantId> {
        match self.vfs.get(usize::from(vf))? {
            Slot::Held(place) => Some(self.entry(*place)?.id),
            _ => None,
        }
    }

    /// The VF that a grant holds.
    pub fn held_by(&self, id: GrantId) -> Option<Vf> {
        self.entry(*self.places.get(&id)?)?.vf
    }

    /// All grants that compete.
    pub fn grants(&self) -> impl Iterator<Item = GrantId> + '_ {
        self.places.keys().copied()
    }
}
