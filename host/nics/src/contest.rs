//! Who is to hold which VF of one pool: the engine of `vfun-leases`, fed with packets.

use crate::declared::Pool;
use crate::event::{PoolName, VfId};
use crate::limits::*;
use crate::nics::{Nics, Who};
use crate::probes::Probes;
use crate::traffic::{Held, Traffic};
use crate::vf::State;
use crate::vm::Contender;
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;
use vfun_leases::{Engine, GrantId, PRIORITY_DEFAULT, Policy, Sample, Settings, Terms};

/// What a VF saves a packet before any VM of the pool has measured it, ns. It is the same for
/// all VMs: by it alone `gain` orders as `activity` does.
const USUAL_NS: f64 = 1_000.0;

#[derive(Clone, Debug)]
struct Member {
    vm: VmName,
    traffic: Traffic,
    probes: Probes,
}

#[derive(Clone, Debug)]
pub(crate) struct Contest {
    pub declared: Pool,
    pub engine: Engine,
    slots: Vec<Option<VfId>>,
    members: BTreeMap<GrantId, Member>,
    /// VMs whose hypervisor has not answered yet.
    pub unasked: BTreeSet<VmName>,
    decided_ms: u64,
}

fn settings(pool: &Pool) -> Settings {
    let interval_ms = match pool.policy {
        // By lot anew at each decision, and nothing moves within a tenure.
        Policy::Random => pool.interval_ms.max(pool.tenure_ms),
        _ => pool.interval_ms,
    };
    Settings {
        policy: pool.policy,
        interval_ms,
        min_hold_ms: pool.tenure_ms,
        hysteresis: pool.hysteresis,
        confirm: CONFIRM,
        ..Settings::default()
    }
}

impl Contest {
    pub(crate) fn new(now: u64, declared: Pool) -> Result<Self, String> {
        let mut engine = Engine::new(now, POOL_VFS_MAX, settings(&declared))?;
        // A place without a VF that can be given is a lost one.
        for slot in 0..POOL_VFS_MAX {
            engine.lose(now, slot);
        }
        Ok(Contest {
            declared,
            engine,
            slots: vec![None; POOL_VFS_MAX.into()],
            members: BTreeMap::new(),
            unasked: BTreeSet::new(),
            decided_ms: now,
        })
    }

    pub(crate) fn declare(&mut self, declared: Pool) -> Result<(), String> {
        self.engine.set(settings(&declared))?;
        self.declared = declared;
        Ok(())
    }

    /// A VM that may get VFs of this pool; it takes no part yet.
    pub(crate) fn enter(&mut self, now: u64, id: GrantId, vm: &VmName) -> Result<(), String> {
        self.engine.enter(now, id, id as u32, PRIORITY_DEFAULT, USUAL_NS)?;
        let stand = vfun_leases::Stand::Out;
        self.engine.set_terms(now, id, Terms { stand, ..Terms::default() });
        self.members.insert(
            id,
            Member { vm: vm.clone(), traffic: Traffic::default(), probes: Probes::default() },
        );
        Ok(())
    }

    pub(crate) fn leave(&mut self, id: GrantId) {
        self.engine.remove(id);
        if let Some(member) = self.members.remove(&id) {
            self.unasked.remove(&member.vm);
        }
    }

    /// A place for a VF; none if there are too many.
    pub(crate) fn take_slot(&mut self, id: &VfId) -> Option<u16> {
        let slot = self.slots.iter().position(Option::is_none)?;
        self.slots[slot] = Some(id.clone());
        Some(slot as u16)
    }

    pub(crate) fn drop_slot(&mut self, now: u64, id: &VfId) {
        let found = self.slots.iter().position(|s| s.as_ref() == Some(id));
        if let Some(slot) = found {
            self.slots[slot] = None;
            self.engine.lose(now, slot as u16);
        }
    }

    pub(crate) fn vf_at(&self, slot: u16) -> Option<&VfId> {
        self.slots.get(usize::from(slot))?.as_ref()
    }

    /// Who is to hold the VF in this slot.
    pub(crate) fn holder(&self, slot: u16) -> Option<&VmName> {
        Some(&self.members.get(&self.engine.holder(slot)?)?.vm)
    }
}

impl Nics {
    /// Who is to hold a VF, by the contest.
    pub(crate) fn desired(&self, id: &VfId) -> Option<&VmName> {
        let vf = self.vfs.get(id)?;
        self.pools.get(vf.pool.as_ref()?)?.holder(vf.slot?)
    }

