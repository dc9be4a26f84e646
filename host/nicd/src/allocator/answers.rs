//! Answers to what people and programs ask.

use super::{Allocator, now_ms, unix_ms};
use crate::ask::{Answer, Ask};
use crate::child::short;
use crate::declarations::{DeclaredBy, percents};
use crate::orders::Outcome;
use vfun_admin::VmName;
use vfun_nics::Event;
use vfun_nics::declared::{Hypervisor, Rule, Vm};
use vfun_nics::view::View;

/// Ok: the answer, which may be a refusal. The error ends the process.
type Answered = Result<Result<String, String>, String>;

/// Gives a refusal back as an answer.
macro_rules! or_refuse {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(why) => return Ok(Err(why)),
        }
    };
}

impl Allocator {
    /// Answers. The error ends the process.
    pub(super) fn answer(&mut self, ask: Ask) -> Result<Answer, String> {
        let done = match ask {
            Ask::View => {
                let manifest_troubles = self.manifests.troubles();
                return Ok(Answer::View(View { manifest_troubles, ..self.nics.view(now_ms()) }));
            }
            Ask::History { pool } => return Ok(self.history(pool.as_deref())),
            Ask::Orders => return Ok(Answer::Orders { orders: self.orders.list() }),
            Ask::Taps => {
                let vms = self.declared.vms.iter();
                let taps = vms.map(|v| (v.name.clone(), v.vm.tap.clone())).collect();
                return Ok(Answer::Taps { taps });
            }
            Ask::AddPool { name, pool } => self.add_pool(name, pool),
            Ask::RemovePool { name } => self.remove_pool(name),
            Ask::SetPool { name, policy, interval_ms, tenure_ms } => {
                self.set_pool(name, policy, interval_ms, tenure_ms)
            }
            Ask::AddVm { name, vm } => self.add_vm(name, vm, DeclaredBy::Command),
            Ask::RemoveVm { name } => self.remove_vm(name),
            Ask::SetRule { name, rule } => self.change_vm(&name, |vm| {
                vm.rule = rule;
                Ok(match rule {
                    Rule::None => format!("VM {name} has no rule: it competes"),
                    Rule::Pinned => format!("VM {name} is pinned: it holds a VF as long as it can"),
                    Rule::Banned => format!("VM {name} is banned: it gets no VF"),
                })
            }),
            Ask::Reserve { name, percent } => self.change_vm(&name, |vm| {
                percents(percent, vm.cap_percent)?;
                vm.reserve_percent = percent;
                Ok(format!("VM {name} holds a VF for at least {percent} percent of the time"))
            }),
            Ask::Cap { name, percent } => self.change_vm(&name, |vm| {
                percents(vm.reserve_percent, percent)?;
                vm.cap_percent = percent;
                Ok(format!("VM {name} holds a VF for at most {percent} percent of the time"))
            }),
            Ask::Migrate { name } => self.migrate(name, true),
            Ask::MigrationEnded { name } => self.migrate(name, false),
            Ask::Done { order, outcome } => self.order_done(order, outcome),
        }?;
        Ok(match done {
            Ok(sentence) => Answer::Done { sentence },
            Err(sentence) => Answer::Refused { sentence },
        })
    }

    fn history(&mut self, pool: Option<&str>) -> Answer {
        if let Some(name) = pool
            && let Err(sentence) = self.declared.pool(name)
        {
            return Answer::Refused { sentence };
        }
        let now = now_ms();
        let ahead = unix_ms().cast_signed().saturating_sub(now.cast_signed());
        Answer::History(self.nics.history(now, pool).ahead(ahead))
    }

    /// Keeps what is declared from now on; a change that cannot be kept is not made.
    fn keep(&mut self, changed: crate::declarations::Declarations) -> Result<(), String> {
        self.files.write_declared(&changed)?;
        self.declared = changed;
        self.watch_ports();
        Ok(())
    }

    fn add_pool(&mut self, name: String, pool: vfun_nics::declared::Pool) -> Answered {
        let mut changed = self.declared.clone();
        or_refuse!(changed.add_pool(&name, pool.clone()));
        or_refuse!(self.keep(changed));
        or_refuse!(self.start_pool(&name, &pool.source));
        self.hear(Event::PoolDeclared(name.clone(), pool))?;
        self.follow_again()?;
        Ok(Ok(format!("pool {name} is declared")))
    }

    fn set_pool(
        &mut self,
        name: String,
        policy: Option<vfun_leases::Policy>,
        interval_ms: Option<u64>,
        tenure_ms: Option<u64>,
    ) -> Answered {
        let mut changed = self.declared.clone();
        let pool = or_refuse!(changed.set_pool(&name, policy, interval_ms, tenure_ms)).clone();
        or_refuse!(self.keep(changed));
        let sentence = format!(
            "pool {name}: {}, a decision each {} s, a VF stays for at least {} s",
            pool.policy,
            pool.interval_ms / 1000,
            pool.tenure_ms / 1000
        );
        self.hear(Event::PoolDeclared(name, pool))?;
        Ok(Ok(sentence))
    }

