//! What the manager knows of the agents in VMs, and of what the process that lends VFs
//! wants of them. State alone, no socket: a newer state takes the place of an older one
//! that was not passed on yet, so that nothing here grows with what guests do.

use crate::core::ServiceId;
use crate::core::bond::Agent;
use crate::core::limits::{REPORTS, VM_STATES};
use crate::fair::Rates;
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;
use vfun_bond::{Call, Order, Report};
use vfun_nics::declared::Vm;
use vfun_nics::event::AgentId;
use vfun_nics::limits::COUNTS_TOGETHER_MS;
use vfun_nics::relay;
use vfun_wire::Handle;

/// One agent, by the channel that it has.
struct KnownAgent {
    vm: VmName,
    service: Option<ServiceId>,
    report: Option<Report>,
    order: Option<Order>,
    /// The service that was told an order last, and the number of that.
    told: Option<(ServiceId, u64)>,
}

/// All agents.
pub(super) struct Agents {
    known: BTreeMap<Handle, KnownAgent>,
    /// The channel of each VM's agent.
    of_vm: BTreeMap<VmName, Handle>,
    /// How VMs compete, by their clients' manifests.
    declared: BTreeMap<VmName, Vm>,
    /// VMs whose state the other process has not got.
    dirty: BTreeSet<VmName>,
    /// VMs of which only counts are new. They are passed on together, so that the other
    /// process need not wake up for each.
    counted: BTreeSet<VmName>,
    /// When, if there are any.
    counts_due: Option<u64>,
    /// Those of them that it was not told of since it began; none once it was told of all
    /// and was told that.
    untold: Option<BTreeSet<VmName>>,
    /// Agents whose service may lack their order.
    unordered: BTreeSet<Handle>,
    /// How fast each agent reports.
    reports: Rates<Handle>,
    /// How fast each VM's state is passed on.
    states: Rates<VmName>,
}

/// The number by which an agent is known: that of its channel, which no other ever had.
fn id(channel: Handle) -> AgentId {
    AgentId(channel.0)
}

impl Agents {
    /// None yet.
    pub fn new() -> Self {
        Agents {
            known: BTreeMap::new(),
            of_vm: BTreeMap::new(),
            declared: BTreeMap::new(),
            dirty: BTreeSet::new(),
            counted: BTreeSet::new(),
            counts_due: None,
            untold: None,
            unordered: BTreeSet::new(),
            reports: Rates::new(REPORTS),
            states: Rates::new(VM_STATES),
        }
    }

    /// How a channel's agent is now; none: it is gone.
    pub fn see(&mut self, channel: Handle, agent: Option<Agent>) {
        let Some(Agent { vm, service }) = agent else { return self.gone(channel) };
        self.unordered.insert(channel);
        if let Some(known) = self.known.get_mut(&channel) {
            known.service = service;
            return;
        }
        // Another one of the same VM that was not seen to end has no say any more.
        self.of_vm.insert(vm.clone(), channel);
        self.dirty.insert(vm.clone());
        let known = KnownAgent { vm, service, report: None, order: None, told: None };
        self.known.insert(channel, known);
    }

    /// The service of a channel has another process, which knows no order.
    pub fn opened_anew(&mut self, channel: Handle) {
        if let Some(known) = self.known.get_mut(&channel) {
            known.told = None;
            self.unordered.insert(channel);
        }
    }

    fn gone(&mut self, channel: Handle) {
        self.unordered.remove(&channel);
        let Some(KnownAgent { vm, .. }) = self.known.remove(&channel) else { return };
        if self.of_vm.get(&vm) == Some(&channel) {
            self.of_vm.remove(&vm);
            self.dirty.insert(vm);
        }
    }

    /// What a service says that an agent reported; why it is not taken.
    pub fn report(
        &mut self,
        now: u64,
        (service, channel): (ServiceId, Handle),
        report: Report,
    ) -> Result<(), String> {
        let known = self.known.get_mut(&channel).filter(|k| k.service == Some(service));
        let known = known.ok_or_else(|| format!("it serves no agent with channel {channel}"))?;
        if !self.reports.take(now, channel) {
            return Err(format!("the agent of {} reports too fast", known.vm));
        }
        let whole = Call::Tell(report);
        Call::from_bytes(&whole.to_bytes()).map_err(|e| e.to_string())?;
        let Call::Tell(report) = whole else { return Ok(()) };
        let only_counts = known.report.as_ref().is_some_and(|last| only_counts(last, &report));
        known.report = Some(report);
        if self.of_vm.get(&known.vm) != Some(&channel) {
            return Ok(());
        }
        if only_counts {
            self.counted.insert(known.vm.clone());
            self.counts_due.get_or_insert(now.saturating_add(COUNTS_TOGETHER_MS));
        } else {
            self.dirty.insert(known.vm.clone());
        }
        Ok(())
    }

