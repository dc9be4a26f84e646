//! What is declared: kept over restarts, and checked before anything is done with it.

use crate::hands::ONLY_QMP;
use crate::limits::{EMULATED_MAX, POOLS_MAX, VHOST_USER_MAX, VMS_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vfun_admin::VmName;
use vfun_leases::{INTERVAL_MS_MAX, INTERVAL_MS_MIN, Policy};
use vfun_nics::PoolName;
use vfun_nics::declared::{Hypervisor, Pool, Source, Vm, is_interface};
use vfun_wire::names;

/// All pools and VMs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declarations {
    pub pools: BTreeMap<PoolName, PoolEntry>,
    pub vms: Vec<VmEntry>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolEntry {
    pub pool: Pool,
    /// It is taken away as soon as its VFs are free.
    #[serde(default)]
    pub leaves: bool,
}

/// A VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmEntry {
    pub name: VmName,
    pub vm: Vm,
    #[serde(default)]
    pub by: DeclaredBy,
    /// It is taken away as soon as it has no VF.
    #[serde(default)]
    pub leaves: bool,
}

/// Where a VM is declared. It is changed and taken away there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeclaredBy {
    /// By `vfun nics add`.
    #[default]
    Command,
    /// In its client's manifest, which the manager reads.
    Manifest,
}

impl VmEntry {
    /// Refuses what a command may not do with a VM of a manifest.
    pub fn is_of_command(&self) -> Result<(), String> {
        let VmName { client, .. } = &self.name;
        match self.by {
            DeclaredBy::Command => Ok(()),
            DeclaredBy::Manifest => Err(format!(
                "VM {} is declared by its client's manifest: change or remove its lines [nics] there, and give it to the manager (`vfun client add --file {client}.toml`)",
                self.name
            )),
        }
    }

    fn is_not_declared_by_another(&self, by: DeclaredBy) -> Result<(), String> {
        match by {
            DeclaredBy::Command => self.is_of_command(),
            DeclaredBy::Manifest if self.by == DeclaredBy::Command => Err(format!(
                "it is declared by `vfun nics add` and by the lines [nics] of its client's manifest, and the command's word holds: remove the lines, or leave it to them (`vfun nics remove {}`)",
                self.name
            )),
            DeclaredBy::Manifest => Ok(()),
        }
    }
}

impl Declarations {
    /// Checks what a file says: people may have changed it.
    pub fn check(&self) -> Result<(), String> {
        for (name, entry) in &self.pools {
            check_name("pool", name)?;
            check_pool(&entry.pool).map_err(|why| format!("pool {name}: {why}"))?;
        }
        for (at, entry) in self.vms.iter().enumerate() {
            check_vm_name(&entry.name)?;
            check_vm(&entry.vm)
                .and_then(|()| self.check_hands(&entry.vm))
                .map_err(|why| format!("VM {}: {why}", entry.name))?;
            for other in &self.vms[..at] {
                if other.name == entry.name {
                    return Err(format!("VM {} is there twice", entry.name));
                }
                if let Some(what) = shared(&other.vm, &entry.vm) {
                    return Err(format!("VMs {} and {} both have {what}", other.name, entry.name));
                }
            }
        }
        Ok(())
    }

    /// A VM that is declared and not about to leave.
    pub fn vm(&mut self, name: &VmName) -> Result<&mut VmEntry, String> {
        match self.vms.iter_mut().find(|v| v.name == *name) {
            Some(entry) if entry.leaves => Err(format!(
                "VM {name} is being taken away: it has a VF still. Wait until `vfun nics list` shows it no more"
            )),
            Some(entry) => Ok(entry),
            None => Err(format!(
                "VM {name} is not declared: `vfun nics add` declares it, `vfun nics list` shows those that are"
            )),
        }
    }

    /// A pool that is declared and not about to leave.
    pub fn pool(&mut self, name: &str) -> Result<&mut PoolEntry, String> {
        match self.pools.get_mut(name) {
            Some(entry) if entry.leaves => Err(format!(
                "pool {name} is being taken away: VMs have VFs of it still. Wait until `vfun nics pool list` shows it no more"
            )),
            Some(entry) => Ok(entry),
            None => Err(format!(
                "there is no pool {name}: `vfun nics pool add` makes one, `vfun nics pool list` shows those that there are"
            )),
        }
    }

