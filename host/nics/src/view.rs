//! How things are, for people: `vfun nics list` and `explain`.

use crate::declared::{Pool, Rule, Vm as DeclaredVm};
use crate::moved::MoveTimes;
use crate::nics::Nics;
use crate::vf::{State, Vf};
use crate::vm::{Contender, Seen};
use serde::{Deserialize, Serialize};
use vfun_admin::VmName;
use vfun_bond::{Mode, Path};
use vfun_leases::Reason;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct View {
    pub pools: Vec<PoolView>,
    pub vms: Vec<VmView>,
    /// VFs that are noted and that no pool has listed.
    pub stray: Vec<VfView>,
    /// What clients' manifests say and what is not done.
    #[serde(default)]
    pub manifest_troubles: Vec<ManifestTrouble>,
}

/// What a client's manifest says of a VM, and what is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestTrouble {
    pub vm: VmName,
    /// Why it is not done and what to do, in a sentence.
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolView {
    pub name: String,
    /// None: it was taken away, and VFs of it are still on their way back.
    pub declared: Option<Pool>,
    pub vfs: Vec<VfView>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VfView {
    pub vf: String,
    /// One word: free, preparing, plugging, joining, held, leaving, unplugging, resetting,
    /// quarantined, missing, unknown.
    pub state: String,
    pub owner: Option<VmName>,
    /// Who gets it next, if that is another VM.
    pub next: Option<VmName>,
    /// How long it is in this state, ms.
    pub for_ms: u64,
    /// How long its last move took; while it moves, what has ended of that.
    #[serde(default)]
    pub last_move: MoveTimes,
    /// What is wrong with it, or why nobody may have it, in a sentence.
    pub trouble: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmView {
    pub vm: VmName,
    /// As it is declared now; another declaration may wait until it has no VF.
    pub declared: DeclaredVm,
    pub pool: String,
    /// Its hypervisor's word, in a sentence.
    pub hypervisor: String,
    /// Its agent, in a sentence.
    pub agent: String,
    /// Whether its agent is there.
    pub has_agent: bool,
    /// What its agent says about the bond, in the VM's own words.
    pub trouble: Option<String>,
    /// The path that packets take, by its agent's word.
    pub path: Option<Path>,
    /// Packets a second that count in the contest.
    pub packets_per_s: f64,
    /// How long a packet takes by each path there and back, µs, by its agent's word; none
    /// where its agent has not measured it.
    #[serde(default)]
    pub paravirtual_us: Option<u32>,
    #[serde(default)]
    pub vf_us: Option<u32>,
    /// The VF that it has, or that is on its way to or from it.
    pub vf: Option<String>,
    pub vf_state: Option<String>,
    /// Whether it has no VF only because others hold them.
    pub waits: bool,
    /// Why it holds a VF or none, sentences.
    pub why: Vec<String>,
    /// What would change that, sentences.
    pub change: Vec<String>,
    /// How often a VF went from it without its agent's word.
    pub abrupt: u32,
    /// How often it began to use a VF, since `vfun-nics` started.
    pub moves: u64,
    /// How often it failed to take or to keep a VF, since then.
    pub failed: u64,
    /// How long it gets no VF still after a failure, ms.
    pub back_off_ms: u64,
}

impl Nics {
    /// How things are.
    pub fn view(&self, now_ms: u64) -> View {
        let mut names: std::collections::BTreeSet<&String> = self.pools.keys().collect();
        names.extend(self.vfs.values().filter_map(|vf| vf.pool.as_ref()));
        let pools = names.into_iter().map(|name| PoolView {
            name: name.clone(),
            declared: self.pools.get(name).map(|contest| contest.declared.clone()),
            vfs: self.vf_views(now_ms, Some(name)),
        });
        View {
            pools: pools.collect(),
            vms: self.vms.keys().filter_map(|name| self.view_vm(now_ms, name)).collect(),
            stray: self.vf_views(now_ms, None),
            manifest_troubles: vec![],
        }
    }

    fn vf_views(&self, now_ms: u64, pool: Option<&String>) -> Vec<VfView> {
        let of = self.vfs.iter().filter(|(_, vf)| vf.pool.as_ref() == pool);
        let view = of.map(|(id, vf)| VfView {
            vf: id.to_string(),
            state: vf.state.to_string(),
            owner: vf.state.owner().cloned(),
            next: self.desired(id).filter(|next| vf.state.owner() != Some(next)).cloned(),
            for_ms: now_ms.saturating_sub(vf.since_ms),
            last_move: vf.times,
            trouble: self.vf_trouble(vf),
        });
        view.collect()
    }

    fn vf_trouble(&self, vf: &Vf) -> Option<String> {
        let state = match &vf.state {
            State::Quarantined { why, .. } => Some(why.clone()),
            State::Missing { vm: Some(vm), .. } => {
                Some(format!("its pool has it no more, and VM {vm} may still have it"))
            }
            State::Unknown { owner: Some(vm) } if !self.vms.contains_key(vm) => Some(format!(
                "it is noted for VM {vm}, which is not declared: declare it, so that its \
                 hypervisor can be asked"
            )),
            State::Unknown { owner: Some(vm) } => {
                Some(format!("it is noted for VM {vm}, whose hypervisor has not answered yet"))
            }
            State::Unknown { owner: None } if vf.pool.is_none() => {
                Some("it is noted, and no declared pool has it".into())
            }
            State::Unknown { owner: None } => {
                let contest = vf.pool.as_ref().and_then(|pool| self.pools.get(pool));
                contest.and_then(|contest| contest.unasked.first()).map(|vm| {
                    format!("whether VM {vm} has it is not known: its hypervisor has not answered")
                })
            }
            State::Free => vf.unusable.clone(),
            _ => None,
        };
        let no_room = vf.pool.is_some() && vf.slot.is_none();
        state.or_else(|| vf.trouble.clone()).or_else(|| {
            no_room.then(|| format!("a pool has at most {} VFs", crate::limits::POOL_VFS_MAX))
        })
    }

    /// How things are with one VM; none if it is not declared.
    pub fn view_vm(&self, now_ms: u64, name: &VmName) -> Option<VmView> {
        let vm = self.vms.get(name)?;
        let vf = self.owned.get(name).and_then(|vfs| vfs.first());
        let state = vf.and_then(|id| Some(&self.vfs.get(id)?.state));
        let report = self.agents.get(name).and_then(|(_, report)| report.as_ref());
        let (why, change) = self.explain(name, vm, state);
        let (paravirtual_us, vf_us) = self.probes(vm).last();
        Some(VmView {
            vm: name.clone(),
            declared: vm.declared.clone(),
            pool: vm.declared.pool.clone(),
            hypervisor: match &vm.seen {
                Seen::Not => "it has not answered yet".into(),
                Seen::Runs => "the VM runs".into(),
                Seen::Ended => "the VM does not run".into(),
                Seen::Unknown { why } => format!("it does not answer: {why}"),
            },
            agent: self.agent_words(name),
            has_agent: self.agents.contains_key(name),
            trouble: report.and_then(|report| report.trouble.clone()),
            path: report.and_then(|report| report.path),
            packets_per_s: self.traffic(vm).per_s,
            paravirtual_us,
            vf_us,
            vf: vf.map(ToString::to_string),
            vf_state: state.map(ToString::to_string),
            waits: vf.is_none() && self.hindrance(name, vm).is_none(),
            why,
            change,
            abrupt: vm.abrupt,
            moves: vm.moves,
            failed: vm.failed,
            back_off_ms: vm.back_off_until_ms.saturating_sub(now_ms),
        })
    }

    fn agent_words(&self, name: &VmName) -> String {
        match self.agents.get(name) {
            None => "none".into(),
            Some((_, None)) => "there; it has said nothing yet".into(),
            Some((_, Some(report))) => {
                let how = match report.mode {
                    Mode::Bond => "bond",
                    Mode::NetFailover => "net_failover (packets may be lost when a VF goes)",
                };
                format!("there, version {}, {how} {}", report.agent, report.bond)
            }
        }
    }

    fn explain(
        &self,
        name: &VmName,
        vm: &Contender,
        state: Option<&State>,
    ) -> (Vec<String>, Vec<String>) {
        let (mut why, mut change) = (vec![], vec![]);
        if let Some(hindrance) = self.hindrance(name, vm) {
            why.push(hindrance.to_string());
            change.push(hindrance.cure());
        } else if let Some(at) =
            self.pools.get(&vm.declared.pool).and_then(|contest| contest.engine.standing(vm.id))
        {
            why.push(at.reason.to_string());
            change.extend(self.what_would_help(vm, &at.reason));
        }
        let in_use = state.is_some_and(State::is_in_use);
        if in_use && !self.traffic(vm).is_observable() {
            why.push(
                "its VF is unobservable: the host sees none of its packets there, so its word \
                 counts up to the rate that the host saw before, and for less with each tenure"
                    .into(),
            );
        }
        if in_use && vm.astray_ms.is_some() {
            why.push("its agent does not say that it uses the VF".into());
        }
        if let Some(vf) = state.filter(|state| !state.is_in_use()) {
            why.push(format!("its VF is {vf}"));
        }
        if vm.declared.bypass_filters && vm.filters.as_ref().is_some_and(|f| !f.is_empty()) {
            why.push("its port's filters are passed by, as declared".into());
        }
        (why, change)
    }

    fn what_would_help(&self, vm: &Contender, reason: &Reason) -> Option<String> {
        let cap = vm.declared.cap_percent;
        match reason {
            Reason::Below { .. } | Reason::TooLittle { .. } | Reason::Unconfirmed { .. } => {
                Some("more packets a second than a holder, a reserve, a pin, or one more VF".into())
            }
            Reason::AllKept { .. } => Some(
                "wait until a holder's minimum time is over; a reserve, a pin, or one more VF"
                    .into(),
            ),
            Reason::Waits { .. } | Reason::NotDrawn | Reason::Lost => {
                Some("wait for its turn; a reserve, a pin, or one more VF".into())
            }
            Reason::PolicyNone => Some("another policy (`vfun nics set`)".into()),
            Reason::New => Some("wait for the next decision".into()),
            Reason::ShareUsed => Some(format!("a cap above {cap} %")),
            Reason::Among { .. } | Reason::Hysteresis { .. } if vm.declared.rule == Rule::None => {
                Some("another VM with more packets a second, at two decisions in a row".into())
            }
            _ => None,
        }
    }
}
