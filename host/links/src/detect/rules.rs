//! The switch's rules, and which of them frames of a port may meet.

use super::verdict::{Hindrance, RuleFault, RuleName};
use crate::limits::{NAMED_TYPES_MAX, PASSED_RULES_MAX, RULES_BYTES_MAX, RULES_MAX};
use crate::openflow::{Flow, FlowKey, Instructions, Step};
use crate::passed::{Born, Passed, PassedRule};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

type Place = (Reverse<u16>, Vec<u8>);

/// A rule, and when it was made: nobody knows before the switch was asked for it.
struct KeptRule {
    flow: Flow,
    born: Option<Born>,
    /// It was seen to come where none was.
    fresh: bool,
}

/// All rules, those of a table by falling priority.
#[derive(Default)]
pub(super) struct Rules {
    tables: BTreeMap<u8, BTreeMap<Place, KeptRule>>,
    types: BTreeMap<u16, usize>,
    count: usize,
    /// Bytes of all of them.
    bytes: usize,
    /// Not all were kept.
    overflowed: bool,
}

/// What frames of a port may meet: each table, with the priority of the rule that takes all
/// of them. Without such a rule the table itself decides about the rest (`ovs-ofctl
/// mod-table`): it may send them to the next table, and nobody tells when that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Walk {
    pub(super) floors: BTreeMap<u8, u16>,
    /// The ports that they send to.
    pub(super) outputs: BTreeSet<u32>,
    /// Rules whose flags are not known.
    pub(super) unclear: Vec<FlowKey>,
    /// The rules that all frames pass.
    pub(super) passed: Passed,
}

/// What a walk finds of the rules that frames pass.
#[derive(Default)]
struct Trail {
    rules: Vec<PassedRule>,
    /// A table of which frames may meet one of several rules.
    differs: Option<u8>,
    /// How often frames are sent to tables.
    visits: BTreeMap<u8, usize>,
    /// A rule that tells its counts at its end.
    tells: Option<RuleName>,
}

impl Trail {
    fn meets(&mut self, rule: &KeptRule, is_only: bool) {
        let Flow { key: FlowKey { table, priority, .. }, matches, cookie, .. } = &rule.flow;
        let (table, priority, cookie) = (*table, *priority, *cookie);
        let tells_end = rule.flow.flags.is_some_and(|f| f & Flow::SEND_FLOW_REM != 0);
        if tells_end {
            self.tells = Some(RuleName { table, priority, cookie });
        }
        if !is_only {
            self.differs = Some(table);
        }
        // One that is not known yet is asked for, and then followed again.
        let born = rule.born.unwrap_or(Born(0, u64::MAX));
        let (in_port, fresh) = (matches.in_port, rule.fresh);
        let rule = PassedRule { table, priority, cookie, in_port, born, tells_end, fresh };
        self.rules.push(rule);
    }

    /// # Errors
    /// A rule tells its counts at its end, and nobody can correct them.
    fn passed(mut self) -> Result<Passed, Hindrance> {
        self.rules.sort_by_key(|rule| rule.table);
        let twice = self.visits.iter().find(|(table, n)| **n > 1 || **table == 0);
        let why = if let Some(table) = self.differs {
            format!("types differ: frames may meet one or another rule of table {table}")
        } else if let Some((table, _)) = twice {
            format!("frames pass table {table} more than once")
        } else if self.rules.len() > PASSED_RULES_MAX {
            format!("frames pass more than {PASSED_RULES_MAX} rules")
        } else {
            return Ok(Passed::Rules(self.rules));
        };
        match self.tells {
            Some(rule) => Err(Hindrance::Rule(rule, RuleFault::SendFlowRem)),
            None => Ok(Passed::NotAttributable(why)),
        }
    }
}

impl Walk {
    /// Whether a rule may be met. One below a rule that takes all is not, nor one in a table
    /// that nothing sends to; a change of that is a change of a rule that may be met.
    pub(super) fn meets(&self, key: &FlowKey) -> bool {
        self.floors.get(&key.table).is_some_and(|floor| key.priority >= *floor)
    }
}

impl Rules {
    /// Takes a rule that the switch was asked for.
    pub(super) fn put(&mut self, flow: Flow, born: Option<Born>) {
        self.take(&flow.key);
        self.keep(KeptRule { flow, born, fresh: false });
    }

    /// Takes a rule that came or changed. While not all have been read, nobody knows whether there
    /// was one in its place.
    pub(super) fn put_news(&mut self, flow: Flow, all_are_read: bool) {
        let fresh = !self.take(&flow.key) && all_are_read;
        self.keep(KeptRule { flow, born: None, fresh });
    }

