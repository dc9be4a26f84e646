//! One judgement of a port: flags that are missing, traces, then what must be asked last.

use super::rules::Walk;
use super::{Action, Detector, Hindrance, Missing, Stage, Switch, Verdict};
use crate::limits::{FLAGS_ASKED_MAX, JUDGE_MS};
use crate::openflow::{Flow, Request};
use crate::trace::{Fate, Packets, all_packets, fate, shown};
use std::collections::BTreeSet;

/// How far a judgement is.
pub(super) struct Round {
    pub(super) id: u32,
    pub(super) in_port: u32,
    began: u64,
    walk: Walk,
    to_trace: Vec<Packets>,
    traces_out: usize,
    /// Numbers of questions for rules.
    flags: BTreeSet<u32>,
    to: Option<String>,
    last: Last,
}

/// What is asked behind the last trace.
enum Last {
    NotYet,
    /// The tables, then the configuration.
    Asked {
        xid: u32,
        tables: bool,
    },
}

impl Round {
    pub(super) fn ends(&self) -> u64 {
        self.began + JUDGE_MS
    }

    pub(super) fn next_trace(&mut self) -> Option<Packets> {
        let next = self.to_trace.pop()?;
        self.traces_out += 1;
        Some(next)
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
                let ours = self.ours.get_mut(from).expect("it is one of ours");
                ours.stage = Stage::Asks(Box::new(round));
            }
            Err(why) => self.judge(from, Verdict::Not(why), None),
        }
    }

    fn questions(&mut self, from: &str) -> Result<Round, Hindrance> {
        let in_port = self.sender(from)?;
        let (walk, to_trace) = {
            let rules = self.rules()?;
            (rules.walk(in_port)?, all_packets(rules.types()?))
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
    fn round_of(&mut self, asked: impl Fn(&Round) -> bool) -> Option<(String, &mut Round)> {
        self.ours.iter_mut().find_map(|(name, ours)| match &mut ours.stage {
            Stage::Asks(round) if asked(round) => Some((name.clone(), &mut **round)),
            _ => None,
        })
    }

    /// The port whose judgement asked with this number.
    pub(super) fn asked_by(&mut self, xid: u32) -> Option<String> {
        let last = |r: &Round| matches!(r.last, Last::Asked { xid: x, .. } if x == xid);
        self.round_of(|r| r.flags.contains(&xid) || last(r)).map(|(from, _)| from)
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
                return self.judge(&from, Verdict::Not(why), None);
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
        if !more {
            round.flags.remove(&xid);
        }
        if let Switch::Known(known) = &mut self.switch {
            flows.iter().for_each(|flow| known.rules.learn_flags(flow));
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
            Err(why) => return self.judge(from, Verdict::Not(why), None),
        };
        let xid = self.next_id();
        let ours = self.ours.get_mut(from).expect("it is being judged");
        let Stage::Asks(round) = &mut ours.stage else { return };
        (round.walk, round.last) = (walk, Last::Asked { xid, tables: false });
        self.out.push(Action::Ask(Request::Tables { xid }));
        self.out.push(Action::Ask(Request::Config { xid }));
    }

    pub(super) fn tables(&mut self, xid: u32, evicting: &[u8], more: bool) {
        let asked = |r: &Round| matches!(r.last, Last::Asked { xid: x, .. } if x == xid);
        let Some((from, round)) = self.round_of(asked) else { return };
        let met = evicting.iter().find(|t| round.walk.floors.contains_key(t)).copied();
        if let Some(table) = met {
            return self.judge(&from, Verdict::Not(Hindrance::Evicts(table)), None);
        }
        round.last = Last::Asked { xid, tables: !more };
    }

    pub(super) fn config(&mut self, xid: u32, flags: u16) {
        const FRAGMENTS: u16 = 3;
        let asked = |r: &Round| matches!(r.last, Last::Asked { xid: x, .. } if x == xid);
        let Some((from, round)) = self.round_of(asked) else { return };
        let Last::Asked { tables, .. } = round.last else { return };
        let (walk, to) = (round.walk.clone(), round.to.clone());
        match (flags & FRAGMENTS, tables, to) {
            (0, true, Some(to)) => self.judge(&from, Verdict::Joined { to }, Some(walk)),
            (0, _, _) => {
                let why = Hindrance::NotKnown(Missing::Answer);
                self.judge(&from, Verdict::Not(why), None);
            }
            _ => self.judge(&from, Verdict::Not(Hindrance::Fragments), None),
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
