//! A model of a switch, which answers what the detector asks.

use super::*;
use crate::openflow::FlowKey;

/// A port, which of its frames, and the text of their traces.
pub type Special = (u32, fn(&Packets) -> bool, &'static str);

/// What the model has. A test changes it, and the model tells the difference.
#[derive(Clone)]
pub struct Model {
    pub flows: Vec<Flow>,
    pub ports: Vec<OfPort>,
    pub facts: Facts,
    pub evicting: Vec<u8>,
    pub config: u16,
    /// Tables that send frames which no rule takes to the next one.
    pub misses_go_on: Vec<u8>,
    /// Lines that a trace has instead, for such frames of such a port.
    pub traces: Vec<Special>,
}

pub struct World {
    pub now: u64,
    pub detector: Detector,
    pub switch: Model,
    pub changes: Vec<(String, Verdict)>,
    pub passed: Vec<(String, Option<Passed>)>,
    /// Questions that wait.
    pub asked: Vec<Action>,
    /// Traces that were asked for, all of them.
    pub traced: Vec<(u32, Packets)>,
}

pub fn joined(to: &str) -> Verdict {
    Verdict::Joined { to: to.to_owned() }
}

/// A rule: table, priority, port, EtherType, steps.
pub fn flow(
    table: u8,
    priority: u16,
    in_port: Option<u32>,
    dl_type: Option<u16>,
    does: &[Step],
) -> Flow {
    let fields = format!("{in_port:?} {dl_type:?}").into_bytes();
    Flow {
        key: FlowKey { table, priority, fields },
        matches: Match { in_port, dl_type, other: false },
        cookie: 7,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: Some(0),
        age_ms: Some(60_000),
        does: Instructions::Sends(does.to_vec()),
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn number(name: &str) -> u32 {
    u32::try_from(NAMES.iter().position(|n| *n == name).unwrap()).unwrap() + 1
}

fn port_facts(name: &str, number: u32) -> PortFacts {
    let interface = InterfaceFacts {
        name: name.to_owned(),
        kind: "dpdk".to_owned(),
        devargs: Some(format!("dev-{name}")),
        number: Some(number),
        mtu: Some(1500),
        ..InterfaceFacts::default()
    };
    PortFacts { interfaces: vec![interface], ..PortFacts::default() }
}

fn our(name: &str) -> OurPort {
    OurPort {
        interface: name.to_owned(),
        kind: "dpdk".to_owned(),
        devargs: Some(format!("dev-{name}")),
        mtu: 1500,
    }
}

pub fn ours() -> Vec<OurPort> {
    NAMES.map(our).to_vec()
}

fn of_port(name: &str, number: u32) -> OfPort {
    OfPort { number, name: name.to_owned(), config: 0, state: 4 }
}

impl World {
    /// Three ports of ours, of which two are joined; nothing has been said yet.
    pub fn silent() -> World {
        let ports = NAMES.map(|name| of_port(name, number(name)));
        let to = |a, b| flow(0, 100, Some(a), None, &[Step::Output(b)]);
        let switch = Model {
            flows: vec![to(1, 2), to(2, 1)],
            ports: ports.to_vec(),
            facts: Facts {
                ports: NAMES.map(|n| (n.to_owned(), port_facts(n, number(n)))).into(),
                ..Facts::default()
            },
            evicting: vec![],
            config: 0,
            misses_go_on: vec![],
            traces: vec![],
        };
        let mut world = World {
            now: 1_000_000,
            detector: Detector::default(),
            switch,
            changes: vec![],
            passed: vec![],
            asked: vec![],
            traced: vec![],
        };
        world.tell(Event::Ours(ours()));
        world
    }

    /// One more port, whose frames go to b. Before it is connected.
    pub fn add(&mut self, number: u32, name: &str, ours: &mut Vec<OurPort>) {
        self.switch.facts.ports.insert(name.to_owned(), port_facts(name, number));
        self.switch.ports.push(of_port(name, number));
        self.switch.flows.push(flow(0, 100, Some(number), None, &[Step::Output(2)]));
        ours.push(our(name));
    }

    /// The same, connected.
    pub fn joined() -> World {
        let mut w = World::silent();
        w.connect();
        w.settle();
        assert_eq!(w.verdict("a"), &joined("b"));
        w
    }

    pub fn connect(&mut self) {
        for peer in [Peer::OpenFlow, Peer::Ovsdb, Peer::Trace] {
            self.tell(Event::Connected(peer));
        }
        self.tell(Event::Facts(Some(self.switch.facts.clone())));
    }

    pub fn verdict(&self, from: &str) -> &Verdict {
        self.detector.verdict(from).expect("one of ours")
    }

    /// The rules that its frames pass, as they were told last.
    pub fn passed(&self, from: &str) -> Option<Passed> {
        let told = self.passed.iter().rev().find(|(name, _)| name == from);
        told.and_then(|(_, passed)| passed.clone())
    }

    pub fn joins(&self, from: &str, to: &str) -> bool {
        self.detector.verdict(from) == Some(&joined(to))
    }

    pub fn clone_switch(&self) -> Model {
        self.switch.clone()
    }

    pub fn tell(&mut self, event: Event) {
        for action in self.detector.handle(self.now, event) {
            match action {
                Action::Changed { from, verdict, passed } => {
                    assert_eq!(passed.is_some(), matches!(verdict, Verdict::Joined { .. }));
                    self.passed.push((from.clone(), passed));
                    self.changes.push((from, verdict));
                }
                Action::Trace { in_port, ref packets, .. } => {
                    self.traced.push((in_port, packets.clone()));
                    self.asked.push(action);
                }
                Action::Ask(_) | Action::AskDatabase(_) => self.asked.push(action),
            }
        }
    }

    /// Changes the model, and tells what a switch would tell of it.
    pub fn change(&mut self, change: impl FnOnce(&mut World)) {
        let old = self.switch.clone();
        change(self);
        let new = self.switch.clone();
        for port in old.ports.iter().filter(|p| !new.ports.iter().any(|n| n.number == p.number)) {
            self.tell(Event::OpenFlow(Message::Port(PortNews::Gone(port.clone()))));
        }
        for port in new.ports.iter().filter(|p| !old.ports.contains(p)) {
            self.tell(Event::OpenFlow(Message::Port(PortNews::Is(port.clone()))));
        }
        let mut updates = vec![];
        for flow in old.flows.iter().filter(|f| !new.flows.iter().any(|n| n.key == f.key)) {
            updates.push(Update::Gone(flow.clone()));
        }
        for flow in new.flows.iter().filter(|f| !old.flows.contains(f)) {
            // An event does not have the flags.
            updates.push(Update::Is(Flow { flags: None, age_ms: None, ..flow.clone() }));
        }
        if !updates.is_empty() {
            self.tell(Event::OpenFlow(Message::Updates(updates)));
        }
        if old.facts != new.facts {
            self.tell(Event::Facts(Some(new.facts)));
        }
    }

    /// Answers all questions, and lets time pass until nothing more is to do but to look again.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            self.answer_all();
            self.now += SETTLE_MS;
            self.tell(Event::Tick);
        }
        self.answer_all();
    }

    pub fn answer_all(&mut self) {
        while !self.asked.is_empty() {
            self.answer_one();
        }
    }

    pub fn answer_one(&mut self) {
        let action = self.asked.remove(0);
        if let Some(event) = self.answer(&action) {
            self.tell(event);
        }
    }

    /// Lets time pass without an answer.
    pub fn pass(&mut self, ms: u64) {
        self.now += ms;
        self.tell(Event::Tick);
    }

    pub fn answer(&self, action: &Action) -> Option<Event> {
        let flows = |xid, flows: Vec<Flow>| Message::Flows { xid, flows, more: false };
        let message = match action {
            Action::Trace { id, in_port, packets } => {
                let said = Ok(self.trace(*in_port, packets));
                return Some(Event::Traced { id: *id, said });
            }
            Action::AskDatabase(id) => return Some(Event::DatabaseAnswered(*id)),
            Action::Ask(Request::AllFlows { xid }) => flows(*xid, self.switch.flows.clone()),
            Action::Ask(Request::OneFlow { xid, key }) => {
                let found = self.switch.flows.iter().filter(|f| f.key == *key);
                flows(*xid, found.cloned().collect())
            }
            Action::Ask(Request::Ports) => {
                Message::Ports { ports: self.switch.ports.clone(), more: false }
            }
            Action::Ask(Request::Tables { xid }) => {
                let evicting = self.switch.evicting.clone();
                Message::Tables { xid: *xid, evicting, more: false }
            }
            Action::Ask(Request::Config { xid }) => {
                Message::Config { xid: *xid, flags: self.switch.config }
            }
            _ => return None,
        };
        Some(Event::OpenFlow(message))
    }

    /// What the model does with a frame, as text of a trace.
    fn trace(&self, in_port: u32, packets: &Packets) -> String {
        let special = self.switch.traces.iter().find(|(p, is, _)| *p == in_port && is(packets));
        if let Some((_, _, lines)) = special {
            return (*lines).to_owned();
        }
        let actions = self.runs(0, in_port, packets);
        let names: Vec<&str> = actions.iter().map(|p| NAMES[*p as usize - 1]).collect();
        let actions = if names.is_empty() { "drop".to_owned() } else { names.join(",") };
        let field = format!("dl_type={:#06x}", packets.dl_type);
        text(&format!("recirc_id=0,eth,in_port={in_port},{field}"), &actions)
    }

    fn runs(&self, table: u8, in_port: u32, packets: &Packets) -> Vec<u32> {
        let fits = |f: &&Flow| {
            f.key.table == table
                && f.matches.may_be_of(in_port)
                && f.matches.dl_type.is_none_or(|t| t == packets.dl_type)
        };
        let Some(rule) = self.switch.flows.iter().filter(fits).max_by_key(|f| f.key.priority)
        else {
            let goes_on = self.switch.misses_go_on.contains(&table);
            return if goes_on { self.runs(table + 1, in_port, packets) } else { vec![] };
        };
        // A model that hides what the rule does besides, as traces do with some actions.
        let Instructions::Sends(steps) = &rule.does else { return vec![2] };
        steps
            .iter()
            .flat_map(|step| match step {
                Step::Output(port) => vec![*port],
                Step::Table(table) => self.runs(*table, in_port, packets),
            })
            .collect()
    }
}

pub fn text(megaflow: &str, actions: &str) -> String {
    format!(
        "Flow: in_port=a\n\nbridge(\"br0\")\n-------------\n 0. in_port=a, priority 100\n    output:b\n\nFinal flow: unchanged\nMegaflow: {megaflow}\nDatapath actions: {actions}"
    )
}
