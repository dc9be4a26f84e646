//! Random walks: a switch that changes at any moment, and whose events and answers are on their
//! way for any time, each of three connections in its own order. Whenever nothing of the switch is
//! on its way, who is joined is so in truth; and whoever becomes joined was so when the last
//! questions were asked, by the switch and by its database.

use super::world::{Model, World, flow};
use super::*;
use std::collections::VecDeque;

/// Steps of a walk, and walks.
const STEPS: u32 = 600;
const WALKS: u64 = 400;

struct Walker {
    world: World,
    /// What was asked, and what is on its way to the detector.
    asked: [VecDeque<Action>; 3],
    coming: [VecDeque<Event>; 3],
    /// Whether a's frames all went to b when the question with this number was asked.
    truth_at: BTreeMap<u32, bool>,
    last_answered: u32,
    random: u64,
}

/// The connections. That for traces has only answers.
const OPENFLOW: usize = 0;
const TRACES: usize = 1;
const DATABASE: usize = 2;

impl Walker {
    fn new(seed: u64) -> Walker {
        let mut world = World::silent();
        world.connect();
        let mut walker = Walker {
            world,
            asked: Default::default(),
            coming: Default::default(),
            truth_at: BTreeMap::new(),
            last_answered: 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        walker.take_questions();
        walker
    }

    fn below(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap() % n
    }

    fn take_questions(&mut self) {
        for action in self.world.asked.drain(..) {
            if let Action::AskDatabase(id) = action {
                let model = &self.world.switch;
                self.truth_at.insert(id, rules_join(model) && facts_allow(model));
            }
            let to = match action {
                Action::AskDatabase(_) => DATABASE,
                Action::Trace { .. } => TRACES,
                _ => OPENFLOW,
            };
            self.asked[to].push_back(action);
        }
    }

    /// The switch changes, and says so.
    fn changes(&mut self) {
        // Mostly for the better, or it would never be joined.
        let (what, bit) = (self.below(12), self.below(6) != 0);
        let model = &mut self.world.switch;
        let old = model.clone();
        match what {
            0 => model.flows[0].idle_timeout = if bit { 0 } else { 9 },
            1 => model.flows[0].flags = Some(u16::from(!bit)),
            2 => {
                model.flows[0].does =
                    Instructions::Sends(vec![Step::Output(if bit { 2 } else { 3 })])
            }
            3 => model.ports[1].config = if bit { 0 } else { OfPort::DOWN },
            4 | 9 | 10 => model.facts.bridge.sflow = !bit,
            5 | 11 => model.facts.ports.get_mut("b").unwrap().qos = !bit,
            6 | 7 => {
                model.flows.retain(|f| f.key.priority != 200);
                if !bit {
                    let port = if what == 6 { 3 } else { 2 };
                    let port = Step::Output(port);
                    model.flows.push(flow(0, 200, None, Some(0x0806), &[port]));
                }
            }
            8 => model.flows[1].cookie += 1,
            other => unreachable!("{other}"),
        }
        let new = model.clone();
        let events = &mut self.coming;
        for event in openflow_events(&old, &new) {
            events[OPENFLOW].push_back(event);
        }
        if old.facts != new.facts {
            events[DATABASE].push_back(Event::Facts(Some(new.facts)));
        }
    }

    /// The switch answers a question.
    fn answers(&mut self, which: usize) {
        let Some(question) = self.asked[which].pop_front() else { return };
        self.coming[which].extend(self.world.answer(&question));
    }

    /// Something comes to the detector.
    fn comes(&mut self, which: usize) {
        let Some(event) = self.coming[which].pop_front() else { return };
        if let Event::OpenFlow(Message::Tables { xid, .. } | Message::Config { xid, .. })
        | Event::DatabaseAnswered(xid) = event
        {
            self.last_answered = xid;
        }
        let before = self.world.verdict("a").clone();
        self.world.tell(event);
        self.take_questions();
        let now = self.world.verdict("a");
        if now == &joined("b") && &before != now {
            assert!(self.truth_at[&self.last_answered], "joined, and was not");
        }
        self.look();
    }

    fn look(&self) {
        let silent = self.coming[OPENFLOW].is_empty() && self.coming[DATABASE].is_empty();
        if silent && self.world.verdict("a") == &joined("b") {
            let model = &self.world.switch;
            assert!(rules_join(model) && facts_allow(model), "joined, and is not");
        }
    }

    fn step(&mut self) {
        let some = 1 + self.below(30);
        match self.below(24) {
            0 => self.changes(),
            1..=4 => {
                let ms = self.below(20) as u64;
                self.world.pass(ms);
                self.take_questions();
                self.look();
            }
            n @ 5..=14 => (0..some).for_each(|_| self.answers(n % 3)),
            n => (0..some).for_each(|_| self.comes(n % 3)),
        }
    }

    fn end(&mut self) {
        while (0..3).any(|n| !self.coming[n].is_empty())
            || (0..3).any(|n| !self.asked[n].is_empty())
        {
            (0..3).for_each(|n| self.answers(n));
            (0..3).for_each(|n| self.comes(n));
        }
        self.world.pass(SETTLE_MS);
        self.take_questions();
    }
}

fn openflow_events(old: &Model, new: &Model) -> Vec<Event> {
    let mut updates = vec![];
    for flow in old.flows.iter().filter(|f| !new.flows.iter().any(|n| n.key == f.key)) {
        updates.push(Update::Gone(flow.clone()));
    }
    for flow in new.flows.iter().filter(|f| !old.flows.contains(f)) {
        updates.push(Update::Is(Flow { flags: None, ..flow.clone() }));
    }
    let ports = new.ports.iter().filter(|p| !old.ports.contains(p));
    let ports = ports.map(|p| Message::Port(PortNews::Is(p.clone())));
    let updates = (!updates.is_empty()).then_some(Message::Updates(updates));
    updates.into_iter().chain(ports).map(Event::OpenFlow).collect()
}

/// Whether all frames of a go to b by rules that allow a link, found by following each kind.
fn rules_join(model: &Model) -> bool {
    let kinds = [0x0800, 0x0806, 0x88b5];
    let up = model.ports[..2].iter().all(|p| p.config == 0);
    up && kinds.iter().all(|dl_type| {
        let fits =
            |f: &&Flow| f.matches.may_be_of(1) && f.matches.dl_type.is_none_or(|t| t == *dl_type);
        let rule = model.flows.iter().filter(fits).max_by_key(|f| f.key.priority);
        rule.is_some_and(|f| {
            let sends = f.does == Instructions::Sends(vec![Step::Output(2)]);
            // Counts of its end can be corrected where all frames pass it.
            let differ = model.flows.iter().any(|f| f.key.priority == 200);
            sends && f.idle_timeout == 0 && (f.flags == Some(0) || !differ)
        })
    })
}

fn facts_allow(model: &Model) -> bool {
    !model.facts.bridge.sflow && !model.facts.ports["b"].qos
}

#[test]
fn whoever_is_joined_is_so_in_truth() {
    let mut joined_often = 0;
    for seed in 1..=WALKS {
        let mut walker = Walker::new(seed);
        for _ in 0..STEPS {
            walker.step();
        }
        joined_often += walker.world.changes.iter().filter(|(_, v)| v == &joined("b")).count();
        // Once all is as it was, and all has come, they are joined.
        let old = walker.world.switch.clone();
        walker.world.switch = World::silent().switch;
        let new = walker.world.switch.clone();
        walker.coming[OPENFLOW].extend(openflow_events(&old, &new));
        walker.coming[DATABASE].push_back(Event::Facts(Some(new.facts)));
        (0..20).for_each(|_| walker.end());
        assert_eq!(walker.world.verdict("a"), &joined("b"), "walk {seed}");
    }
    assert!(joined_often > 300, "the walks saw it joined {joined_often} times");
}
