//! A session: one app at one window.

use crate::buffer::{Adopted, Over};
use crate::control::{self, Control};
use crate::endpoint::TransportKind;
use crate::error::{Error, Result};
use crate::function::{Active, Function};
use crate::grant::{Grant, NO_WINDOW};
use crate::heartbeat::Heartbeat;
use crate::request::FunctionRequest;
use crate::transport::Window;
use crate::wait::WaitPolicy;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use vfun_signature::Signature;
use vfun_window::Process;
use vfun_wire::kind::ChannelKind;
use vfun_wire::message::{
    CODE_ENTRIES, Codes, Describe, Empty, Kind, LIST_ENTRIES, List, ListAck, Location, Name, row,
};
use vfun_wire::version::{Features, FunctionVersion};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

/// Most functions that a list is followed to: a host that counts on for ever is stopped here.
const LIST_MAX: u32 = 65_536;
/// How long a session that is dropped without [`Session::close`] waits to say goodbye.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// What the host said of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    pub client: String,
    pub client_id: u32,
    pub app_id: u32,
    /// Protocol version in force.
    pub version: u16,
    /// Features that both this library and the host offered.
    pub features: Features,
    /// Bytes of the window; 0 where there is none (TCP).
    pub window_bytes: u64,
    /// Whether a doorbell wakes this side's sleepers; otherwise they look by the clock.
    pub doorbell: bool,
    /// The path in use.
    pub transport: TransportKind,
    /// The window's generation; 0 where there is no window.
    pub generation: u64,
}

/// A function on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    pub name: String,
    pub function_id: u32,
    pub version: FunctionVersion,
    /// Longest arguments of a call, bytes.
    pub max_args: u32,
    /// Longest results of a call, bytes.
    pub max_result: u32,
    /// Where it can run.
    pub locations: Vec<Location>,
    /// Deadline of its calls, unless another is negotiated.
    pub deadline: Duration,
}

/// What a function takes and gives, as its manifest declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    pub name: String,
    pub function_id: u32,
    pub version: FunctionVersion,
    /// Longest arguments of a call, bytes.
    pub max_args: u32,
    /// Longest results of a call, bytes.
    pub max_result: u32,
    /// Its signature, if it has one.
    pub signature: Option<Signature>,
}

impl Description {
    /// Fingerprint of the signature, for [`FunctionRequest::signature`]; 0 if there is none.
    pub fn fingerprint(&self) -> u64 {
        self.signature.as_ref().map_or(0, Signature::fingerprint)
    }
}

/// An open session. May be shared by threads. Functions keep working when it
/// is dropped; [`Session::close`] ends them too.
pub struct Session {
    inner: Arc<SessionInner>,
}

pub(crate) struct SessionInner {
    pub control: Control,
    pub window: Option<Arc<Window>>,
    pub info: SessionInfo,
    pub policy: WaitPolicy,
    place: String,
    handle: u64,
    closed: AtomicBool,
    /// Whose it is: a child of fork has no part in it.
    of: Process,
    /// What was activated in it; nothing more is, once it is being closed.
    functions: Mutex<Option<Vec<Weak<Active>>>>,
    /// Its own buffers; those of functions are theirs.
    pub buffers: Adopted,
    /// Ends with the goodbye: the session line may be another app's after it.
    heartbeat: Mutex<Option<Heartbeat>>,
}

impl SessionInner {
    pub fn new(
        control: Control,
        window: Option<Arc<Window>>,
        info: SessionInfo,
        place: String,
        handle: u64,
        policy: WaitPolicy,
        heartbeat: Option<Heartbeat>,
    ) -> Self {
        let closed = AtomicBool::new(false);
        let heartbeat = Mutex::new(heartbeat);
        let (of, functions) = (Process::current(), Mutex::new(Some(Vec::new())));
        SessionInner {
            control,
            window,
            info,
            policy,
            place,
            handle,
            closed,
            of,
            functions,
            buffers: Adopted::default(),
            heartbeat,
        }
    }

    /// Makes a request in this session.
    pub fn request(&self, kind: Kind, body: &[u8], timeout: Duration) -> Result<Vec<u8>> {
        debug_assert_eq!(body.len(), row(kind).request_bytes);
        if !self.of.is_current() {
            return Err(Error::Forked);
        }
        if self.is_closed() {
            return Err(Error::Closed);
        }
        self.control.request(kind, self.handle, body, timeout)
    }

