//! What became of grants.

use serde::{Deserialize, Serialize};

/// A line of the history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistoryRow {
    /// When, in Unix time, ms.
    pub at_ms: i64,
    /// The grant's handle.
    pub grant: String,
    pub client: String,
    /// The VM that the app was in, if it was in one.
    #[serde(default)]
    pub vm: Option<String>,
    pub app: String,
    pub function: String,
    /// Where it ran.
    pub location: String,
    /// What it became.
    pub state: String,
    /// Why, if it ended.
    pub why: Option<String>,
}
