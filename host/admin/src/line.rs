//! One question to a program of ours on its admin socket: a line of JSON, and a line of JSON
//! as the answer. Manager and allocator speak so, each in its own words.

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
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

/// A connection that is made, and takes what is written, within a time: a program that hangs takes none,
/// and its queue of those who wait may be full.
fn connected(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
    let cloexec = SocketFlags::CLOEXEC;
    let stream = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, cloexec, None)?;
    sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, Some(patience))?;
    net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(UnixStream::from(stream))
}

/// The same, and waits so long.
pub fn ask_within<A: DeserializeOwned>(
    socket: &Path,
    question: &impl Serialize,
    patience: Duration,
) -> Result<A, LineError> {
    let stream = connected(socket, patience).map_err(LineError::NotRunning)?;
    let bad = |e: io::Error| LineError::Unreadable(e.to_string());
    stream.set_read_timeout(Some(patience)).map_err(bad)?;
    let mut line = serde_json::to_string(question).expect("requests are plain data");
    line.push('\n');
    (&stream).write_all(line.as_bytes()).map_err(bad)?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).map_err(bad)?;
    serde_json::from_str(&answer).map_err(|e| LineError::Unreadable(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_not_waited_for_without_end() {
        let folder = std::env::temp_dir().join(format!("vfun-line-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("s");
        let listener = net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        net::bind(&listener, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
        net::listen(&listener, 1).unwrap();
        let patience = Duration::from_millis(20);
        // Nobody takes connections: each question adds one, until there is no room for more.
        let mut last = None;
        for _ in 0..100 {
            last = Some(ask_within::<u64>(&socket, &1, patience).unwrap_err());
            if matches!(last, Some(LineError::NotRunning(_))) {
                break;
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(last, Some(LineError::NotRunning(_))), "{last:?}");
    }
}
