//! What carries the core's actions out: workers for hypervisors, providers for cards.

use super::World;
use vfun_admin::VmName;
use vfun_bond::Order;
use vfun_nics::{AgentId, Event, Op, OpId, VfId, VmFound};

/// Something that happens later.
#[derive(Clone, Debug)]
pub enum Job {
    /// An op takes effect; by this process.
    Work {
        process: u64,
        op: OpId,
        what: Op,
    },
    /// Its answer arrives.
    Say {
        process: u64,
        event: Event,
    },
    Order {
        vm: VmName,
        agent: AgentId,
        order: Order,
    },
    /// The guest lets go of a VF.
    Detach {
        vm: VmName,
        vf: VfId,
    },
}

impl World {
    fn queue_at(&mut self, at: u64, job: Job) {
        self.queued += 1;
        self.queue.insert((at, self.queued), job);
    }

    /// A time after all that this worker has still to do.
    fn when(&mut self, worker: String, least: u64, most: u64) -> u64 {
        let from = self.busy.get(&worker).copied().unwrap_or(0).max(self.now);
        let at = from + least + self.draw(most - least + 1);
        self.busy.insert(worker, at);
        at
    }

    pub fn begin(&mut self, op: OpId, what: Op) {
        self.prepared += u32::from(matches!(what, Op::Prepare { .. }));
        let noted = |id: &VfId| self.disk.vfs.get(id);
        let worker = match &what {
            Op::Prepare { vf, vm } | Op::Plug { vf, vm } => {
                let note = noted(vf).unwrap_or_else(|| panic!("{what:?} and {vf} is not noted"));
                assert_eq!(note.owner.as_ref(), Some(vm), "{what:?} and another is noted");
                assert!(note.dirty);
                if matches!(what, Op::Plug { .. }) { format!("{vm}") } else { vf.to_string() }
            }
            Op::Reset { vf } => {
                assert!(noted(vf).is_none_or(|n| n.owner.is_none() && n.dirty), "{what:?}");
                vf.to_string()
            }
            Op::Relearn { vf, .. } => vf.to_string(),
            Op::Unplug { vm, .. } | Op::Inspect { vm } => vm.to_string(),
        };
        if let Op::Prepare { vf, .. }
        | Op::Relearn { vf, .. }
        | Op::Plug { vf, .. }
        | Op::Unplug { vf, .. }
        | Op::Reset { vf } = &what
        {
            let before = self.outstanding.insert(vf.clone(), op);
            assert_eq!(before, None, "{what:?} while another op of {vf} is not answered");
        }
        let most = if self.faults.on { 3000 } else { 300 };
        let learns_ms = if matches!(what, Op::Relearn { .. }) { self.learns_ms } else { 0 };
        let at = self.when(worker, 10 + learns_ms, most + learns_ms);
        let process = self.process;
        self.queue_at(at, Job::Work { process, op, what });
    }

    pub fn send(&mut self, vm: &VmName, agent: AgentId, order: Order) {
        let at = self.when(format!("order {vm}"), 1, 200);
        self.queue_at(at, Job::Order { vm: vm.clone(), agent, order });
    }

    /// The process died: what it began may still go on, or not.
    pub fn leave_jobs_behind(&mut self) {
        for (at, job) in std::mem::take(&mut self.queue) {
            let Job::Work { what, .. } = &job else {
                self.queue.insert(at, job);
                continue;
            };
            let (what, goes_on) = (what.clone(), self.draw(2) == 0);
            match &what {
                // A child of the process goes on by itself; its hypervisor knows of it.
                Op::Plug { vf, vm } if goes_on && self.guests[vm].runs => {
                    self.guests.get_mut(vm).unwrap().under_way.insert(vf.clone());
                    self.queue.insert(at, job);
                }
                Op::Unplug { .. } if goes_on => drop(self.queue.insert(at, job)),
                Op::Prepare { .. } | Op::Reset { .. } if goes_on => drop(self.work(&what)),
                _ => {}
            }
        }
        self.busy.clear();
    }

    pub fn run_jobs(&mut self) {
        while let Some((&(at, n), _)) = self.queue.first_key_value() {
            if at > self.now {
                return;
            }
            let job = self.queue.remove(&(at, n)).unwrap();
            match job {
                Job::Work { process, op, what } => self.do_work(process, op, what),
                Job::Say { process, event } => self.say(process, event),
                Job::Order { vm, agent, order } => {
                    let g = self.guests.get_mut(&vm).unwrap();
                    if g.agent == Some(agent) {
                        g.order = Some(order);
                    }
                }
                Job::Detach { vm, vf } => self.detach(&vm, &vf),
            }
        }
    }

    fn say(&mut self, process: u64, event: Event) {
        if process != self.process {
            return;
        }
        if let Event::Done(op, _) = &event {
            self.outstanding.retain(|_, current| current != op);
        }
        self.hear(event);
    }

