//! Types and their layout, which is C's.

use crate::Signature;

/// A number or a truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// One byte: 0 or 1.
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    /// IEEE 754, 32 bits.
    F32,
    /// IEEE 754, 64 bits.
    F64,
}

impl Scalar {
    pub const ALL: [Scalar; 11] = [
        Scalar::Bool,
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::F32,
        Scalar::F64,
    ];

    /// As it is written, which is Rust's name.
    pub const fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            Scalar::U32 => "u32",
            Scalar::U64 => "u64",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    /// The scalar that a signature calls so.
    pub fn named(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Bytes; also its alignment.
    pub const fn bytes(self) -> u64 {
        match self {
            Scalar::Bool | Scalar::U8 | Scalar::I8 => 1,
            Scalar::U16 | Scalar::I16 => 2,
            Scalar::U32 | Scalar::I32 | Scalar::F32 => 4,
            Scalar::U64 | Scalar::I64 | Scalar::F64 => 8,
        }
    }

    /// Whether it is a floating-point number.
    pub const fn is_float(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F64)
    }
}

/// What a member is: of a fixed size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Scalar(Scalar),
    /// The struct of this index in [`Signature::structs`].
    Struct(usize),
    /// An array of so many.
    Array(Box<Type>, u64),
}

/// A struct that a signature declares, laid out as in C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    pub name: String,
    /// Its members, at least one.
    pub members: Vec<StructMember>,
    /// Bytes, padding at the end included.
    pub bytes: u64,
    pub align: u64,
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructMember {
    pub name: String,
    pub ty: Type,
    /// Bytes from the struct's start.
    pub offset: u64,
}

/// Bytes and alignment of a type over `structs`; `None` beyond 2^64.
pub(crate) fn shape(ty: &Type, structs: &[Struct]) -> Option<(u64, u64)> {
    match ty {
        Type::Scalar(s) => Some((s.bytes(), s.bytes())),
        Type::Struct(i) => structs.get(*i).map(|s| (s.bytes, s.align)),
        Type::Array(of, n) => {
            let (bytes, align) = shape(of, structs)?;
            Some((bytes.checked_mul(*n)?, align))
        }
    }
}

impl Signature {
    /// Bytes of a type of this signature.
    pub fn bytes_of(&self, ty: &Type) -> u64 {
        shape(ty, &self.structs).map_or(0, |(bytes, _)| bytes)
    }
    /// Alignment of a type of this signature.
    pub fn align_of(&self, ty: &Type) -> u64 {
        shape(ty, &self.structs).map_or(1, |(_, align)| align)
    }
}