    /// Declares a pool, or changes its settings.
    pub fn add_pool(&mut self, name: &str, pool: Pool) -> Result<(), String> {
        check_name("pool", name)?;
        check_pool(&pool)?;
        if let Some(there) = self.pools.get(name) {
            let source = there.pool.source.clone();
            self.pool(name)?;
            if source != pool.source {
                return Err(format!(
                    "pool {name} has other VFs: take it away first (`vfun nics pool remove {name}`), or choose another name"
                ));
            }
        } else if self.pools.len() >= POOLS_MAX {
            return Err(format!("there are {POOLS_MAX} pools already, the most that there can be"));
        }
        let taken = |other: &PoolEntry| match (&other.pool.source, &pool.source) {
            (Source::Sriov { pf: a }, Source::Sriov { pf: b }) => a == b,
            _ => false,
        };
        if let Some((other, _)) = self.pools.iter().find(|(n, p)| *n != name && taken(p)) {
            return Err(format!("pool {other} has the VFs of that card already"));
        }
        self.pools.insert(name.to_owned(), PoolEntry { pool, leaves: false });
        Ok(())
    }

    /// Declares a VM, or changes its settings. Its rule, reserve and cap stay.
    pub fn add_vm(&mut self, name: &VmName, mut vm: Vm, by: DeclaredBy) -> Result<&Vm, String> {
        check_vm_name(name)?;
        check_vm(&vm)?;
        if let Some(there) = self.vms.iter().find(|v| v.name == *name) {
            there.is_not_declared_by_another(by)?;
        }
        self.pool(&vm.pool)?;
        self.check_hands(&vm)?;
        let others = self.vms.iter().filter(|v| v.name != *name);
        for other in others {
            if let Some(what) = shared(&other.vm, &vm) {
                return Err(format!("VM {} has {what} already", other.name));
            }
        }
        match self.vms.iter().position(|v| v.name == *name) {
            Some(at) => {
                let there = &self.vm(name)?.vm;
                if there.pool != vm.pool || there.hypervisor != vm.hypervisor {
                    return Err(format!(
                        "VM {name} is declared with another pool or hypervisor: take it away first (`vfun nics remove {name}`)"
                    ));
                }
                vm.rule = there.rule;
                vm.reserve_percent = there.reserve_percent;
                vm.cap_percent = there.cap_percent;
                self.vms[at].vm = vm;
                Ok(&self.vms[at].vm)
            }
            None if self.vms.len() >= VMS_MAX => {
                Err(format!("there are {VMS_MAX} VMs already, the most that there can be"))
            }
            None => {
                self.vms.push(VmEntry { name: name.clone(), vm, by, leaves: false });
                Ok(&self.vms[self.vms.len() - 1].vm)
            }
        }
    }

    /// Whether a VM's hypervisor can be given the VFs of its pool.
    fn check_hands(&self, vm: &Vm) -> Result<(), String> {
        let source = self.pools.get(&vm.pool).map(|entry| &entry.pool.source);
        let by_qmp = matches!(vm.hypervisor, Hypervisor::Qmp { .. });
        match source {
            Some(Source::VhostUser { .. }) if !by_qmp => Err(ONLY_QMP.into()),
            _ => Ok(()),
        }
    }

    /// Changes how a pool's VFs are given out.
    pub fn set_pool(
        &mut self,
        name: &str,
        policy: Option<Policy>,
        interval_ms: Option<u64>,
        tenure_ms: Option<u64>,
    ) -> Result<&Pool, String> {
        let mut pool = self.pool(name)?.pool.clone();
        pool.policy = policy.unwrap_or(pool.policy);
        pool.interval_ms = interval_ms.unwrap_or(pool.interval_ms);
        pool.tenure_ms = tenure_ms.unwrap_or(pool.tenure_ms);
        check_pool(&pool)?;
        let entry = self.pool(name)?;
        entry.pool = pool;
        Ok(&entry.pool)
    }
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    names::check(name).map_err(|e| format!("the name of a {what}, '{name}': {e}"))
}

fn check_vm_name(name: &VmName) -> Result<(), String> {
    check_name("client", &name.client)?;
    check_name("VM", &name.vm)
}

/// What two VMs cannot both have.
fn shared(a: &Vm, b: &Vm) -> Option<&'static str> {
    match (&a.hypervisor, &b.hypervisor) {
        (Hypervisor::Qmp { socket: a }, Hypervisor::Qmp { socket: b }) if a == b => {
            return Some("that control socket");
        }
        (Hypervisor::Libvirt { domain: a }, Hypervisor::Libvirt { domain: b }) if a == b => {
            return Some("that domain");
        }
        _ => {}
    }
    match () {
        () if a.tap == b.tap => Some("that tap"),
        () if a.mac.eq_ignore_ascii_case(&b.mac) => Some("that MAC address"),
        () => None,
    }
}

