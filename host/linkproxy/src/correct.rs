//! What becomes of each message between a switch and its controller. Almost all pass as they are. Answers
//! about rules, about sums over rules, and words about the end of a rule get added what went past
//! the rules; what cannot be told exactly is not changed, and is counted.
//!
//! An answer about a sum does not name the rules. So the switch is asked for these just before, with
//! the same question, and that answer goes no further.

use crate::limits::{AGGREGATES_MAX, ANSWER_LATE_MS, MATCHED_MAX, REMOVED_LATE_MS, REQUESTS_MAX};
use crate::message::{Kind, Message, Stats, Version};
use crate::rules::{Likeness, Matches, Rule, of_aggregate, of_removed, of_reply};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vfun_admin::links::FlowRow;

/// Who knows what went past rules.
pub trait Sums {
    /// At this moment; nothing: nobody answers.
    fn rows(&self) -> Option<Vec<FlowRow>>;
    /// The same once no frame goes past these any more, as far as one can wait for that.
    fn last_rows(&self) -> Option<Vec<FlowRow>>;
    /// Time, ms of the host's clock.
    fn now(&self) -> u64;
}

/// What was done, for people.
#[derive(Debug, Default)]
pub struct Tally {
    pub connections: AtomicU32,
    pub corrected: AtomicU64,
    pub uncorrected: AtomicU64,
    pub held: AtomicU64,
    pub let_go: AtomicU64,
}

/// Rules that a request for a sum is about.
enum Found {
    Reading(Vec<Rule>),
    Complete(Vec<Rule>),
    /// Nobody can say which.
    Failed,
}

/// A request for a sum, under way.
struct Aggregate {
    /// The number of our question for the rules, and of the controller's for the sum.
    ours: u32,
    theirs: u32,
    asked: u64,
    found: Found,
}

#[derive(Default)]
struct UnderWay {
    /// The controller's requests for rules: their numbers, and when they were made.
    requests: VecDeque<(u32, u64)>,
    aggregates: VecDeque<Aggregate>,
    last: u32,
}

impl UnderWay {
    /// A number that no request under way has.
    fn fresh(&mut self) -> u32 {
        // Far from where controllers begin to count.
        const FIRST: u32 = 0xf1f1_0000;
        loop {
            self.last = self.last.checked_add(1).unwrap_or(0).max(FIRST);
            let is_used = self.requests.iter().any(|(xid, _)| *xid == self.last)
                || self.aggregates.iter().any(|a| a.ours == self.last || a.theirs == self.last);
            if !is_used {
                return self.last;
            }
        }
    }
}

/// Both directions of one connection.
pub fn connection(tally: Arc<Tally>) -> (FromController, FromSwitch) {
    let under_way: Arc<Mutex<UnderWay>> = Arc::default();
    let from = FromSwitch { under_way: under_way.clone(), tally, parts: None };
    (FromController { under_way }, from)
}

fn hold(under_way: &Mutex<UnderWay>) -> MutexGuard<'_, UnderWay> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the controller to the switch.
pub struct FromController {
    under_way: Arc<Mutex<UnderWay>>,
}

impl FromController {
    /// What the switch gets for a message.
    pub fn pass(&self, message: Message, sums: &impl Sums) -> Vec<Message> {
        match (message.kind(), message.version()) {
            (Kind::Request(Stats::Flow), Some(_)) => {
                let mut under_way = hold(&self.under_way);
                if under_way.requests.len() >= REQUESTS_MAX {
                    under_way.requests.pop_front();
                }
                under_way.requests.push_back((message.xid(), sums.now()));
                vec![message]
            }
            (Kind::Request(Stats::Aggregate), Some(_)) => self.aggregate(message, sums),
            _ => vec![message],
        }
    }

    fn aggregate(&self, message: Message, sums: &impl Sums) -> Vec<Message> {
        if sums.rows().is_none_or(|rows| rows.is_empty()) {
            return vec![message];
        }
        let mut under_way = hold(&self.under_way);
        if under_way.aggregates.len() >= AGGREGATES_MAX {
            return vec![message];
        }
        let (ours, theirs, asked) = (under_way.fresh(), message.xid(), sums.now());
        let found = Found::Reading(vec![]);
        under_way.aggregates.push_back(Aggregate { ours, theirs, asked, found });
        vec![message.for_rules(ours), message]
    }
}

/// From the switch to the controller.
pub struct FromSwitch {
    under_way: Arc<Mutex<UnderWay>>,
    tally: Arc<Tally>,
    /// An answer of which some parts have come: its number, when it was asked for, and the sums.
    parts: Option<(u32, u64, Option<Vec<FlowRow>>)>,
}

