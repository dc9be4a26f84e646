//! What decides whether ports are joined: events with a time in, questions and verdicts out.
//!
//! Whatever is not known means the switch. A verdict says `joined` only when all conditions
//! held at one moment, that of the last questions: the switch and its database answer them
//! behind all events of before, so that a change is either seen or is later than that moment.

mod agenda;
mod conditions;
mod hear;
mod pace;
mod round;
mod rules;
mod verdict;

pub use verdict::{Feature, Hindrance, Missing, Peer, RuleFault, RuleName, Verdict};

use crate::limits::{LOOK_MS_MAX, LOOK_MS_MAX_PORT, LOOK_MS_MIN, LOOK_MS_MIN_PORT, OURS_MAX};
use crate::limits::{SETTLE_MS, SETTLE_MS_MAX, TRACES_AT_ONCE};
use crate::openflow::{FlowKey, Message, OfPort, Request};
use crate::ovsdb::Facts;
use crate::passed::Passed;
use crate::trace::Packets;
use agenda::Agenda;
use pace::Pace;
use round::Round;
use rules::{Rules, Walk};
use std::collections::{BTreeMap, BTreeSet};

/// A port of ours on the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OurPort {
    /// Its interface, as the switch's database names it.
    pub interface: String,
    /// The type that this has to have there.
    pub kind: String,
    /// DPDK's name of the device, for an interface of that type.
    pub devargs: Option<String>,
    /// The MTU in the VM.
    pub mtu: u32,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// These are our ports from now on.
    Ours(Vec<OurPort>),
    /// A connection was made, and has said nothing yet.
    Connected(Peer),
    /// A connection was lost, or was not made, and why.
    Lost(Peer, String),
    /// The switch said something.
    OpenFlow(Message),
    /// What the database has now; nothing: no such bridge.
    Facts(Option<Facts>),
    /// The database answered the question with this number.
    DatabaseAnswered(u32),
    /// The answer to a trace: its text, or why there is none.
    Traced {
        /// The number of the question.
        id: u32,
        /// The text.
        said: Result<String, String>,
    },
    /// Only time passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the switch.
    Ask(Request),
    /// Ask the database for an answer with this number, which says nothing else. It comes behind
    /// all changes until then.
    AskDatabase(u32),
    /// Ask for a trace of such a frame of this OpenFlow port.
    Trace {
        /// The number that the answer bears.
        id: u32,
        /// The port.
        in_port: u32,
        /// The frame.
        packets: Packets,
    },
    /// The verdict about frames of this interface is another one.
    Changed {
        /// The interface that sends them.
        from: String,
        /// The verdict.
        verdict: Verdict,
        /// Of one that is joined: the rules that its frames pass.
        passed: Option<Passed>,
    },
}

/// What is known of the bridge by OpenFlow.
enum Switch {
    Lost(String),
    Known(Known),
}

/// The same on a connection that is there.
#[derive(Default)]
struct Known {
    rules: Rules,
    reading: Option<Reading>,
    ports: Option<BTreeMap<u32, OfPort>>,
    /// Parts of the ports, until the last one has come.
    ports_read: BTreeMap<u32, OfPort>,
    paused: bool,
    refused: Option<(u16, u16)>,
}

/// All rules, of which some parts have come.
#[derive(Default)]
struct Reading {
    xid: u32,
    /// When it was asked for, ms.
    asked: u64,
    rules: Rules,
}

enum Database {
    Lost(String),
    /// Connected; nothing has come yet.
    Reading,
    Read(Option<Facts>),
}

/// A port of ours, and how far its judgement is.
struct Ours {
    port: OurPort,
    verdict: Verdict,
    /// Of one that is joined.
    passed: Option<Passed>,
    stage: Stage,
    /// Where its frames went by the last traces.
    towards: Option<String>,
    /// The time until the next look without an event.
    patience: u64,
}

