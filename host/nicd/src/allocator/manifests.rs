//! What clients' manifests declare, by the manager's word. It is kept as what commands
//! declare is, so that a VM keeps its VF while the manager is away.

use super::Allocator;
use crate::declarations::{Declarations, DeclaredBy};
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;
use vfun_nics::declared::Vm;
use vfun_nics::relay::ToNics;
use vfun_nics::view::ManifestTrouble;

/// The manager's word.
#[derive(Default)]
pub(super) struct Manifests {
    wanted: BTreeMap<VmName, Vm>,
    /// VMs that a manifest declared before this process began, and of which the manager has
    /// said nothing since.
    stale: BTreeSet<VmName>,
    /// Why what a manifest says is not done, in a sentence.
    troubles: BTreeMap<VmName, String>,
}

impl Manifests {
    /// With what the process before had heard.
    pub fn new(declared: &Declarations) -> Self {
        let by_manifest = declared.vms.iter().filter(|v| v.by == DeclaredBy::Manifest);
        let stale = by_manifest.map(|v| v.name.clone()).collect();
        Manifests { stale, ..Manifests::default() }
    }

    /// For people.
    pub fn troubles(&self) -> Vec<ManifestTrouble> {
        let trouble =
            |(vm, why): (&VmName, &String)| ManifestTrouble { vm: vm.clone(), why: why.clone() };
        self.troubles.iter().map(trouble).collect()
    }
}

/// What is another in a VM's declaration, beyond what commands set.
enum Change {
    None,
    Settings,
    /// It has to give its VF back first.
    Place,
}

fn change(old: &Vm, new: &Vm) -> Change {
    let Vm { rule, reserve_percent, cap_percent, .. } = *old;
    let new = Vm { rule, reserve_percent, cap_percent, ..new.clone() };
    match *old == new {
        true => Change::None,
        false if (&old.pool, &old.hypervisor) == (&new.pool, &new.hypervisor) => Change::Settings,
        false => Change::Place,
    }
}

impl Allocator {
    /// The manager says what a VM's manifest declares.
    pub(super) fn manifest_says(&mut self, word: &ToNics) -> Result<(), String> {
        let manifests = &mut self.manifests;
        let was_stale = manifests.stale.remove(&word.vm);
        if !was_stale && manifests.wanted.get(&word.vm) == word.declared.as_ref() {
            return Ok(());
        }
        match &word.declared {
            Some(vm) => drop(manifests.wanted.insert(word.vm.clone(), vm.clone())),
            None => drop(manifests.wanted.remove(&word.vm)),
        }
        self.follow(&word.vm)
    }

    /// The manager has spoken of every VM: no manifest declares the others any more.
    pub(super) fn manifests_are_told(&mut self) -> Result<(), String> {
        std::mem::take(&mut self.manifests.stale).iter().try_for_each(|vm| self.follow(vm))
    }

    /// Tries again what was not possible, or had to wait until a VM had left.
    pub(super) fn follow_again(&mut self) -> Result<(), String> {
        let manifests = &self.manifests;
        let declared = |vm: &VmName| self.declared.vms.iter().any(|v| v.name == *vm);
        let again = manifests.wanted.keys().filter(|vm| !declared(vm));
        let again: BTreeSet<VmName> = again.chain(manifests.troubles.keys()).cloned().collect();
        again.iter().try_for_each(|vm| self.follow(vm))
    }

    /// Makes a VM's declaration what its manifest says. The error ends the process.
    fn follow(&mut self, name: &VmName) -> Result<(), String> {
        let Err(why) = self.try_to_follow(name)? else {
            self.manifests.troubles.remove(name);
            return Ok(());
        };
        if self.manifests.troubles.get(name) != Some(&why) {
            self.lines.warn(&format!("the manifest of client {}: VM {name}: {why}", name.client));
            self.manifests.troubles.insert(name.clone(), why);
        }
        Ok(())
    }

    fn try_to_follow(&mut self, name: &VmName) -> Result<Result<String, String>, String> {
        let nothing = Ok(Ok(String::new()));
        let wanted = self.manifests.wanted.get(name).cloned();
        let entry = self.declared.vms.iter().find(|v| v.name == *name);
        let by_manifest = entry.is_some_and(|e| e.by == DeclaredBy::Manifest);
        match (wanted, entry) {
            (None, Some(e)) if by_manifest && !e.leaves => self.take_vm_away(name.clone()),
            (None, _) => nothing,
            // It is declared again once it has left.
            (Some(_), Some(e)) if e.leaves => nothing,
            (Some(vm), Some(e)) if by_manifest => match change(&e.vm, &vm) {
                Change::None => nothing,
                Change::Settings => self.add_vm(name.clone(), vm, DeclaredBy::Manifest),
                Change::Place => self.take_vm_away(name.clone()),
            },
            (Some(vm), _) => self.add_vm(name.clone(), vm, DeclaredBy::Manifest),
        }
    }
}
