//! Tokens of apps, as people see them.

use serde::{Deserialize, Serialize};

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Its number; never used again.
    pub id: u64,
    pub client: String,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub sha256: String,
    /// Apps it is for; `*` stands for any text.
    pub app: String,
    /// When it was made, Unix ms.
    pub made_ms: i64,
    /// When it ends, Unix ms.
    pub expires_ms: Option<i64>,
    /// The one that takes its place.
    #[serde(default)]
    pub replaced_by: Option<u64>,
}

impl Kept {
    /// Whether its time is over.
    pub fn expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|e| e <= now_ms)
    }
}

/// A token that was made just now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fresh {
    /// What is kept of it.
    #[serde(flatten)]
    pub kept: Kept,
    /// What the app presents: shown once.
    pub secret: String,
}
