//! JSON-RPC over a socket, as the database and the switch's control socket speak it: messages
//! one behind the other, with at most white space between them.

use super::read_some;
use crate::limits::{JSON_BYTES_MAX, JSON_DEPTH_MAX};
use serde_json::Value;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;

/// Bytes of a connection, of which values are taken.
#[derive(Default)]
pub(super) struct Values {
    bytes: Vec<u8>,
    /// How far the next value was looked at, and what was found.
    looked: usize,
    depth: usize,
    text: Text,
}

#[derive(Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    Escaped,
}

fn wrong(why: impl std::fmt::Display) -> io::Error {
    let why = format!("it sent {why}, which is not JSON-RPC: is another program at this socket?");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Values {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next object, if it is whole.
    pub(super) fn take(&mut self) -> io::Result<Option<Value>> {
        while let Some(byte) = self.bytes.get(self.looked) {
            self.looked += 1;
            if self.looked > JSON_BYTES_MAX {
                return Err(wrong(format!("a message of more than {JSON_BYTES_MAX} bytes")));
            }
            if self.depth == 0 && !(byte.is_ascii_whitespace() || *byte == b'{') {
                return Err(wrong(format!("a message that begins with the byte {byte:#04x}")));
            }
            match (&self.text, byte) {
                (Text::Escaped, _) => self.text = Text::Inside,
                (Text::Inside, b'\\') => self.text = Text::Escaped,
                (Text::Inside, b'"') => self.text = Text::Outside,
                (Text::Outside, b'"') => self.text = Text::Inside,
                (Text::Outside, b'{' | b'[') => self.depth += 1,
                (Text::Outside, b'}' | b']') => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        let whole: Vec<u8> = self.bytes.drain(..self.looked).collect();
                        self.looked = 0;
                        let value = serde_json::from_slice(&whole);
                        return value.map(Some).map_err(|e| wrong(format!("no JSON ({e})")));
                    }
                }
                _ => {}
            }
            if self.depth > JSON_DEPTH_MAX {
                return Err(wrong(format!("more than {JSON_DEPTH_MAX} brackets in each other")));
            }
        }
        Ok(None)
    }
}

/// A connection, and what was read of it.
pub(super) struct Rpc {
    stream: UnixStream,
    values: Values,
    buffer: Vec<u8>,
}

impl Rpc {
    pub(super) fn new(stream: UnixStream) -> Rpc {
        Rpc { stream, values: Values::default(), buffer: vec![0; 1 << 16] }
    }

    pub(super) fn send(&mut self, value: &Value) -> io::Result<()> {
        self.stream.write_all(value.to_string().as_bytes())
    }

    /// Fails if the other end is gone. What it says unasked is not needed.
    pub(super) fn is_there(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        let read = self.next();
        self.stream.set_nonblocking(false)?;
        read.map(|_| ())
    }

    /// The next message. Nothing: none came for a moment.
    pub(super) fn next(&mut self) -> io::Result<Option<Value>> {
        if let Some(value) = self.values.take()? {
            return Ok(Some(value));
        }
        let Some(n) = read_some(&mut self.stream, &mut self.buffer)? else { return Ok(None) };
        self.values.push(&self.buffer[..n]);
        self.values.take()
    }
}

#[cfg(test)]
mod tests;