    fn keep(&mut self, rule: KeptRule) {
        let flow = &rule.flow;
        let dl_type = flow.matches.dl_type;
        let bytes = weight(flow);
        if self.count >= RULES_MAX || self.bytes + bytes > RULES_BYTES_MAX {
            self.overflowed = true;
            return;
        }
        self.count += 1;
        self.bytes += bytes;
        if let Some(t) = dl_type {
            *self.types.entry(t).or_default() += 1;
        }
        let place = (Reverse(flow.key.priority), flow.key.fields.clone());
        self.tables.entry(flow.key.table).or_default().insert(place, rule);
    }

    /// Takes a rule out; whether there was one.
    pub(super) fn take(&mut self, key: &FlowKey) -> bool {
        let place = (Reverse(key.priority), key.fields.clone());
        let table = self.tables.get_mut(&key.table);
        let Some(KeptRule { flow: old, .. }) = table.and_then(|t| t.remove(&place)) else {
            return false;
        };
        self.count -= 1;
        self.bytes -= weight(&old);
        if let Some(t) = old.matches.dl_type
            && let Some(n) = self.types.get_mut(&t)
        {
            *n -= 1;
            if *n == 0 {
                self.types.remove(&t);
            }
        }
        true
    }

    /// Learns the flags of a rule that is here, and is the same but for them; and when it was made.
    pub(super) fn learn_flags(&mut self, said: &Flow, born: Option<Born>) {
        let place = (Reverse(said.key.priority), said.key.fields.clone());
        let table = self.tables.get_mut(&said.key.table);
        if let Some(known) = table.and_then(|t| t.get_mut(&place)) {
            known.flow.flags = said.flags;
            known.born = born;
        }
    }

    pub(super) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// EtherTypes that rules name.
    pub(super) fn types(&self) -> Result<impl Iterator<Item = u16>, Hindrance> {
        match self.types.len() > NAMED_TYPES_MAX {
            true => Err(Hindrance::TooManyTypes),
            false => Ok(self.types.keys().copied()),
        }
    }

    /// Follows frames of a port through all rules that may take one of them. Fields other than the
    /// port and the rest are not compared: a rule that may match is taken for one that does.
    pub(super) fn walk(&self, port: u32) -> Result<Walk, Hindrance> {
        let (mut walk, mut to_see) = (Walk::default(), vec![0]);
        let mut trail = Trail::default();
        while let Some(table) = to_see.pop() {
            if walk.floors.contains_key(&table) {
                continue;
            }
            let (mut floor, mut met) = (None, vec![]);
            for rule in self.tables.get(&table).into_iter().flat_map(BTreeMap::values) {
                let flow = &rule.flow;
                if floor.is_some_and(|f| flow.key.priority < f) {
                    break;
                }
                if !flow.matches.may_be_of(port) {
                    continue;
                }
                for step in steps(flow)? {
                    match step {
                        Step::Table(table) => {
                            to_see.push(*table);
                            *trail.visits.entry(*table).or_default() += 1;
                        }
                        Step::Output(port) => drop(walk.outputs.insert(*port)),
                    }
                }
                if flow.flags.is_none() {
                    walk.unclear.push(flow.key.clone());
                }
                if flow.matches.takes_all() {
                    floor = Some(flow.key.priority);
                }
                met.push(rule);
            }
            met.iter().for_each(|rule| trail.meets(rule, met.len() == 1));
            walk.floors.insert(table, floor.ok_or(Hindrance::TableDecides(table))?);
        }
        walk.passed = trail.passed()?;
        Ok(walk)
    }
}

/// Bytes that a rule takes here: the fields of its match stand in its place as well.
fn weight(flow: &Flow) -> usize {
    let steps = match &flow.does {
        Instructions::Sends(steps) => size_of_val(&steps[..]),
        Instructions::Else(_) => 0,
    };
    size_of::<(Place, KeptRule)>() + 2 * flow.key.fields.len() + steps
}

/// Where a rule sends frames, if that is all that it does.
fn steps(flow: &Flow) -> Result<&[Step], Hindrance> {
    let FlowKey { table, priority, .. } = flow.key;
    let name = || RuleName { table, priority, cookie: flow.cookie };
    let fault = |fault| Err(Hindrance::Rule(name(), fault));
    let steps = match &flow.does {
        Instructions::Sends(steps) => steps,
        Instructions::Else(other) => return fault(RuleFault::Action(other.clone())),
    };
    if flow.idle_timeout != 0 {
        return fault(RuleFault::IdleTimeout(flow.idle_timeout));
    }
    Ok(steps)
}
