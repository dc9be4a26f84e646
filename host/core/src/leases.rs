//! Leases: which grants hold a VF. [`vfun_leases`] decides; grants are made to
//! follow, each by a [switch](super::switch).
//!
//! A VF is another grant's only when nobody is on it: [`Grant::vf`] is set
//! before the first step of a move to it, and cleared when the service that
//! comes from it has let go.

use super::catalog::Hardware;
use super::failures::{Failure, Failures};
use super::grants::{Grant, GrantState};
use super::services::WARMING_MS;
use super::switch::Phase;
use super::{Action, Core, rules};
use std::collections::{BTreeMap, BTreeSet};
use vfun_leases::{Engine, GrantId, Plan, Sample, Settings, Standing, VFS_MAX, Vf};
use vfun_wire::Handle;
use vfun_wire::message::Location;
use vfun_wire::status::BreakReason;

/// What a grant's channel counted, as the rim read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Calls answered.
    pub calls: u64,
    /// Of these, with an error.
    pub errors: u64,
    /// Time spent computing, ns.
    pub busy_ns: u64,
}

/// What was read last of a grant.
#[derive(Clone, Copy, Debug)]
struct Told {
    usage: Usage,
    /// The most calls without an error that there ever were. Calls and errors are two
    /// words that are not read at one moment: one call more than there were would be found
    /// at every other look, and a grant whose calls all fail would win a VF by it.
    useful: u64,
    /// How often it had moved then.
    switches: u64,
}

/// One device: its VFs, and what competes for them.
#[derive(Debug)]
struct Pool {
    engine: Engine,
    vfs: u16,
    /// There are grants that could be on it. Without any only failures are kept.
    wanted: bool,
    /// What was read last.
    told: BTreeMap<Handle, Told>,
    /// When that was, ms.
    sampled_ms: u64,
    /// VFs that failed somebody, and for how long they are not lent to him.
    failures: Failures,
    /// What was wrong with one last, for people.
    trouble: Option<String>,
}

/// All devices.
#[derive(Debug, Default)]
pub(super) struct Leases {
    settings: Settings,
    pools: BTreeMap<String, Pool>,
    /// Grants on a VF that is lent to another client, and that are not on their way off it
    /// further than *warming*: since when, ms. Of the lending and not of a move: one that
    /// begins anew each time would begin the time anew too.
    kept: BTreeMap<Handle, u64>,
}

/// A device, for people.
#[derive(Clone, Debug)]
pub struct Device<'a> {
    /// Its name: that of its function, unless several share it.
    pub function: &'a str,
    /// How many.
    pub vfs: u16,
    /// VFs that failed a client and are not lent to it for a while: client, VF.
    pub kept_off: Vec<((u32, Vf), Failure)>,
    /// What was wrong with one of them last.
    pub trouble: Option<&'a str>,
    /// Each grant that competes, and where it stands.
    pub grants: Vec<(Handle, Standing)>,
    /// What would be decided now.
    pub next: Plan,
}

impl Core {
    /// Changes how VFs are leased; they move at the next decision.
    pub fn set_leases(&mut self, settings: Settings) -> Result<(), String> {
        settings.check()?;
        self.leases.settings = settings;
        for pool in self.leases.pools.values_mut() {
            pool.engine.set(settings)?;
        }
        Ok(())
    }

    /// How VFs are leased.
    pub fn lease_settings(&self) -> &Settings {
        &self.leases.settings
    }

    /// When the next decision is due, ms; `None` while there is no leased grant.
    pub fn leases_due(&self) -> Option<u64> {
        let wanted = self.leases.pools.values().filter(|p| p.wanted);
        wanted.map(|p| p.engine.due_ms()).min()
    }

