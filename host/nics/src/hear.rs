//! What each event changes. What follows from that is in `step`.

mod answers;
mod declarations;
mod hypervisors;

use crate::event::{AgentId, Event, HostCounts};
use crate::limits::*;
use crate::nics::{Nics, Who, short};
use vfun_admin::VmName;
use vfun_bond::Report;

impl Nics {
    pub(crate) fn take_in(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::PoolDeclared(name, pool) => self.declare_pool(name, pool),
            Event::PoolRemoved(name) => self.remove_pool(&name),
            Event::Vfs(pool, found) => self.list_vfs(&pool, found),
            Event::VmDeclared(name, vm) => self.declare_vm(name, vm),
            Event::VmRemoved(name) => self.remove_vm(&name),
            Event::VmFound(name, found) => self.vm_found(&name, found),
            Event::Deleted(name, vf) => self.deleted(&name, &vf),
            Event::Agent(name, agent) => self.agent(name, agent),
            Event::Counted(name, counts) => self.counted(&name, counts),
            Event::Filters(name, filters) => self.filters(&name, filters),
            Event::Done(op, result) => self.done(op, result),
            Event::MigrationBegins(name) => self.migration_begins(name),
            Event::MigrationEnded(name) => self.migration_ended(&name),
        }
    }

    fn agent(&mut self, name: VmName, agent: Option<(AgentId, Option<Report>)>) {
        let before = self.agents.get(&name).map(|(id, _)| *id);
        let now = agent.as_ref().map(|(id, _)| *id);
        let report = agent.as_ref().and_then(|(_, report)| report.as_ref());
        let claim = report.map(|report| report.packets);
        let probed = report.and_then(|report| Some((report.path?, report.latency_us?)));
        match agent {
            Some(_) if before.is_none() && self.agents.len() >= AGENTS_MAX => return,
            Some(agent) => drop(self.agents.insert(name.clone(), agent)),
            None => drop(self.agents.remove(&name)),
        }
        if let (Some(claim), Some(traffic)) = (claim, self.traffic_mut(&name)) {
            traffic.claim(claim);
        }
        if let (Some((path, us)), Some(probes)) = (probed, self.probes_mut(&name)) {
            probes.add(path, us);
        }
        let Some(vm) = self.vms.get_mut(&name) else { return };
        if before != now {
            // One that lives in a VM that ended tells of its new start; not more often
            // than is asked anyway.
            if vm.seen == crate::vm::Seen::Ended {
                vm.inspect_ms = vm.inspect_ms.min(self.now.saturating_add(INSPECT_MS));
            }
            let line = match (before, now) {
                (_, None) => "its agent is gone",
                (None, Some(_)) => "its agent is there",
                (Some(_), Some(_)) => "another agent took the place of the one before",
            };
            self.audit_vm(&name, line);
        }
        self.push_vfs_of(&name);
        self.push(Who::Vm(name));
    }

    fn counted(&mut self, name: &VmName, counts: HostCounts) {
        if let Some(traffic) = self.traffic_mut(name) {
            traffic.counted(counts);
        }
    }

    fn filters(&mut self, name: &VmName, mut filters: Vec<String>) {
        let Some(vm) = self.vms.get_mut(name) else { return };
        filters.truncate(FILTERS_MAX);
        let filters = filters.into_iter().map(short).collect();
        if vm.filters.as_ref() != Some(&filters) {
            vm.filters = Some(filters);
            self.push(Who::Vm(name.clone()));
        }
    }

    fn migration_begins(&mut self, name: VmName) {
        if !self.vms.contains_key(&name) {
            return self.audit(format!("VM {name} is not declared: its migration is not heeded"));
        }
        if self.migrating.insert(name.clone()) {
            self.notes_changed = true;
            self.audit(format!("VM {name} is going to be migrated: it gives its VF back"));
        }
        self.push(Who::Vm(name));
    }

    pub(crate) fn migration_ended(&mut self, name: &VmName) {
        if self.migrating.remove(name) {
            self.notes_changed = true;
            self.audit(format!("VM {name} is not being migrated any more"));
        }
        self.push(Who::Vm(name.clone()));
    }
}
