//! A host of the simulation: hypervisors, agents and a card that do what they are told.

use super::{HandOver, Kin, Stay};
use std::collections::{BTreeMap, HashMap};
use vfun_admin::VmName;
use vfun_bond::{Mode, Order, Path, Report};
use vfun_nics::declared::{Hypervisor, Pool, Rule, Vm};
use vfun_nics::event::HostCounts;
use vfun_nics::notes::Notes;
use vfun_nics::{Action, AgentId, Event, Nics, Op, OpId, VfFound, VfId, VmFound};

/// The pool, which is called as its card.
pub const POOL: &str = "eth2";
/// The host's tap counts once each interval, so long before the decision, ms.
const BEFORE_MS: u64 = 1;

/// A VM, as it is.
pub struct Guest {
    /// What it is called.
    pub name: VmName,
    /// Index of its kin.
    pub kin: usize,
    /// Packets a second, both directions.
    pub per_s: f64,
    claims: f64,
    mac: String,
    order: u64,
    wants: Path,
    path: Path,
    plugged: Option<VfId>,
    carrier: bool,
    /// Packets at its tap and at its VF, and those that it claims.
    tap: f64,
    vf: f64,
    claimed: f64,
    counted_ms: u64,
    path_ms: u64,
    /// What it gets counts from then on.
    from_ms: u64,
    stay: Stay,
    vf_ms: u64,
}

/// Something that comes later.
enum Later {
    Hear(Event),
    Ordered(usize, Order),
    Asked(usize),
    Plugged(usize, VfId, OpId),
    Carrier(usize, VfId),
    Gone(usize, VfId),
}

/// The core, and the world around it.
pub struct Host {
    nics: Nics,
    now: u64,
    interval_ms: u64,
    takes: HandOver,
    card_counts: bool,
    guests: Vec<Guest>,
    numbers: HashMap<VmName, usize>,
    later: BTreeMap<(u64, u64), Later>,
    numbered: u64,
    next_count: u64,
}

fn declared(n: usize, kin: &Kin) -> Vm {
    Vm {
        pool: POOL.into(),
        hypervisor: Hypervisor::External,
        mac: format!("02:00:00:{:02x}:{:02x}:{:02x}", n >> 16 & 255, n >> 8 & 255, n & 255),
        bridge: "br0".into(),
        tap: format!("tap{n}"),
        bus: None,
        vlan: None,
        rate_mbit: None,
        rule: Rule::None,
        reserve_percent: kin.reserve_percent,
        cap_percent: 100,
        bypass_filters: true,
    }
}

impl Guest {
    fn new(n: usize, kin: usize, of: &Kin, now: u64) -> Self {
        let name = format!("vm{n}");
        Guest {
            name: VmName::new(&name, &name),
            kin,
            per_s: of.per_s,
            claims: of.claims,
            mac: declared(n, of).mac,
            order: 0,
            wants: Path::Paravirtual,
            path: Path::Paravirtual,
            plugged: None,
            carrier: false,
            tap: 0.0,
            vf: 0.0,
            claimed: 0.0,
            counted_ms: now,
            path_ms: now,
            from_ms: now,
            stay: Stay { kin, ..Stay::default() },
            vf_ms: 0,
        }
    }

    /// Its packets until now.
    fn send(&mut self, now: u64) {
        let packets = self.per_s * (now - self.counted_ms) as f64 / 1000.0;
        self.counted_ms = now;
        self.claimed += packets * self.claims;
        match self.path {
            Path::Vf => self.vf += packets,
            Path::Paravirtual => self.tap += packets,
        }
    }

    /// Its time on this path ends, or is counted until now.
    fn count_path(&mut self, now: u64) {
        let ms = now - self.path_ms.max(self.from_ms);
        match self.path {
            Path::Vf => self.vf_ms += ms,
            Path::Paravirtual => self.stay.without_ms = self.stay.without_ms.max(ms),
        }
    }

