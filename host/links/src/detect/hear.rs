//! What the switch and its database say, and which ports that concerns.

use super::{Action, Hindrance, Missing, Rules};
use super::{Database, Detector, Known, Ours, Peer, Reading, Stage, Switch, Verdict};
use crate::openflow::{Flow, Message, OfPort, PortNews, Request, Update};
use crate::ovsdb::Facts;
use crate::passed::Born;

impl Detector {
    pub(super) fn connected(&mut self, peer: Peer) {
        match peer {
            Peer::OpenFlow => {
                self.switch = Switch::Known(Known::default());
                for request in [Request::PortEventsOnly, Request::Ports, Request::Monitor] {
                    self.out.push(Action::Ask(request));
                }
                self.read_rules();
            }
            Peer::Ovsdb => self.database = Database::Reading,
            Peer::Trace => self.tracer = None,
        }
        self.all_anew();
    }

    pub(super) fn lost(&mut self, peer: Peer, why: String) {
        match peer {
            Peer::OpenFlow => self.switch = Switch::Lost(why),
            Peer::Ovsdb => self.database = Database::Lost(why),
            Peer::Trace => {
                self.traces.clear();
                self.tracer = Some(why);
            }
        }
        self.all_anew();
    }

    /// Asks for all rules. The answer is of one moment, and comes behind all events of before.
    pub(super) fn read_rules(&mut self) {
        let (xid, asked) = (self.next_id(), self.now);
        if let Switch::Known(known) = &mut self.switch {
            known.reading = Some(Reading { xid, asked, ..Reading::default() });
            known.rules = Rules::default();
            self.out.push(Action::Ask(Request::AllFlows { xid }));
        }
    }

    pub(super) fn hear(&mut self, message: Message) {
        match message {
            Message::Error { xid, class, code } => self.refused(xid, class, code),
            Message::Port(news) => self.port_news(news),
            Message::Ports { ports, more } => self.all_ports(ports, more),
            Message::Flows { xid, flows, more } => self.flows(xid, flows, more),
            Message::Updates(updates) => self.updates(updates),
            Message::Tables { xid, evicting, more } => self.tables(xid, &evicting, more),
            Message::Config { xid, flags } => self.config(xid, flags),
            Message::Hello
            | Message::EchoRequest { .. }
            | Message::EchoReply
            | Message::Features
            | Message::Other => {}
        }
    }

    fn refused(&mut self, xid: u32, class: u16, code: u16) {
        if let Some(from) = self.asked_by(xid) {
            let missing = Missing::Refused { class, code };
            return self.judge(&from, Verdict::Not(Hindrance::NotKnown(missing)));
        }
        let asked_before = (1..=self.last_id).contains(&xid);
        let Switch::Known(known) = &mut self.switch else { return };
        let reading = known.reading.as_ref().is_some_and(|reading| reading.xid == xid);
        // Nobody waits for the answer to a question of a judgement that has ended. Any other
        // number is that of what the whole needs, or of what was not understood.
        if reading || !asked_before {
            known.refused = Some((class, code));
            self.all_anew();
        }
    }

    fn all_ports(&mut self, found: Vec<OfPort>, more: bool) {
        let Switch::Known(known) = &mut self.switch else { return };
        let kept = found.into_iter().filter(may_be_ours).map(|p| (p.number, p));
        known.ports_read.extend(kept);
        if !more {
            known.ports = Some(std::mem::take(&mut known.ports_read));
            self.all_anew();
        }
    }

    fn port_news(&mut self, news: PortNews) {
        // Before all ports have come, what these say is newer.
        let Switch::Known(Known { ports: Some(ports), .. }) = &mut self.switch else { return };
        let (PortNews::Is(port) | PortNews::Gone(port)) = &news;
        let number = port.number;
        let old = ports.remove(&number);
        if let PortNews::Is(port) = news
            && may_be_ours(&port)
        {
            ports.insert(number, port);
        }
        let new = ports.get(&number);
        if new == old.as_ref() {
            return;
        }
        let names: Vec<String> =
            [new, old.as_ref()].into_iter().flatten().map(|p| p.name.clone()).collect();
        // OpenFlow cuts names.
        let is = |name: &str| names.iter().any(|n| name.starts_with(n.as_str()));
        self.anew(|name, ours| concerns(name, ours, &is));
    }

    fn flows(&mut self, xid: u32, flows: Vec<Flow>, more: bool) {
        let Switch::Known(known) = &mut self.switch else { return };
        match &mut known.reading {
            Some(reading) if reading.xid == xid => {
                for flow in flows {
                    let born = flow.age_ms.map(|age| Born::of(reading.asked, self.now, age));
                    reading.rules.put(flow, born);
                }
                if !more && let Some(read) = known.reading.take() {
                    known.rules = read.rules;
                    self.all_anew();
                }
            }
            _ => self.one_flow(xid, &flows, more),
        }
    }

    fn updates(&mut self, updates: Vec<Update>) {
        let changes = updates.len().try_into().unwrap_or(u32::MAX);
        let storm = self.pace.count(changes);
        let mut touched = vec![];
        for update in updates {
            let Switch::Known(known) = &mut self.switch else { return };
            match update {
                Update::Is(flow) => {
                    touched.push((flow.key.clone(), flow.matches.in_port));
                    let all_are_read = known.reading.is_none();
                    known.kept().put_news(flow, all_are_read);
                }
                Update::Gone(flow) => {
                    touched.push((flow.key.clone(), flow.matches.in_port));
                    let _ = known.kept().take(&flow.key);
                }
                // We change nothing, so something was not understood.
                Update::Ours => self.read_rules(),
                Update::Paused => {
                    known.paused = true;
                    self.all_anew();
                }
                Update::Resumed => {
                    known.paused = false;
                    self.read_rules();
                    self.all_anew();
                }
            }
        }
        if storm || self.blocked().is_some() {
            return self.all_anew();
        }
        let Database::Read(Some(facts)) = &self.database else { return };
        let hit = self.ours.iter().filter(|(name, ours)| {
            let number = Detector::number_of(facts, name);
            let of_it = |port: Option<u32>| port.is_none_or(|p| number.is_none_or(|n| n == p));
            touched.iter().any(|(key, port)| of_it(*port) && ours.stage.meets(key))
        });
        for name in hit.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.begin_anew(&name, None);
        }
    }

    pub(super) fn learn(&mut self, new: Option<Facts>) {
        let old = std::mem::replace(&mut self.database, Database::Read(new.clone()));
        let (Database::Read(Some(old)), Some(new)) = (old, new) else { return self.all_anew() };
        if old == new {
            return;
        }
        if old.bridge != new.bridge {
            return self.all_anew();
        }
        let changed = |name: &str| old.port_of(name) != new.port_of(name);
        self.anew(|name, ours| concerns(name, ours, &changed));
    }
}

/// Whether a port of ours stands or falls with one of which this is said.
pub(super) fn concerns(name: &str, ours: &Ours, is: &impl Fn(&str) -> bool) -> bool {
    // Where its frames go may not be known, or may be being found out.
    let asked = matches!(ours.stage, Stage::Waits { .. } | Stage::Asks(_));
    asked || is(name) || ours.towards.as_deref().is_none_or(is)
}

/// Open vSwitch's own numbers have 16 bits; others are reserved.
fn may_be_ours(port: &OfPort) -> bool {
    port.number <= u16::MAX.into()
}

impl Known {
    /// Those that are kept: while all are being read, only these.
    fn kept(&mut self) -> &mut Rules {
        self.reading.as_mut().map_or(&mut self.rules, |reading| &mut reading.rules)
    }
}
