//! What to ask for when negotiating a function.

use crate::error::{Error, Result};
use std::time::Duration;
use vfun_wire::kind::{CallsShape, ChannelKind, Shape};
use vfun_wire::limits::{
    CELL_BYTES_MAX, DEADLINE_MS_MAX, DEPTH_MAX, QUEUES_PAGES_MAX, QUEUES_PAGES_MIN,
};
use vfun_wire::message::{Negotiate, Preference, WaitMode};
use vfun_wire::names;
use vfun_wire::packets::PacketsShape;
use vfun_wire::queues::QueuesShape;
use vfun_wire::version::FunctionVersion;
use zerocopy::little_endian::{U16, U32, U64};

/// A function, and how it should be opened. The function and its host decide what
/// you leave out.
#[derive(Clone, Debug)]
pub struct FunctionRequest {
    pub(crate) name: String,
    version: FunctionVersion,
    preference: Preference,
    depth: u16,
    cell_bytes: Option<u32>,
    deadline: Option<Duration>,
    wait: Option<WaitMode>,
    signature: u64,
    pub(crate) kind: ChannelKind,
    /// Pages of both sides, of queues.
    sides: (u32, u32),
    /// Of packets.
    packets: Option<PacketsShape>,
}

impl FunctionRequest {
    /// A function by its name, with the defaults.
    pub fn new(name: impl Into<String>) -> Self {
        FunctionRequest {
            name: name.into(),
            version: FunctionVersion(0),
            preference: Preference::Any,
            depth: 0,
            cell_bytes: None,
            deadline: None,
            wait: None,
            signature: 0,
            kind: ChannelKind::Calls,
            sides: (0, 0),
            packets: None,
        }
    }
    /// The version needed: the same major, at least this minor. 0.0: any.
    pub fn version(mut self, version: FunctionVersion) -> Self {
        self.version = version;
        self
    }
    /// Hardware, software or either.
    pub fn preference(mut self, preference: Preference) -> Self {
        self.preference = preference;
        self
    }
    /// Cells: calls that can be under way at once. A power of two up to 1024.
    pub fn depth(mut self, depth: u16) -> Self {
        self.depth = depth;
        self
    }
    /// Bytes of arguments and of results that a call can have beyond 48.
    pub fn cell_bytes(mut self, bytes: u32) -> Self {
        self.cell_bytes = Some(bytes);
        self
    }
    /// How the service waits for calls. Default: in the same mode as the session's calls.
    /// A host may refuse to spin; the grant says what is in force.
    pub fn service_waits(mut self, mode: WaitMode) -> Self {
        self.wait = Some(mode);
        self
    }
    /// Fingerprint of the signature that this caller was made for: a function
    /// with another one is refused. 0: not checked.
    pub fn signature(mut self, fingerprint: u64) -> Self {
        self.signature = fingerprint;
        self
    }
    /// With another request's version and signature.
    pub(crate) fn typed_as(mut self, other: &FunctionRequest) -> Self {
        self.version = other.version;
        self.signature = other.signature;
        self
    }
    /// How long a call may take before its service is ended. Whole milliseconds, up to an hour.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }
    /// What the channel carries. Default: calls.
    pub fn kind(mut self, kind: ChannelKind) -> Self {
        self.kind = kind;
        self
    }

    /// A channel of queues with so many pages that the program writes, and so many that the
    /// service writes; the first of each is the channel's own. From 2 to 2^18 pages (1 GiB).
    /// [`crate::Grant::activate_queues`] takes it up.
    pub fn queues(mut self, program_pages: u32, host_pages: u32) -> Self {
        self.sides = (program_pages, host_pages);
        self.kind(ChannelKind::Queues)
    }

    /// The channel of a port of the VM.
    pub(crate) fn packets(mut self, shape: PacketsShape) -> Self {
        self.packets = Some(shape);
        self.kind(ChannelKind::Packets)
    }

