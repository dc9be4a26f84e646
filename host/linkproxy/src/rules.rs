//! Rules in messages: which one it is, and where its counts stand. Only rules that match nothing but
//! a port are told apart: no other one is passed by all frames of a port.

use crate::limits::BORN_SLACK_MS;
use crate::message::{HEADER, Message, Version};
use vfun_admin::links::FlowRow;

/// What a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matches {
    All,
    InPort(u32),
    /// More than a port.
    Else,
}

/// A rule, as a message has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A word of 1.0 about the end of a rule does not name its table.
    pub table: Option<u8>,
    pub priority: u16,
    pub cookie: u64,
    pub matches: Matches,
    /// How long it has been there, ms.
    pub age_ms: u64,
    /// Where the count of frames stands in the message; behind it, that of bytes.
    pub counts: usize,
}

/// What the manager's word about a rule is worth for one in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It is this one.
    Same,
    /// It may be this one: nothing can be said of its counts.
    Unclear,
    Other,
}

impl Rule {
    /// Whether the manager speaks of this rule. It was asked for and answered at these times, ms of the
    /// host's clock.
    pub fn is(&self, row: &FlowRow, asked: u64, answered: u64) -> Likeness {
        let matches = match self.matches {
            Matches::All => None,
            Matches::InPort(port) => Some(port),
            Matches::Else => return Likeness::Other,
        };
        let is_there = self.table.is_none_or(|table| table == row.table);
        if !is_there || self.priority != row.priority || matches != row.in_port {
            return Likeness::Other;
        }
        let (early, late) =
            (asked.saturating_sub(self.age_ms), answered.saturating_sub(self.age_ms));
        let is_same_life = early <= row.made.1.saturating_add(BORN_SLACK_MS)
            && row.made.0 <= late.saturating_add(BORN_SLACK_MS);
        match (is_same_life, self.cookie == row.cookie) {
            // It took that one's place, perhaps with its counts, or came after that one had gone.
            (false, _) if early > row.made.1 => Likeness::Unclear,
            (false, _) => Likeness::Other,
            (true, true) => Likeness::Same,
            // It was changed a moment ago.
            (true, false) => Likeness::Unclear,
        }
    }
}

/// All rules of an answer; nothing: it does not end where it says.
pub fn of_reply(message: &Message, version: Version) -> Option<Vec<Rule>> {
    let mut at = match version {
        Version::V10 => HEADER + 4,
        Version::V13 => HEADER + 8,
    };
    let mut found = vec![];
    while at < message.0.len() {
        let length = usize::from(message.u16(at)?);
        let end = at.checked_add(length).filter(|end| *end <= message.0.len())?;
        let rule = match version {
            Version::V10 => rule_10(message, at)?,
            Version::V13 => rule_13(message, at)?,
        };
        // What was read lies inside, so that this goes on.
        let least = if version == Version::V10 { 88 } else { 56 };
        if length < least {
            return None;
        }
        found.push(rule);
        at = end;
    }
    Some(found)
}

fn age_ms(message: &Message, at: usize) -> Option<u64> {
    let (s, ns) = (u64::from(message.u32(at)?), u64::from(message.u32(at + 4)?));
    Some(s * 1000 + ns / 1_000_000)
}

/// Length, table, filling, match, age, priority, two timeouts, filling, cookie, counts.
fn rule_10(message: &Message, at: usize) -> Option<Rule> {
    Some(Rule {
        table: Some(*message.0.get(at + 2)?),
        matches: matches_10(message, at + 4)?,
        age_ms: age_ms(message, at + 44)?,
        priority: message.u16(at + 52)?,
        cookie: message.u64(at + 64)?,
        counts: counts(message, at + 72)?,
    })
}

/// Length, table, filling, age, priority, two timeouts, flags, filling, cookie, counts, match.
fn rule_13(message: &Message, at: usize) -> Option<Rule> {
    Some(Rule {
        table: Some(*message.0.get(at + 2)?),
        age_ms: age_ms(message, at + 4)?,
        priority: message.u16(at + 12)?,
        cookie: message.u64(at + 24)?,
        counts: counts(message, at + 32)?,
        matches: matches_13(message, at + 48)?,
    })
}

/// The rule whose end a message tells.
pub fn of_removed(message: &Message, version: Version) -> Option<Rule> {
    Some(match version {
        // Match, cookie, priority, reason, filling, age, timeout, filling, counts.
        Version::V10 => Rule {
            table: None,
            matches: matches_10(message, HEADER)?,
            cookie: message.u64(HEADER + 40)?,
            priority: message.u16(HEADER + 48)?,
            age_ms: age_ms(message, HEADER + 52)?,
            counts: counts(message, HEADER + 64)?,
        },
        // Cookie, priority, reason, table, age, two timeouts, counts, match.
        Version::V13 => Rule {
            cookie: message.u64(HEADER)?,
            priority: message.u16(HEADER + 8)?,
            table: Some(*message.0.get(HEADER + 11)?),
            age_ms: age_ms(message, HEADER + 12)?,
            counts: counts(message, HEADER + 24)?,
            matches: matches_13(message, HEADER + 40)?,
        },
    })
}

/// Where the counts of an answer about a sum stand.
pub fn of_aggregate(message: &Message, version: Version) -> Option<usize> {
    let at = match version {
        Version::V10 => HEADER + 4,
        Version::V13 => HEADER + 8,
    };
    counts(message, at)
}

/// That both counts lie inside.
fn counts(message: &Message, at: usize) -> Option<usize> {
    message.u64(at + 8).map(|_| at)
}

/// Forty bytes, the first four of which say which fields do not matter.
fn matches_10(message: &Message, at: usize) -> Option<Matches> {
    const IN_PORT: u32 = 1;
    // VLAN, addresses, EtherType, protocol, ports; priority of the VLAN, and TOS.
    const OTHERS: u32 = 0b1111_1110 | 0b11 << 20;
    // How many bits of an address do not matter; 32 and more: all.
    const ADDRESSES: [u32; 2] = [8, 14];
    let wild = message.u32(at)?;
    let port = message.u16(at + 4)?;
    message.0.get(at..at + 40)?;
    let is_else = wild & OTHERS != OTHERS || ADDRESSES.iter().any(|s| (wild >> s) & 0x3f < 32);
    Some(match (is_else, wild & IN_PORT != 0) {
        (true, _) => Matches::Else,
        (false, true) => Matches::All,
        (false, false) => Matches::InPort(port.into()),
    })
}

/// Type, length, fields; each field has a header, and its value.
fn matches_13(message: &Message, at: usize) -> Option<Matches> {
    const FIELDS: u16 = 1;
    const IN_PORT: u32 = 0x8000_0004;
    const NX_IN_PORT: u32 = 0x0000_0002;
    let (kind, length) = (message.u16(at)?, usize::from(message.u16(at + 2)?));
    message.0.get(at..at.checked_add(length)?)?;
    Some(match (kind, length) {
        (FIELDS, 4) => Matches::All,
        (FIELDS, 12) if message.u32(at + 4)? == IN_PORT => Matches::InPort(message.u32(at + 8)?),
        (FIELDS, 10) if message.u32(at + 4)? == NX_IN_PORT => {
            Matches::InPort(message.u16(at + 8)?.into())
        }
        _ => Matches::Else,
    })
}
