//! A world around the core: hypervisors, guests, agents and cards that are slow, lie and
//! fail, and a process that dies between any two actions. What must never be is asserted
//! where it would happen: at the hypervisor and at the card.

mod guest;
mod hands;
mod trouble;

pub use guest::{Guest, vm_name};
pub use trouble::Faults;

use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;
use vfun_bond::Path;
use vfun_nics::declared::{Pool, Source};
use vfun_nics::event::HostCounts;
use vfun_nics::notes::Notes;
use vfun_nics::{Action, Event, Nics, VfFound, VfId};

pub const POOL: &str = "eth2";

/// A VF of the card.
#[derive(Clone, Debug, Default)]
pub struct Card {
    pub gone: bool,
    pub unusable: bool,
    /// Its last owner, since its last reset.
    pub last: Option<VmName>,
    pub prepared_for: Option<VmName>,
    /// When its holder's agent began to use it.
    pub joined_ms: Option<u64>,
    /// A VM let go of it at these times.
    pub moves: Vec<u64>,
    pub resets_fail: bool,
}

pub struct World {
    pub now: u64,
    pub nics: Nics,
    pub disk: Notes,
    pub pools: BTreeMap<String, Pool>,
    pub guests: BTreeMap<VmName, Guest>,
    /// What the operator wants; a removed VM is in `guests` alone.
    pub declared: BTreeSet<VmName>,
    pub cards: BTreeMap<VfId, Card>,
    pub faults: Faults,
    pub seed: u64,
    pub process: u64,
    pub audit: Vec<String>,
    /// The orders that were sent, by number: to whom, and which path.
    pub orders: BTreeMap<u64, (VmName, Path)>,
    /// How often a VF was made ready for a VM.
    pub prepared: u32,
    /// How long the host's switch takes to learn that a VM has left its VF.
    pub learns_ms: u64,
    queue: BTreeMap<(u64, u64), hands::Job>,
    queued: u64,
    /// Until when a worker is busy: one a VM, one a VF at the card.
    busy: BTreeMap<String, u64>,
    outstanding: BTreeMap<VfId, vfun_nics::OpId>,
}

pub fn vf(n: usize) -> VfId {
    VfId(format!("vf{n}"))
}

impl World {
    pub fn new(seed: u64, vms: usize, vfs: usize, pool: Pool) -> World {
        let mut world = World {
            now: 1_000_000,
            nics: Nics::new(1_000_000, Notes::default()),
            disk: Notes::default(),
            pools: [(POOL.to_string(), pool)].into(),
            guests: (0..vms).map(|n| (vm_name(n), Guest::new(n))).collect(),
            declared: (0..vms).map(vm_name).collect(),
            cards: (0..vfs).map(|n| (vf(n), Card::default())).collect(),
            faults: Faults::default(),
            seed: seed.wrapping_mul(2).wrapping_add(1),
            process: 0,
            audit: vec![],
            orders: BTreeMap::new(),
            prepared: 0,
            learns_ms: 0,
            queue: BTreeMap::new(),
            queued: 0,
            busy: BTreeMap::new(),
            outstanding: BTreeMap::new(),
        };
        world.start_process();
        world
    }

    pub fn pool() -> Pool {
        Pool::new(Source::Sriov { pf: POOL.into() })
    }

