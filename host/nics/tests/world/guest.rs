//! A VM with its agent.

use super::World;
use std::collections::BTreeSet;
use vfun_admin::VmName;
use vfun_bond::{Mode, Order, Path, Report};
use vfun_nics::declared::{Hypervisor, Vm};
use vfun_nics::{AgentId, Event, VfId};

pub struct Guest {
    pub declared: Vm,
    pub runs: bool,
    /// Its hypervisor answers.
    pub answers: bool,
    pub plugged: BTreeSet<VfId>,
    /// A plug that goes on without the process that asked for it.
    pub under_way: BTreeSet<VfId>,
    pub ignores_unplug: bool,
    pub agent: Option<AgentId>,
    pub order: Option<Order>,
    pub path: Path,
    /// Its agent reads no orders.
    pub lazy: bool,
    /// Its agent comes back so often, ms; 0 for never.
    pub reconnects_ms: u64,
    /// Packets a second in truth, and so many times as many in its claim.
    pub rate: u64,
    /// What its agent measures by the paravirtual NIC and by a VF, µs.
    pub latency_us: Option<[u32; 2]>,
    pub lie: u64,
    pub mac: String,
    /// Each of its reports names another MAC address than the one before.
    pub flips_mac: bool,
    pub card_counts: bool,
    /// No VF can be made ready for it.
    pub unpreparable: bool,
    /// What its port enforces; none while nobody has read that.
    pub rules: Option<Vec<String>>,
    pub claimed: u64,
    pub tap_packets: u64,
    pub vf_packets: u64,
    agents: u64,
    pub told: Option<Report>,
}

pub fn vm_name(n: usize) -> VmName {
    let name = format!("vm{n:02}");
    VmName::new(&name, &name)
}

impl Guest {
    pub fn new(n: usize) -> Guest {
        let mac = format!("02:00:00:00:00:{n:02x}");
        let declared = Vm::new(
            super::POOL,
            Hypervisor::Qmp { socket: format!("/run/vm{n}.qmp").into() },
            mac.to_uppercase(),
            "br0",
            format!("tap{n}"),
        );
        Guest {
            declared,
            runs: true,
            answers: true,
            plugged: BTreeSet::new(),
            under_way: BTreeSet::new(),
            ignores_unplug: false,
            agent: Some(AgentId(n as u64 + 1)),
            order: None,
            path: Path::Paravirtual,
            lazy: false,
            reconnects_ms: 0,
            rate: 1000,
            latency_us: None,
            lie: 1,
            mac,
            flips_mac: false,
            card_counts: true,
            unpreparable: false,
            rules: Some(vec![]),
            claimed: 0,
            tap_packets: 0,
            vf_packets: 0,
            agents: n as u64 + 1,
            told: None,
        }
    }

    pub fn uses_vf(&self) -> bool {
        self.path == Path::Vf && !self.plugged.is_empty()
    }

    pub fn end(&mut self) {
        self.runs = false;
        self.plugged.clear();
        self.under_way.clear();
        self.lose_agent();
        self.path = Path::Paravirtual;
    }

    pub fn lose_agent(&mut self) {
        (self.agent, self.order, self.told) = (None, None, None);
    }

    pub fn start_agent(&mut self) {
        self.lose_agent();
        self.agents += 1_000;
        self.agent = Some(AgentId(self.agents));
    }

    fn report(&self) -> Report {
        Report {
            order: self.order.as_ref().filter(|_| !self.lazy).map_or(0, |order| order.number),
            agent: "0.1.0".into(),
            bond: "bond0".into(),
            mode: Mode::Bond,
            mac: self.mac.clone(),
            path: Some(self.path),
            vf: self.plugged.first().map(|_| "enp1s0".into()),
            packets: self.claimed,
            latency_us: self.latency_us.map(|us| us[usize::from(self.path == Path::Vf)]),
            trouble: None,
        }
    }
}

impl World {
    pub fn run_guest(&mut self, name: &VmName, ms: u64) {
        let now = self.now;
        let lost = self.unlucky(self.faults.lose_report);
        let g = self.guests.get_mut(name).unwrap();
        if g.plugged.is_empty() {
            g.path = Path::Paravirtual;
        }
        if !g.runs {
            return;
        }
        let packets = g.rate * ms / 1000;
        g.claimed += packets * g.lie;
        match g.path {
            Path::Vf => g.vf_packets += packets,
            Path::Paravirtual => g.tap_packets += packets,
        }
        if g.reconnects_ms > 0 && now % g.reconnects_ms < ms {
            g.start_agent();
            return self.tell_agent(name);
        }
        if g.agent.is_none() {
            return;
        }
        if let Some(order) = g.order.as_ref().filter(|_| !g.lazy) {
            g.path = match order.path {
                Path::Vf if g.plugged.is_empty() => Path::Paravirtual,
                path => path,
            };
        }
        let path = g.path;
        for id in g.plugged.clone() {
            let card = self.cards.get_mut(&id).unwrap();
            card.joined_ms = match path {
                Path::Vf => card.joined_ms.or(Some(now)),
                Path::Paravirtual => None,
            };
        }
        let g = self.guests.get_mut(name).unwrap();
        let report = g.report();
        let news = g.told.as_ref().is_none_or(|t| (t.order, t.path) != (report.order, report.path));
        if (news || now % 1000 < ms) && !lost {
            g.told = Some(report);
            if g.flips_mac {
                g.mac = match g.mac.strip_suffix("99") {
                    Some(start) => format!("{start}{:02x}", 0),
                    None => format!("{}99", &g.mac[..g.mac.len() - 2]),
                };
            }
            self.tell_agent(name);
        }
    }

    /// Says how the manager sees a VM's agent.
    pub fn tell_agent(&mut self, name: &VmName) {
        let g = &self.guests[name];
        let agent = g.agent.map(|id| (id, g.told.clone()));
        self.hear(Event::Agent(name.clone(), agent));
    }
}
