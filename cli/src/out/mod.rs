//! What commands print: tables and facts for people, JSON for programs.

mod facts;
mod table;
mod times;
mod units;

pub use facts::Facts;
pub use table::Table;
pub use times::parse_duration;
pub use units::{age, bytes, count, duration, ns, percent, rate, round_ns, timestamp};

use crate::fail::{self, Result};
use serde::Serialize;
use std::io::{self, Write};

/// For whom results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// For programs: `--json`.
    Json,
}

impl Output {
    /// Whether it is for programs.
    pub fn is_json(self) -> bool {
        self == Output::Json
    }

    /// Prints a result: the value as JSON, or the text that is made of it.
    pub fn show(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        match self {
            Output::Json => json(value),
            Output::Text => self::text(&text()),
        }
    }

    /// Prints what was done, in the manager's words.
    pub fn done(self, sentence: String) -> Result<()> {
        match self {
            Output::Json => json(&serde_json::json!({ "done": sentence })),
            Output::Text => line(sentence),
        }
    }
}

/// A signature's text as people read it: what the call takes and gives, then its structs.
pub fn signature(text: &str) -> String {
    match text.parse::<vfun::signature::Signature>() {
        Ok(s) => s.of_function("").to_string(),
        Err(_) => text.to_owned(),
    }
}

/// Prints text. A reader that went away early (`| head`) is no error.
pub fn text(text: &str) -> Result<()> {
    raw(text.as_bytes())
}

/// Prints bytes as they are.
pub fn raw(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(fail::output(&e)),
        _ => Ok(()),
    }
}

/// Prints a line.
pub fn line(line: impl AsRef<str>) -> Result<()> {
    text(&format!("{}\n", line.as_ref()))
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| fail::output(&e.into()))?;
    line(text)
}

/// Says how things go, on stderr, so that stdout holds results only.
pub fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr(), "{}", text.as_ref());
}
