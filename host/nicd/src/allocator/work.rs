//! Who does what is to be done: the thread of a VM, of a pool, or a program of others.

use super::Allocator;
use crate::declarations::Declarations;
use crate::hands::{Device, Hands, HandsJob, HandsWorker, Kind, Libvirt, Qmp};
use crate::providers::{ProviderJob, ProviderWorker, VfOwner, port_name, provider, vhost_socket};
use std::os::unix::fs::MetadataExt;
use vfun_admin::VmName;
use vfun_nics::declared::{Hypervisor, Source, Vm};
use vfun_nics::{Event, Op, OpId, PoolName, VfId};

impl Allocator {
    /// At the start: all that was declared, also what was about to leave.
    pub(super) fn declare_all(&mut self, declared: Declarations) -> Result<(), String> {
        self.declared = declared;
        for (name, entry) in self.declared.pools.clone() {
            self.start_pool(&name, &entry.pool.source)?;
            self.hear(Event::PoolDeclared(name.clone(), entry.pool))?;
            if entry.leaves {
                self.hear(Event::PoolRemoved(name))?;
            }
        }
        for entry in self.declared.vms.clone() {
            self.start_hands(&entry.name, &entry.vm)?;
            self.hear(Event::VmDeclared(entry.name.clone(), entry.vm))?;
            if entry.leaves {
                self.hear(Event::VmRemoved(entry.name))?;
            }
        }
        self.watch_ports();
        Ok(())
    }

    pub(super) fn start_pool(&mut self, name: &PoolName, source: &Source) -> Result<(), String> {
        if let Some(pool) = self.pools.get(name) {
            // It is listed anew: the state machine may have forgotten its VFs.
            pool.begin(ProviderJob::List);
            return Ok(());
        }
        let provider = provider(name, source, &self.places);
        let worker = ProviderWorker::start(name.clone(), provider, self.hearing.clone())
            .map_err(|e| format!("no thread can be started: {e}"))?;
        self.pools.insert(name.clone(), worker);
        Ok(())
    }

    pub(super) fn start_hands(&mut self, name: &VmName, vm: &Vm) -> Result<(), String> {
        if self.hands.contains_key(name) {
            return Ok(());
        }
        let hands: Box<dyn Hands> = match &vm.hypervisor {
            Hypervisor::Qmp { socket } => Box::new(Qmp::new(socket.clone())),
            Hypervisor::Libvirt { domain } => {
                let noted = self.noted.remove(name).unwrap_or_default();
                Box::new(Libvirt::new(domain.clone(), noted))
            }
            Hypervisor::External => return Ok(()),
        };
        let worker =
            HandsWorker::start(self.next_worker, name.clone(), hands, self.hearing.clone())
                .map_err(|e| format!("no thread can be started: {e}"))?;
        self.next_worker.0 += 1;
        self.hands.insert(name.clone(), worker);
        Ok(())
    }

    /// Begins something; what follows at once.
    pub(super) fn begin(&mut self, op: OpId, what: Op) -> Vec<Event> {
        let begun = match what {
            Op::Prepare { vf, vm } => self.prepare(op, vf, &vm),
            Op::Reset { vf } => self.with_pool(&vf, |vf| ProviderJob::Reset(op, vf)),
            Op::Relearn { vf, vm } => self.relearn(op, vf, &vm),
            Op::Plug { vf, vm } => self.plug(op, &vf, &vm),
            Op::Unplug { vf, vm } if self.is_external(&vm) => Ok(self.orders.unplug(&vm, &vf, op)),
            Op::Unplug { vf, vm } => self.with_hands(&vm, HandsJob::Unplug(op, vf)),
            Op::Inspect { vm } if self.is_external(&vm) => {
                let found = self.orders.inspect(&vm);
                Ok(vec![Event::VmFound(vm, found), Event::Done(op, Ok(()))])
            }
            Op::Inspect { vm } => self.with_hands(&vm, HandsJob::Inspect(op)),
        };
        begun.unwrap_or_else(|why| vec![Event::Done(op, Err(why))])
    }

