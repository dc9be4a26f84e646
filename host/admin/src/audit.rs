//! The audit log, as people read it.

use serde::{Deserialize, Serialize};

/// A line of the audit log.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Row {
    /// Its number; they only go up.
    pub id: i64,
    /// When, in Unix time, ms.
    pub at_ms: i64,
    /// Whose process asked, if a person did or a program on the host.
    pub uid: Option<u32>,
    /// Process of who asked, if it is known.
    pub pid: Option<i32>,
    /// The program it ran.
    pub command: String,
    /// What was done or asked for.
    pub what: String,
    /// The client it is about.
    pub client: String,
    /// The VM that it was in, if it was in one.
    #[serde(default)]
    pub vm: Option<String>,
    /// The app that was refused, by the name it gave.
    pub app: String,
    /// The function that was asked for.
    pub function: String,
    /// `done`, `failed`, `refused`, or `lost` for lines that are missing.
    pub outcome: String,
    /// The refusal's code, by name; empty for what was done.
    pub code: String,
    /// What the one who asked was told.
    pub sentence: String,
    /// So many like it before it are not recorded.
    pub missing: u64,
}

/// Which rows of the audit log are asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Query {
    /// Not before this, Unix ms.
    pub since_ms: Option<i64>,
    /// Those about this client.
    pub client: Option<String>,
    /// Of these, those about this VM of it.
    #[serde(default)]
    pub vm: Option<String>,
    /// Whether only refusals are wanted.
    pub refused: bool,
    /// At most this many.
    pub limit: u32,
    /// Those with a higher number, oldest first, instead of the newest.
    pub after: Option<i64>,
}
