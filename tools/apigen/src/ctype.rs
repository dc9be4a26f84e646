//! The one text of a C type: `u32`, `struct CK_INFO`, `*mut *mut opaque gdma_node`,
//! `*const CK_ATTRIBUTE`, `[u8; 16]`, `fn(*mut opaque gdma_context, i32) -> void`.

use crate::facts::CType;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt::{self, Display, Formatter};
use vfun_signature::Scalar;

impl Display for CType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            CType::Void => write!(f, "void"),
            CType::Scalar(s) => write!(f, "{}", s.scalar().name()),
            CType::Alias(name) => write!(f, "{name}"),
            CType::Struct(name) => write!(f, "struct {name}"),
            CType::Opaque(name) => write!(f, "opaque {name}"),
            CType::Pointer { to, constant: true } => write!(f, "*const {to}"),
            CType::Pointer { to, constant: false } => write!(f, "*mut {to}"),
            CType::Array { of, count } => write!(f, "[{of}; {count}]"),
            CType::Function { returns, parameters } => {
                let all: Vec<_> = parameters.iter().map(CType::to_string).collect();
                write!(f, "fn({}) -> {returns}", all.join(", "))
            }
        }
    }
}

/// Reads what [`CType`]'s `Display` writes.
struct Text<'a> {
    rest: &'a str,
}

impl<'a> Text<'a> {
    fn eat(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(format!("'{token}' is missing before '{}'", self.rest))
        }
    }

    fn word(&mut self) -> Result<&'a str, String> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        if end == 0 {
            return Err(format!("a name is missing before '{text}'"));
        }
        self.rest = &text[end..];
        Ok(&text[..end])
    }

    fn ctype(&mut self) -> Result<CType, String> {
        for (token, constant) in [("*const ", true), ("*mut ", false)] {
            if self.eat(token) {
                return Ok(CType::Pointer { to: Box::new(self.ctype()?), constant });
            }
        }
        if self.eat("[") {
            let of = Box::new(self.ctype()?);
            self.need(";")?;
            let count = self.word()?.parse().map_err(|e| format!("an array's count: {e}"))?;
            self.need("]")?;
            return Ok(CType::Array { of, count });
        }
        if self.eat("fn(") {
            return self.function();
        }
        Ok(match self.word()? {
            "void" => CType::Void,
            "struct" => CType::Struct(self.word()?.into()),
            "opaque" => CType::Opaque(self.word()?.into()),
            name => match Scalar::named(name) {
                Some(scalar) => CType::Scalar(scalar.into()),
                None => CType::Alias(name.into()),
            },
        })
    }

    fn function(&mut self) -> Result<CType, String> {
        let mut parameters = vec![];
        while !self.eat(")") {
            if !parameters.is_empty() {
                self.need(",")?;
            }
            parameters.push(self.ctype()?);
        }
        self.need("->")?;
        Ok(CType::Function { returns: Box::new(self.ctype()?), parameters })
    }
}

impl std::str::FromStr for CType {
    type Err = String;
    fn from_str(text: &str) -> Result<CType, String> {
        let mut reader = Text { rest: text };
        let ty = reader.ctype().map_err(|why| format!("the type '{text}': {why}"))?;
        match reader.rest.trim() {
            "" => Ok(ty),
            rest => Err(format!("the type '{text}' ends with '{rest}', which is too much")),
        }
    }
}

impl Serialize for CType {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CType {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CType, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_types_text_is_read_back() {
        for text in [
            "u32",
            "void",
            "*mut void",
            "*const *mut opaque gdma_node",
            "[[u8; 16]; 2]",
            "struct CK_INFO",
            "CK_SESSION_HANDLE",
            "fn(*mut opaque gdma_context, u32, i32, *mut void) -> void",
            "fn() -> u64",
        ] {
            assert_eq!(text.parse::<CType>().map(|t| t.to_string()), Ok(text.to_owned()));
        }
        for bad in ["", "*u8", "[u8]", "[u8; x]", "u32 u32", "fn(u8", "*mut"] {
            assert!(bad.parse::<CType>().is_err(), "{bad}");
        }
    }
}
