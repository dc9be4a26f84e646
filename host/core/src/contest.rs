//! The contest for the VFs of one device: samples go in, a plan comes out.
//! [`vfun_leases`] decides.
//!
//! Those who compete are numbers here, and so are their owners: nothing is known of what
//! they are, nor of how one comes to the VF that it is to have. That is for its hands
//! ([`hands`](super::hands), for channels): they say who competes ([`Field`]) and make
//! what is there follow the [`Plan`].

use super::failures::Failures;
use std::collections::{BTreeMap, BTreeSet};
use vfun_leases::{Engine, GrantId, Sample, Settings, Vf};

/// What a competitor counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Calls answered since the grant was activated.
    pub calls: u64,
    /// Of these, with an error.
    pub errors: u64,
    /// Time spent computing, ns.
    pub busy_ns: u64,
}

/// What was read last of a competitor.
#[derive(Clone, Copy, Debug)]
struct Told {
    usage: Usage,
    /// The most calls without an error that there ever were. Calls and errors are two
    /// words that are not read at one moment: one call more than there were would be found
    /// at every other look, and one whose calls all fail would win a VF by it.
    useful: u64,
    /// How often it had moved then.
    switches: u64,
}

/// Where a competitor is when it is sampled.
pub(super) struct At {
    pub owner: u32,
    /// The VF that it is on or is to be on.
    pub vf: Option<Vf>,
    /// Whether it is on hardware, and not in software.
    pub hardware: bool,
    pub moving: bool,
    /// How often it has moved.
    pub switches: u64,
}

/// A grant that competes for a VF.
#[derive(Clone, Copy)]
pub(super) struct Competitor {
    pub owner: u32,
    pub priority: u8,
    /// What a VF usually saves a call, before anything was measured, ns.
    pub usual_ns: f64,
}

/// The grants that compete for one device.
#[derive(Default)]
pub(super) struct Field {
    pub competitors: BTreeMap<GrantId, Competitor>,
    /// VFs that are nobody's to win, for now.
    pub pinned: BTreeSet<Vf>,
}

/// Who is to have which VF.
pub(super) struct Plan {
    holders: BTreeMap<GrantId, Vf>,
    owners: BTreeMap<GrantId, u32>,
}

impl Plan {
    /// The VF that one is to have.
    pub fn meant(&self, id: GrantId) -> Option<Vf> {
        self.holders.get(&id).copied()
    }

    /// Whether somebody else than this owner is to have a VF.
    pub fn lent(&self, vf: Option<Vf>, owner: u32) -> bool {
        self.holders.iter().any(|(id, held)| {
            Some(*held) == vf && self.owners.get(id).is_some_and(|of| *of != owner)
        })
    }
}

/// The contest for one device.
#[derive(Debug)]
pub(super) struct Contest {
    pub engine: Engine,
    pub vfs: u16,
    /// Some could be on it. Without any only failures are kept.
    pub wanted: bool,
    told: BTreeMap<GrantId, Told>,
    /// When that was, ms.
    sampled_ms: u64,
    /// VFs that failed an owner, and for how long they are not lent to it.
    pub failures: Failures,
    /// What was wrong with one last, for people.
    pub trouble: Option<String>,
}

impl Contest {
    /// One for so many VFs; what is known of their failures is that of an `earlier` one.
    pub fn new(
        now: u64,
        vfs: u16,
        settings: Settings,
        earlier: Option<Contest>,
    ) -> Result<Self, String> {
        let engine = Engine::new(now, vfs, settings)?;
        let (failures, trouble) = earlier.map(|e| (e.failures, e.trouble)).unwrap_or_default();
        let (wanted, told, sampled_ms) = (true, BTreeMap::new(), now);
        Ok(Contest { engine, vfs, wanted, told, sampled_ms, failures, trouble })
    }

    /// How many competitors' counters are kept.
    #[cfg(test)]
    pub fn told(&self) -> usize {
        self.told.len()
    }

    /// Takes in what one counted.
    pub fn sample(&mut self, now: u64, id: GrantId, usage: Usage, at: &At) {
        let before = self.told.get(&id).copied();
        let known = before.map_or(0, |b| b.useful);
        let useful = usage.calls.saturating_sub(usage.errors).max(known);
        self.told.insert(id, Told { usage, useful, switches: at.switches });
        let Some(Told { usage: before, switches, .. }) = before else { return };
        let calls = usage.calls.saturating_sub(before.calls);
        let mut sample = Sample { calls: useful - known, ..Sample::default() };
        // Of an interval with a switch in it nobody can say where the time went.
        if calls > 0 && switches == at.switches && !at.moving {
            let ns = usage.busy_ns.saturating_sub(before.busy_ns) as f64 / calls as f64;
            match at.hardware {
                true => sample.hard_ns = Some(ns),
                false => sample.soft_ns = Some(ns),
            }
        }
        if sample.calls > 0
            && sample.hard_ns.is_some()
            && let Some(vf) = at.vf
        {
            self.failures.worked(at.owner, vf, now.saturating_sub(self.sampled_ms));
        }
        self.engine.sample(id, sample);
    }

    /// All have been sampled: decides, where it is time to.
    pub fn decide(&mut self, now: u64) {
        self.sampled_ms = now;
        if self.engine.due_ms() <= now {
            self.engine.decide(now);
        }
    }

    /// What is decided, among those who are there now.
    pub fn plan(&mut self, now: u64, field: Field) -> Plan {
        let Field { competitors, pinned } = field;
        let gone: Vec<_> =
            self.engine.grants().filter(|id| !competitors.contains_key(id)).collect();
        gone.into_iter().for_each(|id| _ = self.engine.remove(id));
        // Also of those that never competed.
        self.told.retain(|id, _| competitors.contains_key(id));
        self.failures.settle(now);
        self.engine.keep_off(now, self.failures.off(now));
        for vf in 0..self.vfs {
            match pinned.contains(&vf) {
                true => _ = self.engine.lose(now, vf),
                false => self.engine.restore(vf),
            }
        }
        let owners = competitors.iter().map(|(id, c)| (*id, c.owner)).collect();
        for (id, c) in competitors {
            if !self.engine.prioritise(id, c.priority) {
                // Beyond the most that compete: it stays in software.
                let _ = self.engine.add(now, id, c.owner, c.priority, c.usual_ns);
            }
        }
        let holder = |vf| Some((self.engine.holder(vf)?, vf));
        Plan { holders: (0..self.vfs).filter_map(holder).collect(), owners }
    }

    /// Nobody competes any more. Who failed and comes anew has failed all the same.
    pub fn close(&mut self, now: u64) {
        self.wanted = false;
        self.told.clear();
        for id in self.engine.grants().collect::<Vec<_>>() {
            self.engine.remove(id);
        }
        self.failures.settle(now);
    }

    /// A VF failed an owner: it is not given it for a while.
    pub fn failed(&mut self, now: u64, owner: u32, vf: Vf) {
        self.failures.failed(now, owner, vf);
        self.engine.keep_off(now, self.failures.off(now));
    }
}
