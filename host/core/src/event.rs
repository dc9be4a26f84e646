//! What goes into the state machine and what comes out.

use super::grant::{AtSwitch, GrantState};
use super::ports::Port;
use core::net::IpAddr;
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
    pub window: WindowId,
    /// Index of the control cell that the request came in.
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
    /// Body of the message, copied out of the window and not checked.
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
        window: WindowId,
        client: u32,
        /// The VM that it is in; none of a program on the host or over TCP.
        vm: Option<String>,
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
    WindowDown { window: WindowId },
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
        index: u16,
    },
    /// A request.
    Request(ControlRequest),
    /// The heartbeat words of a window's session lines, looked at now.
    Heartbeats {
        window: WindowId,
        /// Session lines and what each holds.
        values: Vec<(u16, u64)>,
    },
    /// A service loaded its driver.
    ServiceReady { service: ServiceId },
    /// A service can be told of buffers: it says what it has taken and let go of.
    TakesBuffers { service: ServiceId },
    /// A service has a buffer that it was told of.
    BufferHere {
        /// Which service says so.
        service: ServiceId,
        buffer: Handle,
    },
    /// A service no longer touches a buffer.
    BufferLeft {
        /// Which service says so.
        service: ServiceId,
        buffer: Handle,
    },
    /// A service could not be started or cannot serve.
    ServiceFailed {
        service: ServiceId,
        /// Why, as a sentence for people.
        reason: String,
    },
    /// The host has no process, descriptor or memory for a service now. That is
    /// no fault of its driver.
    ServiceDelayed {
        service: ServiceId,
        /// What there is none of.
        reason: String,
    },
    /// A service serves a channel.
    ChannelOpened {
        /// Which service says so.
        service: ServiceId,
        channel: Handle,
    },
    /// A channel's device is gone; its service has let go of it, and nothing of it is answered.
    ChannelLost {
        /// Which service says so.
        service: ServiceId,
        channel: Handle,
        /// What its driver said.
        reason: String,
    },
    /// A service is ready to serve a channel that another one serves still.
    ChannelStanding {
        /// Which service says so.
        service: ServiceId,
        channel: Handle,
    },
    /// A service cannot serve a channel.
    ChannelOpenFailed {
        /// Which service says so.
        service: ServiceId,
        channel: Handle,
        /// Why, as a sentence for people.
        reason: String,
    },
    /// A service no longer touches a channel.
    ChannelClosed {
        /// Which service says so.
        service: ServiceId,
        channel: Handle,
    },
    /// A switch is about to get the memory of a port's channel.
    SwitchTakes {
        /// The channel's grant.
        channel: Handle,
        /// Which switch, for which port.
        switch: AtSwitch,
    },
    /// A switch no longer touches the memory of a port's channel.
    SwitchLetGo {
        /// The channel's grant.
        channel: Handle,
    },
    /// An app broke the protocol.
    ChannelBroken {
        /// Which service says so.
        service: ServiceId,
        channel: Handle,
        /// How it broke, as a sentence for people.
        reason: String,
    },
    /// A call ran past its deadline; the service is about to exit.
    CallOverran {
        /// Which service says so.
        service: ServiceId,
        channel: Handle,
    },
    /// A service process ended.
    ServiceExited {
        service: ServiceId,
        /// How its process ended.
        exit: Exit,
    },
    /// The manifests changed.
    Catalog(super::Catalog),
    /// A manager goes on where another one was killed: these services live,
    /// and will say what they serve.
    Resume { alive: Vec<ServiceId> },
    /// What a service serves, said when asked.
    Serving {
        /// Which service says so.
        service: ServiceId,
        /// Handles of the channels that it has.
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
    ServiceAlive { service: ServiceId },
    /// A person takes a grant away.
    Revoke { grant: Handle },
    /// Grant nothing new.
    Drain,
    /// Grant nothing new to some, or grant to them again.
    DrainOf {
        /// Whom nothing new is granted.
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
        /// The control cell that the request came in.
        to: ReplyTo,
        /// Body of the ack, or the nack.
        result: Result<Vec<u8>, Nack>,
    },
    /// Answer a request with a channel's counters.
    AnswerStats {
        /// The control cell that the request came in.
        to: ReplyTo,
        /// The channel's window and place, if it is active.
        channel: Option<(WindowId, ChannelPlace)>,
        /// Starts after the first.
        restarts: u32,
        service: Option<ServiceId>,
        /// Age of the grant, ms.
        age_ms: u64,
    },
    /// Start a service process.
    StartService {
        service: ServiceId,
        client: String,
        function: String,
        version: u32,
        /// What is loaded, and with which settings.
        driver: Driver,
        /// Settings for the driver.
        settings: std::collections::BTreeMap<String, String>,
        /// Lengths of arguments that its signature allows, if it has one.
        args: Option<vfun_supervise::Lengths>,
    },
    /// Tell a service to exit when its calls are done.
    StopService { service: ServiceId },
    /// End a service now.
    KillService { service: ServiceId },
    /// Set a channel's pages to zero: nobody uses them now.
    Zero { window: WindowId, place: ChannelPlace },
    /// Set a buffer's pages to zero: nobody uses them now.
    ZeroBuffer {
        window: WindowId,
        /// Where the memory lies in the window.
        range: Range,
    },
    /// Give a service a buffer of an app whose channel it serves.
    BufferCame {
        service: ServiceId,
        buffer: Handle,
        /// Session of the app that has the buffer.
        session: Handle,
        /// Control window of that app.
        window: WindowId,
        /// Where the memory lies in the window.
        range: Range,
        /// It is a table of pages of the VM's memory, which the service is to get, too.
        pages: bool,
    },
    /// Take a buffer from a service.
    BufferGone { service: ServiceId, buffer: Handle },
    /// Let a service serve a channel.
    OpenChannel {
        service: ServiceId,
        channel: Handle,
        window: WindowId,
        /// Its place and shape.
        place: ChannelPlace,
        /// Name of the app that calls.
        app: String,
        /// The VM that it is in, by its name; `None`: it runs on the host.
        vm: Option<String>,
        /// The address of that VM, or of programs on the host, if a manifest gives it one.
        address: Option<IpAddr>,
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
        /// The port whose way into the VM it is.
        port: Option<Port>,
    },
    /// Tell a service how many calls a second a channel takes from now on.
    SetRate {
        service: ServiceId,
        channel: Handle,
        /// Calls a second; 0 for any number.
        calls_per_s: u32,
    },
    /// Ask a service for a sign of life.
    AskLife { service: ServiceId },
    /// Tell a service to look at a channel: calls wait there that it does not begin.
    Look { service: ServiceId, channel: Handle },
    /// Tell a service to stop serving a channel.
    CloseChannel { service: ServiceId, channel: Handle },
    /// Tell a service to pass a channel on to the one that stands by for it.
    HandOver { service: ServiceId, channel: Handle },
    /// Tell a service that stands by that it is its turn.
    TakeUp {
        service: ServiceId,
        channel: Handle,
        /// What a call that was left half done is answered with.
        status: Status,
    },
    /// The service that computed in this channel is dead: answer the call it
    /// was computing, if any, with this status; leave the others.
    FailCurrent {
        window: WindowId,
        place: ChannelPlace,
        /// Status that the call is answered with.
        status: Status,
    },
    /// No service serves this channel again: write why into its header and ring the app.
    /// The app ends each call that has no answer with that reason (R-END-3).
    BreakChannel {
        window: WindowId,
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
        /// Number of the client, as on the wire.
        client: u32,
        /// Who should read it.
        level: Level,
        /// What the line says, without time and weight.
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
    pub grant: Handle,
    pub client_id: u32,
    pub client: String,
    /// The VM that its app is in; none of a program on the host or over TCP.
    pub vm: Option<String>,
    pub app_id: u32,
    pub app: String,
    pub function_id: u32,
    pub function: String,
    /// Where the function runs.
    pub location: Location,
    /// What it is now.
    pub state: GrantState,
    /// Why it ended, if it did.
    pub why: Option<String>,
}
