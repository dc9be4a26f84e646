//! The switch's rules, and which of them frames of a port may meet.

use super::verdict::{Hindrance, RuleFault, RuleName};
use crate::limits::{NAMED_TYPES_MAX, RULES_BYTES_MAX, RULES_MAX};
use crate::openflow::{Flow, FlowKey, Instructions, Step};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

type Place = (Reverse<u16>, Vec<u8>);

/// All rules, those of a table by falling priority.
#[derive(Default)]
pub(super) struct Rules {
    tables: BTreeMap<u8, BTreeMap<Place, Flow>>,
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
}

impl Walk {
    /// Whether a rule may be met. One below a rule that takes all is not, nor one in a table
    /// that nothing sends to; a change of that is a change of a rule that may be met.
    pub(super) fn meets(&self, key: &FlowKey) -> bool {
        self.floors.get(&key.table).is_some_and(|floor| key.priority >= *floor)
    }
}

impl Rules {
    pub(super) fn put(&mut self, flow: Flow) {
        let dl_type = flow.matches.dl_type;
        self.take(&flow.key);
        let bytes = weight(&flow);
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
        self.tables.entry(flow.key.table).or_default().insert(place, flow);
    }

    pub(super) fn take(&mut self, key: &FlowKey) {
        let place = (Reverse(key.priority), key.fields.clone());
        let Some(old) = self.tables.get_mut(&key.table).and_then(|t| t.remove(&place)) else {
            return;
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
    }

    /// Learns the flags of a rule that is here, and is the same but for them.
    pub(super) fn learn_flags(&mut self, said: &Flow) {
        let place = (Reverse(said.key.priority), said.key.fields.clone());
        let table = self.tables.get_mut(&said.key.table);
        if let Some(known) = table.and_then(|t| t.get_mut(&place)) {
            known.flags = said.flags;
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
        while let Some(table) = to_see.pop() {
            if walk.floors.contains_key(&table) {
                continue;
            }
            let mut floor = None;
            for flow in self.tables.get(&table).into_iter().flat_map(BTreeMap::values) {
                if floor.is_some_and(|f| flow.key.priority < f) {
                    break;
                }
                if !flow.matches.may_be_of(port) {
                    continue;
                }
                for step in steps(flow)? {
                    match step {
                        Step::Table(table) => to_see.push(*table),
                        Step::Output(port) => drop(walk.outputs.insert(*port)),
                    }
                }
                if flow.flags.is_none() {
                    walk.unclear.push(flow.key.clone());
                }
                if flow.matches.takes_all() {
                    floor = Some(flow.key.priority);
                }
            }
            walk.floors.insert(table, floor.ok_or(Hindrance::TableDecides(table))?);
        }
        Ok(walk)
    }
}

/// Bytes that a rule takes here: the fields of its match stand in its place as well.
fn weight(flow: &Flow) -> usize {
    let steps = match &flow.does {
        Instructions::Sends(steps) => size_of_val(&steps[..]),
        Instructions::Else(_) => 0,
    };
    size_of::<(Place, Flow)>() + 2 * flow.key.fields.len() + steps
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
    if flow.flags.is_some_and(|f| f & Flow::SEND_FLOW_REM != 0) {
        return fault(RuleFault::SendFlowRem);
    }
    Ok(steps)
}
