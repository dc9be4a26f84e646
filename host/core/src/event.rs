//! What goes into the state machine and what comes out.

use super::grant::GrantState;
use serde::{Deserialize, Serialize};
use vfun_admin::DrainOf;
use vfun_supervise::Driver;
use vfun_wire::message::Location;
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::Range;
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, Nack, Status};

/// A window, as the rim numbers them. Numbers are never used again.
pub type WindowId = u32;
/// A service, as the core numbers them. Numbers are never used again.
pub type ServiceId = u32;

/// Where to put an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(WindowId, usize, u32)", try_from = "(WindowId, usize, u32)")]
pub struct ReplyTo {
    /// Which window.
    pub window: WindowId,
    /// Which control cell.
    pub cell: usize,
    /// The request's sequence number.
    pub seq: u32,
}

/// A control request, copied out of the window once.
#[derive(Clone, Debug)]
pub struct ControlRequest {
    /// Where the answer goes.
    pub to: ReplyTo,
    /// Message number as it stood there.
    pub kind: u16,
    /// Session as it stood there.
    pub session: u64,
    /// The body.
    pub body: Vec<u8>,
}

/// How a service process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Its driver made this system call, which is not on its list.
    Forbidden(u32),
    /// The kernel ended it because it needed more memory than it may use.
    Starved,
    /// It ended while it was nobody's child, so that nobody was told how.
    Unknown,
}

/// Something happened.
#[derive(Clone, Debug)]
// One is made, handled and gone: its size on the stack costs nothing.
#[allow(clippy::large_enum_variant)]
pub enum Event {
    /// A window was laid out.
    WindowUp {
        /// Its number.
        window: WindowId,
        /// Its client.
        client: u32,
        /// The VM that it is in; none of a program on the host or over TCP.
        vm: Option<String>,
        /// Its size.
        bytes: u64,
        /// Whether it has doorbells.
        doorbell: bool,
        /// Its app's death is seen by the rim (a socket), so no heartbeats are asked for.
        death_seen: bool,
        /// It was given to a caller over the network that had to show who it is:
        /// so must each app in it.
        proven: bool,
    },
    /// A window is gone, with everybody in it.
    WindowDown {
        /// Its number.
        window: WindowId,
    },
    /// Memory was added to a VM's control window. Number 0 is the control window itself:
    /// then only what is known of its pages changes.
    MemoryUp {
        /// The control window.
        window: WindowId,
        /// The memory's number in ranges.
        index: u16,
        /// Its size, what lies before its heap included.
        bytes: u64,
        /// Bytes of a page of the file behind it: 4096, or 2 MiB of a hugetlbfs. 4096 too
        /// where it begins at an offset of the file that is no multiple of its pages.
        page: u64,
    },
    /// Memory was taken from a VM's control window: what lies there ends.
    MemoryDown {
        /// The control window.
        window: WindowId,
        /// The memory's number in ranges.
        index: u16,
    },
    /// A further window was named in a VM's control window. A data window is memory of
    /// that window once the guest says that it is there.
    WindowNamed {
        /// The control window.
        window: WindowId,
        /// What was named.
        named: super::further::Further,
    },
    /// It is named no more: what lies there ends.
    WindowUnnamed {
        /// The control window.
        window: WindowId,
        /// Its number.
        index: u16,
    },
    /// A request.
    Request(ControlRequest),
    /// The heartbeat words of a window's session lines, looked at now.
    Heartbeats {
        /// The window.
        window: WindowId,
        /// (line, value).
        values: Vec<(u16, u64)>,
    },
    /// A service loaded its driver.
    ServiceReady {
        /// Which.
        service: ServiceId,
    },
    /// A service can be told of buffers: it says what it has taken and let go of.
    TakesBuffers {
        /// Which.
        service: ServiceId,
    },
    /// A service has a buffer that it was told of.
    BufferHere {
        /// Which service says so.
        service: ServiceId,
        /// Which buffer.
        buffer: Handle,
    },
    /// A service no longer touches a buffer.
    BufferLeft {
        /// Which service says so.
        service: ServiceId,
        /// Which buffer.
        buffer: Handle,
    },
    /// A service could not be started or cannot serve.
    ServiceFailed {
        /// Which.
        service: ServiceId,
        /// Why.
        reason: String,
    },
    /// The host has no process, descriptor or memory for a service now. That is
    /// no fault of its driver.
    ServiceDelayed {
        /// Which.
        service: ServiceId,
        /// What there is none of.
        reason: String,
    },
    /// A service serves a channel.
    ChannelOpened {
        /// Which service says so.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
    },
    /// A channel's device is gone; its service has let go of it, and nothing of it is answered.
    ChannelLost {
        /// Which service says so.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
        /// What its driver said.
        reason: String,
    },
    /// A service is ready to serve a channel that another one serves still.
    ChannelStanding {
        /// Which service says so.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
    },
    /// A service cannot serve a channel.
    ChannelOpenFailed {
        /// Which service says so.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
        /// Why.
        reason: String,
    },
    /// A service no longer touches a channel.
    ChannelClosed {
        /// Which service says so.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
    },
    /// An app broke the protocol.
    ChannelBroken {
        /// Which service says so.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
        /// How.
        reason: String,
    },
    /// A call ran past its deadline; the service is about to exit.
    CallOverran {
        /// Which service says so.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
    },
    /// A service process ended.
    ServiceExited {
        /// Which.
        service: ServiceId,
        /// How.
        exit: Exit,
    },
    /// The manifests changed.
    Catalog(super::Catalog),
    /// A manager goes on where another one was killed: these services live,
    /// and will say what they serve.
    Resume {
        /// Which.
        alive: Vec<ServiceId>,
    },
    /// What a service serves, said when asked.
    Serving {
        /// Which service says so.
        service: ServiceId,
        /// Its channels.
        channels: Vec<Handle>,
    },
    /// What the channels of leased grants counted so far.
    Usage {
        /// Which, and what.
        values: Vec<(Handle, super::leases::Usage)>,
    },
    /// How far each channel is that [`super::Core::watched`] names.
    Progress {
        /// Which, and what was seen.
        values: Vec<(Handle, super::watch::Progress)>,
    },
    /// A service gave the sign of life that it was asked for.
    ServiceAlive {
        /// Which.
        service: ServiceId,
    },
    /// A person takes a grant away.
    Revoke {
        /// Which.
        grant: Handle,
    },
    /// Grant nothing new.
    Drain,
    /// Grant nothing new to some, or grant to them again.
    DrainOf {
        /// To whom.
        of: DrainOf,
        /// Whether nothing new is granted from now on.
        on: bool,
    },
    /// Time passed.
    Tick,
}

