//! What a C header says of an API: functions, structs and constants, and nothing that it
//! does not say. People add the rest (`annotations`).

use crate::rust_names;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vfun_signature::Scalar;

/// All facts of one API, in the header's order. `facts_file` writes and reads their text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Typedefs of numbers, and enums, such as `CK_SESSION_HANDLE` = `u64`. Typedefs of
    /// anything else are resolved where they are used.
    #[serde(default, rename = "alias")]
    pub aliases: BTreeMap<String, CType>,
    #[serde(default, rename = "struct")]
    pub structs: BTreeMap<String, CStruct>,
    /// Enumerators and macros that are plain numbers. One of 64 bits without a sign is given
    /// by its bits: `~0UL` is -1.
    #[serde(default, rename = "constant")]
    pub constants: BTreeMap<String, i64>,
    #[serde(default, rename = "function")]
    pub functions: Vec<CFunction>,
}

impl Facts {
    /// Gives members the names that they have in Rust.
    pub fn rename(&mut self) {
        let members = self.structs.values_mut().flat_map(|told| &mut told.members);
        members.for_each(|member| member.name = rust_names::of_member(&member.name));
    }
}

/// A function as its prototype says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CFunction {
    pub name: String,
    pub returns: CType,
    #[serde(default)]
    pub parameters: Vec<CField>,
}

/// A struct: its members in order. C's natural layout holds for it: no packing, no bit fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CStruct {
    pub members: Vec<CField>,
}

/// A parameter or a member. In files it is a pair, `["bytes", "u64"]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(String, CType)", into = "(String, CType)")]
pub struct CField {
    pub name: String,
    pub ty: CType,
}

impl From<(String, CType)> for CField {
    fn from((name, ty): (String, CType)) -> Self {
        CField { name, ty }
    }
}

impl From<CField> for (String, CType) {
    fn from(field: CField) -> Self {
        (field.name, field.ty)
    }
}

/// A type of C. In files it is one string, its `Display`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CType {
    /// Nothing: what a function returns, or what a pointer to anything points to.
    Void,
    /// A number of a fixed size on the machines that we serve (64 bits, LP64).
    Scalar(ScalarName),
    /// A typedef that is not resolved, such as `CK_SESSION_HANDLE`; see [`Facts::aliases`].
    Alias(String),
    /// A struct with members that the header shows.
    Struct(String),
    /// A struct without members: only pointers to it exist.
    Opaque(String),
    Pointer {
        to: Box<CType>,
        constant: bool,
    },
    Array {
        of: Box<CType>,
        count: u64,
    },
    /// A pointer to a function.
    Function {
        returns: Box<CType>,
        parameters: Vec<CType>,
    },
}

impl CType {
    /// The struct without members that it is, or points to.
    pub fn opaque(&self) -> Option<&str> {
        match self {
            CType::Opaque(name) => Some(name),
            CType::Pointer { to, .. } => to.opaque(),
            _ => None,
        }
    }
}

/// A scalar that can be ordered and kept in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScalarName(&'static str);

impl From<Scalar> for ScalarName {
    fn from(scalar: Scalar) -> Self {
        ScalarName(scalar.name())
    }
}

impl ScalarName {
    /// The scalar of vFunctions' signatures that it names.
    pub fn scalar(self) -> Scalar {
        Scalar::named(self.0).expect("made of a scalar")
    }
}
