//! Answers' private bytes become values here, each checked.

use crate::error::{Error, Result};
use crate::grant::{GrantInfo, Stats};
use crate::session::{Description, FunctionInfo};
use std::time::Duration;
use vfun_signature::Signature;
use vfun_wire::kind::{CallsShape, ChannelKind, row};
use vfun_wire::limits::*;
use vfun_wire::message::{
    self, CodeEntry, DescribeAck, HelloAck, ListEntry, Location, NegotiateAck, WaitMode,
};
use vfun_wire::names;
use vfun_wire::queues::QueuesShape;
use vfun_wire::version::{FunctionVersion, VERSION, VERSION_MIN};
use zerocopy::FromBytes;

fn nonsense<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::HostNonsense(what.into()))
}

/// A struct out of private bytes of exactly its size.
pub(crate) fn exact<T: FromBytes>(bytes: &[u8], what: &str) -> Result<T> {
    T::read_from_bytes(bytes).map_err(|_| {
        Error::HostNonsense(format!(
            "the answer to '{what}' has {} bytes where {} were due",
            bytes.len(),
            size_of::<T>()
        ))
    })
}

/// A checked answer to hello, and the client's name in it.
pub(crate) fn hello(body: &[u8]) -> Result<(HelloAck, String)> {
    let ack: HelloAck = exact(body, "hello")?;
    if !(VERSION_MIN..=VERSION).contains(&ack.version.get()) {
        return nonsense(format!(
            "it chose protocol version {}, which was not offered",
            ack.version
        ));
    }
    if usize::from(ack.session_line.get()) >= SESSIONS {
        return nonsense(format!(
            "session line {} is beyond the {SESSIONS} there are",
            ack.session_line
        ));
    }
    if ack.session.get() == 0 {
        return nonsense("it gave no session handle");
    }
    match names::decode(&ack.client) {
        Ok(name) => Ok((ack, name.to_string())),
        Err(why) => nonsense(format!("the client's name in the answer to hello: {why}")),
    }
}

/// A grant from the manager's answer, whose numbers were checked.
pub(crate) fn grant_info(body: &[u8], function: &str, kind: ChannelKind) -> Result<GrantInfo> {
    let ack: NegotiateAck = exact(body, "negotiate")?;
    let Some(location) = Location::from_wire(ack.location) else {
        return nonsense(format!(
            "the grant's location {} is not one this version knows",
            ack.location
        ));
    };
    let Some(wait) = WaitMode::from_wire(ack.wait) else {
        return nonsense(format!(
            "the grant's way to wait {} is not one this version knows",
            ack.wait
        ));
    };
    if ack.grant.get() == 0 {
        return nonsense("it gave no grant handle");
    }
    if ack.kind.get() != kind.to_wire() {
        return nonsense(format!("the grant is of a channel of kind {}, not of {kind}", ack.kind));
    }
    if let Err(why) = (row(kind).wants)(&ack.shape) {
        return nonsense(format!("the grant's shape: {why}"));
    }
    let called = matches!(kind, ChannelKind::Calls | ChannelKind::Floor);
    let cells = CallsShape::read(&ack.shape).ok().filter(|_| called);
    let (depth, cell_bytes) = cells.map_or((0, 0), |s| (s.depth.get(), s.cell_bytes.get()));
    let sides = QueuesShape::read(&ack.shape).ok().filter(|_| kind == ChannelKind::Queues);
    let (program_pages, host_pages) =
        sides.map_or((0, 0), |s| (s.program_pages.get(), s.host_pages.get()));
    Ok(GrantInfo {
        grant: ack.grant.get(),
        function: function.to_string(),
        function_id: ack.function_id.get(),
        version: FunctionVersion(ack.version.get()),
        location,
        depth,
        cell_bytes,
        program_pages,
        host_pages,
        deadline: Duration::from_millis(ack.deadline_ms.get().into()),
        wait,
        kind,
        shape: ack.shape,
    })
}

/// What a grant did.
pub(crate) fn stats(body: &[u8], what: &str) -> Result<Stats> {
    let s: message::Stats = exact(body, what)?;
    Ok(Stats {
        calls: s.calls.get(),
        errors: s.errors.get(),
        bytes_in: s.bytes_in.get(),
        bytes_out: s.bytes_out.get(),
        slept: s.slept.get(),
        rang: s.rang.get(),
        restarts: s.restarts.get(),
        pid: s.pid.get(),
        age: Duration::from_millis(s.age_ms.get()),
    })
}

/// A function's description. The text is parsed and must have the fingerprint
/// that comes with it: whoever negotiates by one means the other.
pub(crate) fn description(body: &[u8], name: &str) -> Result<Description> {
    let Ok((head, text)) = DescribeAck::read_from_prefix(body) else {
        return nonsense(format!("the answer to 'describe' has only {} bytes", body.len()));
    };
    if head.text_len.get() as usize != text.len() || text.len() > SIGNATURE_BYTES {
        return nonsense("the signature's length is impossible");
    }
    let signature = match std::str::from_utf8(text) {
        Ok("") => None,
        Ok(text) => match text.parse::<Signature>() {
            Ok(s) => Some(s),
            Err(why) => return nonsense(format!("'{name}' has a {why}")),
        },
        Err(_) => return nonsense("the signature is no text"),
    };
    let d = Description {
        name: name.to_owned(),
        function_id: head.function_id.get(),
        version: FunctionVersion(head.version.get()),
        max_args: head.max_args.get(),
        max_result: head.max_result.get(),
        signature,
    };
    if d.fingerprint() != head.signature.get() {
        return nonsense(format!("the fingerprint of '{name}' is not that of its signature"));
    }
    Ok(d)
}

/// What one error code means.
pub(crate) fn code(entry: &CodeEntry) -> Result<(i32, String)> {
    let text = entry.meaning.split(|b| *b == 0).next().unwrap_or_default();
    match std::str::from_utf8(text) {
        Ok(text) => Ok((entry.code.get(), text.to_owned())),
        Err(_) => nonsense(format!("the meaning of code {} is no text", entry.code)),
    }
}

/// A function on offer.
pub(crate) fn function_info(entry: &ListEntry) -> Result<FunctionInfo> {
    let name = match names::decode(&entry.function) {
        Ok(name) => name.to_string(),
        Err(why) => return nonsense(format!("a function's name in the list: {why}")),
    };
    let bits = entry.locations.get();
    // Bits of locations that this version does not know are passed over.
    let known = |l: &Location| bits.checked_shr(u32::from(l.to_wire())).is_some_and(|b| b & 1 == 1);
    Ok(FunctionInfo {
        name,
        function_id: entry.function_id.get(),
        version: FunctionVersion(entry.version.get()),
        max_args: entry.max_args.get(),
        max_result: entry.max_result.get(),
        locations: Location::ALL.iter().copied().filter(known).collect(),
        deadline: Duration::from_millis(entry.deadline_ms.get().into()),
    })
}