/// Something is to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Answer a request.
    Answer {
        /// Where.
        to: ReplyTo,
        /// Body of the ack, or the nack.
        result: Result<Vec<u8>, Nack>,
    },
    /// Answer a request with a channel's counters.
    AnswerStats {
        /// Where.
        to: ReplyTo,
        /// The channel's window and place, if it is active.
        channel: Option<(WindowId, ChannelPlace)>,
        /// Starts after the first.
        restarts: u32,
        /// The service.
        service: Option<ServiceId>,
        /// Age of the grant, ms.
        age_ms: u64,
    },
    /// Start a service process.
    StartService {
        /// Its number.
        service: ServiceId,
        /// Client's name.
        client: String,
        /// Function's name.
        function: String,
        /// Function's version.
        version: u32,
        /// Driver and settings.
        driver: Driver,
        /// Settings for the driver.
        settings: std::collections::BTreeMap<String, String>,
        /// Lengths of arguments that its signature allows, if it has one.
        args: Option<vfun_supervise::Lengths>,
    },
    /// Tell a service to exit when its calls are done.
    StopService {
        /// Which.
        service: ServiceId,
    },
    /// End a service now.
    KillService {
        /// Which.
        service: ServiceId,
    },
    /// Set a channel's pages to zero: nobody uses them now.
    Zero {
        /// The window.
        window: WindowId,
        /// The channel.
        place: ChannelPlace,
    },
    /// Set a buffer's pages to zero: nobody uses them now.
    ZeroBuffer {
        /// The window.
        window: WindowId,
        /// Where in it.
        range: Range,
    },
    /// Give a service a buffer of an app whose channel it serves.
    BufferCame {
        /// Which service.
        service: ServiceId,
        /// The buffer's handle.
        buffer: Handle,
        /// The app's session.
        session: Handle,
        /// The app's window.
        window: WindowId,
        /// Where in it.
        range: Range,
    },
    /// Take a buffer from a service.
    BufferGone {
        /// Which service.
        service: ServiceId,
        /// The buffer's handle.
        buffer: Handle,
    },
    /// Let a service serve a channel.
    OpenChannel {
        /// Which service.
        service: ServiceId,
        /// The channel's handle.
        channel: Handle,
        /// Its window.
        window: WindowId,
        /// Its place and shape.
        place: ChannelPlace,
        /// Who calls.
        app: String,
        /// Its session.
        session: Handle,
        /// Deadline of each call, ms.
        deadline_ms: u32,
        /// Calls a second that it takes; 0 for any number.
        calls_per_s: u32,
        /// How the service waits.
        wait: vfun_wire::message::WaitMode,
        /// The VF that it uses, of a device whose VFs are leased.
        vf: Option<u16>,
        /// It only stands by: another service serves the channel still.
        standby: bool,
    },
    /// Tell a service how many calls a second a channel takes from now on.
    SetRate {
        /// Which service.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
        /// Calls a second; 0 for any number.
        calls_per_s: u32,
    },
    /// Ask a service for a sign of life.
    AskLife {
        /// Which.
        service: ServiceId,
    },
    /// Tell a service to look at a channel: calls wait there that it does not begin.
    Look {
        /// Which service.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
    },
    /// Tell a service to stop serving a channel.
    CloseChannel {
        /// Which service.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
    },
    /// Tell a service to pass a channel on to the one that stands by for it.
    HandOver {
        /// Which service.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
    },
    /// Tell a service that stands by that it is its turn.
    TakeUp {
        /// Which service.
        service: ServiceId,
        /// Which channel.
        channel: Handle,
        /// What a call that was left half done is answered with.
        status: Status,
    },
    /// The service that computed in this channel is dead: answer the call it
    /// was computing, if any, with this status; leave the others.
    FailCurrent {
        /// The window.
        window: WindowId,
        /// The channel.
        place: ChannelPlace,
        /// What to answer.
        status: Status,
    },
    /// No service serves this channel again: write why into its header and ring the app.
    /// The app ends each call that has no answer with that reason (R-END-3).
    BreakChannel {
        /// The window.
        window: WindowId,
        /// The channel.
        place: ChannelPlace,
        /// Not used: the reason alone tells the app how its calls ended.
        status: Status,
        /// What to write into the channel's header.
        reason: BreakReason,
    },
    /// Somebody was refused something: note it.
    Refused(Refusal),
    /// A grant changed its state: record it.
    Record(GrantRecord),
    /// Something worth a line in the log.
    Log(Level, String),
    /// The same, caused by a client: no more of them are written than it deserves.
    LogOf {
        /// clientID.
        client: u32,
        /// Who should read it.
        level: Level,
        /// The line.
        text: String,
    },
}

/// Who should read a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The course of things.
    Info,
    /// Somebody should look.
    Warn,
}

/// A refusal as it is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The client's name; empty if there is none.
    pub client: String,
    /// The VM that asked, if one did.
    pub vm: Option<String>,
    /// The app's name, as far as it has said one.
    pub app: String,
    /// The function asked for, if it is about one.
    pub function: String,
    /// What the app was told.
    pub nack: Nack,
}

/// A grant as it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantRecord {
    /// Its handle.
    pub grant: Handle,
    /// clientID.
    pub client_id: u32,
    /// The client's name.
    pub client: String,
    /// The VM that its app is in; none of a program on the host or over TCP.
    pub vm: Option<String>,
    /// AppID.
    pub app_id: u32,
    /// The app's name.
    pub app: String,
    /// functionID.
    pub function_id: u32,
    /// The function's name.
    pub function: String,
    /// functionLoc.
    pub location: Location,
    /// What it is now.
    pub state: GrantState,
    /// Why it ended, if it did.
    pub why: Option<String>,
}
