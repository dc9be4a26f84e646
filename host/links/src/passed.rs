//! Which rules of a switch all frames of a joined port pass: their counts miss what goes over a
//! direct link.

use serde::{Deserialize, Serialize};

/// When a rule was made, ms of the host's clock that runs since it was started: no earlier than the
/// first, no later than the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Born(pub u64, pub u64);

impl Born {
    /// Of a rule of which the switch said, between these two times, how old it is.
    pub fn of(asked: u64, answered: u64, age: u64) -> Self {
        Born(asked.saturating_sub(age), answered.saturating_sub(age))
    }

    /// Whether both may be of one rule. The switch rounds times, so that some ms are no difference.
    pub fn may_be(&self, other: &Born) -> bool {
        use crate::limits::BORN_SLACK_MS as SLACK;
        self.0 <= other.1.saturating_add(SLACK) && other.0 <= self.1.saturating_add(SLACK)
    }
}

/// A rule that each frame of a port passes once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassedRule {
    pub table: u8,
    pub priority: u16,
    pub cookie: u64,
    /// All that it matches; nothing: it takes all frames.
    pub in_port: Option<u32>,
    pub born: Born,
    /// Its counts are told when it ends (`send_flow_rem`).
    pub tells_end: bool,
    /// It was seen to come where no such rule was: it began to count at 0. One that took the place of
    /// another one goes on with the counts of that, or not, as its owner said to the switch.
    pub fresh: bool,
}

/// What frames of a joined port pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Passed {
    /// All of them these rules, in this order of tables.
    Rules(Vec<PassedRule>),
    /// Not all of them the same, or nobody can tell: why.
    NotAttributable(String),
}

impl Default for Passed {
    fn default() -> Self {
        Passed::Rules(vec![])
    }
}
