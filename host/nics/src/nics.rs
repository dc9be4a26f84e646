//! The state machine as a whole: what it knows, and how an event becomes actions.

use crate::contest::Contest;
use crate::declared::{Pool, Vm as DeclaredVm};
use crate::event::{Action, Cause, Event, Op, OpId, PoolName, VfId};
use crate::history::History;
use crate::notes::Notes;
use crate::vf::{State, Step, Vf};
use crate::vm::{AgentSeen, Contender};
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;

/// Something that has a next step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Pool(PoolName),
    Vm(VmName),
    Vf(VfId),
}

/// Whom the answer to an op is for.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Vf(VfId),
    Inspect(VmName),
}

/// Which VM holds which VF: see the crate's first page.
#[derive(Clone, Debug)]
pub struct Nics {
    pub(crate) now: u64,
    /// Counts events.
    pub(crate) events: u64,
    next_op: u64,
    next_order: u64,
    pub(crate) next_id: u64,
    pub(crate) pools: BTreeMap<PoolName, Contest>,
    pub(crate) vfs: BTreeMap<VfId, Vf>,
    pub(crate) vms: BTreeMap<VmName, Contender>,
    /// Agents of all VMs, also of those that are not declared.
    pub(crate) agents: BTreeMap<VmName, AgentSeen>,
    /// The VFs of each VM, by their states.
    pub(crate) owned: BTreeMap<VmName, BTreeSet<VfId>>,
    /// The VMs in which hypervisors see a VF.
    pub(crate) seen_in: BTreeMap<VfId, BTreeSet<VmName>>,
    pub(crate) migrating: BTreeSet<VmName>,
    pub(crate) asked: BTreeMap<OpId, Asked>,
    pub(crate) history: History,
    notes: Notes,
    pub(crate) notes_changed: bool,
    todo: BTreeSet<Who>,
    timers: BTreeSet<(u64, Who)>,
    orders: Vec<Action>,
    lines: Vec<Action>,
    ops: Vec<(OpId, Op)>,
}

/// The version of the notes that this program writes.
pub const NOTES_VERSION: u32 = 1;

impl Nics {
    /// Begins with the notes of the process before. Each VF in them belongs to its noted
    /// owner until that VM's hypervisor says that it does not.
    pub fn new(now_ms: u64, notes: Notes) -> Nics {
        let mut nics = Nics {
            now: now_ms,
            events: 0,
            next_op: 0,
            next_order: now_ms << 20,
            next_id: 0,
            pools: BTreeMap::new(),
            vfs: BTreeMap::new(),
            vms: BTreeMap::new(),
            agents: BTreeMap::new(),
            owned: BTreeMap::new(),
            seen_in: BTreeMap::new(),
            migrating: notes.migrating.iter().cloned().collect(),
            asked: BTreeMap::new(),
            history: History::default(),
            notes: Notes::default(),
            notes_changed: false,
            todo: BTreeSet::new(),
            timers: BTreeSet::new(),
            orders: vec![],
            lines: vec![],
            ops: vec![],
        };
        for (id, note) in &notes.vfs {
            let vf = Vf::noted(now_ms, note.clone());
            if let Some(owner) = vf.state.owner() {
                nics.owned.entry(owner.clone()).or_default().insert(id.clone());
            }
            nics.vfs.insert(id.clone(), vf);
        }
        nics.notes = Notes { version: NOTES_VERSION, ..notes };
        nics
    }

    /// Takes an event in: what is to be done now, in order.
    pub fn hear(&mut self, now_ms: u64, event: Event) -> Vec<Action> {
        self.now = self.now.max(now_ms);
        self.events += 1;
        self.take_in(event);
        while let Some((_, who)) = self.timers.first().filter(|(at, _)| *at <= self.now).cloned() {
            self.timers.pop_first();
            self.todo.insert(who);
        }
        while let Some(who) = self.todo.pop_first() {
            match who {
                Who::Pool(name) => self.step_pool(&name),
                Who::Vm(name) => self.step_vm(&name),
                Who::Vf(id) => self.step_vf(&id),
            }
        }
        let actions = self.take_actions();
        #[cfg(debug_assertions)]
        self.check();
        actions
    }

    /// When time alone changes something next, ms: [`Event::Tick`] is due then.
    pub fn due_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A VM's declaration in force. It is the old one until the VM has lost its VF, and
    /// ops for the VM are meant for it. `None`: it is not declared, or not any more; its
    /// hypervisor is not needed then.
    pub fn vm(&self, vm: &VmName) -> Option<&DeclaredVm> {
        Some(&self.vms.get(vm)?.declared)
    }

    /// A pool's declaration in force.
    pub fn pool(&self, pool: &str) -> Option<&Pool> {
        Some(&self.pools.get(pool)?.declared)
    }

    /// Whether a VM has no VF, none on its way, and none that it may still have.
    pub fn is_without_vf(&self, vm: &VmName) -> bool {
        !self.owned.contains_key(vm)
    }

    fn take_actions(&mut self) -> Vec<Action> {
        let mut actions = vec![];
        if std::mem::take(&mut self.notes_changed) {
            let notes = self.current_notes();
            if notes != self.notes {
                self.notes = notes.clone();
                actions.push(Action::Note(notes));
            }
        }
        actions.append(&mut self.orders);
        actions.append(&mut self.lines);
        // What is plugged in may need what is unplugged.
        self.ops.sort_by_key(|(_, op)| match op {
            Op::Unplug { .. } | Op::Relearn { .. } => 0,
            Op::Inspect { .. } | Op::Reset { .. } => 1,
            Op::Prepare { .. } | Op::Plug { .. } => 2,
        });
        actions.extend(self.ops.drain(..).map(|(id, op)| Action::Do(id, op)));
        actions
    }