    /// Whether it said goodbye.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Notes a function that the goodbye will end.
    pub fn adopt(&self, function: &Arc<Active>) {
        match &mut *self.functions.lock().unwrap_or_else(|e| e.into_inner()) {
            Some(all) => {
                all.retain(|f| f.strong_count() > 0);
                all.push(Arc::downgrade(function));
            }
            // Activated while it was being closed: the goodbye gives it back. If it
            // cannot be let go of, it was not used yet either.
            None => drop(function.calls.cut_off()),
        }
    }

    /// Lets go of the channels of all functions and of all buffers: the goodbye gives
    /// their memory back.
    fn cut_off(&self) -> Result<()> {
        let buffers = self.buffers.cut_off(Over::Closed);
        let all = self.functions.lock().unwrap_or_else(|e| e.into_inner()).take();
        let all = all.into_iter().flatten();
        // All of them, also where one fails.
        all.filter_map(|f| f.upgrade()).map(|f| f.calls.cut_off()).fold(buffers, Result::and)
    }

    fn goodbye(&self, timeout: Duration) -> Result<()> {
        let done = self.request(Kind::Goodbye, EMPTY.as_bytes(), timeout);
        self.closed.store(true, Ordering::Release);
        drop(self.heartbeat.lock().unwrap_or_else(|e| e.into_inner()).take());
        done.map(|_| ())
    }
}

fn function_name(name: &str) -> Result<Name> {
    vfun_wire::names::encode(name).map_err(|why| Error::BadName {
        what: "function's",
        name: name.to_owned(),
        why,
    })
}

const EMPTY: Empty = Empty { reserved: U64::ZERO };

impl Drop for SessionInner {
    fn drop(&mut self) {
        if !self.of.is_current() {
            // Its thread is the parent's, and so is what it stands in with it.
            let beat = self.heartbeat.get_mut().unwrap_or_else(|e| e.into_inner());
            std::mem::forget(beat.take());
            return;
        }
        if !self.is_closed() {
            // Best effort: the host finds out by itself, only later.
            let _ = self.goodbye(DROP_TIMEOUT);
        }
    }
}

impl Session {
    pub(crate) fn from_inner(inner: Arc<SessionInner>) -> Self {
        Session { inner }
    }

    /// What the host said of this session.
    pub fn info(&self) -> &SessionInfo {
        &self.inner.info
    }

    /// One line that names the path in use, such as `host (/var/lib/virtfun/host.sock):
    /// client host, 64 MiB shared, woken by a doorbell, protocol 2`.
    pub fn describe(&self) -> String {
        let i = &self.inner.info;
        let shared = match i.window_bytes {
            0 => "no shared memory (calls are copied)".to_string(),
            n => format!("{} MiB shared", n >> 20),
        };
        let rings = self.inner.window.as_ref().is_some_and(|w| w.bells.ring);
        let wake = match (i.transport, i.doorbell, rings) {
            (TransportKind::Tcp, ..) => "woken by the socket",
            (_, true, _) => "woken by a doorbell",
            (_, false, true) => "rings, is not rung (sleepers look by the clock)",
            (_, false, false) => "no doorbell (sleepers look by the clock)",
        };
        format!(
            "{} ({}): client {}, {shared}, {wake}, protocol {}",
            i.transport, self.inner.place, i.client, i.version
        )
    }

    /// The functions on offer to this client.
    pub fn list(&self) -> Result<Vec<FunctionInfo>> {
        let ask = |start| List { start, reserved: U32::ZERO };
        let all = self.pages(Kind::List, LIST_ENTRIES, ask)?;
        all.iter().map(control::function_info).collect()
    }

    /// What a function's own error codes mean, from its manifest, in rising order. Codes of
    /// [`Error::Driver`] that mean the same for all functions are not included.
    pub fn function_codes(&self, name: &str) -> Result<Vec<(i32, String)>> {
        let function = function_name(name)?;
        let ask = |start| Codes { function, start, reserved: U32::ZERO };
        let all = self.pages(Kind::Codes, CODE_ENTRIES, ask)?;
        all.iter().map(control::code).collect()
    }

