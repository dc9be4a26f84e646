//! What people add to the facts of a header: `api.toml`.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotations {
    /// The API's name, also of the vFunction that offers it.
    pub name: String,
    /// In a sentence, for the manifest and the docs.
    pub summary: String,
    /// Where the header is from, and its licence.
    pub source: String,
    /// Longest call and answer, bytes.
    pub cell_bytes: u32,
    /// Calls under way at once: a power of two.
    pub depth: u16,
    pub output: Output,
    pub status: Status,
    #[serde(default)]
    pub object: BTreeMap<String, ObjectKind>,
    /// By function. Every function of the facts has an entry.
    pub function: BTreeMap<String, FunctionNotes>,
}

/// Where generated files go, from the repository's root.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub guest: PathBuf,
    pub host: PathBuf,
    pub table: PathBuf,
}

/// How functions say whether they did it. Values are numbers or constants of the header.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The type that functions return, such as `i32`.
    #[serde(rename = "type")]
    pub ty: String,
    pub ok: String,
    /// For each way in which a call can fail on the way (`Failure` in guest/remoting).
    pub argument: String,
    pub object: String,
    pub limit: String,
    pub unsupported: String,
    pub no_host: String,
    pub lost: String,
    pub internal: String,
}

/// A kind of object that programs hold by a pointer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectKind {
    /// Its number, never changed.
    pub number: u16,
    /// The opaque struct that pointers to it name.
    pub pointer: String,
    /// The kind that it belongs to, and ends with.
    pub parent: Option<String>,
    /// The function that frees one whose program is gone. None: it ends with its parent.
    pub end: Option<String>,
}

/// What is said of a function.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FunctionNotes {
    #[serde(default)]
    pub how: How,
    /// Why it is refused.
    pub refuse: Option<String>,
    /// Which of its halves are written by hand.
    #[serde(default)]
    pub by_hand: ByHand,
    /// The host's half calls the library's function although the guest's does not ask for it.
    #[serde(default)]
    pub native: bool,
    /// The parameter whose object it frees, if it succeeds.
    pub frees: Option<String>,
    /// What each parameter is for, where the type does not say it.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// How a call gets to its host.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The call waits for the host's answer.
    #[default]
    Forward,
    /// The same for the first time; then the guest knows the answer.
    Cached,
    /// It does not wait: collected, and sent with the next call that waits.
    Async,
    /// It does not wait and is sent at once.
    AsyncNow,
    /// The guest answers by itself.
    Local,
}

/// Which halves people write.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ByHand {
    #[default]
    None,
    Guest,
    Host,
    Both,
}

impl ByHand {
    pub fn guest(self) -> bool {
        matches!(self, ByHand::Guest | ByHand::Both)
    }
    pub fn host(self) -> bool {
        matches!(self, ByHand::Host | ByHand::Both)
    }
}