    /// Devices whose VFs are leased, with those that compete for them.
    pub fn devices(&self, now: u64) -> Vec<Device<'_>> {
        self.leases
            .pools
            .iter()
            .map(|(function, p)| Device {
                function,
                vfs: p.vfs,
                kept_off: p.failures.rows(now).collect(),
                trouble: p.trouble.as_deref(),
                grants: p
                    .engine
                    .grants()
                    .filter_map(|id| Some((Handle(id), p.engine.standing(id)?)))
                    .collect(),
                next: p.engine.dry_run(now),
            })
            .collect()
    }

    /// Takes in what leased grants did, decides where it is time to, and moves.
    pub(super) fn usage(&mut self, now: u64, values: &[(Handle, Usage)], out: &mut Vec<Action>) {
        for &(handle, usage) in values {
            let Ok(g) = self.grants.get(handle) else { continue };
            let Some(pool) = self.leases.pools.get_mut(&g.device) else { continue };
            let before = pool.told.get(&handle).copied();
            let known = before.map_or(0, |b| b.useful);
            let useful = usage.calls.saturating_sub(usage.errors).max(known);
            pool.told.insert(handle, Told { usage, useful, switches: g.switches });
            let Some(Told { usage: before, switches, .. }) = before else { continue };
            let calls = usage.calls.saturating_sub(before.calls);
            let mut sample = Sample { calls: useful - known, ..Sample::default() };
            // Of an interval with a switch in it nobody can say where the time went.
            if calls > 0 && switches == g.switches && g.moving.is_none() {
                let ns = usage.busy_ns.saturating_sub(before.busy_ns) as f64 / calls as f64;
                match g.location.is_hardware() {
                    true => sample.hard_ns = Some(ns),
                    false => sample.soft_ns = Some(ns),
                }
            }
            if sample.calls > 0
                && sample.hard_ns.is_some()
                && let Some(vf) = g.vf
            {
                pool.failures.worked(g.client_id, vf, now.saturating_sub(pool.sampled_ms));
            }
            pool.engine.sample(handle.0, sample);
        }
        for pool in self.leases.pools.values_mut() {
            pool.sampled_ms = now;
            if pool.engine.due_ms() <= now {
                pool.engine.decide(now);
            }
        }
        self.end_those_who_hold_up(now, out);
        self.follow_leases(now, out);
    }

    /// Makes what is there follow what was decided. Nothing is remembered of
    /// steps between: whatever happened, this looks at where each grant is.
    pub(super) fn follow_leases(&mut self, now: u64, out: &mut Vec<Action>) {
        let names: BTreeSet<&str> =
            self.grants.iter().filter(|(_, g)| g.leased).map(|(_, g)| g.device.as_str()).collect();
        let names: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
        self.leases.pools.retain(|name, pool| {
            pool.wanted = pool.wanted && names.contains(name);
            if !pool.wanted {
                // Whoever failed and comes anew has failed all the same.
                pool.told.clear();
                for id in pool.engine.grants().collect::<Vec<_>>() {
                    pool.engine.remove(id);
                }
                pool.failures.settle(now);
            }
            names.contains(name) || !pool.failures.is_empty()
        });
        let grants = &self.grants;
        self.leases.kept.retain(|handle, _| {
            grants.get(*handle).is_ok_and(|g| g.leased && g.state == GrantState::Active)
        });
        for name in names {
            self.follow(now, &name, out);
        }
    }

    fn follow(&mut self, now: u64, name: &str, out: &mut Vec<Action>) {
        // Each of its functions has a manifest: none is given what another lacks.
        let all = self.catalog.functions.values().filter_map(|f| f.hardware.as_ref());
        let vfs = all.filter(|h| h.leased && h.device == name).map(|h| h.instances).min();
        let vfs = vfs.unwrap_or(0).min(u32::from(VFS_MAX)) as u16;
        let settings = self.leases.settings;
        let known = self.leases.pools.get(name).is_some_and(|p| p.vfs == vfs && p.wanted);
        if !known {
            let Ok(engine) = Engine::new(now, vfs, settings) else { return };
            let (failures, trouble) = match self.leases.pools.remove(name) {
                Some(old) => (old.failures, old.trouble),
                None => Default::default(),
            };
            let (told, sampled_ms) = (BTreeMap::new(), now);
            let pool = Pool { engine, vfs, wanted: true, told, sampled_ms, failures, trouble };
            self.leases.pools.insert(name.to_owned(), pool);
        }
        let mut used: BTreeSet<Vf> = BTreeSet::new();
        let mut pinned: BTreeSet<Vf> = BTreeSet::new();
        let mut compete: BTreeMap<GrantId, Competes> = BTreeMap::new();
        let mut movable: Vec<Handle> = vec![];
        // Of each client and function once: this is done at each event, and a client
        // may have a thousand grants of one.
        let mut asked: BTreeMap<(u32, &str), Option<Competes>> = BTreeMap::new();
        for (handle, g) in self.grants.iter().filter(|(_, g)| g.device == name) {
            used.extend(g.vf);
            if !self.moves(g) {
                pinned.extend(g.vf);
                continue;
            }
            let competes = *asked
                .entry((g.client_id, g.function.as_str()))
                .or_insert_with(|| self.competes(now, g.client_id, &g.function, name));
            if let (GrantState::Active | GrantState::Recovering, Some(c)) = (g.state, competes) {
                compete.insert(handle.0, c);
            }
            if g.state == GrantState::Active {
                movable.push(handle);
            }
        }
        let pool = self.leases.pools.get_mut(name).expect("just made");
        let gone: Vec<_> = pool.engine.grants().filter(|id| !compete.contains_key(id)).collect();
        for id in gone {
            pool.engine.remove(id);
        }
        // Also of those that never competed.
        pool.told.retain(|handle, _| compete.contains_key(&handle.0));
        pool.failures.settle(now);
        pool.engine.keep_off(now, pool.failures.off(now));
        for vf in 0..vfs {
            if pinned.contains(&vf) {
                pool.engine.lose(now, vf);
            } else {
                pool.engine.restore(vf);
            }
        }
        let owners: BTreeMap<GrantId, u32> =
            compete.iter().map(|(id, c)| (*id, c.client)).collect();
        for (id, c) in compete {
            if !pool.engine.prioritise(id, c.priority) {
                // Beyond the most that compete: it stays in software.
                let _ = pool.engine.add(now, id, c.client, c.priority, c.usual_ns);
            }
        }
        let holders: BTreeMap<GrantId, Vf> =
            (0..vfs).filter_map(|vf| Some((pool.engine.holder(vf)?, vf))).collect();
        // Whether somebody else than this client is to have a VF.
        let lent = |vf: Option<Vf>, client: u32| {
            holders.iter().any(|(id, held)| {
                Some(*held) == vf && owners.get(id).is_some_and(|of| *of != client)
            })
        };
        for handle in movable {
            let meant = holders.get(&handle.0).copied();
            // Only what changes is marked as changed: the rest need not be noted anew.
            let Ok(g) = self.grants.get(handle) else { continue };
            let (on_vf, vf) = (g.location.is_hardware(), g.vf);
            let to = self.leased_hardware(&g.function, name).map(|h| h.location);
            let stays = g.moving.is_none_or(|m| m.phase == Phase::Warming);
            let denied = on_vf && self.denies_hardware(g);
            let owed = denied || lent(vf, g.client_id);
            let late = if on_vf && stays && owed {
                let since = *self.leases.kept.entry(handle).or_insert(now);
                now.saturating_sub(since) > WARMING_MS
            } else {
                self.leases.kept.remove(&handle);
                false
            };
            let g = self.grants.get(handle).expect("just seen");
            match g.moving {
                Some(m) if !m.phase.may_be_called_off() => {}
                Some(m) if late && self.waits_for_its_turn(now, m) => {
                    let why = self.why_software_waits(now, handle);
                    self.grants.get_mut(handle).expect("just seen").moving = None;
                    self.leave_for_others(handle, BreakReason::NoService, denied, why, out);
                }
                Some(m) if m.to.is_hardware() == (vf == meant) => self.advance(handle, out),
                Some(_) => {
                    self.call_off(handle, out);
                    // Nobody was told of it yet: it is free at once.
                    let has = self.grants.get(handle).expect("just seen").vf;
                    if let (Some(vf), None) = (vf, has) {
                        used.remove(&vf);
                    }
                }
                // It was tried again and again, and fails before it is held back.
                None if late && vf != meant => {
                    let why = "does not start";
                    self.leave_for_others(handle, BreakReason::NoService, denied, why, out);
                }
                None if on_vf && vf != meant => {
                    let (client, function) = (g.client_id, g.function.clone());
                    // Software that does not come up is not tried all day. Whoever
                    // crashes it does not keep a VF by that which somebody else is lent, or
                    // which its client may not have any more.
                    match self.check_breaker(now, client, &function, Location::Software) {
                        Ok(()) => self.begin_move(now, handle, Location::Software, out),
                        Err(_) if owed => {
                            let why = "crashed too often";
                            self.leave_for_others(handle, BreakReason::CrashLoop, denied, why, out);
                        }
                        Err(_) => {}
                    }
                }
                None if !on_vf => {
                    let (Some(to), Some(vf)) = (to, meant) else { continue };
                    if used.insert(vf) {
                        self.grants.get_mut(handle).expect("just seen").vf = Some(vf);
                        self.begin_move(now, handle, to, out);
                    }
                }
                None => {}
            }
        }
    }

    /// How a client's grants of a function compete for a device, if they may.
    fn competes(&self, now: u64, client: u32, function: &str, device: &str) -> Option<Competes> {
        let hardware = self.leased_hardware(function, device)?;
        let c = self.catalog.clients.get(&client)?;
        if rules::no_hardware(&self.catalog, c, function).is_some()
            || self.check_breaker(now, c.id, function, hardware.location).is_err()
        {
            return None;
        }
        let priority = self.catalog.policy.of(&c.name, function).lease_priority;
        Some(Competes { client: c.id, priority, usual_ns: hardware.usual_gain_ns as f64 })
    }

    /// Whether the manifest of a grant's client, or policy, does not let it have hardware.
    fn denies_hardware(&self, g: &Grant) -> bool {
        let client = self.catalog.clients.get(&g.client_id);
        client.is_some_and(|c| rules::no_hardware(&self.catalog, c, &g.function).is_some())
    }

    /// Whether a grant may be moved. Where its function was declared anew, or
    /// removed, it stays on what it was granted: another service would be of the
    /// new one.
    pub(super) fn moves(&self, g: &Grant) -> bool {
        let old = g.service.and_then(|s| self.services.get(&s)).is_some_and(|s| s.outdated);
        g.leased && (!old || g.moving.is_some())
    }

    /// How many grants' counters are kept.
    #[cfg(test)]
    pub(super) fn told_of_leases(&self) -> usize {
        self.leases.pools.values().map(|p| p.told.len()).sum()
    }

    /// A VF failed a grant: its client is not given it for a while.
    pub(super) fn leave_vf(&mut self, now: u64, grant: Handle) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let Some(vf) = g.vf.take() else { return };
        if let Some(pool) = self.leases.pools.get_mut(&g.device) {
            pool.failures.failed(now, g.client_id, vf);
            pool.engine.keep_off(now, pool.failures.off(now));
        }
    }

    /// A service died on the VF of a grant that is over.
    pub(super) fn leave_vf_of(&mut self, now: u64, grant: Handle) {
        let on_it = |g: &Grant| g.leased && g.also.is_none() && g.location.is_hardware();
        if self.grants.get(grant).is_ok_and(on_it) {
            self.leave_vf(now, grant);
        }
    }

    /// Why the software that a grant is to go to still waits for its turn.
    fn why_software_waits(&mut self, now: u64, grant: Handle) -> &'static str {
        let Ok(g) = self.grants.get(grant) else { return "is not there" };
        let client = g.client_id;
        let crashes = self.check_breaker(now, client, &g.function, Location::Software).is_err();
        match !crashes && self.starts.wait(now, &client) > 0 {
            true => "still waits to be started: its client used up its service starts",
            false => "still waits to be started again: it crashed",
        }
    }

    /// A VF is lent to somebody else, or `denied` to its client, and nothing will serve
    /// the grant that is on it in software: it ends as those do that are there.
    fn leave_for_others(
        &mut self,
        grant: Handle,
        reason: BreakReason,
        denied: bool,
        software: &str,
        out: &mut Vec<Action>,
    ) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let Some(service) = g.service else { return };
        g.over = Some(reason);
        let vf = match denied {
            true => "its client may not have its VF any more",
            false => "its VF is lent to another",
        };
        self.leave_broken(grant, &format!("{vf}, and its software {software}"), out);
        out.push(Action::CloseChannel { service, channel: grant });
    }

    /// Something was wrong with a grant's VF: people are shown it.
    pub(super) fn note_trouble(&mut self, grant: Handle, what: &str) {
        if let Ok(g) = self.grants.get(grant)
            && let Some(pool) = self.leases.pools.get_mut(&g.device)
        {
            let vf = g.vf.map_or(String::new(), |vf| format!("VF {vf}, "));
            pool.trouble = Some(format!("{vf}'{}': {what}", g.function));
        }
    }

    /// A function's hardware, if it is that of this device and leased.
    fn leased_hardware(&self, function: &str, device: &str) -> Option<&Hardware> {
        let hardware = self.catalog.functions.get(function)?.hardware.as_ref();
        hardware.filter(|h| h.leased && h.device == device)
    }

    /// The lowest VF of a device that nobody is on and that this client may have.
    pub(super) fn free_vf(&self, client: u32, hardware: &Hardware) -> Option<Vf> {
        let used: BTreeSet<Vf> = self
            .grants
            .iter()
            .filter(|(_, g)| g.device == hardware.device)
            .filter_map(|(_, g)| g.vf)
            .collect();
        let pool = self.leases.pools.get(&hardware.device);
        let lost = |vf: &Vf| pool.is_some_and(|p| p.failures.keeps_off(self.now, client, *vf));
        (0..hardware.instances.min(u32::from(VFS_MAX)) as u16)
            .find(|vf| !used.contains(vf) && !lost(vf))
    }
}

/// What the engine is told of a grant.
#[derive(Clone, Copy)]
struct Competes {
    client: u32,
    priority: u8,
    usual_ns: f64,
}
