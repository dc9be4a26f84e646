//! Arguments or results: fields one after the other, as in a C struct.

use crate::types::{Struct, Type, shape};
use crate::{BYTES_MAX, Value};

/// One argument or result of a fixed size.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name; empty for a result without one.
    pub name: String,
    pub ty: Type,
    /// Bytes from the record's start.
    pub offset: u64,
    /// What a caller who leaves it out means; scalars only.
    pub default: Option<Value>,
}

/// The variable array at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    /// Its name; empty for a result without one.
    pub name: String,
    /// What it is an array of.
    pub element: Type,
    /// Bytes from the record's start.
    pub offset: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Fewest elements that a caller may give.
    pub least: u64,
    /// Most elements, where the function says so.
    pub most: Option<u64>,
}

/// Arguments, or results: fields as in a C struct, then at most one array of any length.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Fields of a fixed size, in order.
    pub fields: Vec<Field>,
    /// The variable array, if there is one.
    pub tail: Option<Tail>,
    /// Bytes of the C struct of the fields alone (padding at the end included).
    pub fixed_bytes: u64,
    /// Largest alignment in it.
    pub align: u64,
}

pub(crate) fn round_up(n: u64, align: u64) -> Option<u64> {
    n.checked_next_multiple_of(align)
}

/// Lays types out one after the other: offsets, then bytes in all and alignment.
pub(crate) fn lay_out<'a>(
    types: impl Iterator<Item = &'a Type>,
    structs: &[Struct],
) -> Option<(Vec<u64>, u64, u64)> {
    let (mut offsets, mut end, mut align) = (vec![], 0u64, 1);
    for ty in types {
        let (bytes, a) = shape(ty, structs)?;
        let at = round_up(end, a)?;
        end = at.checked_add(bytes)?;
        align = align.max(a);
        offsets.push(at);
        if end > BYTES_MAX {
            return None;
        }
    }
    Some((offsets, end, align))
}

impl Record {
    /// Lays fields out; `None` if they are beyond [`BYTES_MAX`].
    pub(crate) fn new(
        mut fields: Vec<Field>,
        tail: Option<Tail>,
        structs: &[Struct],
    ) -> Option<Record> {
        let (offsets, end, mut align) = lay_out(fields.iter().map(|f| &f.ty), structs)?;
        for (f, at) in fields.iter_mut().zip(offsets) {
            f.offset = at;
        }
        let tail = match tail {
            None => None,
            Some(mut t) => {
                let (bytes, a) = shape(&t.element, structs)?;
                align = align.max(a);
                t.offset = round_up(end, a)?;
                t.element_bytes = bytes;
                let most = t.most.unwrap_or(t.least).max(t.least);
                let longest = t.offset.checked_add(bytes.checked_mul(most)?)?;
                if longest > BYTES_MAX {
                    return None;
                }
                Some(t)
            }
        };
        let fixed_bytes = round_up(end, align)?;
        Some(Record { fields, tail, fixed_bytes, align })
    }

    /// Bytes of the fixed part and of the fewest elements.
    pub fn min_bytes(&self) -> u64 {
        match &self.tail {
            None => self.fixed_bytes,
            Some(t) => t.offset + t.least * t.element_bytes,
        }
    }

    /// Bytes of the fixed part and of the most elements.
    pub fn max_bytes(&self) -> u64 {
        match &self.tail {
            None => self.fixed_bytes,
            Some(t) => t.offset + self.most_elements() * t.element_bytes,
        }
    }

    /// Most elements of the variable array that any cell holds; 0 without one.
    pub fn most_elements(&self) -> u64 {
        self.tail
            .as_ref()
            .map_or(0, |t| t.most.unwrap_or((BYTES_MAX - t.offset) / t.element_bytes.max(1)))
    }

    /// Lengths between the fewest and the most bytes are so far apart.
    pub fn step(&self) -> u64 {
        self.tail.as_ref().map_or(1, |t| t.element_bytes)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.tail.is_none()
    }
}
