//! A guest of `vfun guest` that competes for VFs as long as it runs.

use super::ask::Allocator;
use super::vm_name;
use crate::fail::{Exit, Failure, Result};
use std::path::{Path, PathBuf};
use vfun_admin::VmName;
use vfun_nicd::ask::Ask;
use vfun_nics::declared::{Hypervisor, Vm};

/// The paravirtual NIC of a guest, and how a VF is plugged into it.
pub struct Nic {
    /// Bridge of the host that its tap is in.
    pub bridge: String,
    /// Its tap.
    pub tap: String,
    /// Its MAC address, which a VF gets, too.
    pub mac: String,
    /// A control socket of QEMU that no other program uses.
    pub qmp: PathBuf,
    /// The port in the guest that a VF is plugged into.
    pub bus: String,
}

/// A VM that is declared to vfun-nics until this is dropped.
pub struct Competing {
    allocator: Allocator,
    name: VmName,
}

impl Competing {
    /// Refuses a pool that is not declared.
    pub fn check(root: &Path, pool: &str) -> Result<()> {
        let pools = Allocator::at(root).view()?.pools;
        if pools.iter().any(|p| p.name == pool) {
            return Ok(());
        }
        let names: Vec<&str> = pools.iter().map(|p| p.name.as_str()).collect();
        let advice = match &names[..] {
            [] => "there is no pool yet: `vfun nics pool add` makes one".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        Err(Failure::new(Exit::Refused, format!("there is no pool '{pool}'")).advise(advice))
    }

    /// Declares it: `client` is CLIENT or CLIENT/VM.
    pub fn declare(root: &Path, client: &str, pool: &str, nic: &Nic) -> Result<Self> {
        let name = vm_name(client).map_err(Failure::usage)?;
        let allocator = Allocator::at(root);
        let hypervisor = Hypervisor::Qmp { socket: nic.qmp.clone() };
        let vm = Vm::new(pool, hypervisor, &nic.mac, &nic.bridge, &nic.tap);
        let vm = Vm { bus: Some(nic.bus.clone()), ..vm };
        allocator.tell(&Ask::AddVm { name: name.clone(), vm })?;
        Ok(Competing { allocator, name })
    }
}

impl Drop for Competing {
    fn drop(&mut self) {
        if let Err(e) = self.allocator.tell(&Ask::RemoveVm { name: self.name.clone() }) {
            crate::out::note(format!(
                "{} is still declared for network VFs: {} (`vfun nics remove {}`)",
                self.name, e.what, self.name
            ));
        }
    }
}
