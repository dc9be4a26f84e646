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
    /// Versions of the API in which functions appeared, the oldest first. If it has any, each function
    /// says its own.
    #[serde(default)]
    pub versions: Vec<String>,
    /// Programs begin the API by this function and end it by one of their own: before and after,
    /// all others say the status `closed`.
    pub begin: Option<String>,
    /// The struct of function pointers by which programs, and the host's half, get at the functions.
    pub table: Option<String>,
    /// The Rust type whose methods of the functions' names do the work, where no C library does.
    pub methods: Option<String>,
    pub output: Output,
    pub status: Status,
    /// Types of numbers that the host's hooks look at wherever a function takes one.
    #[serde(default)]
    pub checked: BTreeMap<String, Check>,
    /// Structs with bytes behind pointers.
    #[serde(default, rename = "struct")]
    pub structs: BTreeMap<String, StructNotes>,
    /// Structs whose bytes mean what a number beside them says.
    #[serde(default)]
    pub tagged: BTreeMap<String, TaggedNotes>,
    #[serde(default)]
    pub object: BTreeMap<String, ObjectKind>,
    /// By function. Every function of the facts has an entry.
    #[serde(default)]
    pub function: BTreeMap<String, FunctionNotes>,
}

/// Where generated files go, from the repository's root.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub guest: PathBuf,
    pub host: PathBuf,
    pub table: PathBuf,
    /// The calls and what they carry, if there is a test that makes calls at random.
    pub shapes: Option<PathBuf>,
}

/// How functions say whether they did it. Values are numbers or constants of the header.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The type that functions return, such as `i32`, or a typedef of the facts.
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
    /// The API was not begun, or was ended.
    pub closed: Option<String>,
    /// An answer does not fit where it is to go: needed where a call that answers bytes is split.
    pub small: Option<String>,
    /// Failures with which lengths, and places of structs, count all the same.
    #[serde(default)]
    pub partial: Vec<String>,
}

/// Who looks at numbers of a type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// A function of the host's hooks: whether this number may be used.
    pub by: String,
    /// The status if not.
    pub refused: String,
}

/// What is said of a struct with pointers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StructNotes {
    /// Members that point to bytes, and those that say how many.
    #[serde(default)]
    pub bytes: BTreeMap<String, String>,
    /// The number that says what the bytes are.
    pub tag: Option<String>,
    /// Tags with one of these bits are refused, as their bytes may have pointers, but for `allow`.
    #[serde(default)]
    pub refuse_bits: u64,
    #[serde(default)]
    pub allow: Vec<String>,
    /// The status for these.
    pub refused: Option<String>,
}

/// What is said of a struct with a number, a pointer and a length.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaggedNotes {
    pub tag: String,
    pub pointer: String,
    pub length: String,
    /// The status for bytes that the tag does not have.
    pub refused: String,
    /// By tag: `16`, `1..256` (so many bytes without a pointer) or `struct NAME`. All others have
    /// nothing there.
    pub case: BTreeMap<String, String>,
}

/// A kind of object that programs hold by a pointer or by a number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ObjectKind {
    /// Its number, never changed.
    pub number: u16,
    /// The opaque struct that pointers to it name.
    pub pointer: Option<String>,
    /// The type of numbers that stand for it. 0 is none: the library gets it for a number that
    /// stands for no object, and its own error is the answer.
    pub handle: Option<String>,
    /// Its names go with the last object of this kind.
    pub with: Option<String>,
    /// It ends with the object of this kind by which it was made, unless the hook `outlives` says no.
    pub within: Option<String>,
    /// The hook that says whether an object outlives the one by which it was made.
    pub outlives: Option<String>,
    /// A program may free one that it only found.
    #[serde(default)]
    pub free_found: bool,
    /// Most of them that a connection has.
    pub most: Option<u32>,
    /// Most of them that all programs of a client have together.
    pub client_most: Option<u32>,
    /// The hook that says whether a program may see one that it has no name for.
    pub shown: Option<String>,
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
    /// Its call and its answer are wiped after use.
    #[serde(default)]
    pub secret: bool,
    /// The guest makes several calls of one whose bytes do not fit a cell.
    #[serde(default)]
    pub split: bool,
    /// The function that the guest calls if the call, or its answer, fits no cell: it ends what the
    /// library's own function would have ended.
    pub ends: Option<String>,
    /// The version of the API in which it appeared.
    pub since: Option<String>,
    /// What its call carries, where both halves are written by hand: a word for each value.
    pub wire: Option<String>,
    /// The host's hooks note it, with its numbers and what it returned.
    #[serde(default)]
    pub audit: bool,
    /// The status if the call is too long for a cell, where the API has a better one than `limit`.
    pub limit: Option<String>,
    /// A local one always says this status.
    pub answer: Option<String>,
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
