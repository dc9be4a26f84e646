//! Leases: which grants hold a VF. For each device there is a [contest](super::contest);
//! [hands](super::hands) make grants follow what it plans. Both are looked after when
//! something happened that concerns them, and not at each event.

pub use super::contest::Usage;
use super::contest::{At, Contest};
use super::failures::Failure;
use super::grant::Grant;
use super::grants::Key;
use super::{Action, Core, ServiceId, Stage};
use std::collections::{BTreeMap, BTreeSet};
use vfun_leases::{Plan, Settings, Standing, Vf};
use vfun_wire::Handle;

/// All devices.
#[derive(Debug, Default)]
pub(super) struct Leases {
    settings: Settings,
    /// Contests by the device's name.
    pub contests: BTreeMap<String, Contest>,
    /// Grants on a VF that is lent to another client, and that are not on their way off it
    /// further than *warming*: since when, ms. Counted from when the VF was lent and not
    /// from the move: a move that keeps restarting must not reset it.
    pub kept: BTreeMap<Handle, u64>,
    /// Devices of which something changed since their contest was last looked after.
    concerned: BTreeSet<String>,
}

/// A device, for people.
#[derive(Clone, Debug)]
pub struct Device<'a> {
    /// Its name: that of its function, unless several share it.
    pub function: &'a str,
    /// How many VFs the device has.
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

impl Leases {
    /// Makes sure that there is a contest for so many VFs; false where there cannot be.
    pub fn begin(&mut self, now: u64, device: &str, vfs: u16) -> bool {
        if self.contests.get(device).is_some_and(|c| c.vfs == vfs && c.wanted) {
            return true;
        }
        let earlier = self.contests.remove(device);
        let Ok(contest) = Contest::new(now, vfs, self.settings, earlier) else { return false };
        self.contests.insert(device.to_owned(), contest);
        true
    }

    /// No grant could be on a device any more.
    fn end(&mut self, now: u64, device: &str) {
        let Some(contest) = self.contests.get_mut(device) else { return };
        contest.close(now);
        if contest.failures.is_empty() {
            self.contests.remove(device);
        }
    }
}

impl Core {
    /// Changes how VFs are leased; they move at the next decision.
    pub fn set_leases(&mut self, settings: Settings) -> Result<(), String> {
        settings.check()?;
        self.leases.settings = settings;
        for contest in self.leases.contests.values_mut() {
            contest.engine.set(settings)?;
        }
        Ok(())
    }

    /// How VFs are leased.
    pub fn lease_settings(&self) -> &Settings {
        &self.leases.settings
    }

    /// When the next decision is due, ms; `None` while there is no leased grant.
    pub fn leases_due(&self) -> Option<u64> {
        let wanted = self.leases.contests.values().filter(|c| c.wanted);
        wanted.map(|c| c.engine.due_ms()).min()
    }

    /// The grants that may move between software and a VF.
    pub fn leased(&self) -> impl Iterator<Item = (Handle, &Grant)> {
        let all = self.grants.with_lease().into_iter();
        all.filter_map(|h| Some((h, self.grants.get(h).ok().filter(|g| g.movable())?)))
    }

    /// Devices whose VFs are leased, with those that compete for them.
    pub fn devices(&self, now: u64) -> Vec<Device<'_>> {
        self.leases
            .contests
            .iter()
            .map(|(function, c)| Device {
                function,
                vfs: c.vfs,
                kept_off: c.failures.rows(now).collect(),
                trouble: c.trouble.as_deref(),
                grants: c
                    .engine
                    .grants()
                    .filter_map(|id| Some((Handle(id), c.engine.standing(id)?)))
                    .collect(),
                next: c.engine.dry_run(now),
            })
            .collect()
    }

    /// Takes in what leased grants did, and decides where it is time to.
    pub(super) fn usage(&mut self, now: u64, values: &[(Handle, Usage)], out: &mut Vec<Action>) {
        for &(handle, usage) in values {
            let Ok(g) = self.grants.get(handle) else { continue };
            let Some(lease) = &g.lease else { continue };
            let Some(contest) = self.leases.contests.get_mut(&lease.device) else { continue };
            let at = At {
                owner: g.holder.client_id,
                vf: lease.vf,
                hardware: g.subject.location.is_hardware(),
                moving: lease.moving.is_some(),
                switches: lease.switches,
            };
            contest.sample(now, handle.0, usage, &at);
        }
        self.leases.contests.values_mut().for_each(|c| c.decide(now));
        self.end_those_who_hold_up(now, out);
    }

    /// Makes what is there follow what was decided, on devices of which something changed
    /// since; with `all`, on all of them. Nothing is remembered of steps between: whatever
    /// happened, this looks at where each grant is.
    pub(super) fn follow_leases(&mut self, now: u64, all: bool, out: &mut Vec<Action>) {
        let quiet = !self.grants.is_stale();
        let touched = self.services.take_touched();
        let mut devices = std::mem::take(&mut self.leases.concerned);
        devices.extend(self.grants.settle());
        devices.extend(self.concerned_by(&touched));
        if all {
            devices.extend(self.leases.contests.keys().cloned());
            devices
                .extend(self.leased().filter_map(|(_, g)| Some(g.lease.as_ref()?.device.clone())));
        }
        if quiet && touched.is_empty() && devices.is_empty() && !all {
            return;
        }
        let grants = &self.grants;
        self.leases.kept.retain(|handle, _| {
            let stays = |g: &Grant| g.movable() && matches!(g.stage, Stage::Active { .. });
            grants.get(*handle).is_ok_and(stays)
        });
        for device in devices {
            match self.grants.any(&Key::Device(device.clone()), Grant::movable) {
                true => self.follow(now, &device, out),
                false => self.leases.end(now, &device),
            }
        }
        self.take_what_is_left(now, out);
        // What this changed itself is looked at with the next event.
        let touched = self.services.take_touched();
        let mut devices = self.grants.settle();
        devices.extend(self.concerned_by(&touched));
        self.leases.concerned = devices;
    }

    /// Devices that services may concern: those of grants of their functions, and more.
    fn concerned_by(&self, services: &BTreeSet<ServiceId>) -> BTreeSet<String> {
        let moves = |id: &ServiceId| {
            let s = self.services.get(id);
            s.is_some_and(|s| self.grants.any(&Key::Movable(s.function.clone()), |_| true))
        };
        match services.iter().any(moves) {
            true => self.leases.contests.keys().cloned().collect(),
            false => BTreeSet::new(),
        }
    }

    /// How many grants' counters are kept.
    #[cfg(test)]
    pub(super) fn told_of_leases(&self) -> usize {
        self.leases.contests.values().map(Contest::told).sum()
    }
}
