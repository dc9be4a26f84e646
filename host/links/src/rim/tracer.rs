//! The switch's control socket: traces.

use super::json::Rpc;
use super::{Link, connect};
use crate::detect::Event;
use crate::limits::{ANSWER, END_LOOK};
use crate::trace::Packets;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

/// A trace to ask for.
pub(super) struct Question {
    pub(super) id: u32,
    pub(super) in_port: u32,
    pub(super) packets: Packets,
}

/// The socket bears the number of the process.
fn socket(link: &Link) -> io::Result<PathBuf> {
    let path = link.places.run.join("ovs-vswitchd.pid");
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(named)?;
    let pid: u32 = text
        .trim()
        .parse()
        .map_err(|_| io::Error::other(format!("{} has no number", path.display())))?;
    Ok(link.places.run.join(format!("ovs-vswitchd.{pid}.ctl")))
}

/// Answers questions over one connection until it ends.
pub(super) fn run(link: &Link, questions: &Receiver<Question>) -> io::Result<()> {
    // Nobody waits for these any more.
    while questions.try_recv().is_ok() {}
    let mut rpc = Rpc::new(connect(&socket(link)?)?);
    link.tell(Event::Connected(link.peer))?;
    while !link.ended() {
        match questions.recv_timeout(END_LOOK) {
            Ok(question) => {
                let id = question.id;
                let said = trace(link, &mut rpc, &question)?;
                link.tell(Event::Traced { id, said })?;
            }
            // The end of the switch is seen without a question, too.
            Err(RecvTimeoutError::Timeout) => rpc.is_there()?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
    Ok(())
}

fn trace(link: &Link, rpc: &mut Rpc, asked: &Question) -> io::Result<Result<String, String>> {
    let flow = format!("in_port={},{}", asked.in_port, asked.packets);
    let params = json!(["--names", link.places.bridge, flow]);
    rpc.send(&json!({ "id": asked.id, "method": "ofproto/trace", "params": params }))?;
    let until = Instant::now() + ANSWER;
    loop {
        match rpc.next()? {
            Some(answer) if answer["id"] == asked.id => return Ok(said(&answer)),
            None if link.ended() => return Err(io::Error::other("nobody asks any more")),
            None if Instant::now() > until => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer a trace"));
            }
            _ => {}
        }
    }
}

fn said(answer: &Value) -> Result<String, String> {
    match (&answer["result"], &answer["error"]) {
        (Value::String(text), Value::Null) => Ok(text.clone()),
        (_, Value::String(error)) => Err(error.clone()),
        (_, other) => Err(other.to_string()),
    }
}
