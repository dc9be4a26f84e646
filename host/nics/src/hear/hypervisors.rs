//! What hypervisors say.

use crate::event::{PoolName, VfId, VmFound};
use crate::limits::*;
use crate::nics::{Asked, Nics, Who, short};
use crate::vf::{State, Step};
use crate::vm::Seen;
use std::collections::BTreeSet;
use vfun_admin::VmName;

impl Nics {
    pub(super) fn vm_found(&mut self, name: &VmName, found: VmFound) {
        let (events, now) = (self.events, self.now);
        let Some(vm) = self.vms.get_mut(name) else { return };
        if let Some(op) = vm.inspect.take() {
            self.asked.remove(&op);
        }
        let was = vm.seen.clone();
        let (seen, plugged) = match found {
            VmFound::Unknown { why } => (Seen::Unknown { why: short(why) }, None),
            VmFound::Ended => (Seen::Ended, Some(BTreeSet::new())),
            VmFound::Runs { plugged } => {
                (Seen::Runs, Some(plugged.into_iter().take(PLUGGED_MAX).collect()))
            }
        };
        vm.inspect_wait_ms = match seen {
            Seen::Unknown { .. } => (vm.inspect_wait_ms * 2).min(INSPECT_MS_MAX),
            _ => INSPECT_MS,
        };
        vm.inspect_ms = now.saturating_add(vm.inspect_wait_ms);
        (vm.seen, vm.seen_at) = (seen, events);
        let pool = vm.declared.pool.clone();
        if let Some(plugged) = plugged {
            self.see(name, plugged);
        }
        let ended = self.vms[name].seen == Seen::Ended;
        if ended && was != Seen::Ended {
            self.ended(name);
        }
        // One that does not answer may have any of its pool's VFs.
        if self.vms[name].is_known()
            && let Some(contest) = self.pools.get_mut(&pool)
            && contest.unasked.remove(name)
        {
            self.wake_unknown(&pool);
        }
        self.push_vfs_of(name);
        self.push(Who::Vm(name.clone()));
    }

    /// VFs of a pool that wait until the hypervisors of all its VMs answered.
    pub(crate) fn wake_unknown(&mut self, pool: &PoolName) {
        if self.pools.get(pool).is_some_and(|contest| !contest.unasked.is_empty()) {
            return;
        }
        let unknown = self.vfs.iter().filter(|(_, vf)| {
            vf.pool.as_ref() == Some(pool) && matches!(vf.state, State::Unknown { .. })
        });
        let unknown: Vec<VfId> = unknown.map(|(id, _)| id.clone()).collect();
        unknown.into_iter().for_each(|id| self.push(Who::Vf(id)));
    }

    fn ended(&mut self, name: &VmName) {
        if self.migrating.contains(name) {
            self.migration_ended(name);
        }
        for id in self.owned.get(name).into_iter().flatten() {
            let vf = self.vfs.get_mut(id).expect("an owned VF is known");
            if matches!(vf.op, Some((_, Step::Unplug | Step::Plug))) {
                vf.gone = true;
            }
        }
    }

    /// Notes which VFs a hypervisor sees in a VM.
    fn see(&mut self, name: &VmName, plugged: BTreeSet<VfId>) {
        let Some(vm) = self.vms.get_mut(name) else { return };
        let old = std::mem::replace(&mut vm.plugged, plugged.clone());
        for id in old.difference(&plugged) {
            self.unsee(name, id);
        }
        for id in plugged {
            self.seen_in.entry(id.clone()).or_default().insert(name.clone());
            self.push(Who::Vf(id));
        }
    }

    fn unsee(&mut self, name: &VmName, id: &VfId) {
        if let Some(vms) = self.seen_in.get_mut(id) {
            vms.remove(name);
            if vms.is_empty() {
                self.seen_in.remove(id);
            }
        }
        self.push(Who::Vf(id.clone()));
    }

    /// A VM that is not asked any more says nothing.
    pub(super) fn forget_seen(&mut self, name: &VmName) {
        let Some(vm) = self.vms.get_mut(name) else { return };
        let op = vm.inspect.take();
        if let Some(Asked::Inspect(_)) = op.and_then(|op| self.asked.remove(&op)) {
            self.push(Who::Vm(name.clone()));
        }
        self.see(name, BTreeSet::new());
    }

    pub(super) fn deleted(&mut self, name: &VmName, id: &VfId) {
        let Some(vm) = self.vms.get_mut(name) else { return };
        vm.plugged.remove(id);
        self.unsee(name, id);
        if let Some(vf) = self.vfs.get_mut(id).filter(|vf| vf.state.owner() == Some(name)) {
            // Not yet plugged in: it is another device that is gone.
            vf.gone |= !matches!(vf.state, State::Unknown { .. } | State::Preparing { .. });
        }
    }
}
