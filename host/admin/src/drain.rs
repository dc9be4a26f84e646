//! What can be drained.

use serde::{Deserialize, Serialize};

/// What is drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainOf {
    All,
    /// A client, by name.
    Client(String),
    /// A function, by name.
    Function(String),
}
