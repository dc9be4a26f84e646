//! What is asked.

use crate::limits::*;
use crate::{Malformed, number};
use vfun_wire::limits::{NAME_BYTES, SIGNATURE_BYTES};
use vfun_wire::names;

/// What a client asks to be done with its modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Check a module, compile it, and offer it to this client.
    Submit,
    /// Offer one no more.
    Remove,
    /// Say which there are.
    List,
}

impl Op {
    fn number(self) -> u16 {
        match self {
            Op::Submit => 1,
            Op::Remove => 2,
            Op::List => 3,
        }
    }
}

/// A request. Numbers are little-endian:
///
/// | from | bytes | |
/// |---|---|---|
/// | 0 | 2 | 1 submit, 2 remove, 3 list |
/// | 2 | 2 | flags: 1 = replace a module of the same name |
/// | 4 | 4 | bytes of the signature's text |
/// | 8 | 8 | most memory of each instance, bytes; 0: the usual |
/// | 16 | 4 | deadline of its calls, ms; 0: the usual |
/// | 20 | 4 | 0 |
/// | 24 | 64 | name, padded with zeros; all zeros: the module's own |
/// | 88 | | the signature's text, then the module |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub op: Op,
    /// Whether a module of the same name gives way.
    pub replace: bool,
    /// Most memory of each instance, bytes; 0: the usual.
    pub memory_bytes: u64,
    /// Deadline of its calls, ms; 0: the usual.
    pub deadline_ms: u32,
    /// Its name, with or without the prefix; none: the module's own.
    pub name: Option<&'a str>,
    /// The signature's text; empty: none.
    pub signature: &'a str,
    pub module: &'a [u8],
}

impl<'a> Request<'a> {
    /// A request without a module.
    pub fn bare(op: Op, name: Option<&'a str>) -> Self {
        Request {
            op,
            replace: false,
            memory_bytes: 0,
            deadline_ms: 0,
            name,
            signature: "",
            module: &[],
        }
    }

    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let name = match self.name {
            None => [0; NAME_BYTES],
            Some(n) => names::encode(n)
                .map_err(|e| Malformed(format!("a function cannot be called '{n}': {e}")))?,
        };
        if self.signature.len() > SIGNATURE_BYTES {
            return Err(Malformed(format!(
                "the signature has {} bytes, at most {SIGNATURE_BYTES}",
                self.signature.len()
            )));
        }
        let mut bytes = Vec::with_capacity(REQUEST_HEAD + self.signature.len() + self.module.len());
        bytes.extend(self.op.number().to_le_bytes());
        bytes.extend(u16::from(self.replace).to_le_bytes());
        bytes.extend((self.signature.len() as u32).to_le_bytes());
        bytes.extend(self.memory_bytes.to_le_bytes());
        bytes.extend(self.deadline_ms.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(name);
        bytes.extend(self.signature.as_bytes());
        bytes.extend(self.module);
        Ok(bytes)
    }

    /// What bytes ask, which were read into private memory before.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let op = match u16::from_le_bytes(number(bytes, 0)?) {
            1 => Op::Submit,
            2 => Op::Remove,
            3 => Op::List,
            n => return Err(Malformed(format!("{n} is none of 1 submit, 2 remove, 3 list"))),
        };
        let flags = u16::from_le_bytes(number(bytes, 2)?);
        let signature_bytes = u32::from_le_bytes(number(bytes, 4)?) as usize;
        let room: [u8; NAME_BYTES] = number(bytes, 24)?;
        if flags > 1 || number::<4>(bytes, 20)? != [0; 4] {
            return Err(Malformed("a flag or a reserved byte is not zero".into()));
        }
        if signature_bytes > SIGNATURE_BYTES {
            return Err(Malformed(format!("a signature has at most {SIGNATURE_BYTES} bytes")));
        }
        let rest = &bytes[REQUEST_HEAD..];
        let (signature, module) = rest
            .split_at_checked(signature_bytes)
            .ok_or_else(|| Malformed("the signature is longer than the request".into()))?;
        let signature = std::str::from_utf8(signature)
            .map_err(|_| Malformed("the signature is no text".into()))?;
        let name = match bytes[24..24 + NAME_BYTES] == [0; NAME_BYTES] {
            true => None,
            false => {
                let name = names::decode(&room).map_err(|e| Malformed(e.to_string()))?;
                // The same bytes, as long as the request lives.
                std::str::from_utf8(&bytes[24..24 + name.len()]).ok()
            }
        };
        if op != Op::Submit && !rest.is_empty() {
            return Err(Malformed("only a submission carries a module".into()));
        }
        Ok(Request {
            op,
            replace: flags == 1,
            memory_bytes: u64::from_le_bytes(number(bytes, 8)?),
            deadline_ms: u32::from_le_bytes(number(bytes, 16)?),
            name,
            signature,
            module,
        })
    }
}