enum Stage {
    /// Nothing can be asked; an event will change that.
    Still,
    /// Begin to ask then.
    Waits { since: u64, until: u64 },
    /// Questions are out.
    Asks(Box<Round>),
    /// Judged. Look again then, and meanwhile only rules that may be met matter.
    Judged { look: u64, walk: Option<Walk> },
}

impl Stage {
    /// Whether a change of this rule may matter.
    fn meets(&self, key: &FlowKey) -> bool {
        match self {
            Stage::Asks(round) => round.walk.meets(key),
            Stage::Judged { walk: Some(walk), .. } => walk.meets(key),
            Stage::Still | Stage::Waits { .. } | Stage::Judged { walk: None, .. } => true,
        }
    }
}

/// A trace that was asked for, and by which judgement.
struct Traced {
    from: String,
    round: u32,
    packets: Packets,
}

/// What holds for a port beyond the limit.
static TOO_MANY_PORTS: Verdict = Verdict::Not(Hindrance::TooManyPorts);

/// Finds out which ports of ours are joined.
pub struct Detector {
    now: u64,
    switch: Switch,
    database: Database,
    tracer: Option<String>,
    ours: BTreeMap<String, Ours>,
    /// Interfaces that were declared beyond the limit.
    beyond: BTreeSet<String>,
    agenda: Agenda,
    traces: BTreeMap<u32, Traced>,
    pace: Pace,
    last_id: u32,
    out: Vec<Action>,
}

impl Default for Detector {
    fn default() -> Self {
        let yet = || "it was not tried yet".to_owned();
        Detector {
            now: 0,
            switch: Switch::Lost(yet()),
            database: Database::Lost(yet()),
            tracer: Some(yet()),
            ours: BTreeMap::new(),
            beyond: BTreeSet::new(),
            agenda: Agenda::default(),
            traces: BTreeMap::new(),
            pace: Pace::default(),
            last_id: 0,
            out: vec![],
        }
    }
}

impl Detector {
    /// Takes in an event at a time in ms, which does not go back.
    pub fn handle(&mut self, now: u64, event: Event) -> Vec<Action> {
        self.now = self.now.max(now);
        if self.pace.pass(self.now) {
            self.all_anew();
        }
        match event {
            Event::Ours(ports) => self.take_ports(ports),
            Event::Connected(peer) => self.connected(peer),
            Event::Lost(peer, why) => self.lost(peer, why),
            Event::OpenFlow(message) => self.hear(message),
            Event::Facts(facts) => self.learn(facts),
            Event::DatabaseAnswered(id) => self.database_answered(id),
            Event::Traced { id, said } => self.traced(id, said),
            Event::Tick => {}
        }
        self.go_on();
        std::mem::take(&mut self.out)
    }

    /// When to be called again though nothing happened.
    pub fn wake(&self) -> Option<u64> {
        self.agenda.wake().into_iter().chain(self.pace.wake()).min()
    }

    /// What holds for frames of an interface of ours.
    pub fn verdict(&self, from: &str) -> Option<&Verdict> {
        let beyond = || self.beyond.contains(from).then_some(&TOO_MANY_PORTS);
        self.ours.get(from).map(|o| &o.verdict).or_else(beyond)
    }

    /// What holds for frames from one interface of ours to another one: each has at most one
    /// to which it is joined.
    pub fn between(&self, from: &str, to: &str) -> Option<Verdict> {
        let elsewhere = |t: &str| Verdict::Not(Hindrance::JoinedTo(t.to_owned()));
        self.verdict(to)?;
        Some(match self.verdict(from)? {
            Verdict::Joined { to: t } | Verdict::Anew { was: t } if t != to => elsewhere(t),
            other => other.clone(),
        })
    }

