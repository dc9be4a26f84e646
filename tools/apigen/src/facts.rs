//! What a C header says of an API: functions, structs and constants, and nothing that it
//! does not say. People add the rest (`annotations`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vfun_signature::Scalar;

/// All facts of one API, in the header's order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Typedefs that name another type, such as `CK_SESSION_HANDLE` = `u64`.
    #[serde(default)]
    pub aliases: BTreeMap<String, CType>,
    #[serde(default)]
    pub structs: BTreeMap<String, CStruct>,
    /// Enumerators and macros that are plain numbers.
    #[serde(default)]
    pub constants: BTreeMap<String, i64>,
    pub functions: Vec<CFunction>,
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

/// A parameter or a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CField {
    pub name: String,
    #[serde(rename = "type")]
    pub ty: CType,
}

/// A type of C. In files it is one string ([`CType::text`]).
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
    Pointer { to: Box<CType>, constant: bool },
    Array { of: Box<CType>, count: u64 },
    /// A pointer to a function.
    Function { returns: Box<CType>, parameters: Vec<CType> },
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
