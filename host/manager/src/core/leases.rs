//! Leases: which grants hold a VF, and the switch from one service to the
//! other, between two calls.
//!
//! [`vfun_leases`] decides; this carries it out, one step an event:
//!
//! 1. *warming*: the service that the grant goes to is started; calls go on.
//! 2. *closing*: the service it comes from finishes the call under way, lets its
//!    driver end (which scrubs a VF) and says that it no longer touches the channel.
//! 3. *opening*: the other one takes the same channel up, as after a crash:
//!    what was posted and not answered is served, from the cell where the
//!    first one stopped.
//!
//! A VF is another grant's only when nobody is on it: [`Grant::vf`] is set
//! before the first step of a move to it, and cleared after the second one of
//! a move away.

use super::grants::{Grant, GrantState};
use super::services::ServiceState;
use super::{Action, Core, ServiceId, rules};
use crate::limits::LEASE_LOST_MS;
use std::collections::{BTreeMap, BTreeSet};
use vfun_leases::{Engine, GrantId, Plan, Sample, Settings, Standing, VFS_MAX, Vf};
use vfun_wire::Handle;
use vfun_wire::message::Location;

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Where it goes is being started; where it comes from serves.
    Warming,
    /// Where it comes from was told to let go.
    Closing,
    /// Where it goes was told to take it up.
    Opening,
}

/// A grant on its way from one service to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving {
    /// Where it will run.
    pub to: Location,
    /// What will serve it.
    pub service: ServiceId,
    /// How far it is.
    pub phase: Phase,
}

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

/// One device: the VFs of a function.
#[derive(Debug)]
struct Pool {
    engine: Engine,
    vfs: u16,
    /// What was read last, and how often the grant had moved then.
    told: BTreeMap<Handle, (Usage, u64)>,
    /// VFs that failed somebody: until when they are left alone, ms.
    lost: BTreeMap<Vf, u64>,
}

/// All devices.
#[derive(Debug, Default)]
pub(super) struct Leases {
    settings: Settings,
    pools: BTreeMap<String, Pool>,
}

