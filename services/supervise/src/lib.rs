//! What the manager and its services say to each other.
//!
//! The manager starts a service by exec with one end of a `SOCK_SEQPACKET`
//! UNIX socket as its standard input, and nothing else but its log. Each
//! message is one packet of JSON; [`ToService::Open`] carries descriptors. The
//! service tells in its first message how it came up. When the socket closes
//! the manager has died: the service goes on serving the channels it has.
//!
//! The manager treats what a service says as it treats a guest's bytes: a
//! driver may have taken the service over.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use vfun_bond::{Order, Report};

mod place;
pub mod submitted;

pub use place::Place;
pub use vfun_kernelmap::Map;

/// Largest packet, bytes: settings of a manifest with room.
pub const PACKET_BYTES: usize = 64 << 10;

/// How the threads of channels are named, before the channel's handle: the
/// manager tells them from those that a driver starts.
pub const CHANNEL_THREAD: &str = "ch ";
/// What the thread is called that listens for channels at rest: a service has one.
pub const PORTER_THREAD: &str = "porter";

/// Exit status of a service that ended itself because a call ran past its deadline.
pub const EXIT_DEADLINE: i32 = 86;
/// Exit status of a service that could not start; its last message says why.
pub const EXIT_CANNOT_START: i32 = 87;
/// Exit status of a service whose driver made a system call that is not on its
/// list; its last message says which.
pub const EXIT_FORBIDDEN: i32 = 88;
/// Exit status of a service that aborted, as shells call that signal: the
/// first process of a process namespace cannot die of its own SIGABRT.
pub const EXIT_ABORTED: i32 = 128 + 6;

/// What the manager says to a service.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum ToService {
    /// First message: what to serve.
    Start(Start),
    /// Serve one more channel. Descriptors: the window for reading, the window
    /// for writing; with a doorbell also the bell that rings the service and
    /// the bell that rings the app; with a port its tap device, as the last one.
    Open(Open),
    /// Memory that an app and this service both write, until [`ToService::BufferGone`].
    /// Descriptor: the memory that it lies in, for writing. Answered with
    /// [`FromService::BufferHere`], also where it cannot be mapped.
    BufferCame(BufferCame),
    /// Let go of a buffer, as soon as no call uses it: [`FromService::BufferLeft`].
    BufferGone { buffer: u64 },
    /// Stop serving a channel; calls in it are the manager's to answer.
    Close { channel: u64 },
    /// As [`ToService::Close`], but whoever stands by for it is let in as soon
    /// as the call under way is answered, before the driver ends: the
    /// descriptor that comes along, if one does, is the baton to pass.
    HandOver { channel: u64 },
    /// Take up a channel that it stands by for, if it has not done so by
    /// itself: whoever served it no longer does.
    TakeUp {
        channel: u64,
        /// A `vfun_wire::Status`: what a call that was left half done is answered with.
        status: u32,
    },
    /// Take so many calls a second of a channel from now on.
    Rate {
        channel: u64,
        /// Calls a second; 0 for any number.
        calls_per_s: u32,
    },
    /// Finish the call under way in each channel, then exit.
    Stop,
    /// Look whether calls wait on a channel, though nobody rang.
    Look { channel: u64 },
    /// Give a sign of life: [`FromService::Alive`].
    Live,
    /// What the host wants of the agent behind a channel of the function `bond`: the whole
    /// of it. It stands in the place of the order before.
    Order { channel: u64, order: Order },
    /// What became of a [`FromService::Submission`].
    Verdict {
        ask: u64,
        /// What became of it.
        verdict: ModuleVerdict,
    },
    /// Say which channels are served: a manager that started anew asks.
    Report {
        /// Its generation, which comes back with the answer: an answer to one
        /// that was killed meanwhile says nothing of what was asked since.
        #[serde(default)]
        by: u32,
    },
}

/// What a service serves.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Start {
    /// The client it works for, for the log.
    pub client: String,
    pub function: String,
    /// The function's version, `major << 16 | minor`.
    pub version: u32,
    /// What stands behind it.
    pub driver: Driver,
    /// The manifest's settings for the driver.
    pub settings: BTreeMap<String, String>,
    /// Processors to run on; empty for any.
    pub cpus: Vec<usize>,
    /// Lengths of arguments that the function's signature allows, if it has one.
    #[serde(default)]
    pub args: Option<Lengths>,
    /// Lists of system calls to install. A service that is told to and cannot
    /// does not go on.
    #[serde(default)]
    pub filters: Filters,
}