    /// A port whose declaration is new begins without a verdict, and whoever is joined to it is
    /// judged anew. Each difference is told.
    fn take_ports(&mut self, ports: Vec<OurPort>) {
        let told = self.verdicts();
        let (mut declared, mut beyond) = (BTreeMap::new(), BTreeSet::new());
        for port in ports {
            // Of two with one name the last one counts.
            if declared.len() < OURS_MAX || declared.contains_key(&port.interface) {
                declared.insert(port.interface.clone(), port);
            } else {
                beyond.insert(port.interface);
            }
        }
        self.beyond = beyond;
        let goes = |(name, ours): &(&String, &Ours)| declared.get(*name) != Some(&ours.port);
        let mut changed: BTreeSet<String> =
            self.ours.iter().filter(goes).map(|(name, _)| name.clone()).collect();
        for name in &changed {
            self.move_to(name, Stage::Still);
            self.ours.remove(name);
        }
        declared.retain(|name, _| !self.ours.contains_key(name));
        for (name, port) in declared {
            let verdict = Verdict::Not(Hindrance::NotKnown(Missing::Judgement));
            let (stage, towards, passed) = (Stage::Still, None, None);
            let patience = LOOK_MS_MIN;
            let ours = Ours { port, verdict, passed, stage, towards, patience };
            self.ours.insert(name.clone(), ours);
            changed.insert(name);
        }
        self.tell_since(&told);
        self.anew(|name, ours| hear::concerns(name, ours, &|n| changed.contains(n)));
    }

    fn verdicts(&self) -> BTreeMap<String, Verdict> {
        let names = self.ours.keys().chain(&self.beyond);
        let each = |name: &String| Some((name.clone(), self.verdict(name)?.clone()));
        names.filter_map(each).collect()
    }

    /// Tells which verdicts are others than these.
    fn tell_since(&mut self, told: &BTreeMap<String, Verdict>) {
        let now = self.verdicts();
        for name in told.keys().filter(|name| !now.contains_key(*name)) {
            let verdict = Verdict::Not(Hindrance::NotDeclared);
            self.out.push(Action::Changed { from: name.clone(), verdict, passed: None });
        }
        for (from, verdict) in now {
            if told.get(&from) != Some(&verdict) {
                let passed = self.ours.get(&from).and_then(|ours| ours.passed.clone());
                self.out.push(Action::Changed { from, verdict, passed });
            }
        }
    }

    fn next_id(&mut self) -> u32 {
        // 0 is the number of what nobody asked for.
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        self.last_id
    }

    /// What hinders all ports alike.
    fn blocked(&self) -> Option<Hindrance> {
        let not_known = |missing| Some(Hindrance::NotKnown(missing));
        let known = match &self.switch {
            Switch::Lost(why) => return not_known(Missing::Peer(Peer::OpenFlow, why.clone())),
            Switch::Known(known) => known,
        };
        match &self.database {
            Database::Lost(why) => return not_known(Missing::Peer(Peer::Ovsdb, why.clone())),
            Database::Reading => return not_known(Missing::Rows),
            Database::Read(None) => return not_known(Missing::Bridge),
            Database::Read(Some(_)) => {}
        }
        if let Some(why) = &self.tracer {
            return not_known(Missing::Peer(Peer::Trace, why.clone()));
        }
        if let Some((class, code)) = known.refused {
            return not_known(Missing::Refused { class, code });
        }
        if self.pace.storm() {
            return Some(Hindrance::TooManyChanges);
        }
        if known.paused {
            return not_known(Missing::Paused);
        }
        if known.reading.is_some() {
            return not_known(Missing::Rules);
        }
        if known.rules.overflowed() {
            return not_known(Missing::TooManyRules);
        }
        if known.ports.is_none() {
            return not_known(Missing::Ports);
        }
        None
    }

    fn all_anew(&mut self) {
        self.anew(|_, _| true);
    }

    /// Something happened that may change what holds for these ports.
    fn anew(&mut self, concerned: impl Fn(&str, &Ours) -> bool) {
        let hit = self.ours.iter().filter(|(name, ours)| concerned(name, ours));
        let hit: Vec<String> = hit.map(|(name, _)| name.clone()).collect();
        let blocked = self.blocked();
        for name in hit {
            self.begin_anew(&name, blocked.as_ref());
        }
    }