/// A device, for people.
#[derive(Clone, Debug)]
pub struct Device<'a> {
    /// The function whose VFs they are.
    pub function: &'a str,
    /// How many.
    pub vfs: u16,
    /// VFs that are left alone as they failed.
    pub lost: usize,
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

    /// When the next decision is due, ms; `None` while no grant competes.
    pub fn leases_due(&self) -> Option<u64> {
        self.leases.pools.values().map(|p| p.engine.due_ms()).min()
    }

    /// Devices whose VFs are leased, with those that compete for them.
    pub fn devices(&self, now: u64) -> Vec<Device<'_>> {
        self.leases
            .pools
            .iter()
            .map(|(function, p)| Device {
                function,
                vfs: p.vfs,
                lost: p.lost.len(),
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
            let Some(pool) = self.leases.pools.get_mut(&g.function) else { continue };
            let before = pool.told.insert(handle, (usage, g.switches));
            let Some((before, switches)) = before else { continue };
            let calls = usage.calls.saturating_sub(before.calls);
            let errors = usage.errors.saturating_sub(before.errors);
            let mut sample = Sample { calls: calls.saturating_sub(errors), ..Sample::default() };
            // Of an interval with a switch in it nobody can say where the time went.
            if calls > 0 && switches == g.switches && g.moving.is_none() {
                let ns = usage.busy_ns.saturating_sub(before.busy_ns) as f64 / calls as f64;
                match g.location.is_hardware() {
                    true => sample.hard_ns = Some(ns),
                    false => sample.soft_ns = Some(ns),
                }
            }
            pool.engine.sample(handle.0, sample);
        }
        for pool in self.leases.pools.values_mut().filter(|p| p.engine.due_ms() <= now) {
            pool.engine.decide(now);
        }
        self.follow_leases(now, out);
    }

    /// Makes what is there follow what was decided. Nothing is remembered of
    /// steps between: whatever happened, this looks at where each grant is.
    pub(super) fn follow_leases(&mut self, now: u64, out: &mut Vec<Action>) {
        let names: BTreeSet<String> =
            self.grants.iter().filter(|(_, g)| g.leased).map(|(_, g)| g.function.clone()).collect();
        self.leases.pools.retain(|name, _| names.contains(name));
        for name in names {
            self.follow(now, &name, out);
        }
    }

    fn follow(&mut self, now: u64, name: &str, out: &mut Vec<Action>) {
        let hardware = self.catalog.functions.get(name).and_then(|f| f.hardware.as_ref());
        let hardware = hardware.filter(|h| h.leased);
        let vfs = hardware.map_or(0, |h| h.instances.min(u32::from(VFS_MAX)) as u16);
        let usual_ns = hardware.map_or(0, |h| h.usual_gain_ns) as f64;
        let to = hardware.map(|h| h.location);
        let settings = self.leases.settings;
        let known = self.leases.pools.get(name).is_some_and(|p| p.vfs == vfs);
        if !known {
            let Ok(engine) = Engine::new(now, vfs, settings) else { return };
            let pool = Pool { engine, vfs, told: BTreeMap::new(), lost: BTreeMap::new() };
            self.leases.pools.insert(name.to_owned(), pool);
        }
        let mut used: BTreeSet<Vf> = BTreeSet::new();
        let mut pinned: BTreeSet<Vf> = BTreeSet::new();
        let mut compete: BTreeMap<GrantId, u32> = BTreeMap::new();
        let mut movable: Vec<Handle> = vec![];
        for (handle, g) in self.grants.iter().filter(|(_, g)| g.function == name) {
            used.extend(g.vf);
            if !g.leased {
                pinned.extend(g.vf);
                continue;
            }
            let may = self.catalog.clients.get(&g.client_id).is_some_and(|c| {
                rules::no_hardware(&self.catalog, c, name).is_none()
                    && to.is_some_and(|to| self.check_breaker(now, c.id, name, to).is_ok())
            });
            match g.state {
                GrantState::Active | GrantState::Recovering if may => {
                    compete.insert(handle.0, g.client_id);
                }
                _ => {}
            }
            if g.state == GrantState::Active {
                movable.push(handle);
            }
        }
        let pool = self.leases.pools.get_mut(name).expect("just made");
        let gone: Vec<_> = pool.engine.grants().filter(|id| !compete.contains_key(id)).collect();
        for id in gone {
            pool.engine.remove(id);
            pool.told.remove(&Handle(id));
        }
        pool.lost.retain(|_, until| *until > now);
        for vf in 0..vfs {
            if pinned.contains(&vf) || pool.lost.contains_key(&vf) {
                pool.engine.lose(now, vf);
            } else {
                pool.engine.restore(vf);
            }
        }
        for (id, client) in compete {
            if pool.engine.standing(id).is_none() {
                // Beyond the most that compete: it stays in software.
                let _ = pool.engine.add(now, id, client, vfun_leases::PRIORITY_DEFAULT, usual_ns);
            }
        }
        let holders: BTreeMap<GrantId, Vf> =
            (0..vfs).filter_map(|vf| Some((pool.engine.holder(vf)?, vf))).collect();
        for handle in movable {
            let meant = holders.get(&handle.0).copied();
            // Only what changes is marked as changed: the rest need not be noted anew.
            let Ok(g) = self.grants.get(handle) else { continue };
            let (on_vf, vf) = (g.location.is_hardware(), g.vf);
            match g.moving {
                Some(m) if m.phase != Phase::Warming => {}
                Some(m) if m.to.is_hardware() == (vf == meant) => self.advance(handle, out),
                // Nothing was told to anybody yet: it is simply not done.
                Some(_) => {
                    let g = self.grants.get_mut(handle).expect("just seen");
                    g.moving = None;
                    if !on_vf && let Some(vf) = g.vf.take() {
                        used.remove(&vf);
                    }
                }
                None if on_vf && vf != meant => {
                    self.begin_move(now, handle, Location::Software, out);
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

    fn begin_move(&mut self, now: u64, grant: Handle, to: Location, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        let (client, function) = (g.client_id, g.function.clone());
        let (service, fresh) = self.service_for(now, client, function, to);
        let g = self.grants.get_mut(grant).expect("just seen");
        g.moving = Some(Moving { to, service, phase: Phase::Warming });
        if fresh {
            self.start_service(now, service, out);
        } else if let Some(s) = self.services.get_mut(&service) {
            s.used_ms = now;
        }
        self.advance(grant, out);
    }

    /// The service that it comes from is told to let go, once the other can take over.
    fn advance(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        let (Some(m), Some(from), GrantState::Active) = (g.moving, g.service, g.state) else {
            return;
        };
        let ready = |id: &ServiceId| {
            self.services.get(id).is_some_and(|s| s.state == ServiceState::Ready)
                && !self.asked.contains(id)
        };
        if m.phase != Phase::Warming || !ready(&m.service) || !ready(&from) {
            return;
        }
        let g = self.grants.get_mut(grant).expect("just seen");
        g.moving = Some(Moving { phase: Phase::Closing, ..m });
        out.push(Action::CloseChannel { service: from, channel: grant });
    }

    /// A service can serve: moves to it go on.
    pub(super) fn advance_to(&mut self, id: ServiceId, out: &mut Vec<Action>) {
        for grant in self.moving_to(id) {
            self.advance(grant, out);
        }
    }

    /// Grants that a service does not serve yet and will.
    pub(super) fn moving_to(&self, id: ServiceId) -> Vec<Handle> {
        self.grants
            .iter()
            .filter(|(_, g)| g.service != Some(id) && g.moving.is_some_and(|m| m.service == id))
            .map(|(h, _)| h)
            .collect()
    }

    /// Whether this grant's service was told to let go of it in a move.
    pub(super) fn lets_go(&self, grant: Handle) -> bool {
        self.grants.get(grant).is_ok_and(|g| {
            g.state == GrantState::Active && g.moving.is_some_and(|m| m.phase == Phase::Closing)
        })
    }

    /// The service that it came from no longer touches the channel: the other's turn.
    pub(super) fn change_over(&mut self, now: u64, grant: Handle, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let Some(m) = g.moving else { return };
        if !m.to.is_hardware() {
            g.vf = None;
        }
        g.switches += u64::from(g.service != Some(m.service));
        (g.location, g.service) = (m.to, Some(m.service));
        match self.services.get_mut(&m.service) {
            Some(s) if s.state == ServiceState::Ready => {
                s.used_ms = now;
                let g = self.grants.get_mut(grant).expect("just seen");
                g.moving = Some(Moving { phase: Phase::Opening, ..m });
                self.open(m.service, grant, out);
            }
            Some(_) => {
                let g = self.grants.get_mut(grant).expect("just seen");
                (g.moving, g.state) = (None, GrantState::Recovering);
            }
            None => {
                let g = self.grants.get_mut(grant).expect("just seen");
                (g.moving, g.state, g.service) = (None, GrantState::Recovering, None);
                self.serve(now, grant, out);
            }
        }
    }

    /// A service that grants were to move to cannot take them: they stay where
    /// they are, or go back there.
    pub(super) fn moves_failed(&mut self, now: u64, id: ServiceId) {
        for grant in self.moving_to(id) {
            let g = self.grants.get_mut(grant).expect("just listed");
            let Some(m) = g.moving else { continue };
            g.moving = match (m.phase, g.service) {
                (Phase::Closing, Some(from)) => {
                    Some(Moving { to: g.location, service: from, phase: Phase::Closing })
                }
                _ => None,
            };
            if m.to.is_hardware() {
                self.leave_vf(now, grant);
            }
        }
    }

    /// A VF failed a grant: nobody is given it for a while.
    fn leave_vf(&mut self, now: u64, grant: Handle) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let Some(vf) = g.vf.take() else { return };
        if let Some(pool) = self.leases.pools.get_mut(&g.function) {
            pool.lost.insert(vf, now + LEASE_LOST_MS);
            pool.engine.lose(now, vf);
        }
    }

    /// A grant's service is gone, or cannot serve it: if it was moving, it goes
    /// on there; if it held a VF, it goes on in software. What is posted waits
    /// for whoever takes it up. False if neither is so.
    pub(super) fn fall_back(&mut self, now: u64, grant: Handle, out: &mut Vec<Action>) -> bool {
        let Some(g) = self.grants.get_mut(grant) else { return false };
        if !g.leased || !matches!(g.state, GrantState::Active | GrantState::Recovering) {
            return false;
        }
        let moving = g.moving.take().filter(|m| g.service != Some(m.service));
        if let Some(m) = moving {
            g.state = GrantState::Recovering;
            if g.location.is_hardware() {
                self.leave_vf(now, grant);
            }
            let g = self.grants.get_mut(grant).expect("just seen");
            (g.location, g.service) = (m.to, Some(m.service));
            g.switches += 1;
            if self.services.get(&m.service).is_some_and(|s| s.state == ServiceState::Ready) {
                self.open(m.service, grant, out);
            }
            return true;
        }
        let software =
            self.catalog.functions.get(&g.function).is_some_and(|f| f.software.is_some());
        if !g.location.is_hardware() || !software {
            return false;
        }
        (g.state, g.location, g.service) = (GrantState::Recovering, Location::Software, None);
        g.switches += 1;
        self.leave_vf(now, grant);
        self.serve(now, grant, out);
        true
    }

    /// What was told to nobody was not begun: another manager begins it anew.
    pub(super) fn forget_warming(&mut self) {
        let warming = |g: &Grant| g.moving.is_some_and(|m| m.phase == Phase::Warming);
        let all: Vec<_> = self.grants.iter().filter(|(_, g)| warming(g)).map(|(h, _)| h).collect();
        for grant in all {
            let g = self.grants.get_mut(grant).expect("just listed");
            g.moving = None;
            if !g.location.is_hardware() {
                g.vf = None;
            }
        }
    }

    /// The lowest VF of a function that nobody is on.
    pub(super) fn free_vf(&self, function: &str, instances: u32) -> Option<Vf> {
        let used: BTreeSet<Vf> = self
            .grants
            .iter()
            .filter(|(_, g)| g.function == function)
            .filter_map(|(_, g)| g.vf)
            .collect();
        (0..instances.min(u32::from(VFS_MAX)) as u16).find(|vf| !used.contains(vf))
    }
}