    /// Asks for a list until all of it is there.
    fn pages<A, E>(&self, kind: Kind, most: usize, ask: impl Fn(U32) -> A) -> Result<Vec<E>>
    where
        A: IntoBytes + Immutable,
        E: FromBytes + Immutable + Unaligned + Copy,
    {
        let mut all = Vec::new();
        loop {
            let body = self.inner.request(
                kind,
                ask(U32::new(all.len() as u32)).as_bytes(),
                control::TIMEOUT,
            )?;
            let bad = || {
                let bytes = body.len();
                Error::HostNonsense(format!(
                    "the answer to '{kind}' has an impossible length ({bytes})"
                ))
            };
            let (head, rest) = ListAck::read_from_prefix(&body).map_err(|_| bad())?;
            let (count, total) = (head.count.get(), head.total.get());
            let entries = <[E]>::ref_from_bytes(rest).map_err(|_| bad())?;
            if entries.len() != count as usize || entries.len() > most || total > LIST_MAX {
                return Err(bad());
            }
            all.extend_from_slice(entries);
            if count == 0 || all.len() as u32 >= total {
                return Ok(all);
            }
        }
    }

    /// What a function takes and gives: its signature, if it has one.
    pub fn describe_function(&self, name: &str) -> Result<Description> {
        if !self.inner.info.features.has(Features::SIGNATURES) {
            return Err(Error::Unsupported("this host is too old to tell signatures"));
        }
        let ask = Describe { function: function_name(name)? };
        let body = self.inner.request(Kind::Describe, ask.as_bytes(), control::TIMEOUT)?;
        control::description(&body, name)
    }

    /// Asks for a function. Nothing runs yet: see [`Grant::activate`].
    pub fn negotiate(&self, request: &FunctionRequest) -> Result<Grant> {
        let ask = request.encode(self.inner.policy.mode())?;
        match request.kind {
            ChannelKind::Queues => self.has_queues()?,
            ChannelKind::Packets => self.has_ports()?,
            ChannelKind::Calls | ChannelKind::Floor => {}
        }
        let body = self.inner.request(Kind::Negotiate, ask.as_bytes(), control::TIMEOUT)?;
        let info = control::grant_info(&body, &request.name, request.kind)?;
        Ok(Grant::new(self.inner.clone(), info))
    }

    /// Whether channels of queues can be asked for.
    fn has_queues(&self) -> Result<()> {
        match (&self.inner.window, self.inner.info.features.has(Features::QUEUES)) {
            (None, _) => Err(Error::Unsupported(NO_WINDOW)),
            (Some(_), false) => Err(Error::Unsupported(
                "the host, or this machine's kernel module, is too old to have queues: update it",
            )),
            (Some(_), true) => Ok(()),
        }
    }

    /// Whether ports can be asked for.
    pub(crate) fn has_ports(&self) -> Result<()> {
        let features = self.inner.info.features;
        match (features.has(Features::PACKETS), features.has(Features::NET_ADMIN)) {
            (false, _) => Err(Error::Unsupported(
                "only a program in a VM has ports, and only through the kernel module: connect by the endpoint 'module', and use a module and a host of this version",
            )),
            (true, false) => Err(Error::Unsupported(
                "only a program with CAP_NET_ADMIN in the VM's own network namespace may have a port: run it as root",
            )),
            (true, true) => Ok(()),
        }
    }

    /// Negotiates a function with the defaults and activates it.
    pub fn function(&self, name: &str) -> Result<Function> {
        self.negotiate(&FunctionRequest::new(name))?.activate()
    }

    pub(crate) fn inner(&self) -> &Arc<SessionInner> {
        &self.inner
    }

    /// Whether nothing that was opened in it lives any more.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Asks the manager whether it is there, and says how long it took to answer.
    pub fn ping(&self) -> Result<Duration> {
        let start = Instant::now();
        self.inner.request(Kind::KeepAlive, EMPTY.as_bytes(), control::TIMEOUT)?;
        Ok(start.elapsed())
    }

    /// Ends the session and gives back everything that it was granted. Calls without an
    /// answer end with [`Error::Released`]. Borrowed cells end with it too, when they are
    /// submitted.
    pub fn close(self) -> Result<()> {
        if !self.inner.of.is_current() {
            return Err(Error::Forked);
        }
        self.inner.cut_off()?;
        self.inner.goodbye(control::TIMEOUT)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.describe())
    }
}
