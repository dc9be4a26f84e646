//! Answers to what was to be done.

use crate::event::{OpId, VfId, VmFound};
use crate::hindrance::Hindrance;
use crate::limits::*;
use crate::nics::{Asked, Nics, Who, short};
use crate::vf::{State, Step};

impl Nics {
    pub(super) fn done(&mut self, op: OpId, result: Result<(), String>) {
        match (self.asked.remove(&op), result) {
            (None, _) => {}
            (Some(Asked::Inspect(name)), result) => {
                let Some(vm) = self.vms.get_mut(&name).filter(|vm| vm.inspect == Some(op)) else {
                    return;
                };
                vm.inspect = None;
                match result {
                    Err(why) => self.vm_found(&name, VmFound::Unknown { why }),
                    // The hypervisor's word was lost on the way: it is asked again.
                    Ok(()) => {
                        vm.inspect_ms = self.now.saturating_add(INSPECT_MS);
                        self.push(Who::Vm(name));
                    }
                }
            }
            (Some(Asked::Vf(id)), result) => {
                let events = self.events;
                let Some(vf) = self.vfs.get_mut(&id) else { return };
                let Some((_, step)) = vf.op.take().filter(|(current, _)| *current == op) else {
                    return;
                };
                vf.answered = events;
                let result = result.map_err(short);
                vf.trouble = result.as_ref().err().cloned();
                self.step_done(&id, step, result);
                self.push(Who::Vf(id));
            }
        }
    }

    fn step_done(&mut self, id: &VfId, step: Step, result: Result<(), String>) {
        match (step, result) {
            (Step::Prepare, Ok(())) => self.prepared(id),
            (Step::Prepare, Err(why)) => {
                // Else the contest, which sees no failure, gives it the VF over and over.
                if let Some(vm) = self.vfs[id].state.owner().cloned() {
                    self.fail(&vm, &format!("{id} cannot be made ready for it: {why}"));
                }
                self.quarantine(id, None, format!("it cannot be made ready: {why}"));
            }
            (Step::Plug, result) => self.plugged(id, result),
            (Step::Relearn, result) => self.relearned(id, result),
            // Whether it is gone is asked.
            (Step::Unplug, _) => {}
            (Step::Reset, Ok(())) => {
                let vf = self.vfs.get_mut(id).expect("just looked at");
                // Somebody else has it meanwhile: it is reset again after that.
                (vf.clean, vf.dirty, vf.resets_failed) = (vf.unusable.is_none(), false, 0);
                self.set(id, State::Free);
            }
            (Step::Reset, Err(why)) => {
                self.quarantine(id, None, format!("it cannot be reset: {why}"));
            }
        }
    }

    /// Keeps a VF from everybody, and looks at it again later.
    pub(crate) fn quarantine(&mut self, id: &VfId, vm: Option<vfun_admin::VmName>, why: String) {
        let vf = self.vfs.get_mut(id).expect("a VF that is being stepped");
        let wait = match vm {
            Some(_) => EVICT_AGAIN_MS,
            None => {
                let wait = RESET_AGAIN_MS_MIN << vf.resets_failed.min(16);
                vf.resets_failed += 1;
                wait.min(RESET_AGAIN_MS_MAX)
            }
        };
        let again_ms = self.now.saturating_add(wait);
        self.audit(format!("VF {id} is quarantined: {why}"));
        self.set(id, State::Quarantined { vm, why, again_ms });
    }

    fn prepared(&mut self, id: &VfId) {
        let vf = &self.vfs[id];
        let State::Preparing { vm } = vf.state.clone() else { return };
        let elsewhere = self.seen_in.contains_key(id);
        let hindrance = self.vms.get(&vm).map(|v| self.hindrance(&vm, v));
        if elsewhere || hindrance != Some(None) || !vf.listed || self.desired(id) != Some(&vm) {
            // Else a guest could have VFs made ready without end.
            if let Some(Some(Hindrance::NoAgent | Hindrance::NoReport)) = hindrance {
                self.fail(&vm, &format!("its agent went while {id} was made ready for it"));
            }
            return self.release(id);
        }
        self.vfs.get_mut(id).expect("just looked at").gone = false;
        self.set(id, State::Plugging { vm: vm.clone() });
        self.begin_step(id, Step::Plug, Some(&vm));
    }

    fn plugged(&mut self, id: &VfId, result: Result<(), String>) {
        let vf = &self.vfs[id];
        let State::Plugging { vm } = vf.state.clone() else { return };
        // Whether a plug that failed, or was overtaken by the VM's end, left something
        // behind is not known: it goes the way of one that is plugged in.
        if let Err(why) = result {
            self.fail(&vm, &format!("{id} could not be plugged in ({why})"));
            return self.unplug(id, &vm);
        }
        if vf.gone {
            self.vfs.get_mut(id).expect("just looked at").gone = false;
            self.blame_loss(id, &vm);
            return self.unplug(id, &vm);
        }
        self.audit_vm(&vm, &format!("{id} is plugged in"));
        let until_ms = self.now.saturating_add(JOIN_MS);
        self.set(id, State::Joining { vm, until_ms });
    }
}