    fn current_notes(&self) -> Notes {
        let vfs = self.vfs.iter().filter_map(|(id, vf)| Some((id.clone(), vf.note()?)));
        let migrating = self.migrating.iter().cloned().collect();
        Notes { version: NOTES_VERSION, vfs: vfs.collect(), migrating }
    }

    /// What was written last.
    pub(crate) fn written(&self) -> &Notes {
        &self.notes
    }

    pub(crate) fn push(&mut self, who: Who) {
        self.todo.insert(who);
    }

    pub(crate) fn push_vfs_of(&mut self, vm: &VmName) {
        let vfs = self.owned.get(vm).into_iter().flatten().cloned().map(Who::Vf);
        self.todo.extend(vfs);
    }

    /// Looks at it again at this time.
    pub(crate) fn wake(&mut self, at_ms: u64, who: Who) {
        if at_ms > self.now && at_ms < u64::MAX {
            self.timers.insert((at_ms, who));
        }
    }

    pub(crate) fn order(&mut self, action: Action) {
        self.orders.push(action);
    }

    /// A number that no order had, also before a new start of this process.
    pub(crate) fn new_order(&mut self) -> u64 {
        self.next_order = self.next_order.wrapping_add(1);
        mix(self.next_order).max(1)
    }

    fn begin(&mut self, op: Op, asked: Asked) -> OpId {
        self.next_op += 1;
        let id = OpId(self.next_op);
        self.asked.insert(id, asked);
        self.ops.push((id, op));
        id
    }

    pub(crate) fn begin_inspect(&mut self, name: &VmName) -> OpId {
        self.begin(Op::Inspect { vm: name.clone() }, Asked::Inspect(name.clone()))
    }

    /// Begins something for a VF; the one before was answered.
    pub(crate) fn begin_step(&mut self, id: &VfId, step: Step, vm: Option<&VmName>) {
        let vf = id.clone();
        let op = match (step, vm.cloned()) {
            (Step::Prepare, Some(vm)) => Op::Prepare { vf, vm },
            (Step::Plug, Some(vm)) => Op::Plug { vf, vm },
            (Step::Relearn, Some(vm)) => Op::Relearn { vf, vm },
            (Step::Unplug, Some(vm)) => Op::Unplug { vf, vm },
            _ => Op::Reset { vf },
        };
        let op = self.begin(op, Asked::Vf(id.clone()));
        let vf = self.vfs.get_mut(id).expect("a VF that is being stepped");
        debug_assert!(vf.op.is_none(), "{id}: {:?} while {:?} is under way", step, vf.op);
        vf.op = Some((op, step));
    }

    /// Puts a VF into another state.
    pub(crate) fn set(&mut self, id: &VfId, state: State) {
        let now = self.now;
        let vf = self.vfs.get_mut(id).expect("a VF that is being stepped");
        let new = state.owner().cloned();
        let before = std::mem::replace(&mut vf.state, state);
        vf.times.add(&before, now.saturating_sub(vf.since_ms));
        vf.since_ms = now;
        if matches!(before, State::Held { .. }) {
            self.history.end(now, id);
        }
        if let State::Held { vm } = &vf.state {
            let pool = vf.pool.clone().unwrap_or_default();
            self.history.begin(now, pool, id.clone(), vm.clone());
        }
        let old = before.owner().cloned();
        if new.is_some() {
            (vf.dirty, vf.clean) = (true, false);
        }
        if old != new {
            if let Some(old) = &old {
                let left = self.owned.get_mut(old).is_some_and(|all| {
                    all.remove(id);
                    all.is_empty()
                });
                if left {
                    self.owned.remove(old);
                }
            }
            if let Some(new) = &new {
                self.owned.entry(new.clone()).or_default().insert(id.clone());
            }
        }
        self.notes_changed = true;
        self.todo.extend(old.into_iter().chain(new).map(Who::Vm));
        self.todo.insert(Who::Vf(id.clone()));
    }

    /// Takes a VF out of the books.
    pub(crate) fn forget_vf(&mut self, id: &VfId) {
        let Some(vf) = self.vfs.remove(id) else { return };
        debug_assert!(vf.state.owner().is_none() && vf.op.is_none(), "{id} is still in use");
        if let Some(contest) = vf.pool.as_ref().and_then(|pool| self.pools.get_mut(pool)) {
            contest.drop_slot(self.now, id);
        }
        self.notes_changed = true;
    }

    /// A line for the audit log about what no guest does as often as it likes.
    pub(crate) fn audit(&mut self, line: String) {
        self.lines.push(Action::Audit(Cause::Host, line));
    }

    /// A line about a VM, unless there were too many.
    pub(crate) fn audit_vm(&mut self, name: &VmName, line: &str) {
        let Some(vm) = self.vms.get_mut(name) else { return };
        if let Some(dropped) = vm.audit.take(self.now) {
            let more = match dropped {
                0 => String::new(),
                n => format!(" ({n} lines about this VM were left out)"),
            };
            self.lines.push(Action::Audit(Cause::Vm, format!("VM {name}: {line}{more}")));
        }
    }
}

/// splitmix64's finisher: each number has another one.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A text from outside, short enough to keep.
pub(crate) fn short(mut text: String) -> String {
    text.retain(|c| !c.is_control());
    let end = (0..=crate::limits::SENTENCE_BYTES.min(text.len())).rev();
    text.truncate(end.into_iter().find(|n| text.is_char_boundary(*n)).unwrap_or(0));
    text
}