    /// What the process that lends VFs wants; why it is not taken. An order for an agent
    /// that is gone is no fault: the two passed each other.
    pub fn order(&mut self, said: relay::ToManager) -> Result<(), String> {
        Order::from_bytes(&said.order.to_bytes()).map_err(|e| e.to_string())?;
        let channel = Handle(said.agent.0);
        if let Some(known) = self.known.get_mut(&channel).filter(|k| k.vm == said.vm) {
            known.order = Some(said.order);
            self.unordered.insert(channel);
        }
        Ok(())
    }

    /// Orders that services are to be told now; they count as told.
    pub fn orders(&mut self) -> Vec<(ServiceId, Handle, Order)> {
        let mut orders = vec![];
        for channel in std::mem::take(&mut self.unordered) {
            let Some(known) = self.known.get_mut(&channel) else { continue };
            let (Some(service), Some(order)) = (known.service, &known.order) else { continue };
            if known.told.replace((service, order.number)) != Some((service, order.number)) {
                orders.push((service, channel, order.clone()));
            }
        }
        orders
    }

    /// Another process lends VFs, which knows nothing: it is told of these VMs, and of all
    /// that have an agent.
    pub fn tell_all(&mut self, vms: impl Iterator<Item = VmName>) {
        let all: BTreeSet<VmName> = vms.chain(self.of_vm.keys().cloned()).collect();
        self.dirty.extend(all.iter().cloned());
        self.untold = Some(all);
    }

    /// How VMs compete from now on, by their clients' manifests.
    pub fn declare(&mut self, all: BTreeMap<VmName, Vm>) {
        let before = std::mem::replace(&mut self.declared, all);
        let names = before.keys().chain(self.declared.keys());
        let changed = names.filter(|vm| before.get(*vm) != self.declared.get(*vm));
        self.dirty.extend(changed.cloned());
    }

    /// What is to be passed on now.
    pub fn next(&mut self, now: u64) -> Option<relay::Packet> {
        if self.counts_due.is_some_and(|due| due <= now) {
            self.counts_due = None;
            self.dirty.append(&mut self.counted);
        }
        if self.untold.as_ref().is_some_and(BTreeSet::is_empty) {
            return Some(relay::Packet::AllTold(relay::AllTold { vms: self.declared.len() }));
        }
        let vm = self.dirty.iter().find(|vm| self.states.wait(now, vm) == 0)?.clone();
        let agent = self.of_vm.get(&vm).and_then(|channel| {
            let report = self.known.get(channel)?.report.clone();
            Some(relay::Agent { id: id(*channel), report })
        });
        let declared = self.declared.get(&vm).cloned();
        Some(relay::Packet::Vm(Box::new(relay::ToNics { vm, agent, declared })))
    }

    /// It was passed on.
    pub fn sent(&mut self, now: u64, packet: &relay::Packet) {
        let relay::Packet::Vm(state) = packet else {
            self.untold = None;
            return;
        };
        self.dirty.remove(&state.vm);
        self.counted.remove(&state.vm);
        if self.counted.is_empty() {
            self.counts_due = None;
        }
        if let Some(untold) = &mut self.untold {
            untold.remove(&state.vm);
        }
        self.states.take(now, state.vm.clone());
    }

    /// Milliseconds until a state may be passed on, if any is to be.
    pub fn patience(&mut self, now: u64) -> Option<u64> {
        if self.untold.as_ref().is_some_and(BTreeSet::is_empty) {
            return Some(0);
        }
        let counts = self.counts_due.map(|due| due.saturating_sub(now));
        self.dirty.iter().map(|vm| self.states.wait(now, vm)).chain(counts).min()
    }
}

