//! One judgement of a port: flags that are missing, traces, then what must be asked last.

use super::rules::Walk;
use super::{Action, Detector, Hindrance, Missing, Ours, Stage, Switch, Verdict};
use crate::limits::{FLAGS_ASKED_MAX, JUDGE_MS};
use crate::openflow::{Flow, Request};
use crate::passed::Born;
use crate::trace::{Fate, Packets, all_packets, fate, shown};
use std::collections::{BTreeSet, VecDeque};

/// How far a judgement is.
pub(super) struct Round {
    pub(super) id: u32,
    pub(super) in_port: u32,
    began: u64,
    pub(super) walk: Walk,
    to_trace: VecDeque<Packets>,
    traces_out: usize,
    /// Numbers of questions for rules.
    flags: BTreeSet<u32>,
    to: Option<String>,
    last: Last,
}

/// What is asked behind the last trace.
enum Last {
    NotYet,
    /// With this number; who has answered in full.
    Asked {
        xid: u32,
        answered: Answered,
    },
}

/// All of them must have.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Answered {
    tables: bool,
    config: bool,
    database: bool,
}

impl Round {
    pub(super) fn ends(&self) -> u64 {
        self.began + JUDGE_MS
    }

    pub(super) fn next_trace(&mut self) -> Option<Packets> {
        let next = self.to_trace.pop_front()?;
        self.traces_out += 1;
        Some(next)
    }

    /// What has answered so far, if this is the number of the last questions.
    fn answered(&mut self, number: u32) -> Option<&mut Answered> {
        match &mut self.last {
            Last::Asked { xid, answered } if *xid == number => Some(answered),
            Last::Asked { .. } | Last::NotYet => None,
        }
    }

    fn complete(&self) -> bool {
        self.to_trace.is_empty() && self.traces_out == 0 && self.flags.is_empty()
    }
}

impl Detector {
    /// Judges a port: at once if something hinders it that is known, else by questions.
    pub(super) fn begin(&mut self, from: &str) {
        let begun = match self.blocked() {
            Some(why) => Err(why),
            None => self.questions(from),
        };
        match begun {
            Ok(round) => {
                for (xid, key) in round.flags.iter().zip(&round.walk.unclear) {
                    let (xid, key) = (*xid, key.clone());
                    self.out.push(Action::Ask(Request::OneFlow { xid, key }));
                }
                self.move_to(from, Stage::Asks(Box::new(round)));
            }
            Err(why) => self.judge(from, Verdict::Not(why)),
        }
    }

    fn questions(&mut self, from: &str) -> Result<Round, Hindrance> {
        let in_port = self.sender(from)?;
        let (walk, to_trace) = {
            let rules = self.rules()?;
            (rules.walk(in_port)?, all_packets(rules.types()?).into())
        };
        if walk.unclear.len() > FLAGS_ASKED_MAX {
            self.read_rules();
            return Err(Hindrance::NotKnown(Missing::Rules));
        }
        let (id, began) = (self.next_id(), self.now);
        let flags = walk.unclear.iter().map(|_| self.next_id()).collect();
        let last = Last::NotYet;
        Ok(Round { id, in_port, began, walk, to_trace, traces_out: 0, flags, to: None, last })
    }

    /// The round that a question belongs to.
    fn round_of(&mut self, asked: impl Fn(&mut Round) -> bool) -> Option<(String, &mut Round)> {
        let asking = self.agenda.asking();
        let found = asking.map(str::to_owned).find(|name| match self.ours.get_mut(name) {
            Some(Ours { stage: Stage::Asks(round), .. }) => asked(round),
            _ => false,
        })?;
        match &mut self.ours.get_mut(&found)?.stage {
            Stage::Asks(round) => Some((found, round)),
            _ => None,
        }
    }

    /// The port whose judgement asked with this number.
    pub(super) fn asked_by(&mut self, xid: u32) -> Option<String> {
        let asked = |r: &mut Round| r.flags.contains(&xid) || r.answered(xid).is_some();
        self.round_of(asked).map(|(from, _)| from)
    }

    pub(super) fn traced(&mut self, id: u32, said: Result<String, String>) {
        let Some(asked) = self.traces.remove(&id) else { return };
        let Some((from, round)) = self.round_of(|r| r.id == asked.round) else { return };
        debug_assert_eq!(from, asked.from);
        round.traces_out -= 1;
        match went(round.to.as_deref(), asked.packets, said) {
            Ok(to) => round.to = Some(to),
            Err(why) => {
                let why = self.explained(&from, why);
                return self.judge(&from, Verdict::Not(why));
            }
        }
        self.maybe_last(&from);
    }

    /// A mirror of the receiver, for instance, shows in a trace, but its name says more.
    fn explained(&self, from: &str, seen: Hindrance) -> Hindrance {
        let towards = self.ours[from].towards.as_deref();
        match towards.map(|to| self.receiver(from, to)) {
            Some(Err(why)) if !matches!(why, Hindrance::NotOurs(_)) => why,
            _ => seen,
        }
    }

