//! Bytes of a switch: its messages of OpenFlow, whose rules go into the detector of links; rows of
//! its database; texts of its traces; and judgements, whose questions are answered well or not, in
//! any order, while anything happens.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use vfun_links::openflow::{Flow, FlowKey, Instructions, Match, Message, Messages, OfPort};
use vfun_links::openflow::{PortNews, Request, Step, Update};
use vfun_links::ovsdb::{Facts, InterfaceFacts, PortFacts, Rows};
use vfun_links::{Action, Detector, Event, OurPort, Peer, Verdict, trace};

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else { return };
    match which % 4 {
        0 => messages(data),
        1 => rows(data),
        2 => drop(trace::fate(&String::from_utf8_lossy(data))),
        _ => judgements(data),
    }
});

/// Bytes of OpenFlow to a detector that knows all else. What it asks is answered as a switch does
/// that joins, so that judgements are under way.
fn messages(data: &[u8]) {
    let mut bytes = Messages::default();
    bytes.push(data);
    let mut judged = Judged::begin();
    while let Ok(Some(message)) = bytes.take() {
        judged.hear(7, Event::OpenFlow(message));
        judged.answer(3);
    }
}

/// Each byte is a step; some take one more.
fn judgements(data: &[u8]) {
    let mut judged = Judged::begin();
    let mut steps = data.iter().copied();
    while let Some(step) = steps.next() {
        let mut more = || steps.next().unwrap_or_default();
        match step % 8 {
            0..=2 => judged.answer(usize::from(step / 8)),
            3 => judged.hear(u64::from(more()), Event::Tick),
            4 => judged.swap(usize::from(more())),
            5 => {
                let event = changed(more());
                judged.hear(1, event);
            }
            6 => {
                let text = TEXTS[usize::from(more()) % TEXTS.len()];
                judged.answer_trace(text);
            }
            _ => judged.hear(1, Event::DatabaseAnswered(more().into())),
        }
    }
}

const GOES: &str =
    "Final flow: unchanged\nMegaflow: recirc_id=0,eth,in_port=a,dl_type=0x0806\nDatapath actions: ";
const TEXTS: [&str; 4] = ["", "Megaflow: eth", "Datapath actions: a", "Final flow: unchanged"];

fn flow(port: u32, cookie: u64, does: Instructions) -> Flow {
    let matches = Match { in_port: Some(port), dl_type: None, other: false };
    let key = FlowKey { table: 0, priority: 1, fields: port.to_be_bytes().to_vec() };
    let (idle_timeout, hard_timeout, flags, age_ms) = (0, 0, Some(0), Some(60_000));
    Flow { key, matches, cookie, idle_timeout, hard_timeout, flags, age_ms, does }
}

fn joining() -> Vec<Flow> {
    [(1, 2), (2, 1)].map(|(a, b)| flow(a, 0, Instructions::Sends(vec![Step::Output(b)]))).to_vec()
}

const NAMES: [&str; 2] = ["a", "b"];

fn ports() -> Vec<OfPort> {
    let port =
        |(number, name): (u32, &str)| OfPort { number, name: name.to_owned(), config: 0, state: 0 };
    (1..).zip(NAMES).map(port).collect()
}

fn facts() -> Facts {
    let port = |(number, name): (u32, &str)| {
        let interface = InterfaceFacts {
            name: name.to_owned(),
            kind: "dpdk".to_owned(),
            number: Some(number),
            mtu: Some(1500),
            ..InterfaceFacts::default()
        };
        (name.to_owned(), PortFacts { interfaces: vec![interface], ..PortFacts::default() })
    };
    Facts { ports: (1..).zip(NAMES).map(port).collect(), ..Facts::default() }
}

/// Something that may end what is judged, and mostly does not.
fn changed(which: u8) -> Event {
    let (low, high) = (which % 8, which / 8);
    match low {
        0 => Event::OpenFlow(Message::Updates(vec![Update::Is(flow(
            1,
            high.into(),
            Instructions::Sends(vec![Step::Output(2)]),
        ))])),
        1 => Event::OpenFlow(Message::Updates(vec![Update::Gone(flow(
            1,
            0,
            Instructions::Sends(vec![]),
        ))])),
        2 => Event::OpenFlow(Message::Port(PortNews::Is(OfPort {
            config: u32::from(high) & 1,
            ..ports()[0].clone()
        }))),
        3 => {
            let mut facts = facts();
            facts.bridge.stp = high & 1 != 0;
            Event::Facts(Some(facts))
        }
        4 => Event::Ours(NAMES[usize::from(high) % 3..].iter().map(|name| our(name)).collect()),
        5 => Event::Lost(
            [Peer::OpenFlow, Peer::Ovsdb, Peer::Trace][usize::from(high) % 3],
            String::new(),
        ),
        6 => Event::Connected([Peer::OpenFlow, Peer::Ovsdb, Peer::Trace][usize::from(high) % 3]),
        _ => Event::OpenFlow(Message::Error { xid: high.into(), class: 1, code: 1 }),
    }
}