    fn remove_pool(&mut self, name: String) -> Answered {
        let mut changed = self.declared.clone();
        or_refuse!(changed.pool(&name)).leaves = true;
        if let Some(vm) = changed.vms.iter().find(|v| v.vm.pool == name && !v.leaves) {
            return Ok(Err(format!(
                "VM {} is declared with pool {name}: take its VMs away first (`vfun nics remove {}`)",
                vm.name, vm.name
            )));
        }
        or_refuse!(self.keep(changed));
        self.hear(Event::PoolRemoved(name.clone()))?;
        self.drop_those_that_left()?;
        Ok(Ok(format!("pool {name} is taken away as soon as no VM has a VF of it")))
    }

    pub(super) fn add_vm(&mut self, name: VmName, vm: Vm, by: DeclaredBy) -> Answered {
        let mut changed = self.declared.clone();
        let vm = or_refuse!(changed.add_vm(&name, vm, by)).clone();
        or_refuse!(self.keep(changed));
        or_refuse!(self.start_hands(&name, &vm));
        if vm.bypass_filters {
            self.lines.warn(&format!(
                "VM {name} gets VFs although they pass its port's filters by (--bypass-filters)"
            ));
        }
        self.hear(Event::VmDeclared(name.clone(), vm))?;
        Ok(Ok(format!("VM {name} is declared; `vfun nics explain {name}` says how it stands")))
    }

    fn remove_vm(&mut self, name: VmName) -> Answered {
        or_refuse!(or_refuse!(self.declared.vm(&name)).is_of_command());
        self.take_vm_away(name)
    }

    /// Of a command or of a manifest.
    pub(super) fn take_vm_away(&mut self, name: VmName) -> Answered {
        let mut changed = self.declared.clone();
        or_refuse!(changed.vm(&name)).leaves = true;
        or_refuse!(self.keep(changed));
        self.hear(Event::VmRemoved(name.clone()))?;
        self.drop_those_that_left()?;
        Ok(Ok(match self.declared.vms.iter().any(|v| v.name == name) {
            true => format!("VM {name} is taken away as soon as it has given its VF back"),
            false => format!("VM {name} is taken away"),
        }))
    }

    fn change_vm(
        &mut self,
        name: &VmName,
        change: impl FnOnce(&mut Vm) -> Result<String, String>,
    ) -> Answered {
        let mut changed = self.declared.clone();
        let entry = or_refuse!(changed.vm(name));
        let sentence = or_refuse!(change(&mut entry.vm));
        let vm = entry.vm.clone();
        or_refuse!(self.keep(changed));
        self.hear(Event::VmDeclared(name.clone(), vm))?;
        Ok(Ok(sentence))
    }

    fn migrate(&mut self, name: VmName, begins: bool) -> Answered {
        or_refuse!(self.declared.vm(&name));
        Ok(Ok(match begins {
            true => {
                self.hear(Event::MigrationBegins(name.clone()))?;
                format!(
                    "VM {name} gives its VF back, and gets none until `vfun nics migrate {name} --ended`, or until the VM ends"
                )
            }
            false => {
                self.hear(Event::MigrationEnded(name.clone()))?;
                format!("VM {name} competes for VFs again")
            }
        }))
    }

    fn order_done(&mut self, order: u64, outcome: Outcome) -> Answered {
        let outcome = match outcome {
            Outcome::Failed { why } => Outcome::Failed { why: short(&why) },
            other => other,
        };
        for event in or_refuse!(self.orders.answer(order, outcome)) {
            self.hear(event)?;
        }
        Ok(Ok(format!("order {order} is answered")))
    }

    /// What was taken away and has no VF any more is forgotten, with its thread.
    pub(super) fn drop_those_that_left(&mut self) -> Result<(), String> {
        let leaving = |d: &crate::declarations::Declarations| {
            d.vms.iter().any(|v| v.leaves) || d.pools.values().any(|p| p.leaves)
        };
        if !leaving(&self.declared) {
            return Ok(());
        }
        let mut changed = self.declared.clone();
        changed.vms.retain(|v| !v.leaves || self.nics.vm(&v.name).is_some());
        let vms = &changed.vms;
        let used = |name: &str| vms.iter().any(|v| v.vm.pool == name);
        let view = self.nics.view(now_ms());
        changed.pools.retain(|name, p| {
            !p.leaves || used(name) || view.pools.iter().any(|row| row.name == *name)
        });
        if (changed.vms.len(), changed.pools.len())
            == (self.declared.vms.len(), self.declared.pools.len())
        {
            return Ok(());
        }
        let gone: Vec<_> = self.declared.vms.iter().filter(|v| !changed.vms.contains(v)).collect();
        let externals: Vec<VmName> = gone
            .iter()
            .filter(|v| v.vm.hypervisor == Hypervisor::External)
            .map(|v| v.name.clone())
            .collect();
        self.hands.retain(|name, _| changed.vms.iter().any(|v| v.name == *name));
        self.pools.retain(|name, _| changed.pools.contains_key(name));
        self.pool_of.retain(|_, pool| changed.pools.contains_key(pool));
        self.vf_packets.retain(|vf, _| self.pool_of.contains_key(vf));
        self.keep(changed)?;
        for name in externals {
            for event in self.orders.forget(&name) {
                self.hear(event)?;
            }
        }
        // What a manifest wants may be possible now.
        self.follow_again()
    }
}
