//! The next step of a VM: ask its hypervisor, let it take part or not, order its agent.

use crate::event::{Action, VfId};
use crate::limits::*;
use crate::nics::{Nics, Who};
use crate::vf::State;
use crate::vm::Seen;
use vfun_admin::VmName;
use vfun_bond::{Order, Path};
use vfun_leases::Stand;

impl Nics {
    pub(crate) fn step_vm(&mut self, name: &VmName) {
        self.apply_pending(name);
        self.inspect(name);
        self.blame(name);
        self.take_part(name);
        self.send_order(name);
        if let Some(vm) = self.vms.get(name) {
            self.wake(vm.back_off_until_ms, Who::Vm(name.clone()));
        }
    }

    /// Asks its hypervisor, if it is time.
    fn inspect(&mut self, name: &VmName) {
        let Some(vm) = self.vms.get(name) else { return };
        if vm.inspect.is_some() {
            return;
        }
        let vfs = self.owned.get(name).into_iter().flatten();
        let mut states = vfs.filter_map(|id| Some(&self.vfs.get(id)?.state));
        let hurry = states.clone().any(|s| matches!(s, State::Unplugging { .. }));
        let at_ms = match vm.seen {
            Seen::Not => vm.inspect_ms,
            _ if hurry => vm.inspect_ms,
            Seen::Unknown { .. } => vm.inspect_ms,
            Seen::Ended => vm.inspect_ms.saturating_add(INSPECT_MS_CALM),
            Seen::Runs if states.next().is_some() => vm.inspect_ms.saturating_add(INSPECT_MS_CALM),
            Seen::Runs => return,
        };
        if at_ms > self.now {
            return self.wake(at_ms, Who::Vm(name.clone()));
        }
        let op = self.begin_inspect(name);
        self.vms.get_mut(name).expect("just looked at").inspect = Some(op);
    }

    /// Tells the contest on which terms it takes part.
    fn take_part(&mut self, name: &VmName) {
        let Some(vm) = self.vms.get(name) else { return };
        let (id, terms, now) = (vm.id, self.terms(name, vm), self.now);
        let Some(contest) = self.pools.get_mut(&vm.declared.pool) else { return };
        let before = contest.engine.terms(id);
        let lost = match before == Some(terms) {
            true => None,
            false => contest.engine.set_terms(now, id, terms),
        };
        let news = before != Some(terms) && terms.stand != Stand::Out;
        let got = (news && !self.owned.contains_key(name))
            .then(|| contest.engine.offer(now, id))
            .flatten();
        let touched = [lost, got.map(|m| m.vf)].into_iter().flatten();
        let touched: Vec<VfId> = touched.filter_map(|slot| contest.vf_at(slot)).cloned().collect();
        touched.into_iter().for_each(|vf| self.push(Who::Vf(vf)));
        // Those that were waiting for it to let go.
        let waits = contest_vf(self, name);
        waits.into_iter().for_each(|vf| self.push(Who::Vf(vf)));
    }

    /// Orders its agent what it has not been ordered yet.
    fn send_order(&mut self, name: &VmName) {
        let path = self.wanted_path(name);
        let agent = self.agents.get(name).map(|(agent, _)| *agent);
        let Some(vm) = self.vms.get(name) else { return };
        let Some(agent) = agent else {
            self.vms.get_mut(name).expect("just looked at").sent = None;
            return;
        };
        let told = vm.sent.as_ref().is_some_and(|(to, _)| *to == agent);
        if !told && self.may_have_vf(name) {
            return;
        }
        if vm.sent.as_ref().is_some_and(|(to, order)| *to == agent && order.path == path) {
            return;
        }
        let order = Order { number: self.new_order(), path, report_ms: REPORT_MS };
        self.vms.get_mut(name).expect("just looked at").sent = Some((agent, order.clone()));
        self.order(Action::Order(name.clone(), agent, order));
        self.push_vfs_of(name);
    }

    /// Whether it is not known yet, after a start, if it has a VF: its agent stays where it
    /// is until then. What that VF becomes steps the VM again.
    fn may_have_vf(&self, name: &VmName) -> bool {
        let mut vfs = self.owned.get(name).into_iter().flatten();
        let unknown = |state: &State| matches!(state, State::Unknown { .. });
        vfs.any(|id| self.vfs.get(id).is_some_and(|vf| unknown(&vf.state)))
    }

    fn wanted_path(&self, name: &VmName) -> Path {
        let mut vfs = self.owned.get(name).into_iter().flatten();
        match vfs.any(|id| self.vfs.get(id).is_some_and(|vf| vf.state.is_in_use())) {
            true => Path::Vf,
            false => Path::Paravirtual,
        }
    }

    /// Whether a VM's agent says that it carried out the order that it has now, and that
    /// this was to take this path. It is the VM's word.
    pub(crate) fn obeys(&self, name: &VmName, path: Path) -> bool {
        let sent = self.vms.get(name).and_then(|vm| vm.sent.as_ref());
        let agent = self.agents.get(name);
        let (Some((to, order)), Some((id, Some(report)))) = (sent, agent) else { return false };
        to == id && order.path == path && report.order == order.number && report.path == Some(path)
    }
}

/// The VF that the contest gives a VM, if it does not have that one.
fn contest_vf(nics: &Nics, name: &VmName) -> Option<VfId> {
    let vm = nics.vms.get(name)?;
    let contest = nics.pools.get(&vm.declared.pool)?;
    let slot = contest.engine.held_by(vm.id)?;
    contest.vf_at(slot).cloned()
}
