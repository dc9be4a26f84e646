//! The switch's database, OVSDB (RFC 7047).

use super::json::Rpc;
use super::{Link, connect};
use crate::detect::Event;
use crate::limits::{SILENCE, SILENCE_MAX};
use crate::ovsdb::{NotItsSchema, Rows, monitor};
use serde_json::{Value, json};
use std::io;
use std::time::Instant;

/// Reads one connection until it ends.
pub(super) fn run(link: &Link) -> io::Result<()> {
    let mut rpc = Rpc::new(connect(&link.places.database)?);
    link.tell(Event::Connected(link.peer))?;
    rpc.send(&json!({ "id": "rows", "method": "monitor", "params": monitor() }))?;
    let mut rows = Rows::default();
    let (mut heard, mut asked) = (Instant::now(), false);
    while !link.ended() {
        let Some(message) = rpc.next()? else {
            if heard.elapsed() > SILENCE_MAX {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it says nothing"));
            }
            if heard.elapsed() > SILENCE && !asked {
                asked = true;
                rpc.send(&json!({ "id": "there", "method": "echo", "params": [] }))?;
            }
            continue;
        };
        (heard, asked) = (Instant::now(), false);
        if message["method"] == "echo" {
            let answer = json!({ "id": message["id"], "result": message["params"], "error": null });
            rpc.send(&answer)?;
        } else if let Some(tables) = rows_of(&message)? {
            rows.apply(tables).map_err(wrong)?;
            let facts = rows.facts(&link.places.bridge).map_err(wrong)?;
            link.tell(Event::Facts(facts))?;
        }
    }
    Ok(())
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