/// Lists of system calls, as programs for the kernel: each word is an
/// instruction, its code, jump if true, jump if false and value from the
/// highest bits to the lowest (16, 8, 8, 32). Empty: none is installed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Filters {
    /// Installed before the driver is loaded.
    pub loading: Vec<u64>,
    /// Installed on top once it is loaded, before any channel is opened.
    pub serving: Vec<u64>,
}

/// Lengths that arguments can have: `min`, and any multiple of `step` more, up
/// to `max`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Lengths {
    /// Fewest bytes that arguments have.
    pub min: u32,
    /// Most bytes that arguments have.
    pub max: u32,
    /// Bytes of an element of the variable array at the end; 1 without one.
    pub step: u32,
}

impl Lengths {
    /// Whether arguments can have so many bytes.
    #[inline]
    pub fn fit(&self, bytes: u32) -> bool {
        bytes >= self.min
            && bytes <= self.max
            && (self.step <= 1 || (bytes - self.min).is_multiple_of(self.step))
    }
}

/// What stands behind a function.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Driver {
    /// A shared library with the driver's C ABI.
    Native {
        /// Absolute path of the library.
        library: PathBuf,
    },
    /// A WebAssembly module with the driver's C ABI; `vfun-service-wasm` serves it.
    Wasm {
        /// Absolute path of the module.
        module: PathBuf,
        /// Most linear memory of each channel's instance, bytes.
        memory_bytes: u64,
    },
    /// An OpenCL kernel; `vfun-service-opencl` serves it.
    OpenCl {
        /// Its source or binary.
        kernel: PathBuf,
        /// The function's signature, whose arguments become the kernel's.
        signature: String,
        /// How a call's arguments and results become the kernel's.
        map: Box<Map>,
    },
    /// A WebAssembly module that its client submitted. Descriptors of
    /// [`ToService::Start`]: the module, and its compiled code if there is some.
    Submitted {
        /// SHA-256 of the module, 64 hexadecimal digits.
        sha256: String,
        /// Most linear memory of each channel's instance, bytes.
        memory_bytes: u64,
        /// SHA-256 of the compiled code, if some comes along.
        code: Option<String>,
    },
    /// The function `submit`: checks and compiles what its client brings.
    /// Descriptor of [`ToService::Start`]: a memory file by which modules and
    /// their code go to the manager.
    Submit,
    /// A software NIC for verbs; `vfun-service-verbs` serves it.
    Verbs,
    /// Raw lines answered by the service itself: the floor under a call.
    Floor,
    /// Entries of queues sent back by the service itself: the floor under a queue.
    Mirror,
    /// The function `bond`: passes on what the agents in VMs and the manager say.
    Bond,
    /// The function `ports`: relays the frames of channels of packets to and from tap devices,
    /// which come along with the channels ([`Open::port`]).
    Ports,
}

/// What a client wants of its modules, as a service passes it on.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum ModuleRequest {
    /// Keep this module and offer it. With it comes the memory file that the
    /// service was given at its start: from its first byte on the module, and
    /// behind it its compiled code.
    Add(Box<Offered>),
    /// Offer one no more.
    Remove { name: String },
    /// Say which there are.
    List,
}

/// A module that a service has checked and compiled.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Offered {
    pub name: String,
    /// The function's version, `major << 16 | minor`.
    pub version: u32,
    /// Longest arguments that the module takes, bytes.
    pub max_args: u32,
    /// Longest results that the module gives, bytes.
    pub max_result: u32,
    /// Its signature's text; empty if it has none.
    pub signature: String,
    /// Most linear memory of each channel's instance, bytes.
    pub memory_bytes: u64,
    /// Deadline of its calls, ms.
    pub deadline_ms: u32,
    /// Whether a module of the same name gives way.
    pub replace: bool,
    /// Bytes of the module.
    pub module_bytes: u64,
    /// SHA-256 of the module, 64 hexadecimal digits.
    pub sha256: String,
    /// Bytes of its compiled code; 0 if there is none to keep.
    pub code_bytes: u64,
    /// SHA-256 of its compiled code.
    pub code_sha256: String,
    /// How long checking and compiling took, us.
    pub compile_us: u32,
}

/// What became of a wish.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ModuleVerdict {
    /// It is done.
    Done {
        /// What the caller is answered, in hexadecimal digits.
        answer: String,
    },
    /// Not done.
    Refused {
        /// Why, for programs.
        code: u32,
        /// Why, for people.
        sentence: String,
    },
}

