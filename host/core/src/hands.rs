//! The hands of the [contest](super::contest) where channels compete: who competes, and
//! how one comes to the VF that it is to have, by a [switch](super::switch). Hands of
//! another kind need no more than this of the contest: a [`Field`] in, a [`Plan`] out.
//!
//! A VF is another grant's only when nobody is on it: [`Lease::vf`](super::grant::Lease)
//! is set before the first step of a move to it, and cleared when the service that comes
//! from it has let go.

use super::catalog::Hardware;
use super::contest::{Competitor, Field, Plan};
use super::grant::{Grant, Stage};
use super::grants::Key;
use super::services::{Owner, WARMING_MS};
use super::switch::{Moving, Phase};
use super::{Action, Core, rules};
use std::collections::{BTreeMap, BTreeSet};
use vfun_leases::{VFS_MAX, Vf};
use vfun_wire::Handle;
use vfun_wire::message::Location;
use vfun_wire::status::BreakReason;

/// A grant that may be moved, as it is before it follows the plan.
struct Follower {
    client: u32,
    function: String,
    /// Whether it is on hardware.
    on_vf: bool,
    vf: Option<Vf>,
    meant: Option<Vf>,
    moving: Option<Moving>,
    /// Its client may not have hardware any more.
    denied: bool,
    /// Its VF is not its client's any more: lent to another, or denied.
    owed: bool,
    /// It has kept what is owed for too long.
    late: bool,
}

impl Core {
    /// Makes the grants of a device follow the plan for it.
    pub(super) fn follow(&mut self, now: u64, device: &str, out: &mut Vec<Action>) {
        // Each of its functions has a manifest: none is given what another lacks.
        let all = self.catalog.functions.values().filter_map(|f| f.hardware.as_ref());
        let vfs = all.filter(|h| h.leased && h.device == device).map(|h| h.instances).min();
        let vfs = vfs.unwrap_or(0).min(u32::from(VFS_MAX)) as u16;
        if !self.leases.begin(now, device, vfs) {
            return;
        }
        let mut used: BTreeSet<Vf> = BTreeSet::new();
        let mut movable: Vec<Handle> = vec![];
        let field = self.field(now, device, &mut used, &mut movable);
        let Some(contest) = self.leases.contests.get_mut(device) else { return };
        let plan = contest.plan(now, field);
        for handle in movable {
            if let Some(f) = self.follower(now, handle, &plan) {
                self.follow_plan(now, handle, device, &f, &mut used, out);
            }
        }
    }

    /// Who competes for a device; which VFs are `used`, and which grants are `movable`.
    fn field(
        &self,
        now: u64,
        device: &str,
        used: &mut BTreeSet<Vf>,
        movable: &mut Vec<Handle>,
    ) -> Field {
        let mut field = Field::default();
        // Of each client and function once: a client may have a thousand grants of one.
        let mut asked: BTreeMap<(u32, &str), Option<Competitor>> = BTreeMap::new();
        for handle in self.grants.of(&Key::Device(device.to_owned())) {
            let Ok(g) = self.grants.get(handle) else { continue };
            used.extend(g.vf());
            if !self.moves(g) {
                field.pinned.extend(g.vf());
                continue;
            }
            let (client, function) = (g.holder.client_id, g.subject.function.as_str());
            let competes = *asked
                .entry((client, function))
                .or_insert_with(|| self.competes(now, client, function, device));
            if let Some(c) = competes.filter(|_| g.stage.goes_on()) {
                field.competitors.insert(handle.0, c);
            }
            if matches!(g.stage, Stage::Active { .. }) {
                movable.push(handle);
            }
        }
        field
    }

    /// How a grant is, seen by the plan. Notes since when it keeps what is owed.
    fn follower(&mut self, now: u64, handle: Handle, plan: &Plan) -> Option<Follower> {
        let g = self.grants.get(handle).ok()?;
        let (client, vf, moving) = (g.holder.client_id, g.vf(), g.moving());
        let on_vf = g.subject.location.is_hardware();
        let stays = moving.is_none_or(|m| m.phase == Phase::Warming);
        let denied = on_vf && self.denies_hardware(g);
        let owed = denied || plan.lent(vf, client);
        let late = if on_vf && stays && owed {
            let since = *self.leases.kept.entry(handle).or_insert(now);
            now.saturating_sub(since) > WARMING_MS
        } else {
            self.leases.kept.remove(&handle);
            false
        };
        let function = g.subject.function.clone();
        let meant = plan.meant(handle.0);
        Some(Follower { client, function, on_vf, vf, meant, moving, denied, owed, late })
    }

    /// The next step of a grant towards where it is meant to be. Only what changes is
    /// marked as changed: the rest need not be noted anew.
    fn follow_plan(
        &mut self,
        now: u64,
        handle: Handle,
        device: &str,
        f: &Follower,
        used: &mut BTreeSet<Vf>,
        out: &mut Vec<Action>,
    ) {
        let (vf, meant) = (f.vf, f.meant);
        match f.moving {
            Some(m) if !m.phase.may_be_called_off() => {}
            Some(m) if f.late && self.waits_for_its_turn(now, m) => {
                let why = self.why_software_waits(now, f);
                if let Some(g) = self.grants.get_mut(handle) {
                    g.set_moving(None);
                }
                self.leave_for_others(handle, BreakReason::NoService, f.denied, why, out);
            }
            Some(m) if m.to.is_hardware() == (vf == meant) => self.advance(handle, out),
            Some(_) => {
                self.call_off(handle, out);
                // Nobody was told of it yet: it is free at once.
                let has = self.grants.get(handle).ok().and_then(Grant::vf);
                if let (Some(vf), None) = (vf, has) {
                    used.remove(&vf);
                }
            }
            // It was tried again and again, and fails before it is held back.
            None if f.late && vf != meant => {
                let why = "does not start";
                self.leave_for_others(handle, BreakReason::NoService, f.denied, why, out);
            }
            None if f.on_vf && vf != meant => self.go_to_software(now, handle, f, out),
            None if !f.on_vf => {
                let to = self.leased_hardware(&f.function, device).map(|h| h.location);
                let (Some(to), Some(vf)) = (to, meant) else { return };
                if used.insert(vf) {
                    if let Some(g) = self.grants.get_mut(handle) {
                        g.set_vf(Some(vf));
                    }
                    self.begin_move(now, handle, to, out);
                }
            }
            None => {}
        }
    }