/// Whether a report says nothing new but counts and times, which change all the time.
fn only_counts(last: &Report, report: &Report) -> bool {
    let Report { packets, latency_us, .. } = *report;
    Report { packets, latency_us, ..last.clone() } == *report
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_bond::{Mode, Path};

    const CHANNEL: Handle = Handle(71);

    fn vm(name: &str) -> VmName {
        VmName::new("tenant", name)
    }

    fn agent(name: &str, service: ServiceId) -> Option<Agent> {
        Some(Agent { vm: vm(name), service: Some(service) })
    }

    fn report(n: u64) -> Report {
        Report {
            order: 0,
            agent: "1".into(),
            bond: "bond0".into(),
            mode: Mode::Bond,
            mac: "02:00:00:00:00:01".into(),
            path: None,
            vf: None,
            packets: n,
            latency_us: None,
            trouble: None,
        }
    }

    fn order(agent: Handle, number: u64) -> relay::ToManager {
        let order = Order { number, path: Path::Vf, report_ms: 1000 };
        relay::ToManager { vm: vm("a"), agent: id(agent), order }
    }

    fn one() -> Agents {
        let mut a = Agents::new();
        a.see(CHANNEL, agent("a", 5));
        a
    }

    /// All that may be passed on now.
    fn packets(a: &mut Agents, now: u64) -> Vec<relay::Packet> {
        let next = |a: &mut Agents| {
            let packet = a.next(now)?;
            a.sent(now, &packet);
            Some(packet)
        };
        std::iter::from_fn(|| next(a)).collect()
    }

    /// The states among it.
    fn pass_on(a: &mut Agents, now: u64) -> Vec<relay::ToNics> {
        let state = |packet| match packet {
            relay::Packet::Vm(state) => Some(*state),
            relay::Packet::AllTold(_) => None,
        };
        packets(a, now).into_iter().filter_map(state).collect()
    }

    #[test]
    fn a_vm_has_one_state_however_often_it_changes() {
        let mut a = one();
        for n in 0..10 {
            a.report(0, (5, CHANNEL), report(n)).unwrap();
        }
        let states = pass_on(&mut a, 0);
        let told = relay::Agent { id: id(CHANNEL), report: Some(report(9)) };
        let state = |agent| relay::ToNics { vm: vm("a"), agent, declared: None };
        assert_eq!(states, [state(Some(told))]);
        a.see(CHANNEL, None);
        assert_eq!(pass_on(&mut a, 0), [state(None)]);
        assert_eq!(a.patience(0), None);
    }

    #[test]
    fn counts_are_passed_on_together_and_what_else_is_new_at_once() {
        let mut a = one();
        let other = Handle(72);
        a.see(other, agent("b", 5));
        pass_on(&mut a, 0);
        for channel in [CHANNEL, other] {
            a.report(1_000, (5, channel), report(1)).unwrap();
        }
        assert_eq!(pass_on(&mut a, 1_000).len(), 2, "a first report");
        a.report(2_000, (5, CHANNEL), Report { latency_us: Some(7), ..report(2) }).unwrap();
        a.report(2_300, (5, other), report(2)).unwrap();
        assert_eq!(pass_on(&mut a, 2_300), []);
        assert_eq!(a.patience(2_300), Some(COUNTS_TOGETHER_MS - 300));
        let packets = |states: Vec<relay::ToNics>| -> Vec<u64> {
            states.into_iter().map(|s| s.agent.unwrap().report.unwrap().packets).collect()
        };
        assert_eq!(packets(pass_on(&mut a, 2_000 + COUNTS_TOGETHER_MS)), [2, 2]);
        assert_eq!(a.patience(3_000), None);
        // A new path carries the counts along.
        a.report(4_000, (5, CHANNEL), report(3)).unwrap();
        a.report(4_100, (5, CHANNEL), Report { path: Some(Path::Vf), ..report(4) }).unwrap();
        assert_eq!(packets(pass_on(&mut a, 4_100)), [4]);
        assert_eq!(a.patience(4_100), None);
    }

    #[test]
    fn agents_that_come_and_go_are_passed_on_at_a_bounded_rate_and_the_last_one_is() {
        let mut a = Agents::new();
        let (mut states, mut now) = (vec![], 0);
        for n in 1..=10_000u64 {
            a.see(Handle(n), agent("a", 5));
            states.extend(pass_on(&mut a, now));
            if n < 10_000 {
                a.see(Handle(n), None);
            }
            now += u64::from(n % 10 == 0);
        }
        let most = VM_STATES.burst as u64 + now * u64::from(VM_STATES.per_s) / 1000 + 1;
        assert!(states.len() as u64 <= most, "{} states", states.len());
        now += a.patience(now).expect("the last one waits");
        let last = pass_on(&mut a, now).pop().unwrap().agent.unwrap();
        assert_eq!(last.id, AgentId(10_000));
        assert!(a.known.len() == 1 && a.of_vm.len() == 1 && a.unordered.len() <= 1);
    }

    #[test]
    fn reports_are_taken_of_who_serves_the_agent_checked_and_no_faster_than_they_may_come() {
        let mut a = one();
        for (from, why) in [((6, CHANNEL), "no agent"), ((5, Handle(72)), "no agent")] {
            assert!(a.report(0, from, report(1)).unwrap_err().contains(why));
        }
        let long = Report { trouble: Some("x".repeat(241)), ..report(1) };
        assert!(a.report(0, (5, CHANNEL), long).unwrap_err().contains("trouble"));
        let taken = (0..100).filter(|n| a.report(1, (5, CHANNEL), report(*n)).is_ok()).count();
        assert!(taken <= REPORTS.burst as usize, "{taken}");
        assert!(a.report(1000, (5, CHANNEL), report(1)).is_ok());
    }

    #[test]
    fn an_order_is_told_once_to_each_service_that_serves_its_agent() {
        let mut a = one();
        a.order(order(CHANNEL, 7)).unwrap();
        let told = |a: &mut Agents| -> Vec<_> {
            a.orders().into_iter().map(|(service, _, order)| (service, order.number)).collect()
        };
        assert_eq!(told(&mut a), [(5, 7)]);
        a.order(order(CHANNEL, 7)).unwrap();
        a.see(CHANNEL, agent("a", 5));
        assert_eq!(told(&mut a), []);
        // The service is started anew; meanwhile there is none, and another order.
        a.see(CHANNEL, Some(Agent { vm: vm("a"), service: None }));
        a.order(order(CHANNEL, 8)).unwrap();
        assert_eq!(told(&mut a), []);
        a.see(CHANNEL, agent("a", 6));
        assert_eq!(told(&mut a), [(6, 8)]);
        // By the same number.
        a.opened_anew(CHANNEL);
        a.see(CHANNEL, agent("a", 6));
        assert_eq!(told(&mut a), [(6, 8)]);
        // Of another VM, of an agent that is gone, and one that no agent would take.
        a.order(relay::ToManager { vm: vm("b"), ..order(CHANNEL, 9) }).unwrap();
        a.order(order(Handle(72), 9)).unwrap();
        assert!(a.order(order(CHANNEL, 0)).is_err());
        assert_eq!(told(&mut a), []);
    }

    #[test]
    fn another_process_is_told_of_every_vm() {
        let mut a = one();
        pass_on(&mut a, 0);
        a.tell_all([vm("a"), vm("z")].into_iter());
        let vms = |states: Vec<relay::ToNics>| -> Vec<_> {
            states.into_iter().map(|s| (s.vm.vm, s.agent.is_some())).collect()
        };
        assert_eq!(vms(pass_on(&mut a, 0)), [("a".to_owned(), true), ("z".to_owned(), false)]);
    }

    #[test]
    fn what_manifests_declare_is_passed_on_when_it_changes_and_said_to_be_all() {
        let declared = |tap: &str| {
            Vm::new("p", vfun_nics::declared::Hypervisor::External, "02:00:00:00:00:01", "br0", tap)
        };
        let all = |tap: &str| BTreeMap::from([(vm("b"), declared(tap)), (vm("c"), declared("c"))]);
        let mut a = Agents::new();
        a.declare(all("t"));
        a.tell_all([vm("a"), vm("b"), vm("c")].into_iter());
        let told = packets(&mut a, 0);
        assert_eq!(told.len(), 4);
        assert_eq!(told[3], relay::Packet::AllTold(relay::AllTold { vms: 2 }), "last");
        let said = |states: Vec<relay::ToNics>| -> Vec<_> {
            states.into_iter().map(|s| (s.vm.vm, s.declared.map(|d| d.tap))).collect()
        };
        a.declare(all("t"));
        assert_eq!(packets(&mut a, 10_000), [], "nothing changed");
        a.declare(all("u"));
        assert_eq!(said(pass_on(&mut a, 20_000)), [("b".to_owned(), Some("u".to_owned()))]);
        a.declare(BTreeMap::new());
        let gone = [("b".to_owned(), None), ("c".to_owned(), None)];
        assert_eq!(said(pass_on(&mut a, 30_000)), gone);
        // Also where there is no VM at all.
        a.tell_all(std::iter::empty());
        assert_eq!(packets(&mut a, 40_000).len(), 1);
    }
}
