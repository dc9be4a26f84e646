//! The API as the generator sees it: facts and annotations brought together, nothing left open.

use crate::annotations::{ByHand, How, Output};
use crate::facts::CStruct;
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
    pub output: Output,
    pub status: StatusModel,
    pub kinds: Vec<KindModel>,
    /// Structs that functions fill or read.
    pub structs: BTreeMap<String, CStruct>,
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
}

#[derive(Debug)]
pub struct KindModel {
    pub name: String,
    pub number: u16,
    /// The opaque struct's name.
    pub pointer: String,
    pub parent: Option<String>,
    pub end: Option<String>,
}

#[derive(Debug)]
pub struct FunctionModel {
    pub name: String,
    /// Pinned: never changed, never used again.
    pub number: u16,
    pub does: Does,
    /// What it returns, if that is no status: its type in Rust. Only the guest answers it.
    pub plain: Option<String>,
    /// The host's half calls the library's function.
    pub native: bool,
    pub parameters: Vec<Parameter>,
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
    /// The place for a number.
    OutValue(Scalar),
    /// The place for a struct.
    OutStruct(String),
    /// A struct that goes to the host.
    InStruct(String),
    /// Bytes that go to the host; how many, by another parameter.
    InBytes { length: String },
    /// Only for code that is written by hand.
    ByHand,
}
