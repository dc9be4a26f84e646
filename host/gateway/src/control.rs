//! Control requests, made one after the other by a thread of their own.

use crate::calls::Functions;
use crate::outcome;
use crate::output::{Output, push_answer};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use vfun::{FunctionInfo, FunctionRequest, Grant, Session, Stats};
use vfun_wire::frame::{CallAnswer, CallHead};
use vfun_wire::kind::{CallsShape, ChannelKind};
use vfun_wire::limits::{FRAME_BYTES_MAX, MEANING_BYTES};
use vfun_wire::message::{
    self, CODE_ENTRIES, CodeEntry, Describe, DescribeAck, Kind, LIST_ENTRIES, ListAck, ListEntry,
    Negotiate, NegotiateAck, OfGrant, Preference, WaitMode,
};
use vfun_wire::version::FunctionVersion;
use vfun_wire::{Handle, Nack, NackCode, names};
use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A request as it came.
pub struct Request {
    pub kind: Kind,
    pub id: u64,
    pub body: Vec<u8>,
}

/// Largest data space of a cell whose calls and answers still fit a frame.
const CELL_BYTES: u32 = FRAME_BYTES_MAX - 4096;
const _: () = assert!(size_of::<CallHead>() <= 4096 && size_of::<CallAnswer>() <= 4096);

struct Control {
    session: Session,
    granted: HashMap<u64, Grant>,
    functions: Arc<Functions>,
}

/// Makes requests until the connection ends, then gives everything back.
pub fn run(
    session: Session,
    functions: Arc<Functions>,
    requests: &Receiver<Request>,
    output: &Output,
) {
    let mut control = Control { session, granted: HashMap::new(), functions };
    while let Ok(r) = requests.recv() {
        let answer = control.answer(r.kind, &r.body);
        let goodbye = r.kind == Kind::Goodbye && answer.is_ok();
        let mut out = Vec::new();
        push_answer(&mut out, r.id, &answer);
        output.send(&out);
        if goodbye {
            break;
        }
    }
    output.end();
    control.granted.clear();
    // First: calls under way then end, and whoever waits for them goes on.
    if let Err(e) = control.session.close() {
        tracing::debug!("a session could not be closed: {e}");
    }
    control.functions.clear();
}

fn malformed(sentence: impl Into<String>) -> Nack {
    Nack::new(NackCode::Malformed, sentence)
}

fn body<T: FromBytes + KnownLayout + Immutable>(bytes: &[u8], kind: Kind) -> Result<T, Nack> {
    T::read_from_bytes(bytes).map_err(|_| {
        malformed(format!(
            "a {kind} request has {} bytes, this one {}",
            size_of::<T>(),
            bytes.len()
        ))
    })
}

