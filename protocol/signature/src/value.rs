//! Values: from words to bytes and back, for tools that know a signature
//! only at run time.

use crate::types::{Scalar, Type};
use crate::{Record, Signature};

/// A value of some type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    /// Of `u8` to `u64`.
    Unsigned(u64),
    /// Of `i8` to `i64`.
    Signed(i64),
    /// A floating-point number of 32 bits.
    Float(f32),
    /// A floating-point number of 64 bits.
    Double(f64),
    /// A struct's members, in order.
    Struct(Vec<Value>),
    /// Elements of a fixed or a variable array.
    Array(Vec<Value>),
}

/// Why something is no value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError(pub String);

impl core::fmt::Display for ValueError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for ValueError {}

fn wrong<T>(what: impl Into<String>) -> Result<T, ValueError> {
    Err(ValueError(what.into()))
}

impl Scalar {
    /// Least and greatest of a whole number's type.
    pub const fn range(self) -> Option<(i64, u64)> {
        let bits = 8 * self.bytes() as u32;
        match self {
            Scalar::Bool => Some((0, 1)),
            Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => {
                Some((0, u64::MAX >> (64 - bits)))
            }
            Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
                Some((i64::MIN >> (64 - bits), i64::MAX as u64 >> (64 - bits)))
            }
            Scalar::F32 | Scalar::F64 => None,
        }
    }
    const fn signed(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }
}

impl Value {
    /// A scalar from a word: `true`, `-3`, `0x1f`, `2.5`.
    pub fn parse(of: Scalar, word: &str) -> Result<Value, ValueError> {
        let name = of.name();
        match of {
            Scalar::Bool => match word {
                "true" | "1" => Ok(Value::Bool(true)),
                "false" | "0" => Ok(Value::Bool(false)),
                _ => wrong(format!("'{word}' is not true or false")),
            },
            Scalar::F32 => match word.parse::<f32>() {
                Ok(n) if n.is_finite() => Ok(Value::Float(n)),
                _ => wrong(format!("'{word}' is no finite number ({name})")),
            },
            Scalar::F64 => match word.parse::<f64>() {
                Ok(n) if n.is_finite() => Ok(Value::Double(n)),
                _ => wrong(format!("'{word}' is no finite number ({name})")),
            },
            _ => {
                let (least, most) = of.range().expect("a whole number's type");
                let (minus, digits) = match word.strip_prefix('-') {
                    Some(digits) => (true, digits),
                    None => (false, word),
                };
                let size = match digits.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).ok(),
                    None if digits.starts_with('+') => None,
                    None => digits.parse::<u64>().ok(),
                };
                let n = size.map(|n| if minus { -i128::from(n) } else { i128::from(n) });
                match n {
                    Some(n) if n >= i128::from(least) && n <= i128::from(most) => {
                        Ok(if of.signed() {
                            Value::Signed(n as i64)
                        } else {
                            Value::Unsigned(n as u64)
                        })
                    }
                    _ => wrong(format!("'{word}' is not a number from {least} to {most} ({name})")),
                }
            }
        }
    }

    fn put_scalar(&self, of: Scalar, to: &mut Vec<u8>) -> Result<(), ValueError> {
        let n = of.bytes() as usize;
        let fits = |n: i128| of.range().is_some_and(|(a, b)| n >= a.into() && n <= b.into());
        match (of, self) {
            (Scalar::Bool, Value::Bool(b)) => to.push(u8::from(*b)),
            (Scalar::F32, Value::Float(x)) => to.extend_from_slice(&x.to_le_bytes()),
            (Scalar::F64, Value::Double(x)) => to.extend_from_slice(&x.to_le_bytes()),
            (_, Value::Unsigned(x))
                if !of.is_float() && of != Scalar::Bool && fits((*x).into()) =>
            {
                to.extend_from_slice(&x.to_le_bytes()[..n])
            }
            (_, Value::Signed(x)) if of.signed() && fits((*x).into()) => {
                to.extend_from_slice(&x.to_le_bytes()[..n])
            }
            _ => return wrong(format!("{self} is no {}", of.name())),
        }
        Ok(())
    }
}

impl core::fmt::Display for Value {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let list = |f: &mut core::fmt::Formatter<'_>, open: &str, all: &[Value], close: &str| {
            f.write_str(open)?;
            for (i, v) in all.iter().enumerate() {
                write!(f, "{}{v}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str(close)
        };
        match self {
            Value::Bool(b) => write!(f, "{b}"),
            Value::Unsigned(n) => write!(f, "{n}"),
            Value::Signed(n) => write!(f, "{n}"),
            // With a point: the shortest text that reads back as the same.
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Double(x) => write!(f, "{x:?}"),
            Value::Struct(all) => list(f, "{", all, "}"),
            Value::Array(all) => list(f, "[", all, "]"),
        }
    }
}

