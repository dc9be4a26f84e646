//! QEMU's control protocol (QMP) without a socket: bytes in, messages out. Who uses it
//! owns the connection and decides how to wait: a test guest has a thread that reads, a
//! program with one thread may poll.
//!
//! - [`client`]: a connection that waits, for programs that have a thread for that.
//! - [`plug`]: a window into a VM that runs and out of it, by such a connection.
//! - [`libvirt`]: the same for a domain of libvirt, by `virsh`.
//! - [`ports`]: where a device can be plugged in.

#![forbid(unsafe_code)]

pub mod client;
pub mod libvirt;
pub mod limits;
pub mod plug;
pub mod ports;

use limits::{EVENTS_MAX, MESSAGE_MAX};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// What QEMU sends.
#[derive(Debug, PartialEq)]
pub enum Message {
    /// The first message of a connection.
    Greeting,
    /// The answer to a command.
    Answer {
        /// The command's number, if it had one.
        id: Option<u64>,
        /// What the command returned.
        result: Result<Value, Refusal>,
    },
    /// Something happened: the whole message, with `event` and `data`.
    Event(Value),
}

/// Why QEMU did not run a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// QEMU's class of error, such as `DeviceNotFound`.
    pub class: String,
    /// QEMU's sentence.
    pub sentence: String,
}

/// Who does not do what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// QEMU or libvirt cannot be reached, or does not answer.
    Unreachable,
    /// The VM is not there.
    Gone,
    /// It refused, or cannot.
    Refused,
    /// The VM has not let go of a device in time.
    Kept,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Fault {
    /// Who does not do it.
    pub kind: FaultKind,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub advice: Option<String>,
}

impl Fault {
    /// QEMU cannot be reached, or does not answer.
    pub fn unreachable(what: impl Into<String>) -> Self {
        Fault { kind: FaultKind::Unreachable, what: what.into(), advice: None }
    }

    /// The VM is not there.
    pub fn gone(what: impl Into<String>) -> Self {
        Fault { kind: FaultKind::Gone, what: what.into(), advice: None }
    }

    /// QEMU refused, or cannot.
    pub fn failed(what: impl Into<String>) -> Self {
        Fault { kind: FaultKind::Refused, what: what.into(), advice: None }
    }

    /// The VM has not let go of a device within this time.
    pub fn kept(vm: &str, at_most: Duration) -> Self {
        let what = format!("{vm} has not let go of the device within {} s", at_most.as_secs());
        Fault { kind: FaultKind::Kept, what, advice: None }
            .advise("a VM without an operating system that runs cannot; otherwise ask again: it may only be slow")
    }

    /// And what to do.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// Bytes that are not QEMU's. The connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// A line that is not JSON.
    #[error("a message that is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// JSON that QEMU does not send.
    #[error("a message that is not QEMU's")]
    NotQemus,
    /// A line of more than [`MESSAGE_MAX`] bytes.
    #[error("a message of more than {MESSAGE_MAX} bytes")]
    TooLong,
}

/// Bytes of a connection, of which messages are taken.
#[derive(Default)]
pub struct Messages(Vec<u8>);

impl Messages {
    /// Adds bytes as they were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Takes the next message, if it is whole.
    pub fn take(&mut self) -> Result<Option<Message>, Wrong> {
        let Some(end) = self.0.iter().position(|b| *b == b'\n') else {
            return match self.0.len() > MESSAGE_MAX {
                true => Err(Wrong::TooLong),
                false => Ok(None),
            };
        };
        let line: Vec<u8> = self.0.drain(..=end).collect();
        message(serde_json::from_slice(&line)?).map(Some)
    }
}

fn message(mut all: Value) -> Result<Message, Wrong> {
    let id = all["id"].as_u64();
    if all.get("QMP").is_some() {
        Ok(Message::Greeting)
    } else if all.get("event").is_some() {
        Ok(Message::Event(all))
    } else if let Some(error) = all.get("error") {
        let part = |name: &str| error[name].as_str().unwrap_or("unknown").to_owned();
        let refusal = Refusal { class: part("class"), sentence: part("desc") };
        Ok(Message::Answer { id, result: Err(refusal) })
    } else if all.get("return").is_some() {
        Ok(Message::Answer { id, result: Ok(all["return"].take()) })
    } else {
        Err(Wrong::NotQemus)
    }
}

/// A command as QEMU reads it. `arguments`: an object, or null for none. `id`: comes
/// back with the answer.
pub fn command(name: &str, arguments: Value, id: Option<u64>) -> String {
    let arguments = if arguments.is_null() { json!({}) } else { arguments };
    let mut all = json!({ "execute": name, "arguments": arguments });
    if let Some(id) = id {
        all["id"] = id.into();
    }
    format!("{all}\n")
}

/// The last events that nobody has waited for yet.
#[derive(Default)]
pub struct Events(VecDeque<Value>);

impl Events {
    /// Keeps one.
    pub fn keep(&mut self, event: Value) {
        if self.0.len() == EVENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// Takes the first that fits.
    pub fn take(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let at = self.0.iter().position(fits)?;
        self.0.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_lines_in_whatever_pieces_they_come() {
        let text = b"{\"QMP\": {}}\n{\"return\": 7, \"id\": 3}\n{\"event\": \"X\"}\n\
            {\"error\": {\"class\": \"C\", \"desc\": \"no\"}}\n";
        for piece in 1..text.len() {
            let (mut m, mut got) = (Messages::default(), vec![]);
            for bytes in text.chunks(piece) {
                m.push(bytes);
                while let Some(message) = m.take().unwrap() {
                    got.push(message);
                }
            }
            let refusal = Refusal { class: "C".into(), sentence: "no".into() };
            let expected = [
                Message::Greeting,
                Message::Answer { id: Some(3), result: Ok(7.into()) },
                Message::Event(json!({"event": "X"})),
                Message::Answer { id: None, result: Err(refusal) },
            ];
            assert_eq!(got, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn what_is_not_qemus_is_refused() {
        let wrong = |bytes: &[u8]| {
            let mut m = Messages::default();
            m.push(bytes);
            m.take().unwrap_err()
        };
        assert!(matches!(wrong(b"SSH-2.0\n"), Wrong::NotJson(_)));
        assert!(matches!(wrong(b"{\"hello\": 1}\n"), Wrong::NotQemus));
        assert!(matches!(wrong(b"[1]\n"), Wrong::NotQemus));
        assert!(matches!(wrong(&vec![b' '; MESSAGE_MAX + 1]), Wrong::TooLong));
    }

    #[test]
    fn the_oldest_events_go_first() {
        let mut events = Events::default();
        (0..=EVENTS_MAX).for_each(|n| events.keep(json!({ "n": n })));
        assert!(events.take(|e| e["n"] == 0).is_none());
        assert!(events.take(|e| e["n"] == 1).is_some() && events.take(|e| e["n"] == 1).is_none());
    }
}