    fn do_work(&mut self, process: u64, op: OpId, what: Op) {
        if let Op::Plug { vf, vm } = &what {
            let left = self.guests.get_mut(vm).unwrap().under_way.remove(vf);
            // The VM ended since: what was under way ended with it.
            if process != self.process && !left {
                return;
            }
        }
        let result = self.work(&what);
        let event = match &what {
            Op::Inspect { vm } => Event::VmFound(vm.clone(), self.look(vm)),
            _ => Event::Done(op, result),
        };
        let worker = match &what {
            Op::Prepare { vf, .. } | Op::Relearn { vf, .. } | Op::Reset { vf } => vf.to_string(),
            Op::Plug { vm, .. } | Op::Unplug { vm, .. } | Op::Inspect { vm } => vm.to_string(),
        };
        let at = self.when(worker, 0, 20);
        self.queue_at(at, Job::Say { process, event });
    }

    /// Something that a VM's worker says by itself.
    pub fn worker_says(&mut self, vm: &VmName, event: Event) {
        let at = self.when(vm.to_string(), 0, 20);
        self.queue_at(at, Job::Say { process: self.process, event });
    }

    pub fn look(&self, vm: &VmName) -> VmFound {
        let g = &self.guests[vm];
        match (g.answers, g.runs) {
            (false, _) => VmFound::Unknown { why: "nobody answers".into() },
            (true, false) => VmFound::Ended,
            (true, true) => {
                VmFound::Runs { plugged: g.plugged.union(&g.under_way).cloned().collect() }
            }
        }
    }

    /// What an op does in the world. Here is what must never be.
    fn work(&mut self, what: &Op) -> Result<(), String> {
        let fails = self.unlucky(self.faults.fail);
        let in_vms = |vf: &VfId| {
            let has = self.guests.iter().filter(|(_, g)| g.plugged.contains(vf));
            has.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        match what {
            Op::Prepare { vf, vm } => {
                assert!(in_vms(vf).is_empty(), "{vf} is prepared and in {:?}", in_vms(vf));
                let card = self.cards.get_mut(vf).unwrap();
                assert_eq!(card.last, None, "{vf} is prepared dirty");
                assert!(!card.unusable, "{vf} is somebody else's");
                if fails || card.gone || self.guests[vm].unpreparable {
                    return Err("the card does not answer".into());
                }
                card.prepared_for = Some(vm.clone());
            }
            Op::Reset { vf } => {
                assert!(in_vms(vf).is_empty(), "{vf} is reset and in {:?}", in_vms(vf));
                let card = self.cards.get_mut(vf).unwrap();
                if fails || card.gone || card.resets_fail || card.unusable {
                    return Err("the card does not answer".into());
                }
                (card.last, card.prepared_for, card.joined_ms) = (None, None, None);
            }
            Op::Relearn { .. } if fails => return Err("the switch does not answer".into()),
            Op::Relearn { .. } => {}
            Op::Plug { vf, vm } => return self.plug(vf, vm, fails),
            Op::Unplug { vf, vm } => return self.unplug(vf, vm, fails),
            Op::Inspect { .. } => {}
        }
        Ok(())
    }

    fn plug(&mut self, vf: &VfId, vm: &VmName, fails: bool) -> Result<(), String> {
        for (other, g) in &self.guests {
            assert!(other == vm || !g.plugged.contains(vf), "{vf} in {other} and {vm}");
        }
        let card = self.cards.get_mut(vf).unwrap();
        let g = self.guests.get_mut(vm).unwrap();
        // One that fails may have done its work all the same.
        if !g.answers || !g.runs || card.gone {
            return Err("nobody answers".into());
        }
        if fails && self.seed.is_multiple_of(2) {
            return Err("it failed at once".into());
        }
        assert_eq!(card.prepared_for.as_ref(), Some(vm), "{vf} is ready for another VM");
        assert!(card.last.as_ref().is_none_or(|l| l == vm), "{vf} is dirty from {:?}", card.last);
        assert!(g.plugged.iter().all(|other| other == vf), "{vm} has two: {:?}", g.plugged);
        card.last = Some(vm.clone());
        g.plugged.insert(vf.clone());
        match fails {
            true => Err("it took too long".into()),
            false => Ok(()),
        }
    }

    fn unplug(&mut self, vf: &VfId, vm: &VmName, fails: bool) -> Result<(), String> {
        let g = &self.guests[vm];
        if !g.answers || !g.runs || !g.plugged.contains(vf) {
            return Err("no such device".into());
        }
        if fails || g.ignores_unplug {
            return Ok(());
        }
        let at = self.now + 50 + self.draw(300);
        self.queue_at(at, Job::Detach { vm: vm.clone(), vf: vf.clone() });
        Ok(())
    }

    fn detach(&mut self, vm: &VmName, vf: &VfId) {
        let g = self.guests.get_mut(vm).unwrap();
        if !g.runs || !g.plugged.remove(vf) {
            return;
        }
        self.cards.get_mut(vf).unwrap().moves.push(self.now);
        let g = &self.guests[vm];
        if g.answers && !self.unlucky(self.faults.lose_event) {
            self.worker_says(vm, Event::Deleted(vm.clone(), vf.clone()));
        }
    }
}