    fn report(&self) -> Report {
        Report {
            order: self.order,
            agent: "0.1.0".into(),
            bond: "bond0".into(),
            mode: Mode::Bond,
            mac: self.mac.clone(),
            path: Some(self.path),
            vf: self.plugged.as_ref().map(|_| "eth1".into()),
            packets: self.claimed as u64,
            latency_us: None,
            trouble: None,
        }
    }
}

impl Host {
    /// With a card of so many VFs, and no VM yet.
    pub fn new(pool: Pool, vfs: u16, takes: HandOver, card_counts: bool) -> Self {
        let interval_ms = pool.interval_ms;
        let mut host = Host {
            nics: Nics::new(0, Notes::default()),
            now: 0,
            interval_ms,
            takes,
            card_counts,
            guests: vec![],
            numbers: HashMap::new(),
            later: BTreeMap::new(),
            numbered: 0,
            next_count: interval_ms - BEFORE_MS,
        };
        host.hear(Event::PoolDeclared(POOL.into(), pool));
        let found = |n| VfFound { vf: VfId(format!("vf{n}")), unusable: None, clean: true };
        host.hear(Event::Vfs(POOL.into(), (0..vfs).map(found).collect()));
        host
    }

    /// One more VM, which runs and whose agent is there.
    pub fn add(&mut self, kin: usize, of: &Kin) {
        let n = self.guests.len();
        let guest = Guest::new(n, kin, of, self.now);
        let name = guest.name.clone();
        self.numbers.insert(name.clone(), n);
        self.guests.push(guest);
        self.hear(Event::VmDeclared(name, declared(n, of)));
        self.tell(n);
    }

    /// All VMs; what they send may be changed.
    pub fn guests_mut(&mut self) -> &mut [Guest] {
        &mut self.guests
    }

    /// What a VM's agent reports, for [`Host::hear`].
    pub fn said(&self, n: usize) -> Event {
        let g = &self.guests[n];
        Event::Agent(g.name.clone(), Some((AgentId(n as u64 + 1), Some(g.report()))))
    }

    /// What the host counted for a VM until now, for [`Host::hear`].
    pub fn counted(&mut self, n: usize) -> Event {
        let (now, counts) = (self.now, self.card_counts);
        let g = &mut self.guests[n];
        g.send(now);
        let vf = g.plugged.as_ref().map(|_| if counts { g.vf as u64 } else { 0 });
        Event::Counted(g.name.clone(), HostCounts { paravirtual: g.tap as u64, vf })
    }

    /// Sends a VM's counts and its agent's report.
    fn tell(&mut self, n: usize) {
        let counted = self.counted(n);
        self.hear(counted);
        let said = self.said(n);
        self.hear(said);
    }

    /// Tells the core something now, and begins what it wants.
    pub fn hear(&mut self, event: Event) {
        let actions = self.decide(event);
        self.act(actions);
    }

    /// Tells the core something now; what it wants.
    pub fn decide(&mut self, event: Event) -> Vec<Action> {
        self.nics.hear(self.now, event)
    }

    fn after(&mut self, ms: u64, what: Later) {
        self.numbered += 1;
        self.later.insert((self.now + ms, self.numbered), what);
    }

    /// Begins what the core wants.
    pub fn act(&mut self, actions: Vec<Action>) {
        let takes = self.takes;
        for action in actions {
            match action {
                Action::Note(_) | Action::Audit(..) => {}
                Action::Order(vm, _, order) => {
                    self.after(takes.order_ms, Later::Ordered(self.numbers[&vm], order));
                }
                Action::Do(_, Op::Inspect { vm }) => self.after(0, Later::Asked(self.numbers[&vm])),
                Action::Do(op, Op::Prepare { .. } | Op::Reset { .. }) => {
                    self.after(takes.setup_ms, Later::Hear(Event::Done(op, Ok(()))));
                }
                Action::Do(op, Op::Relearn { .. }) => {
                    self.after(0, Later::Hear(Event::Done(op, Ok(()))));
                }
                Action::Do(op, Op::Plug { vf, vm }) => {
                    self.after(0, Later::Plugged(self.numbers[&vm], vf, op));
                }
                Action::Do(op, Op::Unplug { vf, vm }) => {
                    self.after(0, Later::Hear(Event::Done(op, Ok(()))));
                    self.after(takes.unplug_ms, Later::Gone(self.numbers[&vm], vf));
                }
            }
        }
    }