/// A channel to serve.
///
/// With it come the window for reading, the window for writing, and if
/// `doorbell` is set the bell that rings the service and the one that rings
/// the app. What is mapped from the first can never be made writable. A baton comes after
/// these, and the tap device of a port comes last.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Open {
    pub channel: u64,
    /// Who calls, for the log.
    pub app: String,
    /// The VM that it is in, by its name; `None`: it runs on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// The address that the client's manifest gives that VM, or programs on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Its session, whose buffers its calls may name; 0: it has none.
    #[serde(default)]
    pub session: u64,
    /// Where the window begins in its file, bytes: what `place` says counts from there.
    pub origin: u64,
    /// The window's size, bytes: what `place` says ends there.
    pub window_bytes: u64,
    /// Where the channel lies in its window.
    pub place: Place,
    /// Deadline of each call, ms.
    pub deadline_ms: u32,
    /// Calls a second that it takes; 0 for any number.
    #[serde(default)]
    pub calls_per_s: u32,
    /// A `vfun_wire::message::WaitMode`.
    pub wait: u8,
    /// Whether bells come along.
    pub doorbell: bool,
    /// Which bells the window has: the number of its laying out, which no other has, of
    /// this manager or of an earlier one whose services live on. Channels with the same
    /// one and the same way out (`place`) share the bell that rings the service. 0: that
    /// is not known.
    #[serde(default)]
    pub bell: u64,
    /// The VF that it is to use, of a device whose VFs are leased. Drivers see
    /// it as the setting `vf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf: Option<u16>,
    /// Make everything ready but touch nothing yet: another service serves it
    /// still. One more descriptor comes along, the baton to wait for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standby: bool,
    /// The port that a channel of packets is. With it one more descriptor comes along, the
    /// last one: the port's tap device, attached with `IFF_TAP | IFF_NO_PI` (each read and each
    /// write is one Ethernet frame, with nothing before it), and set to `O_NONBLOCK`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortCame>,
}

/// What a port's channel is, besides its place in the window.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PortCame {
    /// The port's name, for people: of the log and of what is told of the channel.
    pub name: String,
    /// Bytes of the longest packet behind an Ethernet header.
    pub mtu: u16,
    /// A switch with DPDK has the port's memory and moves the frames itself: no tap device
    /// comes along, and the service only counts.
    #[serde(default)]
    pub switch: bool,
}

/// A buffer of an app whose channel the service serves, or is about to.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct BufferCame {
    pub buffer: u64,
    /// The app's session: calls of no other find it.
    pub session: u64,
    /// Where the memory begins in its file, bytes: `offset` counts from there.
    pub origin: u64,
    /// Where it begins, bytes; a multiple of a page.
    pub offset: u64,
    /// How long it is, bytes; a multiple of a page.
    pub bytes: u64,
    /// Nobody can make its file shorter. Where that is not known, pages may go away.
    #[serde(default)]
    pub sealed: bool,
    /// It is a table of pages of the VM's memory. That memory's file comes along as a second descriptor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pages: bool,
}

/// What a service says to the manager.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum FromService {
    /// The driver is loaded and channels can be opened.
    Ready {
        /// Longest arguments the driver takes, bytes.
        max_args: u32,
        /// Longest results it gives, bytes.
        max_result: u32,
        /// How it computes, for people: a driver's word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// Whether it knows buffers; one that is older than they are does not.
        #[serde(default)]
        buffers: bool,
    },
    /// It cannot serve; it exits with [`EXIT_CANNOT_START`].
    Failed {
        /// A sentence for people.
        reason: String,
    },
    /// A channel is served.
    Opened { channel: u64 },
    /// A channel's driver says that its device is gone. The channel is no longer
    /// touched; the call that met it waits in its cell for whoever serves it next.
    DeviceLost {
        channel: u64,
        /// What the driver said.
        reason: String,
    },
    /// Everything is ready to serve a channel that another service serves still.
    Standing { channel: u64 },
    /// A channel cannot be served.
    OpenFailed {
        channel: u64,
        /// A sentence for people.
        reason: String,
    },
    /// A channel is no longer touched.
    Closed { channel: u64 },
    /// The app broke the protocol; the channel is no longer served.
    Broken {
        channel: u64,
        /// A sentence for people.
        reason: String,
    },
    /// Answer to [`ToService::Report`]: the channels that are open or being
    /// opened. Channels beyond a packet's room follow in further answers.
    Channels {
        /// Handles of the channels that the service has.
        channels: Vec<u64>,
        /// More follow.
        more: bool,
        /// Whose question it answers; 0 from a service that is older than this.
        #[serde(default)]
        to: u32,
        /// As in [`FromService::Ready`], which may not have been heard.
        #[serde(default)]
        buffers: bool,
    },
    /// Answer to [`ToService::BufferCame`]: calls find the buffer from now on, or are told
    /// why they do not.
    BufferHere { buffer: u64 },
    /// Answer to [`ToService::BufferGone`]: the buffer is no longer touched.
    BufferLeft { buffer: u64 },
    /// Answer to [`ToService::Live`].
    Alive,
    /// A client wants something of its modules; the service waits for the
    /// [`ToService::Verdict`].
    Submission {
        /// A number for the answer.
        ask: u64,
        /// The handle of the channel that it came through.
        channel: u64,
        /// What the client asks for.
        wish: ModuleRequest,
    },
    /// What the agent behind a channel of the function `bond` said last: its own word. A
    /// report that was not sent gives way to a newer one.
    Told { channel: u64, report: Report },
    /// A call ran past its deadline; the service exits with [`EXIT_DEADLINE`].
    Deadline { channel: u64 },
    /// The driver made a system call that is not on its list; the service
    /// exits with [`EXIT_FORBIDDEN`].
    Forbidden {
        /// Sequence number of the call.
        call: u32,
    },
}