/// What was done to a message.
enum Done {
    /// Counts were added, or there are none to add.
    Exact {
        changed: bool,
    },
    Unclear,
}

impl FromSwitch {
    /// What the controller gets for a message, if anything.
    pub fn pass(&mut self, mut message: Message, sums: &impl Sums) -> Option<Message> {
        let done = match (message.kind(), message.version()) {
            (Kind::Error, _) => return self.error(message),
            (Kind::Reply { stats: Stats::Flow, more }, Some(version)) => {
                if self.is_of_aggregate(&message, version, more) {
                    return None;
                }
                self.flows(&mut message, version, more, sums)
            }
            (Kind::Reply { stats: Stats::Aggregate, .. }, Some(version)) => {
                self.sum(&mut message, version, sums)
            }
            (Kind::FlowRemoved { by_extension: false }, Some(version)) => {
                removed(&mut message, version, sums)
            }
            // Rules in a way that is not understood.
            (Kind::Reply { stats: Stats::Flow | Stats::Aggregate | Stats::Nicira, .. }, _)
            | (Kind::FlowRemoved { .. }, _) => unclear_if_any(sums.rows().as_deref()),
            _ => return Some(message),
        };
        let count = match done {
            Done::Exact { changed: false } => return Some(message),
            Done::Exact { changed: true } => &self.tally.corrected,
            Done::Unclear => &self.tally.uncorrected,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Some(message)
    }

    /// A refusal of our own question goes no further; the controller's follows it.
    fn error(&self, message: Message) -> Option<Message> {
        let (xid, mut under_way) = (message.xid(), hold(&self.under_way));
        let is_ours = |a: &&mut Aggregate| a.ours == xid && matches!(a.found, Found::Reading(_));
        if let Some(ours) = under_way.aggregates.iter_mut().find(is_ours) {
            ours.found = Found::Failed;
            return None;
        }
        if let Some(at) = under_way.aggregates.iter().position(|a| a.theirs == xid) {
            under_way.aggregates.remove(at);
        }
        if let Some(at) = under_way.requests.iter().position(|(request, _)| *request == xid) {
            under_way.requests.remove(at);
        }
        Some(message)
    }

    /// A part of the answer to our own question.
    fn is_of_aggregate(&self, message: &Message, version: Version, more: bool) -> bool {
        let mut under_way = hold(&self.under_way);
        let mut all = under_way.aggregates.iter_mut();
        let is_ours =
            |a: &&mut Aggregate| a.ours == message.xid() && !matches!(a.found, Found::Complete(_));
        let Some(ours) = all.find(is_ours) else { return false };
        if let Found::Reading(rules) = &mut ours.found {
            match of_reply(message, version) {
                Some(some) if rules.len() + some.len() <= MATCHED_MAX => {
                    rules.extend(some.into_iter().filter(|rule| rule.matches != Matches::Else));
                    if !more {
                        ours.found = Found::Complete(std::mem::take(rules));
                    }
                }
                _ => ours.found = Found::Failed,
            }
        }
        true
    }

    /// Rules that were asked for.
    fn flows(
        &mut self,
        message: &mut Message,
        version: Version,
        more: bool,
        sums: &impl Sums,
    ) -> Done {
        let xid = message.xid();
        let (asked, rows) = match self.parts.take() {
            Some((number, asked, rows)) if number == xid => (asked, rows),
            _ => (self.asked(xid, sums.now()), sums.rows()),
        };
        let Some(rules) = of_reply(message, version) else { return Done::Unclear };
        let done = match &rows {
            Some(rows) => add_to_each(message, &rules, rows, (asked, sums.now())),
            None => Done::Unclear,
        };
        if more {
            self.parts = Some((xid, asked, rows));
        }
        done
    }

    /// When an answer was asked for.
    fn asked(&self, xid: u32, now: u64) -> u64 {
        let mut under_way = hold(&self.under_way);
        let found = under_way.requests.iter().position(|(request, _)| *request == xid);
        let asked = found.and_then(|at| under_way.requests.remove(at)).map(|(_, asked)| asked);
        asked.unwrap_or(now.saturating_sub(ANSWER_LATE_MS))
    }

    /// A sum that was asked for.
    fn sum(&self, message: &mut Message, version: Version, sums: &impl Sums) -> Done {
        let aggregate = {
            let mut under_way = hold(&self.under_way);
            let found = under_way.aggregates.iter().position(|a| a.theirs == message.xid());
            found.and_then(|at| under_way.aggregates.remove(at))
        };
        let rows = sums.rows();
        let (Some(Aggregate { asked, found: Found::Complete(rules), .. }), Some(rows)) =
            (aggregate, &rows)
        else {
            return unclear_if_any(rows.as_deref());
        };
        let Some(counts) = of_aggregate(message, version) else { return Done::Unclear };
        let (mut frames, mut bytes) = (0u64, 0u64);
        for row in rows.iter().filter(|row| row.frames > 0) {
            match likeness(&rules, row, (asked, sums.now())) {
                Likeness::Same => {
                    frames = frames.saturating_add(row.frames);
                    bytes = bytes.saturating_add(row.bytes);
                }
                Likeness::Unclear => return Done::Unclear,
                Likeness::Other => {}
            }
        }
        add(message, counts, (frames, bytes))
    }
}

/// Whether one of these rules is that of the manager.
fn likeness(rules: &[Rule], row: &FlowRow, (asked, answered): (u64, u64)) -> Likeness {
    let all = rules.iter().map(|rule| rule.is(row, asked, answered));
    let mut alike = all.filter(|likeness| *likeness != Likeness::Other);
    match (alike.next(), alike.next()) {
        (None, _) => Likeness::Other,
        (Some(one), None) => one,
        // Two cannot both be it.
        (Some(_), Some(_)) => Likeness::Unclear,
    }
}

/// Nothing can be added. That is exact where there is nothing.
fn unclear_if_any(rows: Option<&[FlowRow]>) -> Done {
    match rows {
        Some(rows) if rows.iter().all(|row| row.frames == 0) => Done::Exact { changed: false },
        _ => Done::Unclear,
    }
}

/// Adds to counts; a count of which the switch knows nothing stays so.
fn add(message: &mut Message, at: usize, (frames, bytes): (u64, u64)) -> Done {
    const UNKNOWN: u64 = u64::MAX;
    if frames == 0 && bytes == 0 {
        return Done::Exact { changed: false };
    }
    let (Some(had), Some(had_bytes)) = (message.u64(at), message.u64(at + 8)) else {
        return Done::Unclear;
    };
    if had == UNKNOWN || had_bytes == UNKNOWN {
        return Done::Unclear;
    }
    message.set_u64(at, had.saturating_add(frames));
    message.set_u64(at + 8, had_bytes.saturating_add(bytes));
    Done::Exact { changed: true }
}

fn add_to_each(
    message: &mut Message,
    rules: &[Rule],
    rows: &[FlowRow],
    (asked, answered): (u64, u64),
) -> Done {
    let (mut changed, mut is_unclear) = (false, false);
    for row in rows {
        let is_it = |rule: &&Rule| rule.is(row, asked, answered) == Likeness::Same;
        match likeness(rules, row, (asked, answered)) {
            Likeness::Other => {}
            Likeness::Unclear => is_unclear |= row.frames > 0,
            Likeness::Same => {
                let rule = rules.iter().find(is_it).expect("one is the same");
                match add(message, rule.counts, (row.frames, row.bytes)) {
                    Done::Exact { changed: true } => changed = true,
                    Done::Exact { changed: false } => {}
                    Done::Unclear => is_unclear = true,
                }
            }
        }
    }
    if is_unclear { Done::Unclear } else { Done::Exact { changed } }
}

/// The end of a rule: its last counts.
fn removed(message: &mut Message, version: Version, sums: &impl Sums) -> Done {
    let Some(rule) = of_removed(message, version) else { return Done::Unclear };
    if rule.matches == Matches::Else {
        return Done::Exact { changed: false };
    }
    let now = sums.now();
    let times = (now.saturating_sub(REMOVED_LATE_MS), now);
    let is_near =
        |row: &FlowRow| row.frames > 0 && rule.is(row, times.0, times.1) != Likeness::Other;
    let mut rows = sums.rows();
    if rows.iter().flatten().any(|row| is_near(row) && !row.ports.is_empty()) {
        rows = sums.last_rows();
    }
    let Some(rows) = rows else { return Done::Unclear };
    let mut near = rows.iter().filter(|row| is_near(row));
    match (near.next(), near.next()) {
        (None, _) => Done::Exact { changed: false },
        (Some(row), None) if rule.is(row, times.0, times.1) == Likeness::Same => {
            add(message, rule.counts, (row.frames, row.bytes))
        }
        _ => Done::Unclear,
    }
}

#[cfg(test)]
mod tests;
