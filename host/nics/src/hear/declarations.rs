//! Pools and VMs, as an operator declares them, and the VFs that pools have.

use crate::contest::Contest;
use crate::declared::{Pool, Vm as DeclaredVm};
use crate::event::{PoolName, VfFound, VfId};
use crate::limits::*;
use crate::nics::{Nics, Who, short};
use crate::vf::Vf;
use crate::vm::{Contender, Pending, moves};
use std::collections::BTreeSet;
use vfun_admin::VmName;

impl Nics {
    pub(super) fn declare_pool(&mut self, name: PoolName, pool: Pool) {
        if let Some(contest) = self.pools.get_mut(&name) {
            if let Err(why) = contest.declare(pool) {
                self.audit(format!("pool {name} keeps its settings: {why}"));
            }
            return self.push(Who::Pool(name));
        }
        if self.pools.len() >= POOLS_MAX {
            return self.audit(format!("pool {name} is not taken: {POOLS_MAX} are there already"));
        }
        match Contest::new(self.now, pool) {
            Err(why) => return self.audit(format!("pool {name} is not taken: {why}")),
            Ok(contest) => drop(self.pools.insert(name.clone(), contest)),
        }
        let vms: Vec<VmName> = self
            .vms
            .iter()
            .filter(|(_, vm)| vm.declared.pool == name)
            .map(|(name, _)| name.clone())
            .collect();
        vms.iter().for_each(|vm| self.enter_pool(vm));
        // VFs of a pool of this name that was taken away, and are on their way back.
        for (id, _) in self.vfs_of(&name) {
            self.seat(&id, &name);
        }
        self.push(Who::Pool(name));
    }

    pub(super) fn remove_pool(&mut self, name: &PoolName) {
        if self.pools.remove(name).is_none() {
            return;
        }
        for (id, _) in self.vfs_of(name) {
            self.vfs.get_mut(&id).expect("just listed").slot = None;
            self.push(Who::Vf(id));
        }
        let vms = self.vms.iter().filter(|(_, vm)| vm.declared.pool == *name);
        let vms: Vec<Who> = vms.map(|(name, _)| Who::Vm(name.clone())).collect();
        vms.into_iter().for_each(|vm| self.push(vm));
        self.audit(format!("pool {name} is taken away: its VFs are taken from their VMs"));
    }

    fn vfs_of(&self, pool: &PoolName) -> Vec<(VfId, bool)> {
        let of = self.vfs.iter().filter(|(_, vf)| vf.pool.as_ref() == Some(pool));
        of.map(|(id, vf)| (id.clone(), vf.listed)).collect()
    }

    fn seat(&mut self, id: &VfId, pool: &PoolName) {
        let slot = self.pools.get_mut(pool).and_then(|contest| contest.take_slot(id));
        let vf = self.vfs.get_mut(id).expect("a VF that is known");
        (vf.pool, vf.slot) = (Some(pool.clone()), slot);
        self.push(Who::Vf(id.clone()));
    }

    pub(super) fn list_vfs(&mut self, pool: &PoolName, found: Vec<VfFound>) {
        let known = self.vfs_of(pool);
        let declared = self.pools.contains_key(pool);
        let mut here = BTreeSet::new();
        for VfFound { vf: id, unusable, clean } in found.into_iter().take(POOL_VFS_MAX.into()) {
            if self.vfs.get(&id).is_some_and(|vf| vf.pool.as_ref().is_some_and(|p| p != pool)) {
                self.audit(format!("VF {id} is in two pools: {pool} does not get it"));
                continue;
            }
            if !self.vfs.contains_key(&id) {
                if !declared {
                    continue;
                }
                self.vfs.insert(id.clone(), Vf::new(self.now, clean));
            }
            let vf = self.vfs.get_mut(&id).expect("just put there");
            vf.list(unusable.map(short), clean);
            let seated = vf.slot.is_some();
            here.insert(id.clone());
            match declared && !seated {
                true => self.seat(&id, pool),
                false => self.push(Who::Vf(id)),
            }
        }
        for (id, listed) in known {
            if listed && !here.contains(&id) {
                self.vfs.get_mut(&id).expect("just listed").listed = false;
                self.audit(format!("VF {id} is not there any more"));
                self.push(Who::Vf(id));
            }
        }
    }

    pub(super) fn declare_vm(&mut self, name: VmName, declared: DeclaredVm) {
        let Some(vm) = self.vms.get_mut(&name) else {
            return self.new_vm(name, declared);
        };
        match moves(&vm.declared, &declared) {
            true => vm.pending = Some(Pending::Declare(declared)),
            false => (vm.declared, vm.pending) = (declared, None),
        }
        self.push_vfs_of(&name);
        self.push(Who::Vm(name));
    }

    fn new_vm(&mut self, name: VmName, declared: DeclaredVm) {
        if self.vms.len() >= VMS_MAX {
            return self.audit(format!("VM {name} is not taken: {VMS_MAX} are there already"));
        }
        self.next_id += 1;
        self.vms.insert(name.clone(), Contender::new(self.now, self.next_id, declared));
        self.enter_pool(&name);
        self.push_vfs_of(&name);
        self.push(Who::Vm(name));
    }

    /// Lets a VM take part in its pool, if that is declared.
    pub(crate) fn enter_pool(&mut self, name: &VmName) {
        let Some(vm) = self.vms.get(name) else { return };
        let Some(contest) = self.pools.get_mut(&vm.declared.pool) else { return };
        // As many VMs as may be declared find room in a contest.
        let entered = contest.enter(self.now, vm.id, name);
        debug_assert!(entered.is_ok(), "{name}: {entered:?}");
        if !vm.is_known() {
            contest.unasked.insert(name.clone());
        }
        self.push(Who::Vm(name.clone()));
    }

    pub(super) fn remove_vm(&mut self, name: &VmName) {
        let Some(vm) = self.vms.get_mut(name) else { return };
        vm.pending = Some(Pending::Remove);
        self.push(Who::Vm(name.clone()));
    }

    /// Does what was put off until the VM has no VF.
    pub(crate) fn apply_pending(&mut self, name: &VmName) {
        let Some(vm) = self.vms.get_mut(name) else { return };
        if self.owned.contains_key(name) {
            return;
        }
        let Some(pending) = vm.pending.take() else { return };
        let (pool, id) = (vm.declared.pool.clone(), vm.id);
        if let Some(contest) = self.pools.get_mut(&pool) {
            contest.leave(id);
        }
        self.forget_seen(name);
        match pending {
            Pending::Remove => {
                self.vms.remove(name);
                self.history.forget_rates(name);
                self.migration_ended(name);
            }
            Pending::Declare(declared) => {
                let vm = self.vms.get_mut(name).expect("just looked at");
                let counts = (vm.abrupt, vm.moves, vm.failed);
                let audit = vm.audit;
                self.next_id += 1;
                // What is kept is what a guest must not get rid of by it.
                let back_off = (vm.back_off_until_ms, vm.back_off_ms, vm.trouble.take());
                *vm = Contender::new(self.now, self.next_id, declared);
                (vm.abrupt, vm.moves, vm.failed) = counts;
                vm.audit = audit;
                (vm.back_off_until_ms, vm.back_off_ms, vm.trouble) = back_off;
                self.enter_pool(name);
            }
        }
        self.wake_unknown(&pool);
    }
}
