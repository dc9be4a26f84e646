//! The switch's database, OVSDB (RFC 7047).

use super::json::Rpc;
use super::{Link, Writer, silent};
use crate::detect::Event;
use crate::limits::{SILENCE, SILENCE_MAX};
use crate::ovsdb::{NotItsSchema, Rows, monitor};
use serde_json::{Value, json};
use std::io;
use std::time::Instant;

/// Asks for an answer that says nothing else: it comes behind all changes until then.
pub(super) fn echo(id: u32) -> Vec<u8> {
    bytes(&json!({ "id": id, "method": "echo", "params": [] }))
}

fn bytes(message: &Value) -> Vec<u8> {
    message.to_string().into_bytes()
}

/// Reads one connection until it ends.
pub(super) fn run(link: &Link, writer: &Writer) -> io::Result<()> {
    let stream = link.connect(&link.places.database)?;
    writer.set(Some(stream.try_clone()?));
    let result = listen(link, writer, Rpc::new(stream));
    writer.set(None);
    result
}

fn listen(link: &Link, writer: &Writer, mut rpc: Rpc) -> io::Result<()> {
    link.tell(Event::Connected(link.peer))?;
    writer.send(&bytes(&json!({ "id": "rows", "method": "monitor", "params": monitor() })))?;
    let mut rows = Rows::default();
    let (mut heard, mut asked) = (Instant::now(), false);
    while !link.ended() {
        let Some(message) = rpc.next()? else {
            if heard.elapsed() > SILENCE_MAX {
                return Err(silent());
            }
            if heard.elapsed() > SILENCE && !asked {
                asked = true;
                writer.send(&bytes(&json!({ "id": "there", "method": "echo", "params": [] })))?;
            }
            continue;
        };
        (heard, asked) = (Instant::now(), false);
        if message["method"] == "echo" {
            let answer = json!({ "id": message["id"], "result": message["params"], "error": null });
            writer.send(&bytes(&answer))?;
        } else if let Some(id) = answered(&message) {
            link.tell(Event::DatabaseAnswered(id))?;
        } else if let Some(tables) = rows_of(&message)? {
            rows.apply(tables).map_err(wrong)?;
            let facts = rows.facts(&link.places.bridge).map_err(wrong)?;
            link.tell(Event::Facts(facts))?;
        }
    }
    Ok(())
}

/// The number of the question that a message answers.
fn answered(message: &Value) -> Option<u32> {
    let id = message["id"].as_u64()?;
    let answers = message["method"].is_null() && message["error"].is_null();
    u32::try_from(id).ok().filter(|_| answers)
}

fn wrong(why: NotItsSchema) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The tables that a message has.
fn rows_of(message: &Value) -> io::Result<Option<&Value>> {
    if message["method"] == "update" {
        return Ok(message["params"].get(1));
    }
    match &message["error"] {
        _ if message["id"] != "rows" => Ok(None),
        Value::Null => Ok(Some(&message["result"])),
        error => Err(io::Error::other(format!(
            "it does not show its tables (Open vSwitch 3.1 shows them): {error}"
        ))),
    }
}
