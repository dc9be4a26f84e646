//! The next step of a VF. Each is taken only when the op before it was answered, and each
//! is written so that it may be asked for at any time and any number of times.

use crate::event::VfId;
use crate::limits::*;
use crate::nics::{Nics, Who};
use crate::vf::{State, Step};
use crate::vm::Seen;
use vfun_admin::VmName;
use vfun_bond::Path;

impl Nics {
    pub(crate) fn step_vf(&mut self, id: &VfId) {
        self.advance(id);
        self.sync_slot(id);
    }

    fn advance(&mut self, id: &VfId) {
        let Some(vf) = self.vfs.get(id).filter(|vf| vf.op.is_none()) else { return };
        let is_missing = matches!(vf.state, State::Missing { .. });
        if vf.pool.is_some() && !vf.listed && !is_missing {
            let (vm, again_ms) = (vf.state.owner().cloned(), self.now);
            return self.set(id, State::Missing { vm, again_ms });
        }
        match vf.state.clone() {
            State::Unknown { owner } => self.find_out(id, owner),
            State::Free => self.give(id),
            State::Joining { vm, until_ms } => self.join(id, &vm, until_ms),
            State::Held { vm } => self.hold(id, &vm),
            State::Leaving { vm, until_ms, settled_ms } => {
                self.leave(id, &vm, until_ms, settled_ms);
            }
            State::Unplugging { vm, tries, again_ms } => self.let_go(id, &vm, tries, again_ms),
            State::Quarantined { vm, again_ms, .. } => self.wait_out(id, vm, again_ms),
            State::Missing { vm, again_ms } => self.miss(id, vm, again_ms),
            // These go on with the answer to their op.
            State::Preparing { .. } | State::Plugging { .. } | State::Resetting => {}
        }
    }

    /// Whether a VM's hypervisor said that a VF is not in it, after the last thing that was
    /// done for that VF.
    fn is_gone(&self, id: &VfId, vm: &VmName) -> bool {
        let (Some(vf), Some(vm)) = (self.vfs.get(id), self.vms.get(vm)) else { return false };
        vf.gone || (vm.is_known() && vm.seen_at > vf.answered && !vm.plugged.contains(id))
    }

    /// It is in no VM: what its owner left is taken away. If another VM is seen with it
    /// nobody gets it.
    pub(crate) fn release(&mut self, id: &VfId) {
        self.vfs.get_mut(id).expect("a VF that is being stepped").gone = false;
        if let Some(vm) = self.seen_in.get(id).and_then(|vms| vms.first()).cloned() {
            let why = format!("VM {vm} has it, by its hypervisor, and was not given it");
            return self.quarantine(id, Some(vm), why);
        }
        self.set(id, State::Resetting);
        self.begin_step(id, Step::Reset, None);
    }

    /// Counts a VF that went without its agent's word.
    fn count_abrupt(&mut self, name: &VmName) {
        if let Some(vm) = self.vms.get_mut(name) {
            vm.abrupt = vm.abrupt.saturating_add(1);
        }
    }

    pub(crate) fn unplug(&mut self, id: &VfId, vm: &VmName) {
        let again_ms = self.now;
        self.set(id, State::Unplugging { vm: vm.clone(), tries: 0, again_ms });
    }

    fn begin_leave(&mut self, id: &VfId, vm: &VmName) {
        let until_ms = self.now.saturating_add(LEAVE_MS);
        self.set(id, State::Leaving { vm: vm.clone(), until_ms, settled_ms: None });
    }

    /// After a start, or a new VF: whose it is.
    fn find_out(&mut self, id: &VfId, owner: Option<VmName>) {
        let vf = &self.vfs[id];
        let (listed, dirty) = (vf.listed, vf.dirty);
        let seen: Vec<VmName> = self.seen_in.get(id).into_iter().flatten().cloned().collect();
        let known = |vm: &VmName| self.vms.get(vm).is_some_and(|vm| vm.is_known());
        if let Some(owner) = &owner
            && !known(owner)
        {
            return;
        }
        match (&seen[..], &owner) {
            ([], Some(_)) if !listed => self.set(id, State::Unknown { owner: None }),
            ([], Some(_)) => self.release(id),
            ([], None) => {
                let pool = self.vfs[id].pool.as_ref();
                let asked = match pool.and_then(|pool| self.pools.get(pool)) {
                    Some(contest) => contest.unasked.is_empty(),
                    None => pool.is_some(),
                };
                match asked {
                    true if dirty => self.release(id),
                    true => self.set(id, State::Free),
                    false => {}
                }
            }
            ([vm], owner) if owner.as_ref().is_none_or(|owner| owner == vm) && listed => {
                self.adopt(id, vm);
            }
            _ if !listed => {}
            (all, _) => {
                let vm = owner.unwrap_or_else(|| all[0].clone());
                self.quarantine(id, Some(vm), "more than one VM has to do with it".into());
            }
        }
    }

