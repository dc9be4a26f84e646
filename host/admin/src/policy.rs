//! A policy as people read it: each rule in force, and the section it is from.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The policy in force.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    /// Where it is kept.
    pub file: PathBuf,
    /// Whether it is there; without it the default rules hold.
    pub written: bool,
    /// Why nothing is granted, if the file or the tokens could not be read.
    pub unreadable: Option<String>,
    /// Layers of the sandbox without which no service starts.
    pub require: Vec<String>,
    /// One entry for each client.
    pub clients: Vec<ClientView>,
    /// What is probably not meant so.
    pub doubts: Vec<String>,
    /// Bounds that this host does not enforce.
    #[serde(default)]
    pub unenforced: Vec<String>,
}

/// A client's rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientView {
    pub client: String,
    /// What it holds now.
    pub holds: Holds,
    /// Rules of all it does.
    pub rules: Vec<RuleView>,
    /// Rules of single functions that differ.
    pub functions: Vec<FunctionView>,
}

/// What a client is charged with.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Holds {
    /// Grants that are active.
    pub channels: u32,
    /// Bytes of windows that its channels and buffers use.
    pub bytes: u64,
    /// Calls that can be in flight.
    pub in_flight: u32,
    /// Buffers, those that are being given back included.
    #[serde(default)]
    pub buffers: u32,
    /// Bytes of these buffers.
    #[serde(default)]
    pub buffer_bytes: u64,
}

/// A function's own rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FunctionView {
    pub function: String,
    /// Those that its section sets.
    pub rules: Vec<RuleView>,
}

/// One rule.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct RuleView {
    pub key: String,
    /// Its value, as the file has it.
    pub value: String,
    /// The section that sets it; `usual` if none does.
    pub from: String,
    /// Why this host does not enforce it, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unenforced: Option<String>,
}