    fn begin_anew(&mut self, name: &str, blocked: Option<&Hindrance>) {
        let patience = self.per_port(LOOK_MS_MIN, LOOK_MS_MIN_PORT);
        let ours = self.ours.get_mut(name).expect("it is one of ours");
        ours.patience = patience;
        let verdict = match (blocked, &ours.verdict) {
            (Some(why), _) => Some(Verdict::Not(why.clone())),
            (None, Verdict::Joined { to }) => Some(Verdict::Anew { was: to.clone() }),
            (None, _) => None,
        };
        let since = match ours.stage {
            Stage::Waits { since, .. } => since,
            Stage::Still | Stage::Asks(_) | Stage::Judged { .. } => self.now,
        };
        let until = (self.now + SETTLE_MS).min(since + SETTLE_MS_MAX);
        if let Some(verdict) = verdict {
            Self::set(&mut self.out, name, ours, (verdict, None));
        }
        let waits = Stage::Waits { since, until };
        self.move_to(name, if blocked.is_some() { Stage::Still } else { waits });
    }

    /// A time, or with many ports one that grows with them.
    fn per_port(&self, ms: u64, each: u64) -> u64 {
        ms.max(each * u64::try_from(self.ours.len()).unwrap_or(u64::MAX))
    }

    /// The only way from one stage to another one.
    fn move_to(&mut self, name: &str, stage: Stage) {
        let ours = self.ours.get_mut(name).expect("it is one of ours");
        self.agenda.moved(name, &ours.stage, &stage);
        ours.stage = stage;
    }

    fn set(
        out: &mut Vec<Action>,
        name: &str,
        ours: &mut Ours,
        (verdict, passed): (Verdict, Option<Passed>),
    ) {
        if ours.verdict != verdict || ours.passed != passed {
            (ours.verdict, ours.passed) = (verdict.clone(), passed.clone());
            out.push(Action::Changed { from: name.to_owned(), verdict, passed });
        }
    }

    /// Ends a judgement. Rules that its frames cannot meet do not change it.
    fn judge(&mut self, from: &str, verdict: Verdict) {
        let longest = self.per_port(LOOK_MS_MAX, LOOK_MS_MAX_PORT);
        let Some(ours) = self.ours.get_mut(from) else { return };
        let look = self.now + ours.patience;
        ours.patience = (ours.patience * 2).min(longest);
        let walk = match &ours.stage {
            Stage::Asks(round) => Some(round.walk.clone()),
            Stage::Still | Stage::Waits { .. } | Stage::Judged { .. } => None,
        };
        assert!(
            !matches!(verdict, Verdict::Joined { .. }) || walk.is_some(),
            "who is joined has met rules"
        );
        let is_joined = matches!(verdict, Verdict::Joined { .. });
        let passed = walk.as_ref().filter(|_| is_joined).map(|walk| walk.passed.clone());
        Self::set(&mut self.out, from, ours, (verdict, passed));
        self.move_to(from, Stage::Judged { look, walk });
    }

    /// Begins what is due, ends what took too long, and asks for traces as many as may be out.
    fn go_on(&mut self) {
        while let Some(from) = self.agenda.late(self.now) {
            self.judge(&from, Verdict::Not(Hindrance::NotKnown(Missing::Answer)));
        }
        while let Some(from) = self.agenda.next(self.now) {
            self.begin(&from);
        }
        self.ask_traces();
    }

    fn ask_traces(&mut self) {
        for from in self.agenda.asking() {
            let Some(Ours { stage: Stage::Asks(round), .. }) = self.ours.get_mut(from) else {
                continue;
            };
            while self.traces.len() < TRACES_AT_ONCE
                && let Some(packets) = round.next_trace()
            {
                self.last_id = self.last_id.checked_add(1).unwrap_or(1);
                let (id, in_port) = (self.last_id, round.in_port);
                let asked =
                    Traced { from: from.to_owned(), round: round.id, packets: packets.clone() };
                self.traces.insert(id, asked);
                self.out.push(Action::Trace { id, in_port, packets });
            }
        }
    }
}

#[cfg(test)]
mod tests;