    /// A number from 0 to below `n`.
    pub fn draw(&mut self, n: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) % n.max(1)
    }

    /// True so many times in a hundred thousand, while there are faults.
    pub fn unlucky(&mut self, of_100_000: u64) -> bool {
        self.faults.on && self.draw(100_000) < of_100_000
    }

    /// Starts the allocator anew, with the notes that are on disk.
    pub fn start_process(&mut self) {
        self.process += 1;
        // A start takes some time.
        self.now += 1;
        self.outstanding.clear();
        self.leave_jobs_behind();
        self.nics = Nics::new(self.now, self.disk.clone());
        for (name, pool) in self.pools.clone() {
            self.hear(Event::PoolDeclared(name, pool));
        }
        for name in self.declared.clone() {
            let declared = self.guests[&name].declared.clone();
            self.hear(Event::VmDeclared(name, declared));
        }
        self.scan();
        for name in self.guests.keys().cloned().collect::<Vec<_>>() {
            self.tell_agent(&name);
        }
    }

    /// What ports enforce, as it is read now and then.
    fn read_rules(&mut self) {
        for name in self.guests.keys().cloned().collect::<Vec<_>>() {
            if let Some(rules) = self.guests[&name].rules.clone() {
                self.hear(Event::Filters(name, rules));
            }
        }
    }

    pub fn scan(&mut self) {
        let found: Vec<VfFound> = self
            .cards
            .iter()
            .filter(|(_, card)| !card.gone)
            .map(|(id, card)| VfFound {
                vf: id.clone(),
                unusable: card.unusable.then(|| "a container has it".to_string()),
                clean: card.last.is_none(),
            })
            .collect();
        for pool in self.pools.keys().cloned().collect::<Vec<_>>() {
            // All VFs are of the first pool.
            let list = if pool == POOL { found.clone() } else { vec![] };
            self.hear(Event::Vfs(pool, list));
        }
        self.read_rules();
    }

    /// Gives the core an event and does what it says, or dies in the middle of that.
    pub fn hear(&mut self, event: Event) {
        let process = self.process;
        for action in self.nics.hear(self.now, event) {
            if process != self.process {
                return;
            }
            if self.unlucky(self.faults.crash) {
                return self.start_process();
            }
            match action {
                Action::Note(notes) => self.disk = notes,
                Action::Do(op, what) => self.begin(op, what),
                Action::Order(vm, agent, order) => {
                    let before = self.orders.insert(order.number, (vm.clone(), order.path));
                    assert!(before.is_none(), "an order's number came twice");
                    self.send(&vm, agent, order);
                }
                Action::Audit(_, line) => self.audit.push(line),
            }
        }
        self.nics.check();
    }

    /// Lets so much time go by.
    pub fn run(&mut self, ms: u64, step_ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.now += step_ms;
            self.run_jobs();
            self.make_trouble();
            for name in self.guests.keys().cloned().collect::<Vec<_>>() {
                self.run_guest(&name, step_ms);
            }
            if self.now % 1000 < step_ms {
                self.count();
            }
            if self.now % 20_000 < step_ms {
                self.scan();
            }
            while self.nics.due_ms().is_some_and(|due| due <= self.now) {
                self.hear(Event::Tick);
            }
        }
    }

    fn count(&mut self) {
        let counts: Vec<(VmName, HostCounts)> = self
            .guests
            .iter()
            .map(|(name, g)| {
                let vf = g.card_counts.then_some(g.vf_packets);
                (name.clone(), HostCounts { paravirtual: g.tap_packets, vf })
            })
            .collect();
        for (name, counts) in counts {
            self.hear(Event::Counted(name, counts));
        }
    }

    /// Which VF's holder uses it, by VM.
    pub fn holders(&self) -> BTreeMap<VmName, VfId> {
        let used = self.guests.iter().filter(|(_, g)| g.uses_vf());
        used.map(|(name, g)| (name.clone(), g.plugged.first().cloned().unwrap())).collect()
    }

    pub fn holds(&self, n: usize) -> bool {
        self.guests[&vm_name(n)].uses_vf()
    }

    pub fn guest(&mut self, n: usize) -> &mut Guest {
        self.guests.get_mut(&vm_name(n)).unwrap()
    }

    /// Why a VM holds a VF or none, as one text.
    pub fn why(&self, n: usize) -> String {
        let view = self.nics.view_vm(self.now, &vm_name(n)).expect("a declared VM");
        view.why.join(". ")
    }

    pub fn state(&self, n: usize) -> String {
        let view = self.nics.view(self.now);
        let all = view.pools.iter().flat_map(|p| &p.vfs).chain(&view.stray);
        let found = all.into_iter().find(|v| v.vf == vf(n).0).map(|v| v.state.clone());
        found.unwrap_or_else(|| "forgotten".into())
    }

    /// Lets each VM hold what it holds for so long: how long each used a VF, ms.
    pub fn measure(&mut self, ms: u64) -> Vec<u64> {
        let mut held = vec![0; self.guests.len()];
        for _ in 0..ms / 500 {
            self.run(500, 100);
            for (n, held) in held.iter_mut().enumerate() {
                *held += 500 * u64::from(self.holds(n));
            }
        }
        held
    }

    pub fn declare(&mut self, n: usize, change: impl FnOnce(&mut vfun_nics::declared::Vm)) {
        change(&mut self.guest(n).declared);
        self.declared.insert(vm_name(n));
        let declared = self.guest(n).declared.clone();
        self.hear(Event::VmDeclared(vm_name(n), declared));
        self.read_rules();
    }
}