fn check_pool(pool: &Pool) -> Result<(), String> {
    match &pool.source {
        Source::Sriov { pf } => interface("--pf", pf)?,
        Source::Emulated { vfs, model } => {
            if !(1..=EMULATED_MAX).contains(vfs) {
                return Err(format!("a pool has 1 to {EMULATED_MAX} emulated VFs, not {vfs}"));
            }
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if model.is_empty() || model.len() > 64 || !model.chars().all(fits) {
                return Err(format!(
                    "'{model}' is no device model of QEMU; `qemu-system-x86_64 -device help` shows them"
                ));
            }
        }
        Source::VhostUser { vfs, switch } => {
            if !(1..=VHOST_USER_MAX).contains(vfs) {
                return Err(format!(
                    "a pool has 1 to {VHOST_USER_MAX} ports of Open vSwitch, not {vfs}"
                ));
            }
            if !switch.is_absolute() {
                return Err(format!(
                    "--switch: name the folder with Open vSwitch's sockets by a path from the root, not '{}'",
                    switch.display()
                ));
            }
        }
    }
    if !(INTERVAL_MS_MIN.max(1000)..=INTERVAL_MS_MAX).contains(&pool.interval_ms) {
        return Err(format!(
            "the interval is 1 s to {} s, not {} ms",
            INTERVAL_MS_MAX / 1000,
            pool.interval_ms
        ));
    }
    if pool.tenure_ms > INTERVAL_MS_MAX {
        return Err(format!(
            "the tenure is at most {} s, not {} ms",
            INTERVAL_MS_MAX / 1000,
            pool.tenure_ms
        ));
    }
    if !(0.0..=10.0).contains(&pool.hysteresis) {
        return Err("the hysteresis is a fraction of 0 to 10, such as 0.25".into());
    }
    Ok(())
}

fn check_vm(vm: &Vm) -> Result<(), String> {
    vm.check().map_err(|wrong| format!("--{wrong}"))?;
    percents(vm.reserve_percent, vm.cap_percent)
}

/// Whether a VM's reserve and cap go together.
pub fn percents(reserve: u8, cap: u8) -> Result<(), String> {
    match (reserve, cap) {
        (_, 101..) | (101.., _) => Err("a part of the time is 0 to 100 percent".into()),
        (r, c) if r > c => Err(format!(
            "a VM cannot hold a VF for at least {r} and at most {c} percent of the time: change the other one first"
        )),
        _ => Ok(()),
    }
}