    fn shape(&self) -> Result<Shape> {
        match self.kind {
            ChannelKind::Calls | ChannelKind::Floor => {
                Ok(CallsShape::new(self.depth, self.cell_bytes.unwrap_or(u32::MAX)).shape())
            }
            ChannelKind::Packets => self.packets.map(PacketsShape::shape).ok_or_else(|| {
                Error::BadOption("a channel of packets is asked for by its port's name".into())
            }),
            ChannelKind::Queues => {
                let (program, host) = self.sides;
                let most = QUEUES_PAGES_MIN..=QUEUES_PAGES_MAX;
                match most.contains(&program) && most.contains(&host) {
                    true => Ok(QueuesShape::new(program, host).shape()),
                    false => Err(Error::BadOption(format!(
                        "queues with {program} and {host} pages are not possible: a side has {QUEUES_PAGES_MIN} to {QUEUES_PAGES_MAX}"
                    ))),
                }
            }
        }
    }

    /// As it stands on the wire; limits are checked here, so that their errors
    /// name the option and not a message. `wait` is the session's own mode.
    pub(crate) fn encode(&self, wait: WaitMode) -> Result<Negotiate> {
        let function = names::encode(&self.name).map_err(|why| Error::BadName {
            what: "function's",
            name: self.name.clone(),
            why,
        })?;
        if self.depth != 0 && !(self.depth.is_power_of_two() && self.depth <= DEPTH_MAX) {
            return Err(Error::BadOption(format!(
                "a depth of {} is not possible: it must be a power of two up to {DEPTH_MAX}",
                self.depth
            )));
        }
        if let Some(n) = self.cell_bytes.filter(|&n| n > CELL_BYTES_MAX) {
            return Err(Error::BadOption(format!(
                "cell_bytes of {n} is not possible: the limit is {CELL_BYTES_MAX}"
            )));
        }
        let deadline_ms = match self.deadline {
            None => 0,
            Some(d) => match u32::try_from(d.as_millis()) {
                Ok(ms @ 1..=DEADLINE_MS_MAX) => ms,
                _ => {
                    return Err(Error::BadOption(format!(
                        "a deadline of {d:?} is not possible: it must be from 1 to {DEADLINE_MS_MAX} ms"
                    )));
                }
            },
        };
        Ok(Negotiate {
            function,
            version: U32::new(self.version.0),
            preference: self.preference.to_wire(),
            wait: self.wait.unwrap_or(wait).to_wire(),
            kind: U16::new(self.kind.to_wire()),
            deadline_ms: U32::new(deadline_ms),
            reserved0: U32::ZERO,
            signature: U64::new(self.signature),
            shape: self.shape()?,
            reserved1: [U64::ZERO; 3],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_options_are_named_before_anything_is_sent() {
        let why = |r: FunctionRequest| r.encode(WaitMode::Hybrid).unwrap_err().to_string();
        assert!(why(FunctionRequest::new("a/b")).contains("function's name 'a/b'"));
        assert!(why(FunctionRequest::new("f").depth(3)).contains("depth of 3"));
        assert!(why(FunctionRequest::new("f").depth(2048)).contains("up to 1024"));
        assert!(why(FunctionRequest::new("f").cell_bytes(u32::MAX)).contains("cell_bytes"));
        assert!(
            why(FunctionRequest::new("f").deadline(Duration::from_micros(10)))
                .contains("from 1 to")
        );
        for (program, host) in [(0, 0), (1, 2), (2, 1), (1 << 19, 2), (2, u32::MAX)] {
            let why = why(FunctionRequest::new("f").queues(program, host));
            assert!(why.contains("2 to 16384"), "{why}");
        }
        assert!(why(FunctionRequest::new("f").kind(ChannelKind::Queues)).contains("0 and 0 pages"));
        let n = FunctionRequest::new("f").queues(2, 9).encode(WaitMode::Hybrid).unwrap();
        assert_eq!(QueuesShape::read(&n.shape), Ok(QueuesShape::new(2, 9)));
        let n = FunctionRequest::new("f").encode(WaitMode::Hybrid).unwrap();
        assert_eq!(CallsShape::read(&n.shape), Ok(CallsShape::new(0, u32::MAX)));
        assert_eq!(n.deadline_ms.get(), 0);
    }

    #[test]
    fn the_service_waits_as_the_session_does_unless_said_otherwise() {
        let wait =
            |r: FunctionRequest| WaitMode::from_wire(r.encode(WaitMode::Sleep).unwrap().wait);
        assert_eq!(wait(FunctionRequest::new("f")), Some(WaitMode::Sleep));
        let spin = FunctionRequest::new("f").service_waits(WaitMode::Spin);
        assert_eq!(wait(spin), Some(WaitMode::Spin));
    }
}