/// Why a message did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket failed.
    #[error("the socket between manager and service failed: {0}")]
    Io(#[from] std::io::Error),
    /// Not a message of this version.
    #[error("an unreadable message between manager and service: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Beyond [`PACKET_BYTES`].
    #[error("a message between manager and service is too large")]
    TooLarge,
}

impl From<Error> for std::io::Error {
    /// Keeps the system's own error, which tells whether it may help to try again.
    fn from(e: Error) -> Self {
        match e {
            Error::Io(e) => e,
            e => std::io::Error::other(e),
        }
    }
}

/// A pair of connected sockets, close-on-exec.
pub fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Sends one message.
pub fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > PACKET_BYTES {
        return Err(Error::TooLarge);
    }
    Ok(vfun_window::fdpass::send(socket, &bytes, fds)?)
}

/// Receives one message; `None` when the peer is gone.
pub fn receive<T: for<'a> Deserialize<'a>>(
    socket: impl AsFd,
) -> Result<Option<(T, Vec<OwnedFd>)>, Error> {
    let mut bytes = vec![0; PACKET_BYTES];
    let (n, fds) = vfun_window::fdpass::receive(socket, &mut bytes)?;
    if n == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..n])?, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_fit_or_do_not() {
        let l = Lengths { min: 8, max: 32, step: 8 };
        for n in 0..50 {
            assert_eq!(l.fit(n), [8, 16, 24, 32].contains(&n), "{n}");
        }
        assert!(!l.fit(u32::MAX));
        let one = Lengths { min: 16, max: 16, step: 1 };
        assert!(one.fit(16) && !one.fit(15) && !one.fit(17) && !one.fit(0));
    }

    #[test]
    fn messages_survive_the_socket() {
        let (a, b) = pair().unwrap();
        let start = ToService::Start(Start {
            client: "vm1".into(),
            function: "factorial".into(),
            version: 1 << 16,
            driver: Driver::Native { library: "/x/y.so".into() },
            settings: BTreeMap::from([("k".into(), "v".into())]),
            cpus: vec![1],
            args: Some(Lengths { min: 8, max: 4096, step: 8 }),
            filters: Filters { loading: vec![u64::MAX, 0], serving: vec![] },
        });
        send(&a, &start, &[b.as_fd()]).unwrap();
        let (got, fds) = receive::<ToService>(&b).unwrap().unwrap();
        assert_eq!((got, fds.len()), (start, 1));
        // A service or manager from before this was numbered.
        for (old, new) in [
            (&br#"{"to":"report"}"#[..], ToService::Report { by: 0 }),
            (br#"{"to":"report","by":7}"#, ToService::Report { by: 7 }),
        ] {
            vfun_window::fdpass::send(&a, old, &[]).unwrap();
            assert_eq!(receive::<ToService>(&b).unwrap().unwrap().0, new);
        }
        let old = br#"{"from":"channels","channels":[1],"more":false}"#;
        let new = FromService::Channels { channels: vec![1], more: false, to: 0, buffers: false };
        assert_eq!(serde_json::from_slice::<FromService>(old).unwrap(), new);
        vfun_window::fdpass::send(&a, b"not json", &[]).unwrap();
        assert!(matches!(receive::<ToService>(&b), Err(Error::Unreadable(_))));
        drop(a);
        assert!(receive::<ToService>(&b).unwrap().is_none());
    }
}
