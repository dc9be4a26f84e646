//! What decides whether ports are joined: events with a time in, questions and verdicts out.
//!
//! Whatever is not known means the switch. A verdict says `joined` only when all conditions
//! held at one moment: an answer that was asked for after the last trace comes behind all
//! events that were before it, so that a change is either seen or is later than the verdict.

mod conditions;
mod hear;
mod pace;
mod round;
mod rules;
mod verdict;

pub use verdict::{Feature, Hindrance, Missing, Peer, RuleFault, RuleName, Verdict};

use crate::limits::{
    JUDGED_AT_ONCE, LOOK_MS_MAX, LOOK_MS_MIN, OURS_MAX, SETTLE_MS, TRACES_AT_ONCE,
};
use crate::openflow::{Message, OfPort, Request};
use crate::ovsdb::Facts;
use crate::trace::Packets;
use pace::Pace;
use round::Round;
use rules::{Rules, Walk};
use std::collections::BTreeMap;

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
    rules: Rules,
}

enum Database {
    Lost(String),
    Read(Option<Facts>),
}

/// A port of ours, and how far its judgement is.
struct Ours {
    port: OurPort,
    verdict: Verdict,
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
    Waits { until: u64 },
    /// Questions are out.
    Asks(Box<Round>),
    /// Judged. Look again then, and meanwhile only rules that may be met matter.
    Judged { look: u64, walk: Option<Walk> },
}

/// A trace that was asked for, and by which judgement.
struct Traced {
    from: String,
    round: u32,
    packets: Packets,
}

/// Finds out which ports of ours are joined.
pub struct Detector {
    now: u64,
    switch: Switch,
    database: Database,
    tracer: Option<String>,
    ours: BTreeMap<String, Ours>,
    traces: BTreeMap<u32, Traced>,
    pace: Pace,
    last_id: u32,
    out: Vec<Action>,
}

impl Default for Detector {
    fn default() -> Self {
        let yet = || "not connected yet".to_owned();
        Detector {
            now: 0,
            switch: Switch::Lost(yet()),
            database: Database::Lost(yet()),
            tracer: Some(yet()),
            ours: BTreeMap::new(),
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
            Event::Traced { id, said } => self.traced(id, said),
            Event::Tick => {}
        }
        self.go_on();
        std::mem::take(&mut self.out)
    }

    /// When to be called again though nothing happened.
    pub fn wake(&self) -> Option<u64> {
        // An answer lets the next ones begin.
        let full = self.judged_now() >= JUDGED_AT_ONCE;
        let of = |o: &Ours| match &o.stage {
            Stage::Asks(round) => Some(round.ends()),
            Stage::Waits { until: at } | Stage::Judged { look: at, .. } if !full => Some(*at),
            Stage::Still | Stage::Waits { .. } | Stage::Judged { .. } => None,
        };
        self.ours.values().filter_map(of).chain(self.pace.wake()).min()
    }

    /// What holds for frames of an interface of ours.
    pub fn verdict(&self, from: &str) -> Option<&Verdict> {
        self.ours.get(from).map(|o| &o.verdict)
    }

    /// What holds for frames from one interface of ours to another one: each has at most one
    /// to which it is joined.
    pub fn between(&self, from: &str, to: &str) -> Option<Verdict> {
        let elsewhere = |t: &str| Verdict::Not(Hindrance::JoinedTo(t.to_owned()));
        self.ours.get(to)?;
        Some(match self.verdict(from)? {
            Verdict::Joined { to: t } | Verdict::Anew { was: t } if t != to => elsewhere(t),
            other => other.clone(),
        })
    }

    /// Whether all frames from one interface of ours go to another one, and only there.
    pub fn joined(&self, from: &str, to: &str) -> bool {
        matches!(self.verdict(from), Some(Verdict::Joined { to: t }) if t == to)
    }

