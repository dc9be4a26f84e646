//! Why a VM may hold no VF, and what would change that.

use crate::declared::Rule;
use crate::event::VfId;
use crate::limits::*;
use crate::nics::Nics;
use crate::vm::{Contender, Pending, Seen};
use std::fmt;
use vfun_admin::VmName;
use vfun_leases::{Stand, Terms};

/// Why a VM may hold no VF.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Hindrance {
    NoPool { pool: String },
    Removed,
    Declared,
    Banned,
    Migrating,
    NotAsked,
    Ended,
    NoAnswer { why: String },
    FiltersUnknown,
    Filters { sentences: Vec<String> },
    NoAgent,
    NoReport,
    OtherMac { mac: String },
    BackOff { ms: u64, why: String },
    Stuck { vf: VfId },
}

impl Hindrance {
    /// Whether a VM that has a VF already may keep it for now.
    fn is_tolerated(&self) -> bool {
        matches!(
            self,
            Hindrance::NoAgent
                | Hindrance::NoReport
                | Hindrance::NoAnswer { .. }
                | Hindrance::FiltersUnknown
        )
    }

    /// What to do about it, in a sentence.
    pub(crate) fn cure(&self) -> String {
        match self {
            Hindrance::NoPool { pool } => format!("declare the pool {pool}, or name another one"),
            Hindrance::Removed => "nothing: it is taken away as soon as it has no VF".into(),
            Hindrance::Declared => "nothing: it competes again as soon as it has no VF".into(),
            Hindrance::Banned => "take the ban away".into(),
            Hindrance::Migrating => "end the migration (`migrate --ended`)".into(),
            Hindrance::NotAsked => "wait for its hypervisor's answer".into(),
            Hindrance::Ended => "start the VM".into(),
            Hindrance::NoAnswer { .. } => {
                "see that its hypervisor runs and that it is declared with the right socket or \
                 domain"
                    .into()
            }
            Hindrance::FiltersUnknown => "wait until its port's rules were read".into(),
            Hindrance::Filters { .. } => {
                "take the filters away, or declare it with --bypass-filters if it may pass them by"
                    .into()
            }
            Hindrance::NoAgent => "install and start vfun-agent in the VM".into(),
            Hindrance::NoReport => "wait for its agent's first report".into(),
            Hindrance::OtherMac { .. } => {
                "declare it with the MAC address of its bond, or give the bond the declared one"
                    .into()
            }
            Hindrance::BackOff { .. } => "wait; look at its agent's trouble meanwhile".into(),
            Hindrance::Stuck { vf } => {
                format!("unplug {vf} from it by hand, or restart its QEMU")
            }
        }
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hindrance::NoPool { pool } => write!(f, "its pool {pool} is not declared"),
            Hindrance::Removed => f.write_str("it is being taken away"),
            Hindrance::Declared => {
                f.write_str("it was declared anew in a way that takes its VF away first")
            }
            Hindrance::Banned => f.write_str("it is banned"),
            Hindrance::Migrating => f.write_str("it is being migrated"),
            Hindrance::NotAsked => f.write_str("its hypervisor has not answered yet"),
            Hindrance::Ended => f.write_str("it does not run"),
            Hindrance::NoAnswer { why } => {
                write!(f, "its hypervisor does not say what it has: {why}")
            }
            Hindrance::FiltersUnknown => f.write_str("it is not known yet what its port enforces"),
            Hindrance::Filters { sentences } => {
                write!(f, "its port enforces what a VF would pass by: {}", sentences.join("; "))
            }
            Hindrance::NoAgent => f.write_str("no agent runs in it"),
            Hindrance::NoReport => f.write_str("its agent has said nothing yet"),
            Hindrance::OtherMac { mac } => {
                write!(f, "its agent's bond has the MAC address {mac:?}, not the declared one")
            }
            Hindrance::BackOff { ms, why } => {
                write!(f, "it gets no VF for {} s more, because {why}", ms.div_ceil(1000))
            }
            Hindrance::Stuck { vf } => {
                write!(f, "nobody knows when it is rid of {vf}, or whether it has it")
            }
        }
    }
}

impl Nics {
    /// Why a VM may not get a VF now.
    pub(crate) fn hindrance(&self, name: &VmName, vm: &Contender) -> Option<Hindrance> {
        self.asked_for(name, vm).or_else(|| self.unready(name, vm))
    }