impl Signature {
    /// Appends a value of a type where it belongs: `to` has been filled up to it.
    pub fn put(&self, ty: &Type, value: &Value, to: &mut Vec<u8>) -> Result<(), ValueError> {
        match (ty, value) {
            (Type::Scalar(s), v) => v.put_scalar(*s, to),
            (Type::Struct(i), Value::Struct(all)) => {
                let (s, start) = (&self.structs[*i], to.len());
                if all.len() != s.members.len() {
                    return wrong(format!(
                        "struct {} has {} members, not {}",
                        s.name,
                        s.members.len(),
                        all.len()
                    ));
                }
                for (m, v) in s.members.iter().zip(all) {
                    to.resize(start + m.offset as usize, 0);
                    self.put(&m.ty, v, to)?;
                }
                to.resize(start + s.bytes as usize, 0);
                Ok(())
            }
            (Type::Array(of, n), Value::Array(all)) if all.len() as u64 == *n => {
                all.iter().try_for_each(|v| self.put(of, v, to))
            }
            (ty, v) => wrong(format!("{v} is no {}", self.type_text(ty))),
        }
    }

    /// Arguments or results as bytes: a value for each field, and for the
    /// variable array, in order.
    pub fn encode(&self, record: &Record, values: &[Value]) -> Result<Vec<u8>, ValueError> {
        let due = record.fields.len() + usize::from(record.tail.is_some());
        if values.len() != due {
            return wrong(format!("{} values where {due} are due", values.len()));
        }
        let mut bytes = vec![];
        for (f, v) in record.fields.iter().zip(values) {
            bytes.resize(f.offset as usize, 0);
            self.put(&f.ty, v, &mut bytes)?;
        }
        match (&record.tail, values.last()) {
            (Some(t), Some(Value::Array(all))) => {
                bytes.resize(t.offset as usize, 0);
                all.iter().try_for_each(|v| self.put(&t.element, v, &mut bytes))?;
            }
            (Some(t), v) => {
                return wrong(format!(
                    "'{}' needs an array, not {}",
                    t.name,
                    v.map_or("nothing".into(), Value::to_string)
                ));
            }
            (None, _) => bytes.resize(record.fixed_bytes as usize, 0),
        }
        record.check(bytes.len() as u64).map_err(|e| ValueError(e.to_string()))?;
        Ok(bytes)
    }

    /// The value of a type at the start of `bytes`; `None` if they are too few.
    pub fn get(&self, ty: &Type, bytes: &[u8]) -> Option<Value> {
        Some(match ty {
            Type::Scalar(s) => {
                let mut word = [0; 8];
                let n = s.bytes() as usize;
                word[..n].copy_from_slice(bytes.get(..n)?);
                let bits = u64::from_le_bytes(word);
                let shift = 64 - 8 * n as u32;
                match s {
                    Scalar::Bool => Value::Bool(bits != 0),
                    Scalar::F32 => Value::Float(f32::from_bits(bits as u32)),
                    Scalar::F64 => Value::Double(f64::from_bits(bits)),
                    s if s.signed() => Value::Signed((bits << shift) as i64 >> shift),
                    _ => Value::Unsigned(bits),
                }
            }
            Type::Struct(i) => {
                let s = &self.structs[*i];
                let member =
                    |m: &crate::StructMember| self.get(&m.ty, bytes.get(m.offset as usize..)?);
                Value::Struct(s.members.iter().map(member).collect::<Option<_>>()?)
            }
            Type::Array(of, n) => Value::Array(self.elements(of, bytes, *n)?),
        })
    }

    fn elements(&self, of: &Type, bytes: &[u8], n: u64) -> Option<Vec<Value>> {
        let each = self.bytes_of(of) as usize;
        bytes.get(..each.checked_mul(n as usize)?)?;
        (0..n as usize).map(|i| self.get(of, &bytes[i * each..])).collect()
    }

    /// The values in `bytes`: one for each field, and the variable array's.
    pub fn decode(&self, record: &Record, bytes: &[u8]) -> Result<Vec<Value>, ValueError> {
        let n = record.check(bytes.len() as u64).map_err(|e| ValueError(e.to_string()))?;
        let short = || ValueError("the bytes end too early".into());
        let mut values = vec![];
        for f in &record.fields {
            let at = bytes.get(f.offset as usize..).ok_or_else(short)?;
            values.push(self.get(&f.ty, at).ok_or_else(short)?);
        }
        if let Some(t) = &record.tail {
            let at = bytes.get(t.offset as usize..).ok_or_else(short)?;
            values.push(Value::Array(self.elements(&t.element, at, n).ok_or_else(short)?));
        }
        Ok(values)
    }
}