    /// Tells the contest whether a VF can be given at all.
    pub(crate) fn sync_slot(&mut self, id: &VfId) {
        let Some(vf) = self.vfs.get(id) else { return };
        let Some(slot) = vf.slot else { return };
        let Some(contest) = vf.pool.as_ref().and_then(|p| self.pools.get_mut(p)) else { return };
        let holder = contest.holder(slot).cloned();
        let available = match &vf.state {
            State::Free => vf.listed && vf.clean && vf.unusable.is_none(),
            state if state.is_granted() => holder.as_ref() == state.owner(),
            // Its next owner waits for it.
            State::Leaving { vm, .. } | State::Unplugging { vm, .. } => {
                holder.as_ref().is_some_and(|next| next != vm)
            }
            State::Resetting => holder.is_some(),
            _ => false,
        };
        if available {
            contest.engine.restore(slot);
        } else {
            contest.engine.lose(self.now, slot);
            self.todo_vm(holder);
        }
    }

    fn todo_vm(&mut self, vm: Option<VmName>) {
        if let Some(vm) = vm {
            self.push(Who::Vm(vm));
        }
    }

    /// Decides, if it is time.
    pub(crate) fn step_pool(&mut self, name: &PoolName) {
        let Some(contest) = self.pools.get(name) else { return };
        if self.now < contest.engine.due_ms() {
            return self.wake(contest.engine.due_ms(), Who::Pool(name.clone()));
        }
        self.take_samples(name);
        self.keep_turns(name);
        let now = self.now;
        let Some(contest) = self.pools.get_mut(name) else { return };
        contest.decided_ms = now;
        let moves = contest.engine.decide(now).moves;
        let due = contest.engine.due_ms();
        let moved: Vec<VfId> = moves.iter().filter_map(|m| contest.vf_at(m.vf)).cloned().collect();
        moved.into_iter().for_each(|id| self.push(Who::Vf(id)));
        self.wake(due, Who::Pool(name.clone()));
    }

    fn take_samples(&mut self, pool: &PoolName) {
        let now = self.now;
        let Some(contest) = self.pools.get_mut(pool) else { return };
        let ms = now.saturating_sub(contest.decided_ms);
        let tenure = contest.declared.tenure_ms.max(1) as f64;
        let used = self.vfs.values().filter(|vf| vf.state.is_in_use());
        let held: BTreeMap<GrantId, Held> = used
            .filter_map(|vf| {
                let id = self.vms.get(vf.state.owner()?)?.id;
                let ms = now.saturating_sub(vf.since_ms);
                Some((id, Held { ms, tenures: ms as f64 / tenure }))
            })
            .collect();
        let idle = (IDLE_PER_S.saturating_mul(ms) / 1000).max(1);
        for (id, member) in &mut contest.members {
            let calls = member.traffic.take(ms, held.get(id).copied()).saturating_add(idle);
            let (soft_ns, hard_ns) = member.probes.take();
            contest.engine.sample(*id, Sample { calls, soft_ns, hard_ns });
            let per_s = member.traffic.per_s;
            let latency_us = hard_ns.or(soft_ns).map(|ns| ns / 1000.0);
            self.history.sent(now, pool, member.vm.clone(), per_s, latency_us);
        }
    }

    fn member_mut(&mut self, vm: &VmName) -> Option<&mut Member> {
        let vm = self.vms.get(vm)?;
        self.pools.get_mut(&vm.declared.pool)?.members.get_mut(&vm.id)
    }

    /// What a VM sends, while its pool is declared.
    pub(crate) fn traffic_mut(&mut self, vm: &VmName) -> Option<&mut Traffic> {
        Some(&mut self.member_mut(vm)?.traffic)
    }

    /// How long its packets take, while its pool is declared.
    pub(crate) fn probes_mut(&mut self, vm: &VmName) -> Option<&mut Probes> {
        Some(&mut self.member_mut(vm)?.probes)
    }

    /// The same, to look at.
    pub(crate) fn probes(&self, vm: &Contender) -> Probes {
        let member = self.pools.get(&vm.declared.pool).and_then(|c| c.members.get(&vm.id));
        member.map(|member| member.probes).unwrap_or_default()
    }

    /// The same, to look at.
    pub(crate) fn traffic(&self, vm: &Contender) -> Traffic {
        let member = self.pools.get(&vm.declared.pool).and_then(|c| c.members.get(&vm.id));
        member.map(|member| member.traffic).unwrap_or_default()
    }

    /// A tenure begins when a VF is held: until then its next owner's does not run.
    fn keep_turns(&mut self, name: &PoolName) {
        let Some(contest) = self.pools.get_mut(name) else { return };
        for slot in 0..POOL_VFS_MAX {
            let Some(id) = contest.engine.holder(slot) else { continue };
            let vf = contest.slots[usize::from(slot)].as_ref().and_then(|id| self.vfs.get(id));
            if !vf.is_some_and(|vf| matches!(vf.state, State::Held { .. })) {
                contest.engine.begin_turn(self.now, id);
            }
        }
    }
}