    /// What people want.
    fn asked_for(&self, name: &VmName, vm: &Contender) -> Option<Hindrance> {
        match &vm.pending {
            Some(Pending::Remove) => return Some(Hindrance::Removed),
            Some(Pending::Declare(_)) => return Some(Hindrance::Declared),
            None => {}
        }
        if !self.pools.contains_key(&vm.declared.pool) {
            return Some(Hindrance::NoPool { pool: vm.declared.pool.clone() });
        }
        if vm.declared.rule == Rule::Banned {
            return Some(Hindrance::Banned);
        }
        self.migrating.contains(name).then_some(Hindrance::Migrating)
    }

    /// What is not there, or not known. What is tolerated of a holder comes last.
    fn unready(&self, name: &VmName, vm: &Contender) -> Option<Hindrance> {
        let mut vfs = self.owned.get(name).into_iter().flatten();
        let stuck = |id: &&VfId| self.vfs.get(*id).is_some_and(|vf| vf.state.is_stuck());
        if vm.seen == Seen::Ended {
            return Some(Hindrance::Ended);
        }
        if let Some(vf) = vfs.find(stuck) {
            return Some(Hindrance::Stuck { vf: vf.clone() });
        }
        if vm.back_off_until_ms > self.now {
            let ms = vm.back_off_until_ms - self.now;
            let why = vm.trouble.clone().unwrap_or_default();
            return Some(Hindrance::BackOff { ms, why });
        }
        let filters = vm.filters.as_ref().filter(|_| !vm.declared.bypass_filters);
        if let Some(sentences) = filters.filter(|all| !all.is_empty()) {
            return Some(Hindrance::Filters { sentences: sentences.clone() });
        }
        let report = self.agents.get(name).map(|(_, report)| report.as_ref());
        if let Some(Some(report)) = report
            && !report.mac.eq_ignore_ascii_case(&vm.declared.mac)
        {
            return Some(Hindrance::OtherMac { mac: report.mac.clone() });
        }
        match (&vm.seen, report) {
            (Seen::Unknown { why }, _) => Some(Hindrance::NoAnswer { why: why.clone() }),
            (Seen::Not, _) => Some(Hindrance::NotAsked),
            (_, None) => Some(Hindrance::NoAgent),
            (_, Some(None)) => Some(Hindrance::NoReport),
            _ if vm.filters.is_none() && !vm.declared.bypass_filters => {
                Some(Hindrance::FiltersUnknown)
            }
            _ => None,
        }
    }

    /// Whether it has a VF or is about to get one, and nobody takes it away.
    fn is_granted(&self, name: &VmName) -> bool {
        let mut vfs = self.owned.get(name).into_iter().flatten();
        vfs.any(|id| self.vfs.get(id).is_some_and(|vf| vf.state.is_granted()))
    }

    /// A guest that takes itself out of the contest while it has a VF, or while one is on
    /// its way to it, waits like one that failed: else it could make VFs move without end.
    pub(crate) fn blame(&mut self, name: &VmName) {
        let Some(vm) = self.vms.get(name) else { return };
        let contest = self.pools.get(&vm.declared.pool);
        let gets = contest.is_some_and(|contest| contest.engine.held_by(vm.id).is_some());
        if (gets || self.is_granted(name))
            && matches!(self.hindrance(name, vm), Some(Hindrance::OtherMac { .. }))
        {
            self.fail(name, "its agent's bond changed its MAC address");
        }
    }

    /// Its terms in its pool's contest.
    pub(crate) fn terms(&self, name: &VmName, vm: &Contender) -> Terms {
        let granted = self.is_granted(name);
        let stand = match self.hindrance(name, vm) {
            // What it has cannot be taken away without its hypervisor.
            Some(Hindrance::NoAnswer { .. }) if granted => Stand::Pinned,
            Some(h) if !(granted && h.is_tolerated()) => Stand::Out,
            _ if vm.declared.rule == Rule::Pinned => Stand::Pinned,
            _ => Stand::Competes,
        };
        let reserve_percent = vm.declared.reserve_percent.min(100);
        Terms { stand, reserve_percent, cap_percent: vm.declared.cap_percent.min(100) }
    }

    /// It failed to take or to keep a VF: it gets none for a while.
    pub(crate) fn fail(&mut self, name: &VmName, why: &str) {
        let now = self.now;
        let Some(vm) = self.vms.get_mut(name) else { return };
        vm.back_off_ms = (vm.back_off_ms * 2).clamp(BACK_OFF_MS_MIN, BACK_OFF_MS_MAX);
        vm.back_off_until_ms = now.saturating_add(vm.back_off_ms);
        vm.trouble = Some(why.into());
        vm.failed = vm.failed.saturating_add(1);
        let s = vm.back_off_ms / 1000;
        self.push(crate::nics::Who::Vm(name.clone()));
        self.audit_vm(name, &format!("{why}; it gets no VF for {s} s"));
    }
}
