//! The API as the generator sees it: facts and annotations brought together, nothing left open.

use crate::annotations::{ByHand, How, Output};
use crate::facts::CType;
use std::collections::BTreeMap;
use vfun_signature::Scalar;

/// A described API.
#[derive(Debug)]
pub struct Model {
    pub name: String,
    pub summary: String,
    pub source: String,
    pub cell_bytes: u32,
    pub depth: u16,
    /// Whether it has versions, so that each function says its own.
    pub versions: bool,
    /// Programs begin and end it by calls.
    pub begins: bool,
    /// The struct of all functions, if programs get at them by one.
    pub table: Option<String>,
    /// The Rust type whose methods do the work, if no C library does.
    pub methods: Option<String>,
    pub output: Output,
    pub status: StatusModel,
    pub kinds: Vec<KindModel>,
    /// All structs of the facts.
    pub structs: BTreeMap<String, StructModel>,
    pub functions: Vec<FunctionModel>,
    /// Stands for all of it.
    pub fingerprint: u64,
}

/// Values of the status, by what went wrong on the way.
#[derive(Debug)]
pub struct StatusModel {
    pub scalar: Scalar,
    pub ok: i64,
    /// `Failure`'s variants and their values.
    pub failures: Vec<(&'static str, i64)>,
    /// Failures with which lengths count.
    pub partial: Vec<i64>,
    /// An answer does not fit where it is to go.
    pub small: Option<i64>,
}

#[derive(Debug)]
pub struct KindModel {
    pub name: String,
    pub number: u16,
    /// The opaque struct's name; none: programs hold a number.
    pub pointer: Option<String>,
    pub parent: Option<String>,
    pub with: Option<String>,
    /// The kind that it ends with, and the hook that says when it does not.
    pub within: Option<(String, String)>,
    pub end: Option<String>,
    pub free_found: bool,
    pub most: Option<u32>,
    pub client_most: Option<u32>,
    /// The hook that says whether a program may see one that it has no name for.
    pub shown: Option<String>,
}

/// A struct of C and how it goes over.
#[derive(Debug)]
pub struct StructModel {
    pub members: Vec<Member>,
    pub goes: Goes,
}

#[derive(Debug)]
pub struct Member {
    pub name: String,
    /// Without typedefs.
    pub ty: CType,
    /// As Rust writes it.
    pub rust: String,
}

/// How a struct goes over.
#[derive(Debug)]
pub enum Goes {
    /// Its members are numbers, arrays of them, and such structs.
    Plain,
    /// Some members point to bytes. By pointer, the member with the length.
    Bytes { lengths: BTreeMap<String, String>, refused: Option<RefusedTags> },
    /// Its bytes are what a tag says.
    Tagged(TaggedModel),
    /// Only within the guest or the host.
    Never,
}

/// Tags that are refused: with a bit of `bits`, but for `allow`.
#[derive(Debug)]
pub struct RefusedTags {
    pub tag: String,
    pub bits: u64,
    pub allow: Vec<i64>,
    pub status: i64,
}

#[derive(Debug)]
pub struct TaggedModel {
    pub tag: String,
    pub pointer: String,
    pub length: String,
    pub status: i64,
    pub cases: BTreeMap<i64, TagCase>,
}

/// What a tag's bytes are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TagCase {
    /// Bytes without pointers: least and most.
    Flat(u64, u64),
    Struct(String),
}

#[derive(Debug)]
pub struct FunctionModel {
    pub name: String,
    /// Pinned: never changed, never used again.
    pub number: u16,
    pub does: Does,
    pub returns: Returns,
    /// The host's half calls the library's function.
    pub native: bool,
    pub secret: bool,
    pub split: bool,
    /// The function that ends what a call that fits no cell leaves.
    pub ends: Option<String>,
    /// The version of the API in which it appeared.
    pub since: Option<String>,
    /// What its call carries, if both halves are written by hand.
    pub wire: Vec<Carried>,
    pub audit: bool,
    /// The status for a call that is too long.
    pub limit: Option<i64>,
    /// The status that a local one always says.
    pub answer: Option<i64>,
    pub parameters: Vec<Parameter>,
}