fn interface(option: &str, name: &str) -> Result<(), String> {
    match is_interface(name) {
        true => Ok(()),
        false => Err(format!("{option}: '{name}' is no name of an interface")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_nics::declared::Rule;

    const BY: DeclaredBy = DeclaredBy::Command;

    fn vm(n: u8) -> Vm {
        Vm::new(
            "cards",
            Hypervisor::Qmp { socket: format!("/run/{n}").into() },
            format!("02:00:00:00:00:{n:02x}"),
            "br0",
            format!("t{n}"),
        )
    }

    fn declared() -> Declarations {
        let mut all = Declarations::default();
        all.add_pool("cards", Pool::new(Source::Sriov { pf: "eth2".into() })).unwrap();
        all.add_vm(&VmName::new("a", "a"), vm(1), BY).unwrap();
        all
    }

    #[test]
    fn two_vms_share_nothing_that_is_one_vms() {
        let mut all = declared();
        let name = VmName::new("b", "b");
        for change in [
            |v: &mut Vm| v.tap = "t1".into(),
            |v: &mut Vm| v.mac = "02:00:00:00:00:01".into(),
            |v: &mut Vm| v.hypervisor = vm(1).hypervisor,
        ] {
            let mut other = vm(2);
            change(&mut other);
            assert!(all.add_vm(&name, other, BY).unwrap_err().contains("already"));
        }
        all.add_vm(&name, vm(2), BY).unwrap();
    }

    #[test]
    fn a_file_that_people_changed_is_checked() {
        let mut all = declared();
        assert_eq!(all.check(), Ok(()));
        all.vms.push(all.vms[0].clone());
        assert!(all.check().unwrap_err().contains("twice"));
        all.vms[1].name = VmName::new("b", "b");
        assert!(all.check().unwrap_err().contains("both have"));
        all.vms[1].vm = vm(2);
        assert_eq!(all.check(), Ok(()));
        all.vms[1].name.vm = "../b".into();
        assert!(all.check().is_err());
    }

    #[test]
    fn an_interval_and_a_tenure_have_the_limits_of_the_engine() {
        let mut all = declared();
        let longest = Some(INTERVAL_MS_MAX);
        all.set_pool("cards", None, longest, longest).unwrap();
        assert_eq!(all.check(), Ok(()));
        let longer = Some(INTERVAL_MS_MAX + 1);
        for (interval, tenure) in [(longer, None), (None, longer), (Some(999), None)] {
            let why = all.set_pool("cards", None, interval, tenure).unwrap_err();
            assert!(why.contains("600 s"), "{why}");
        }
        all.pools.get_mut("cards").unwrap().pool.tenure_ms = INTERVAL_MS_MAX + 1;
        assert!(all.check().unwrap_err().contains("pool cards: the tenure is at most 600 s"));
    }

    #[test]
    fn a_rule_stays_when_a_vm_is_declared_again() {
        let mut all = declared();
        let name = VmName::new("a", "a");
        all.vm(&name).unwrap().vm.rule = Rule::Pinned;
        assert_eq!(all.add_vm(&name, vm(1), BY).unwrap().rule, Rule::Pinned);
        let mut other = vm(1);
        other.hypervisor = Hypervisor::External;
        assert!(all.add_vm(&name, other, BY).unwrap_err().contains("remove a"));
    }

    #[test]
    fn what_leaves_is_not_declared_again_before_it_has_left() {
        let mut all = declared();
        all.vms[0].leaves = true;
        assert!(all.add_vm(&VmName::new("a", "a"), vm(1), BY).is_err());
        all.pools.get_mut("cards").unwrap().leaves = true;
        assert!(all.add_pool("cards", Pool::new(Source::Sriov { pf: "eth2".into() })).is_err());
    }

    #[test]
    fn a_vm_is_declared_in_one_place() {
        let mut all = declared();
        let (a, b) = (VmName::new("a", "a"), VmName::new("b", "b"));
        let why = all.add_vm(&a, vm(1), DeclaredBy::Manifest).unwrap_err();
        assert!(why.contains("`vfun nics add`") && why.contains("manifest"), "{why}");
        all.add_vm(&b, vm(2), DeclaredBy::Manifest).unwrap();
        let why = all.add_vm(&b, vm(2), BY).unwrap_err();
        assert!(why.contains("manifest") && why.contains("b.toml"), "{why}");
        all.add_vm(&b, vm(3), DeclaredBy::Manifest).unwrap_err();
        assert!(all.vm(&b).unwrap().is_of_command().is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for change in [
            |v: &mut Vm| v.mac = "01:00:00:00:00:01".into(),
            |v: &mut Vm| v.mac = "02:00:00:00:00".into(),
            |v: &mut Vm| v.bridge = "../x".into(),
            |v: &mut Vm| v.tap = "-x".into(),
            |v: &mut Vm| v.tap = "vt-cards-0".into(),
            |v: &mut Vm| v.vlan = Some(0),
            |v: &mut Vm| v.rate_mbit = Some(0),
            |v: &mut Vm| v.reserve_percent = 101,
            |v: &mut Vm| (v.reserve_percent, v.cap_percent) = (50, 40),
            |v: &mut Vm| v.hypervisor = Hypervisor::Qmp { socket: "x".into() },
            |v: &mut Vm| v.hypervisor = Hypervisor::Libvirt { domain: String::new() },
            |v: &mut Vm| v.bus = Some("a,b".into()),
        ] {
            let mut wrong = vm(2);
            change(&mut wrong);
            assert!(
                declared().add_vm(&VmName::new("b", "b"), wrong.clone(), BY).is_err(),
                "{wrong:?}"
            );
        }
        let emulated = |vfs, model: &str| Source::Emulated { vfs, model: model.into() };
        for source in [emulated(0, "igb"), emulated(1, "igb,x=y"), emulated(9999, "igb")] {
            assert!(declared().add_pool("p", Pool::new(source)).is_err());
        }
        let vhost_user = |vfs, switch: &str| Source::VhostUser { vfs, switch: switch.into() };
        for source in [vhost_user(0, "/run/x"), vhost_user(9999, "/run/x"), vhost_user(1, "x")] {
            assert!(declared().add_pool("p", Pool::new(source)).is_err());
        }
    }

    #[test]
    fn ports_of_open_vswitch_need_a_control_socket() {
        let mut all = declared();
        let source = Source::VhostUser { vfs: 1, switch: "/run/openvswitch".into() };
        all.add_pool("fast", Pool::new(source)).unwrap();
        let (name, mut fast) = (VmName::new("b", "b"), vm(2));
        fast.pool = "fast".into();
        for hypervisor in [Hypervisor::External, Hypervisor::Libvirt { domain: "b".into() }] {
            let other = Vm { hypervisor, ..fast.clone() };
            assert!(all.add_vm(&name, other, BY).unwrap_err().contains("--qmp"));
        }
        all.add_vm(&name, fast, BY).unwrap();
        assert_eq!(all.check(), Ok(()));
        all.vms[1].vm.hypervisor = Hypervisor::External;
        assert!(all.check().unwrap_err().contains("VM b: "));
    }
}
