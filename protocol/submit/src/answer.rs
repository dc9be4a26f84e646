//! What came of it.

use crate::limits::*;
use crate::{Malformed, number};
use vfun_wire::limits::NAME_BYTES;
use vfun_wire::names;

/// What was done to the client's modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was changed: the entries are all that the client has.
    Listed,
    /// The module is offered now.
    Accepted,
    /// The very same was offered already.
    AlreadyThere,
    /// It took another one's place; grants of that one keep it.
    Replaced,
    /// It is offered no more; grants of it keep it.
    Removed,
    /// The very same was offered already, and was compiled and written anew:
    /// the request said so, or what was kept of it was spoiled or of another
    /// build of the host's compiler.
    Renewed,
}

impl Outcome {
    const ALL: [Outcome; 6] = [
        Outcome::Listed,
        Outcome::Accepted,
        Outcome::AlreadyThere,
        Outcome::Replaced,
        Outcome::Removed,
        Outcome::Renewed,
    ];

    /// A word for people.
    pub fn text(self) -> &'static str {
        match self {
            Outcome::Listed => "listed",
            Outcome::Accepted => "accepted",
            Outcome::AlreadyThere => "already there",
            Outcome::Replaced => "replaced",
            Outcome::Removed => "removed",
            Outcome::Renewed => "renewed",
        }
    }
}

/// A function that the client submitted, as the host keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, such as `my.double`.
    pub name: String,
    /// SHA-256 of its module.
    pub sha256: [u8; 32],
    /// Fingerprint of its signature; 0 if it has none.
    pub signature: u64,
    /// Most memory of each instance, bytes.
    pub memory_bytes: u64,
    /// When it was submitted, seconds since 1970 by the host's clock.
    pub at_s: u64,
    /// Its version, `major << 16 | minor`.
    pub version: u32,
    /// Longest arguments of a call, bytes.
    pub max_args: u32,
    /// Longest results of a call, bytes.
    pub max_result: u32,
    /// Deadline of its calls, ms.
    pub deadline_ms: u32,
    /// Bytes of its module.
    pub module_bytes: u32,
    /// How long checking and compiling it took, us.
    pub compile_us: u32,
}

/// An answer: what was done (4 bytes: 0 listed, 1 accepted, 2 already there,
/// 3 replaced, 4 removed, 5 renewed), how many entries follow (4), and these, of 144 bytes:
///
/// | from | bytes | |
/// |---|---|---|
/// | 0 | 64 | name |
/// | 64 | 32 | SHA-256 of the module |
/// | 96 | 8 | fingerprint of the signature |
/// | 104 | 8 | most memory of each instance, bytes |
/// | 112 | 8 | when, seconds since 1970 |
/// | 120 | 6 × 4 | version, longest arguments, longest results, deadline in ms, bytes of the module, us that it took to compile |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    /// The functions that it was done to; all of the client's for a list.
    pub entries: Vec<Entry>,
}

impl Answer {
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        if self.entries.len() > MODULES_MAX as usize {
            return Err(Malformed(format!("more than {MODULES_MAX} entries")));
        }
        let mut bytes = vec![];
        bytes.extend((self.outcome as u32).to_le_bytes());
        bytes.extend((self.entries.len() as u32).to_le_bytes());
        for e in &self.entries {
            bytes.extend(names::encode(&e.name).map_err(|e| Malformed(e.to_string()))?);
            bytes.extend(e.sha256);
            for n in [e.signature, e.memory_bytes, e.at_s] {
                bytes.extend(n.to_le_bytes());
            }
            for n in
                [e.version, e.max_args, e.max_result, e.deadline_ms, e.module_bytes, e.compile_us]
            {
                bytes.extend(n.to_le_bytes());
            }
        }
        Ok(bytes)
    }

    /// What a host said.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let n = u32::from_le_bytes(number(bytes, 0)?);
        let outcome = Outcome::ALL
            .into_iter()
            .find(|o| *o as u32 == n)
            .ok_or_else(|| Malformed(format!("{n} is no outcome")))?;
        let count = u32::from_le_bytes(number(bytes, 4)?);
        let rest = &bytes[ANSWER_HEAD..];
        if count > MODULES_MAX || rest.len() != count as usize * ENTRY_BYTES {
            return Err(Malformed(format!("{count} entries in {} bytes", rest.len())));
        }
        let entry = |b: &[u8]| -> Result<Entry, Malformed> {
            let room: [u8; NAME_BYTES] = number(b, 0)?;
            let name = names::decode(&room).map_err(|e| Malformed(e.to_string()))?.to_owned();
            let u64_at = |at| number(b, at).map(u64::from_le_bytes);
            let u32_at = |at| number(b, at).map(u32::from_le_bytes);
            Ok(Entry {
                name,
                sha256: number(b, 64)?,
                signature: u64_at(96)?,
                memory_bytes: u64_at(104)?,
                at_s: u64_at(112)?,
                version: u32_at(120)?,
                max_args: u32_at(124)?,
                max_result: u32_at(128)?,
                deadline_ms: u32_at(132)?,
                module_bytes: u32_at(136)?,
                compile_us: u32_at(140)?,
            })
        };
        let entries = rest.chunks_exact(ENTRY_BYTES).map(entry).collect::<Result<_, _>>()?;
        Ok(Answer { outcome, entries })
    }
}