    fn declared_vm(&self, name: &VmName) -> Result<&Vm, String> {
        let entry = self.declared.vms.iter().find(|v| v.name == *name);
        entry.map(|v| &v.vm).ok_or_else(|| format!("VM {name} is not declared"))
    }

    fn is_external(&self, name: &VmName) -> bool {
        self.declared_vm(name).is_ok_and(|vm| vm.hypervisor == Hypervisor::External)
    }

    fn prepare(&mut self, op: OpId, vf: VfId, vm: &VmName) -> Result<Vec<Event>, String> {
        let owner = self.owner(vm)?;
        self.with_pool(&vf, |vf| ProviderJob::Prepare(op, vf, owner))
    }

    /// Only where the switch can be asked is there something to wait for.
    fn relearn(&mut self, op: OpId, vf: VfId, vm: &VmName) -> Result<Vec<Event>, String> {
        let owner = self.owner(vm)?;
        let pool = self.pool_of.get(&vf).and_then(|name| self.declared.pools.get(name));
        match pool.map(|entry| &entry.pool.source) {
            Some(Source::VhostUser { .. }) => {
                self.with_pool(&vf, |vf| ProviderJob::Relearn(op, vf, owner))
            }
            _ => Ok(vec![Event::Done(op, Ok(()))]),
        }
    }

    /// What is known of the VM on the host.
    fn owner(&self, vm: &VmName) -> Result<VfOwner, String> {
        let vm = self.declared_vm(vm)?;
        let user = match &vm.hypervisor {
            // QEMU made its socket.
            Hypervisor::Qmp { socket } => std::fs::metadata(socket).ok().map(|m| m.uid()),
            _ => None,
        };
        Ok(VfOwner {
            mac: vm.mac.clone(),
            bridge: vm.bridge.clone(),
            vlan: vm.vlan,
            rate_mbit: vm.rate_mbit,
            user,
        })
    }

    fn plug(&mut self, op: OpId, vf: &VfId, name: &VmName) -> Result<Vec<Event>, String> {
        let vm = self.declared_vm(name)?;
        let pool = self.declared.pools.get(&vm.pool).ok_or("its pool is not declared")?;
        let kind = match &pool.pool.source {
            Source::Sriov { .. } => Kind::Pci,
            Source::Emulated { model, .. } => {
                Kind::Emulated { tap: port_name(vf), model: model.clone() }
            }
            Source::VhostUser { .. } => Kind::VhostUser { socket: vhost_socket(&self.places, vf) },
        };
        let device = Device {
            vf: vf.clone(),
            kind,
            mac: vm.mac.clone(),
            vlan: vm.vlan,
            bus: vm.bus.clone(),
        };
        match vm.hypervisor {
            Hypervisor::External => Ok(self.orders.plug(name, device, op)),
            _ => self.with_hands(name, HandsJob::Plug(op, device)),
        }
    }

    fn with_pool(
        &mut self,
        vf: &VfId,
        job: impl FnOnce(VfId) -> ProviderJob,
    ) -> Result<Vec<Event>, String> {
        let pool = self.pool_of.get(vf).and_then(|name| self.pools.get(name));
        let pool = pool.ok_or_else(|| format!("no pool has VF {vf} now"))?;
        match pool.begin(job(vf.clone())) {
            true => Ok(vec![]),
            false => Err("its pool has too much to do".into()),
        }
    }

    fn with_hands(&mut self, vm: &VmName, job: HandsJob) -> Result<Vec<Event>, String> {
        let hands = self.hands.get(vm).ok_or_else(|| format!("VM {vm} is not declared"))?;
        hands.begin(job).map(|()| vec![]).map_err(|_| "its VM has too much to do".into())
    }
}
