//! The switch's control socket: traces.

use super::json::Rpc;
use super::{HANGS, Link};
use crate::detect::Event;
use crate::limits::{ANSWER, END_LOOK, PID_BYTES_MAX, TRACE_BYTES_MAX};
use crate::trace::{Packets, shown};
use serde_json::{Value, json};
use std::io::{self, Read};
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
    let named = |e: io::Error| {
        let why = format!("{}: {e}: start ovs-vswitchd with --pidfile", path.display());
        io::Error::new(e.kind(), why)
    };
    // As long as no number is: whatever else the file has is not read.
    let mut text = String::new();
    std::fs::File::open(&path)
        .and_then(|f| f.take(PID_BYTES_MAX).read_to_string(&mut text))
        .map_err(named)?;
    let no_number =
        || io::Error::other(format!("{} has no number: start ovs-vswitchd anew", path.display()));
    let pid: u32 = text.trim().parse().map_err(|_| no_number())?;
    Ok(link.places.run.join(format!("ovs-vswitchd.{pid}.ctl")))
}

/// Answers questions over one connection until it ends.
pub(super) fn run(link: &Link, questions: &Receiver<Question>) -> io::Result<()> {
    // Nobody waits for these any more.
    while questions.try_recv().is_ok() {}
    let mut rpc = Rpc::new(link.connect(&socket(link)?)?);
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
    // Also while other messages come: who talks without an answer does not keep us here.
    loop {
        if link.ended() {
            return Err(io::Error::other("nobody asks any more"));
        }
        if Instant::now() > until {
            let why = format!("it did not answer ofproto/trace in {} s: {HANGS}", ANSWER.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        if let Some(answer) = rpc.next()?
            && answer["id"] == asked.id
        {
            return Ok(said(&answer));
        }
    }
}

/// The text, or why there is none; what is longer than any trace is not kept.
fn said(answer: &Value) -> Result<String, String> {
    match (&answer["result"], &answer["error"]) {
        (Value::String(text), Value::Null) if text.len() > TRACE_BYTES_MAX => {
            Err(format!("its text has more than {TRACE_BYTES_MAX} bytes"))
        }
        (Value::String(text), Value::Null) => Ok(text.clone()),
        (_, Value::String(error)) => Err(shown(error)),
        (_, other) => Err(shown(&other.to_string())),
    }
}

#[cfg(test)]
mod tests;