/// What a function returns.
#[derive(Debug, PartialEq, Eq)]
pub enum Returns {
    Status,
    /// Nothing. Its program is not told whether it was done.
    Nothing,
    /// Something else, of this type of Rust's. Only code by hand has that.
    Other(String),
}

impl FunctionModel {
    /// What stands behind its parameters in Rust.
    pub fn arrow(&self, status: Scalar) -> String {
        match &self.returns {
            Returns::Status => format!(" -> {}", status.name()),
            Returns::Nothing => String::new(),
            Returns::Other(ty) => format!(" -> {ty}"),
        }
    }

    /// The parameter whose bytes go to the host in several calls, and that whose bytes come back with
    /// them.
    pub fn turned(&self) -> Option<(&str, &str)> {
        let of = |is: fn(&Role) -> bool| self.parameters.iter().find(|p| is(&p.role));
        let into = of(|role| matches!(role, Role::InBytes { length: Length::Said(_) }))?;
        let out = of(|role| matches!(role, Role::OutBytes { .. }))?;
        self.split.then_some((into.name.as_str(), out.name.as_str()))
    }

    /// Whether people write its half on the host.
    pub fn is_by_hand_on_host(&self) -> bool {
        matches!(&self.does, Does::Call { by_hand, .. } if by_hand.host())
    }

    pub fn frees(&self) -> Option<&str> {
        match &self.does {
            Does::Call { frees, .. } => frees.as_deref(),
            Does::Refuse(_) => None,
        }
    }
}

/// A value of a call that both halves write by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    Number(Scalar),
    /// An object of this kind.
    Object(String),
    /// The name of a new object of this kind.
    New(String),
    /// The handle of a buffer that is lent.
    Lent,
}

/// What becomes of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Does {
    /// It is refused; why.
    Refuse(String),
    Call {
        how: How,
        by_hand: ByHand,
        frees: Option<String>,
    },
}

#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    /// Its type in Rust, for the C symbol.
    pub rust: String,
    pub role: Role,
    /// A function of the host's hooks that looks at it, and the status if it may not be.
    pub check: Option<(String, i64)>,
}

/// How many bytes there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Length {
    /// As many as this parameter says.
    Said(String),
    Fixed(u64),
}

/// What a parameter is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A number that goes to the host.
    Value(Scalar),
    /// An object of this kind.
    Object { kind: String, or_none: bool },
    /// The place for a new object, which the program owns.
    NewObject { kind: String },
    /// The place for an object that was there before.
    FoundObject { kind: String },
    /// Places for objects that were there before: at most so many, and where to say how many.
    FoundList { kind: String, most: String, count: String },
    /// The place for a number.
    OutValue(Scalar),
    /// The place for a struct.
    OutStruct(String),
    /// A struct that goes to the host.
    InStruct(String),
    /// Bytes that go to the host.
    InBytes { length: Length },
    /// Text that goes to the host, up to its zero byte.
    InText,
    /// Numbers that go to the host.
    InNumbers { of: Scalar, count: String },
    /// Structs with bytes that go to the host.
    InList { of: String, count: String },
    /// A place for bytes, whose length is said and answered in another place.
    OutBytes { length: String },
    /// The same for numbers.
    OutNumbers { of: Scalar, count: String },
    /// A place for exactly so many numbers; none: bytes.
    OutExact { of: Option<Scalar>, length: String },
    /// Structs whose bytes are to be filled.
    FillList { of: String, count: String },
    /// A length or a count that goes with another parameter.
    Implied,
    /// It does not go to the host, which passes 0.
    Ignored,
    /// Only for code that is written by hand.
    ByHand,
}