    fn come(&mut self, what: Later) {
        match what {
            Later::Hear(event) => self.hear(event),
            Later::Ordered(n, order) => {
                (self.guests[n].order, self.guests[n].wants) = (order.number, order.path);
                self.follow(n);
                self.tell(n);
            }
            Later::Asked(n) => {
                let g = &self.guests[n];
                let found = VmFound::Runs { plugged: g.plugged.iter().cloned().collect() };
                self.hear(Event::VmFound(g.name.clone(), found));
            }
            Later::Plugged(n, vf, op) => {
                let g = &mut self.guests[n];
                (g.plugged, g.carrier, g.vf) = (Some(vf.clone()), false, 0.0);
                self.hear(Event::Done(op, Ok(())));
                self.after(self.takes.plug_ms, Later::Carrier(n, vf));
            }
            Later::Carrier(n, vf) if self.guests[n].plugged.as_ref() == Some(&vf) => {
                self.guests[n].carrier = true;
                self.follow(n);
                self.tell(n);
            }
            Later::Carrier(..) => {}
            Later::Gone(n, vf) => {
                let g = &mut self.guests[n];
                (g.plugged, g.carrier) = (None, false);
                let name = g.name.clone();
                self.follow(n);
                self.hear(Event::Deleted(name, vf));
            }
        }
    }

    /// The agent moves the bond to where it should be and can be.
    fn follow(&mut self, n: usize) {
        let now = self.now;
        let g = &mut self.guests[n];
        let path = if g.carrier { g.wants } else { Path::Paravirtual };
        if path == g.path {
            return;
        }
        g.send(now);
        g.count_path(now);
        let ms = now - g.path_ms;
        match path {
            Path::Vf => g.stay.got += 1,
            Path::Paravirtual => {
                g.stay.least_ms = Some(g.stay.least_ms.map_or(ms, |least| least.min(ms)));
            }
        }
        (g.path, g.path_ms) = (path, now);
    }

    /// Lets time go by, until this one.
    pub fn run(&mut self, until: u64) {
        loop {
            let later = self.later.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let due = self.nics.due_ms().unwrap_or(u64::MAX);
            let next = later.min(due).min(self.next_count).max(self.now);
            if next > until {
                break;
            }
            self.now = next;
            if self.next_count <= next {
                self.next_count += self.interval_ms;
                (0..self.guests.len()).for_each(|n| self.tell(n));
            } else if later <= next {
                let (_, what) = self.later.pop_first().expect("just looked at");
                self.come(what);
            } else {
                self.hear(Event::Tick);
            }
        }
        self.now = until;
    }

    /// Makes it this time, with nothing done that is due then.
    pub fn be(&mut self, now: u64) {
        self.now = now;
    }

    /// What was so far does not count.
    pub fn begin_to_count(&mut self) {
        for g in &mut self.guests {
            (g.stay, g.vf_ms) = (Stay { kin: g.kin, ..Stay::default() }, 0);
            g.from_ms = self.now;
        }
    }

    /// What each VM got since then: so many ms.
    pub fn stays(mut self, counts_ms: u64) -> Vec<Stay> {
        let now = self.now;
        for g in &mut self.guests {
            g.count_path(now);
            g.stay.vf_share = g.vf_ms as f64 / counts_ms.max(1) as f64;
        }
        self.guests.into_iter().map(|g| g.stay).collect()
    }
}