    /// A part of the answer to a question for one rule.
    pub(super) fn one_flow(&mut self, xid: u32, flows: &[Flow], more: bool) {
        let Some((from, round)) = self.round_of(|r| r.flags.contains(&xid)) else { return };
        let asked = round.began;
        if !more {
            round.flags.remove(&xid);
        }
        if let Switch::Known(known) = &mut self.switch {
            for flow in flows {
                let born = flow.age_ms.map(|age| Born::of(asked, self.now, age));
                known.rules.learn_flags(flow, born);
            }
        }
        self.maybe_last(&from);
    }

    /// Once traces and flags are there: whether the rules are still fine with them, and the
    /// receiver; then the questions whose answers come behind all events until now.
    fn maybe_last(&mut self, from: &str) {
        let Stage::Asks(round) = &self.ours[from].stage else { return };
        if !round.complete() {
            return;
        }
        let (in_port, to) = (round.in_port, round.to.clone());
        // Also if it may not be so: what changes there matters.
        self.ours.get_mut(from).expect("it is being judged").towards = to.clone();
        let checked = match to {
            None => Err(Hindrance::NotKnown(Missing::Answer)),
            Some(to) => self.sender(from).and_then(|_| {
                let walk = self.rules()?.walk(in_port)?;
                let number = self.receiver(from, &to)?;
                // A way over another bridge ends at the same port, but its rules are not ours.
                match walk.outputs.iter().find(|port| **port != number) {
                    Some(other) => Err(Hindrance::OtherOutput(*other)),
                    None if walk.outputs.is_empty() => Err(Hindrance::NoOutput),
                    None if !walk.unclear.is_empty() => Err(Hindrance::NotKnown(Missing::Rules)),
                    None => Ok(walk),
                }
            }),
        };
        let walk = match checked {
            Ok(checked) => checked,
            Err(why) => return self.judge(from, Verdict::Not(why)),
        };
        let xid = self.next_id();
        let ours = self.ours.get_mut(from).expect("it is being judged");
        let Stage::Asks(round) = &mut ours.stage else { return };
        (round.walk, round.last) = (walk, Last::Asked { xid, answered: Answered::default() });
        self.out.push(Action::Ask(Request::Tables { xid }));
        self.out.push(Action::Ask(Request::Config { xid }));
        self.out.push(Action::AskDatabase(xid));
    }

    pub(super) fn tables(&mut self, xid: u32, evicting: &[u8], more: bool) {
        let Some((from, round)) = self.round_of(|r| r.answered(xid).is_some()) else { return };
        let met = evicting.iter().find(|t| round.walk.floors.contains_key(t)).copied();
        if let Some(table) = met {
            return self.judge(&from, Verdict::Not(Hindrance::Evicts(table)));
        }
        self.answers(xid, |answered| answered.tables = !more);
    }

    pub(super) fn config(&mut self, xid: u32, flags: u16) {
        const FRAGMENTS: u16 = 3;
        let Some((from, _)) = self.round_of(|r| r.answered(xid).is_some()) else { return };
        if flags & FRAGMENTS != 0 {
            return self.judge(&from, Verdict::Not(Hindrance::Fragments));
        }
        self.answers(xid, |answered| answered.config = true);
    }

    pub(super) fn database_answered(&mut self, id: u32) {
        self.answers(id, |answered| answered.database = true);
    }

    /// One of the last questions is answered. Once all are, the port is joined.
    fn answers(&mut self, xid: u32, which: impl Fn(&mut Answered)) {
        let Some((from, round)) = self.round_of(|r| r.answered(xid).is_some()) else { return };
        let Some(answered) = round.answered(xid) else { return };
        which(answered);
        if *answered == (Answered { tables: true, config: true, database: true }) {
            let to = round.to.clone().expect("the last questions come after the traces");
            self.judge(&from, Verdict::Joined { to });
        }
    }
}

/// Where all frames so far and these go.
fn went(
    so_far: Option<&str>,
    packets: Packets,
    said: Result<String, String>,
) -> Result<String, Hindrance> {
    let unclear = |p, why| Err(Hindrance::NotKnown(Missing::TraceOf(p, why)));
    let text = match said {
        Ok(text) => text,
        Err(why) => return unclear(packets, shown(&why)),
    };
    match fate(&text) {
        Fate::Goes(to) => match so_far {
            Some(other) if other != to => Err(Hindrance::Splits(other.to_owned(), to)),
            _ => Ok(to),
        },
        Fate::Dropped => Err(Hindrance::Dropped(packets)),
        Fate::Else(what) => Err(Hindrance::DoneTo(packets, what)),
        Fate::Depends(field) => Err(Hindrance::Depends(packets, field)),
        Fate::Slow => Err(Hindrance::Slow(packets)),
        Fate::Unclear => unclear(packets, shown(&text)),
    }
}