    /// A VM has it already: it keeps it, if it may.
    fn adopt(&mut self, id: &VfId, vm: &VmName) {
        let has_another = self.owned.get(vm).is_some_and(|all| all.iter().any(|v| v != id));
        if has_another {
            return self.unplug(id, vm);
        }
        let until_ms = self.now.saturating_add(JOIN_MS);
        self.set(id, State::Joining { vm: vm.clone(), until_ms });
        self.step_vm(vm);
        let (now, vf) = (self.now, &self.vfs[id]);
        let (Some(pool), Some(slot)) = (&vf.pool, vf.slot) else { return };
        let (Some(contest), Some(of)) = (self.pools.get_mut(pool), self.vms.get(vm)) else {
            return;
        };
        if of.declared.pool == *pool
            && contest.engine.terms(of.id).is_some_and(|t| t.stand != vfun_leases::Stand::Out)
        {
            contest.engine.restore(slot);
            contest.engine.hold(now, of.id, slot);
        }
    }

    /// Nobody has it.
    fn give(&mut self, id: &VfId) {
        let vf = &self.vfs[id];
        if vf.pool.as_ref().is_none_or(|pool| !self.pools.contains_key(pool)) {
            return self.forget_vf(id);
        }
        if self.seen_in.contains_key(id) {
            return self.set(id, State::Unknown { owner: None });
        }
        if vf.unusable.is_some() {
            return;
        }
        if !vf.clean {
            return self.release(id);
        }
        let Some(name) = self.desired(id).cloned() else { return };
        let Some(vm) = self.vms.get(&name) else { return };
        if self.owned.contains_key(&name) || self.hindrance(&name, vm).is_some() {
            return;
        }
        self.set(id, State::Preparing { vm: name.clone() });
        self.begin_step(id, Step::Prepare, Some(&name));
    }

    fn join(&mut self, id: &VfId, vm: &VmName, until_ms: u64) {
        if self.is_gone(id, vm) {
            return self.lost(id, vm);
        }
        if self.desired(id) != Some(vm) {
            return self.begin_leave(id, vm);
        }
        if self.obeys(vm, Path::Vf) {
            self.set(id, State::Held { vm: vm.clone() });
            let (pool, now) = (self.vfs[id].pool.clone(), self.now);
            if let Some(traffic) = self.traffic_mut(vm) {
                traffic.begin_hold();
            }
            let Some(v) = self.vms.get_mut(vm) else { return };
            v.astray_ms = None;
            v.moves = v.moves.saturating_add(1);
            if let Some(contest) = pool.and_then(|pool| self.pools.get_mut(&pool)) {
                contest.engine.begin_turn(now, v.id);
            }
            return self.audit_vm(vm, &format!("it uses {id}"));
        }
        if self.now >= until_ms {
            let s = JOIN_MS / 1000;
            self.fail(vm, &format!("its agent did not use {id} within {s} s"));
            return self.begin_leave(id, vm);
        }
        self.wake(until_ms, Who::Vf(id.clone()));
    }

    /// It went from its VM, and nobody asked for that.
    fn lost(&mut self, id: &VfId, vm: &VmName) {
        self.blame_loss(id, vm);
        self.release(id);
    }

    /// A VM that runs let a VF go without being asked; one that ended is not to blame.
    pub(crate) fn blame_loss(&mut self, id: &VfId, vm: &VmName) {
        if self.vms.get(vm).is_some_and(|vm| vm.seen == Seen::Runs) {
            self.count_abrupt(vm);
            self.fail(vm, &format!("{id} went away from it and nobody asked for that"));
        }
    }

    fn hold(&mut self, id: &VfId, vm: &VmName) {
        if self.is_gone(id, vm) {
            return self.lost(id, vm);
        }
        if self.desired(id) != Some(vm) {
            return self.begin_leave(id, vm);
        }
        let (obeys, now) = (self.obeys(vm, Path::Vf), self.now);
        let vf = &self.vfs[id];
        let contest = vf.pool.as_ref().and_then(|pool| self.pools.get(pool));
        let tenure_ms = contest.map_or(0, |contest| contest.declared.tenure_ms);
        let turn_ms = vf.since_ms.saturating_add(tenure_ms);
        let Some(v) = self.vms.get_mut(vm) else { return };
        if obeys && now >= turn_ms {
            (v.back_off_ms, v.trouble) = (0, None);
        }
        // Since it was first gone: who comes back and does not what it is told is not back.
        v.astray_ms = match obeys {
            true => None,
            false => v.astray_ms.or(Some(now)),
        };
        let limit_ms = v.astray_ms.map_or(u64::MAX, |at| at.saturating_add(AGENT_GONE_MS));
        if now >= limit_ms {
            let s = AGENT_GONE_MS / 1000;
            self.fail(vm, &format!("no agent said for {s} s that it uses {id}"));
            return self.begin_leave(id, vm);
        }
        self.wake(limit_ms, Who::Vf(id.clone()));
        self.wake(turn_ms, Who::Vf(id.clone()));
    }

