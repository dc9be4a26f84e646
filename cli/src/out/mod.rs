//! What commands print: tables and facts for people, JSON for programs.

mod facts;
mod table;
mod times;
mod units;

pub use facts::Facts;
pub use table::{Align, Table};
pub use times::parse_duration;
pub use units::{age, bytes, count, duration, rate, timestamp};

use crate::fail::{self, Result};
use serde::Serialize;
use std::io::{self, Write};

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