fn our(name: &str) -> OurPort {
    OurPort { interface: name.to_owned(), kind: "dpdk".to_owned(), devargs: None, mtu: 1500 }
}

/// A detector, and the questions that nobody has answered.
struct Judged {
    detector: Detector,
    now: u64,
    asked: VecDeque<Action>,
}

impl Judged {
    /// One whose two ports are joined.
    fn begin() -> Judged {
        let mut judged = Judged { detector: Detector::default(), now: 0, asked: VecDeque::new() };
        judged.hear(0, Event::Ours(NAMES.map(our).to_vec()));
        for peer in [Peer::OpenFlow, Peer::Ovsdb, Peer::Trace] {
            judged.hear(0, Event::Connected(peer));
        }
        judged.hear(0, Event::Facts(Some(facts())));
        judged.answer(usize::MAX);
        judged.hear(10, Event::Tick);
        judged.answer(usize::MAX);
        let joined = Verdict::Joined { to: "b".to_owned() };
        assert_eq!(judged.detector.verdict("a"), Some(&joined), "judgements are reached");
        judged
    }

    /// What is asked can always be written, whatever was heard; and each is joined to one of ours.
    fn hear(&mut self, later: u64, event: Event) {
        self.now += later;
        for action in self.detector.handle(self.now, event) {
            match &action {
                Action::Ask(request) => {
                    let written = request.bytes();
                    let length = u16::from_be_bytes([written[2], written[3]]);
                    assert_eq!(written.len(), usize::from(length));
                }
                Action::Changed { verdict: Verdict::Joined { to }, .. } => {
                    assert!(self.detector.verdict(to).is_some());
                }
                Action::Changed { .. } | Action::Trace { .. } | Action::AskDatabase(_) => {}
            }
            if !matches!(action, Action::Changed { .. }) {
                self.asked.push_back(action);
            }
        }
        assert!(self.detector.wake().is_none_or(|at| at > self.now), "nothing is overdue");
    }

    /// Answers some questions as a switch does that joins.
    fn answer(&mut self, some: usize) {
        for _ in 0..some {
            let Some(action) = self.asked.pop_front() else { return };
            if let Some(event) = answered(action) {
                self.hear(0, event);
            }
        }
    }

    fn answer_trace(&mut self, text: &str) {
        if let Some(Action::Trace { id, .. }) = self.asked.front() {
            let (id, said) = (*id, Ok(text.to_owned()));
            self.asked.pop_front();
            self.hear(0, Event::Traced { id, said });
        }
    }

    /// Answers come by three ways, each in its own order.
    fn swap(&mut self, at: usize) {
        if !self.asked.is_empty() {
            let at = at % self.asked.len();
            self.asked.swap(0, at);
        }
    }
}

fn answered(action: Action) -> Option<Event> {
    let message = match action {
        Action::Trace { id, in_port, .. } => {
            let to = if in_port == 1 { "b" } else { "a" };
            return Some(Event::Traced { id, said: Ok(format!("{GOES}{to}")) });
        }
        Action::AskDatabase(id) => return Some(Event::DatabaseAnswered(id)),
        Action::Ask(Request::Ports) => Message::Ports { ports: ports(), more: false },
        Action::Ask(Request::AllFlows { xid }) => {
            Message::Flows { xid, flows: joining(), more: false }
        }
        Action::Ask(Request::OneFlow { xid, key }) => {
            let flows = joining().into_iter().filter(|flow| flow.key == key).collect();
            Message::Flows { xid, flows, more: false }
        }
        Action::Ask(Request::Tables { xid }) => {
            Message::Tables { xid, evicting: vec![], more: false }
        }
        Action::Ask(Request::Config { xid }) => Message::Config { xid, flags: 0 },
        Action::Ask(_) | Action::Changed { .. } => return None,
    };
    Some(Event::OpenFlow(message))
}

fn rows(data: &[u8]) {
    let Ok(value) = serde_json::from_slice(data) else { return };
    let mut rows = Rows::default();
    if rows.apply(&value).is_ok() {
        let _ = rows.facts("br0");
    }
}