    fn leave(&mut self, id: &VfId, vm: &VmName, until_ms: u64, settled_ms: Option<u64>) {
        if self.is_gone(id, vm) {
            return self.release(id);
        }
        if settled_ms.is_some_and(|at| self.now >= at) {
            return self.unplug(id, vm);
        }
        if !self.agents.contains_key(vm) || self.now >= until_ms {
            self.count_abrupt(vm);
            self.audit_vm(vm, &format!("{id} is unplugged without its agent's word"));
            return self.unplug(id, vm);
        }
        if settled_ms.is_none() && self.obeys(vm, Path::Paravirtual) {
            return self.begin_step(id, Step::Relearn, Some(vm));
        }
        self.wake(settled_ms.unwrap_or(until_ms), Who::Vf(id.clone()));
    }

    /// The switch sends nothing more to a VF that its agent has left, as far as that is known.
    pub(crate) fn relearned(&mut self, id: &VfId, result: Result<(), String>) {
        let State::Leaving { vm, until_ms, .. } = self.vfs[id].state.clone() else { return };
        if let Err(why) = result {
            self.audit_vm(&vm, &format!("packets may be lost as {id} leaves it: {why}"));
        }
        let settled_ms = self.now.saturating_add(SETTLE_MS);
        // The agent did its part in time.
        let until_ms = until_ms.max(settled_ms);
        self.vfs.get_mut(id).expect("just looked at").state =
            State::Leaving { vm, until_ms, settled_ms: Some(settled_ms) };
    }

    fn let_go(&mut self, id: &VfId, vm: &VmName, tries: u32, again_ms: u64) {
        if self.is_gone(id, vm) {
            self.audit_vm(vm, &format!("{id} is out of it"));
            return self.release(id);
        }
        if self.now < again_ms {
            return self.wake(again_ms, Who::Vf(id.clone()));
        }
        if tries >= UNPLUG_TRIES {
            self.fail(vm, &format!("it does not let go of {id}"));
            // The hypervisor's last word, if it refused to ask the VM.
            let refused = self.vfs[id].trouble.as_ref();
            let refused = refused.map(|t| format!(": {t}")).unwrap_or_default();
            let why = format!("VM {vm} does not let go of it{refused}");
            return self.quarantine(id, Some(vm.clone()), why);
        }
        let again_ms = self.now.saturating_add(UNPLUG_AGAIN_MS);
        self.vfs.get_mut(id).expect("just looked at").state =
            State::Unplugging { vm: vm.clone(), tries: tries + 1, again_ms };
        self.begin_step(id, Step::Unplug, Some(vm));
        self.wake(again_ms, Who::Vf(id.clone()));
    }

    fn wait_out(&mut self, id: &VfId, vm: Option<VmName>, again_ms: u64) {
        let Some(vm) = vm else {
            let pool = self.vfs[id].pool.as_ref();
            let declared = pool.is_some_and(|pool| self.pools.contains_key(pool));
            return match self.now >= again_ms {
                // Nobody gets it any more, so nobody waits for its reset.
                _ if !declared && !self.seen_in.contains_key(id) => self.forget_vf(id),
                true => self.release(id),
                false => self.wake(again_ms, Who::Vf(id.clone())),
            };
        };
        if self.is_gone(id, &vm) {
            return self.release(id);
        }
        self.evict(id, &vm, again_ms);
    }

    /// Asks a VM now and then to let go of a VF: it may have booted since.
    fn evict(&mut self, id: &VfId, vm: &VmName, again_ms: u64) {
        if self.now < again_ms {
            return self.wake(again_ms, Who::Vf(id.clone()));
        }
        if !self.vms.contains_key(vm) {
            return;
        }
        let next_ms = self.now.saturating_add(EVICT_AGAIN_MS);
        match &mut self.vfs.get_mut(id).expect("just looked at").state {
            State::Quarantined { again_ms, .. } | State::Missing { again_ms, .. } => {
                *again_ms = next_ms;
            }
            _ => {}
        }
        self.begin_step(id, Step::Unplug, Some(vm));
        self.wake(next_ms, Who::Vf(id.clone()));
    }

    fn miss(&mut self, id: &VfId, vm: Option<VmName>, again_ms: u64) {
        let (listed, seen) = (self.vfs[id].listed, self.seen_in.contains_key(id));
        match vm {
            Some(vm) if self.is_gone(id, &vm) && !seen => {
                self.set(id, State::Missing { vm: None, again_ms });
            }
            Some(vm) if listed => self.unplug(id, &vm),
            Some(vm) => self.evict(id, &vm, again_ms),
            None if listed => self.release(id),
            None => self.forget_vf(id),
        }
    }
}