    /// Software that does not come up is not tried all day. Who crashes it does not keep a
    /// VF by that which somebody else is lent, or which its client may not have any more.
    fn go_to_software(&mut self, now: u64, handle: Handle, f: &Follower, out: &mut Vec<Action>) {
        match self.check_breaker(now, Owner::Client(f.client), &f.function, Location::Software) {
            Ok(()) => self.begin_move(now, handle, Location::Software, out),
            Err(_) if f.owed => {
                let why = "crashed too often";
                self.leave_for_others(handle, BreakReason::CrashLoop, f.denied, why, out);
            }
            Err(_) => {}
        }
    }

    /// How a client's grants of a function compete for a device, if they may.
    fn competes(&self, now: u64, client: u32, function: &str, device: &str) -> Option<Competitor> {
        let hardware = self.leased_hardware(function, device)?;
        let c = self.catalog.clients.get(&client)?;
        let owner = Owner::Client(c.id);
        if rules::no_hardware(&self.catalog, c, function).is_some()
            || self.check_breaker(now, owner, function, hardware.location).is_err()
        {
            return None;
        }
        let priority = self.catalog.policy.of(&c.name, function).lease_priority;
        Some(Competitor { owner: c.id, priority, usual_ns: hardware.usual_gain_ns as f64 })
    }

    /// Whether the manifest of a grant's client, or policy, does not let it have hardware.
    fn denies_hardware(&self, g: &Grant) -> bool {
        let client = self.catalog.clients.get(&g.holder.client_id);
        client.is_some_and(|c| rules::no_hardware(&self.catalog, c, &g.subject.function).is_some())
    }

    /// Whether a grant may be moved. Where its function was declared anew, or
    /// removed, it stays on what it was granted: another service would be of the
    /// new one.
    pub(super) fn moves(&self, g: &Grant) -> bool {
        let old = g.service().and_then(|s| self.services.get(&s)).is_some_and(|s| s.outdated);
        g.movable() && (!old || g.moving().is_some())
    }

    /// A VF failed a grant: its client is not given it for a while.
    pub(super) fn leave_vf(&mut self, now: u64, grant: Handle) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let Some(lease) = &mut g.lease else { return };
        let Some(vf) = lease.vf.take() else { return };
        if let Some(contest) = self.leases.contests.get_mut(&lease.device) {
            contest.failed(now, g.holder.client_id, vf);
        }
    }

    /// A service died on the VF of a grant that is over.
    pub(super) fn leave_vf_of(&mut self, now: u64, grant: Handle) {
        let on_it =
            |g: &Grant| g.movable() && g.also().is_none() && g.subject.location.is_hardware();
        if self.grants.get(grant).is_ok_and(on_it) {
            self.leave_vf(now, grant);
        }
    }

    /// Why the software that a grant is to go to still waits for its turn.
    fn why_software_waits(&mut self, now: u64, f: &Follower) -> &'static str {
        let owner = Owner::Client(f.client);
        let crashes = self.check_breaker(now, owner, &f.function, Location::Software).is_err();
        match !crashes && self.starts.wait(now, &owner) > 0 {
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
        let Some(service) = self.grants.get(grant).ok().and_then(Grant::service) else { return };
        let vf = match denied {
            true => "its client may not have its VF any more",
            false => "its VF is lent to another",
        };
        let why = format!("{vf}, and its software {software}");
        self.leave_broken(grant, Some(service), Some(reason), &why, out);
        out.push(Action::CloseChannel { service, channel: grant });
    }

    /// Something was wrong with a grant's VF: people are shown it.
    pub(super) fn note_trouble(&mut self, grant: Handle, what: &str) {
        if let Ok(g) = self.grants.get(grant)
            && let Some(lease) = &g.lease
            && let Some(contest) = self.leases.contests.get_mut(&lease.device)
        {
            let vf = lease.vf.map_or(String::new(), |vf| format!("VF {vf}, "));
            contest.trouble = Some(format!("{vf}'{}': {what}", g.subject.function));
        }
    }

    /// A function's hardware, if it is that of this device and leased.
    fn leased_hardware(&self, function: &str, device: &str) -> Option<&Hardware> {
        let hardware = self.catalog.functions.get(function)?.hardware.as_ref();
        hardware.filter(|h| h.leased && h.device == device)
    }

    /// The lowest VF of a device that nobody is on and that this client may have.
    pub(super) fn free_vf(&self, client: u32, hardware: &Hardware) -> Option<Vf> {
        let all = self.grants.of(&Key::Device(hardware.device.clone())).into_iter();
        let used: BTreeSet<Vf> = all.filter_map(|h| self.grants.get(h).ok()?.vf()).collect();
        let contest = self.leases.contests.get(&hardware.device);
        let lost = |vf: &Vf| contest.is_some_and(|c| c.failures.keeps_off(self.now, client, *vf));
        (0..hardware.instances.min(u32::from(VFS_MAX)) as u16)
            .find(|vf| !used.contains(vf) && !lost(vf))
    }
}
