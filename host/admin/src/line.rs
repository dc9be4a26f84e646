//! One question to a program of ours on its admin socket: a line of JSON, and a line of JSON
//! as the answer. Manager and allocator speak so, each in its own words.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Nobody listens.
    #[error("nobody listens: {0}")]
    NotRunning(io::Error),
    /// It hung up, or its answer is none.
    #[error("{0}")]
    Unreadable(String),
}

/// Asks, and waits up to 30 s for the answer. Each question is a connection of its own.
pub fn ask<A: DeserializeOwned>(socket: &Path, question: &impl Serialize) -> Result<A, LineError> {
    ask_within(socket, question, PATIENCE)
}

/// The same, and waits so long.
pub fn ask_within<A: DeserializeOwned>(
    socket: &Path,
    question: &impl Serialize,
    patience: Duration,
) -> Result<A, LineError> {
    let stream = UnixStream::connect(socket).map_err(LineError::NotRunning)?;
    let bad = |e: io::Error| LineError::Unreadable(e.to_string());
    stream.set_read_timeout(Some(patience)).map_err(bad)?;
    let mut line = serde_json::to_string(question).expect("requests are plain data");
    line.push('\n');
    (&stream).write_all(line.as_bytes()).map_err(bad)?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).map_err(bad)?;
    serde_json::from_str(&answer).map_err(|e| LineError::Unreadable(e.to_string()))
}