    fn take_ports(&mut self, ports: Vec<OurPort>) {
        let mut old = std::mem::take(&mut self.ours);
        for port in ports.into_iter().take(OURS_MAX) {
            let name = port.interface.clone();
            let same = old.remove(&name).filter(|o| o.port == port);
            let ours = same.unwrap_or(Ours {
                port,
                verdict: Verdict::Not(Hindrance::NotKnown(Missing::Judgement)),
                stage: Stage::Still,
                towards: None,
                patience: LOOK_MS_MIN,
            });
            self.ours.insert(name, ours);
        }
        // A port that stays may have lost the one that it is joined to.
        self.all_anew();
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
        let blocked = self.blocked();
        let until = self.now + SETTLE_MS;
        for (name, ours) in self.ours.iter_mut().filter(|(name, ours)| concerned(name, ours)) {
            ours.patience = LOOK_MS_MIN;
            let (verdict, stage) = match (&blocked, &ours.verdict) {
                (Some(why), _) => (Some(Verdict::Not(why.clone())), Stage::Still),
                (None, Verdict::Joined { to }) => {
                    (Some(Verdict::Anew { was: to.clone() }), Stage::Waits { until })
                }
                (None, _) => (None, Stage::Waits { until }),
            };
            ours.stage = stage;
            if let Some(verdict) = verdict {
                Self::set(&mut self.out, name, ours, verdict);
            }
        }
    }

    fn set(out: &mut Vec<Action>, name: &str, ours: &mut Ours, verdict: Verdict) {
        if ours.verdict != verdict {
            ours.verdict = verdict.clone();
            out.push(Action::Changed { from: name.to_owned(), verdict });
        }
    }

    /// Ends a judgement.
    fn judge(&mut self, from: &str, verdict: Verdict, walk: Option<Walk>) {
        let Some(ours) = self.ours.get_mut(from) else { return };
        let look = self.now + ours.patience;
        ours.patience = (ours.patience * 2).min(LOOK_MS_MAX);
        assert!(
            !matches!(verdict, Verdict::Joined { .. }) || walk.is_some(),
            "who is joined has met rules"
        );
        ours.stage = Stage::Judged { look, walk };
        Self::set(&mut self.out, from, ours, verdict);
    }

    /// Begins what is due, ends what took too long, and asks for traces as many as may be out.
    fn go_on(&mut self) {
        let due = |o: &Ours| match &o.stage {
            Stage::Still => false,
            Stage::Waits { until } => *until <= self.now,
            Stage::Asks(round) => round.ends() <= self.now,
            Stage::Judged { look, .. } => *look <= self.now,
        };
        let due: Vec<String> =
            self.ours.iter().filter(|(_, o)| due(o)).map(|(name, _)| name.clone()).collect();
        for from in due {
            match &self.ours[&from].stage {
                Stage::Asks(_) => {
                    let late = Verdict::Not(Hindrance::NotKnown(Missing::Answer));
                    self.judge(&from, late, None);
                }
                _ if self.judged_now() < JUDGED_AT_ONCE => self.begin(&from),
                _ => {}
            }
        }
        self.ask_traces();
    }

    fn judged_now(&self) -> usize {
        self.ours.values().filter(|o| matches!(o.stage, Stage::Asks(_))).count()
    }

    fn ask_traces(&mut self) {
        for (from, ours) in &mut self.ours {
            let Stage::Asks(round) = &mut ours.stage else { continue };
            while self.traces.len() < TRACES_AT_ONCE
                && let Some(packets) = round.next_trace()
            {
                self.last_id = self.last_id.checked_add(1).unwrap_or(1);
                let (id, in_port) = (self.last_id, round.in_port);
                let asked =
                    Traced { from: from.clone(), round: round.id, packets: packets.clone() };
                self.traces.insert(id, asked);
                self.out.push(Action::Trace { id, in_port, packets });
            }
        }
    }
}

#[cfg(test)]
mod tests;