impl Control {
    fn answer(&mut self, kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, Nack> {
        let of = |bytes| body::<OfGrant>(bytes, kind).map(|o| o.grant.get());
        match kind {
            Kind::Negotiate => self.negotiate(&body(bytes, kind)?),
            Kind::Activate => self.activate(of(bytes)?),
            Kind::Release => self.release(of(bytes)?),
            Kind::Stats => self.stats(of(bytes)?),
            Kind::List => self.list(&body(bytes, kind)?),
            Kind::KeepAlive => {
                empty(bytes, kind)?;
                self.session.ping().map_err(outcome::of_request)?;
                Ok(vec![0; size_of::<message::Empty>()])
            }
            // The manager is told after the answer is on its way.
            Kind::Goodbye => {
                empty(bytes, kind)?;
                Ok(vec![0; size_of::<message::Empty>()])
            }
            Kind::Hello => {
                Err(Nack::new(NackCode::WrongState, "this connection has said hello already"))
            }
            Kind::Reset | Kind::Window => {
                let sentence = format!("{kind} is for a window's kernel module");
                Err(Nack::new(NackCode::Unsupported, sentence))
            }
            Kind::Describe => self.describe(&body(bytes, kind)?),
            Kind::Codes => self.codes(&body(bytes, kind)?),
            Kind::BufferGet | Kind::BufferPut => {
                Err(Nack::new(NackCode::Unsupported, "over TCP there are no shared buffers"))
            }
        }
    }

    fn negotiate(&mut self, n: &Negotiate) -> Result<Vec<u8>, Nack> {
        if n.reserved0.get() != 0 || n.reserved1 != [U64::ZERO; 3] {
            return Err(malformed("negotiate's reserved bytes are not zero"));
        }
        let name = names::decode(&n.function)
            .map_err(|e| malformed(format!("the function's name: {e}")))?;
        let preference = Preference::from_wire(n.preference)
            .ok_or_else(|| malformed(format!("{} is no preference", n.preference)))?;
        let wait = WaitMode::from_wire(n.wait)
            .ok_or_else(|| malformed(format!("{} is not a way to wait", n.wait)))?;
        if ChannelKind::from_wire(n.kind.get()) != Some(ChannelKind::Calls) {
            return Err(Nack::new(
                NackCode::Unsupported,
                "over TCP there are only calls: other channels need shared memory",
            ));
        }
        let shape = CallsShape::read(&n.shape).map_err(|e| malformed(e.to_string()))?;
        let mut request = FunctionRequest::new(name)
            .version(FunctionVersion(n.version.get()))
            .preference(preference)
            .service_waits(wait)
            .signature(n.signature.get())
            .depth(shape.depth.get());
        match shape.cell_bytes.get() {
            u32::MAX => {}
            bytes if bytes > CELL_BYTES => {
                return Err(Nack::new(
                    NackCode::BeyondLimit,
                    format!(
                        "cells of {bytes} bytes do not fit a frame: over TCP {CELL_BYTES} are the most"
                    ),
                ));
            }
            bytes => request = request.cell_bytes(bytes),
        }
        if n.deadline_ms.get() != 0 {
            request = request.deadline(Duration::from_millis(n.deadline_ms.get().into()));
        }
        let grant = self.session.negotiate(&request).map_err(outcome::of_request)?;
        let (g, s) = (grant.info(), self.session.info());
        let ack = NegotiateAck {
            grant: U64::new(g.grant),
            client_id: U32::new(s.client_id),
            app_id: U32::new(s.app_id),
            function_id: U32::new(g.function_id),
            version: U32::new(g.version.0),
            location: g.location.to_wire(),
            wait: g.wait.to_wire(),
            kind: U16::new(g.kind.to_wire()),
            deadline_ms: U32::new(g.deadline.as_millis() as u32),
            shape: CallsShape::new(g.depth, g.cell_bytes).shape(),
            reserved: [U64::ZERO; 2],
        };
        self.granted.insert(g.grant, grant);
        Ok(ack.as_bytes().to_vec())
    }

    fn activate(&mut self, grant: u64) -> Result<Vec<u8>, Nack> {
        if self.functions.get(grant).is_some() {
            return Err(Nack::new(
                NackCode::WrongState,
                format!("grant {} is active already", Handle(grant)),
            ));
        }
        let granted = self.granted.remove(&grant).ok_or_else(|| unknown(grant))?;
        let (kind, shape) = {
            let g = granted.info();
            (g.kind.to_wire(), CallsShape::new(g.depth, g.cell_bytes).shape())
        };
        let function = granted.activate().map_err(outcome::of_request)?;
        self.functions.insert(grant, function);
        // There is no memory to point at: no range follows.
        let ack = message::ActivateAck {
            channel: U64::new(grant),
            kind: U16::new(kind),
            count: U16::ZERO,
            vector_out: U16::ZERO,
            vector_in: U16::ZERO,
            shape,
            reserved: U64::ZERO,
        };
        Ok(ack.as_bytes().to_vec())
    }

    fn release(&mut self, grant: u64) -> Result<Vec<u8>, Nack> {
        let stats = match self.granted.remove(&grant) {
            Some(granted) => granted.release(),
            None => self
                .functions
                .remove(grant)
                .ok_or_else(|| unknown(grant))?
                .function
                .release_shared(),
        };
        stats.map(|s| encode(&s)).map_err(outcome::of_request)
    }

    fn stats(&self, grant: u64) -> Result<Vec<u8>, Nack> {
        if self.granted.contains_key(&grant) {
            return Ok(encode(&Stats::default()));
        }
        let active = self.functions.get(grant).ok_or_else(|| unknown(grant))?;
        active.function.stats().map(|s| encode(&s)).map_err(outcome::of_request)
    }

    fn describe(&self, ask: &Describe) -> Result<Vec<u8>, Nack> {
        let name = names::decode(&ask.function)
            .map_err(|e| malformed(format!("the function's name: {e}")))?;
        let d = self.session.describe_function(name).map_err(outcome::of_request)?;
        let text = d.signature.as_ref().map_or(String::new(), |s| s.to_string());
        let head = DescribeAck {
            function_id: U32::new(d.function_id),
            version: U32::new(d.version.0),
            signature: U64::new(d.fingerprint()),
            max_args: U32::new(d.max_args),
            max_result: U32::new(d.max_result),
            text_len: U32::new(text.len() as u32),
            reserved0: U32::ZERO,
            reserved1: U64::ZERO,
        };
        Ok([head.as_bytes(), text.as_bytes()].concat())
    }

    fn codes(&self, ask: &message::Codes) -> Result<Vec<u8>, Nack> {
        if ask.reserved.get() != 0 {
            return Err(malformed("codes' reserved bytes are not zero"));
        }
        let name = names::decode(&ask.function)
            .map_err(|e| malformed(format!("the function's name: {e}")))?;
        let all = self.session.function_codes(name).map_err(outcome::of_request)?;
        let entry = |(code, text): &(i32, String)| {
            let mut meaning = [0; MEANING_BYTES];
            let bytes = &text.as_bytes()[..text.len().min(MEANING_BYTES)];
            meaning[..bytes.len()].copy_from_slice(bytes);
            CodeEntry { code: I32::new(*code), reserved: U32::ZERO, meaning }
        };
        let start = ask.start.get() as usize;
        let page: Vec<CodeEntry> = all.iter().skip(start).take(CODE_ENTRIES).map(entry).collect();
        let head =
            ListAck { count: U32::new(page.len() as u32), total: U32::new(all.len() as u32) };
        Ok([head.as_bytes(), page.as_bytes()].concat())
    }

    fn list(&self, ask: &message::List) -> Result<Vec<u8>, Nack> {
        if ask.reserved.get() != 0 {
            return Err(malformed("list's reserved bytes are not zero"));
        }
        let all = self.session.list().map_err(outcome::of_request)?;
        let page: Vec<ListEntry> = all
            .iter()
            .skip(ask.start.get() as usize)
            .take(LIST_ENTRIES)
            .filter_map(entry)
            .collect();
        let head =
            ListAck { count: U32::new(page.len() as u32), total: U32::new(all.len() as u32) };
        Ok([head.as_bytes(), page.as_bytes()].concat())
    }
}

fn empty(bytes: &[u8], kind: Kind) -> Result<(), Nack> {
    match body::<message::Empty>(bytes, kind)?.reserved.get() {
        0 => Ok(()),
        _ => Err(malformed(format!("a {kind} request's reserved bytes are not zero"))),
    }
}

fn unknown(grant: u64) -> Nack {
    Nack::new(
        NackCode::BadHandle,
        format!("there is no grant {} on this connection: negotiate first", Handle(grant)),
    )
}

fn entry(f: &FunctionInfo) -> Option<ListEntry> {
    Some(ListEntry {
        function: names::encode(&f.name).ok()?,
        function_id: U32::new(f.function_id),
        version: U32::new(f.version.0),
        max_args: U32::new(f.max_args),
        max_result: U32::new(f.max_result),
        locations: U32::new(f.locations.iter().fold(0, |bits, l| bits | 1 << l.to_wire())),
        deadline_ms: U32::new(f.deadline.as_millis() as u32),
        reserved: U64::ZERO,
    })
}

fn encode(s: &Stats) -> Vec<u8> {
    message::Stats {
        calls: U64::new(s.calls),
        errors: U64::new(s.errors),
        bytes_in: U64::new(s.bytes_in),
        bytes_out: U64::new(s.bytes_out),
        slept: U64::new(s.slept),
        rang: U64::new(s.rang),
        restarts: U32::new(s.restarts),
        pid: U32::new(s.pid),
        age_ms: U64::new(s.age.as_millis() as u64),
        reserved: [U64::ZERO; 2],
    }
    .as_bytes()
    .to_vec()
}
