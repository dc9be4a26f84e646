//! The admin interface: one JSON request a line on a UNIX socket, one JSON
//! answer a line. `vfun` speaks it; so can any script.
//!
//! - [`Ask`], [`Reply`]: questions and answers, with the rows that they carry.
//! - [`counters`], [`policy`], [`tokens`], [`audit`]: rows of one theme each.
//! - [`transport`]: how windows get to their other end. [`vm`]: what VMs are called.
//! - [`window`]: their further windows. [`rdma`]: their NICs for RDMA. [`ports`]: their ports.
//!   [`links`]: direct links between these.
//! - [`line`]: one question on any admin socket.
//! - [`Client`]: asks. Every program of ours that talks to the manager uses it.

#![forbid(unsafe_code)]

pub mod audit;
mod client;
pub mod counters;
pub mod drain;
pub mod history;
pub mod line;
pub mod links;
pub mod policy;
pub mod ports;
pub mod rdma;
pub mod switch;
pub mod tokens;
pub mod transport;
pub mod vm;
pub mod window;

pub use client::{AskError, Client, ROOT};
pub use drain::DrainOf;
pub use transport::Transport;
pub use vm::{OfVm, VmName};
pub use window::{WindowPeer, WindowRow};

use audit::{Query, Row};
use counters::Counters;
use history::HistoryRow;
use links::{FlowsAsk, FlowsView, LinkRow, LinkSettings, LinksOfClient, VmmAt};
use policy::View;
use ports::{PortLines, PortRow, PortsOfClient};
use rdma::{RdmaRow, RdmaView};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use tokens::{Fresh, Kept};

/// Longest request line, bytes: a manifest with room.
pub const LINE_BYTES: usize = 256 << 10;

/// What a person asks.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// What the manager is and has.
    Status,
    /// Functions on offer.
    Functions,
    /// Clients declared.
    Clients,
    /// Grants, with live counters.
    Grants,
    /// Services that run, with their sandboxes.
    Services,
    /// Which layers of the sandbox services get.
    Sandbox,
    /// What became of grants.
    History {
        /// At most this many, newest first.
        limit: u32,
    },
    /// Declares a function by its manifest's text; replaces one of the same name.
    AddFunction {
        /// The manifest's text, TOML.
        manifest: String,
        /// Where it came from, for errors; libraries are looked for beside it too.
        file: PathBuf,
    },
    /// Takes a function away; those who have it keep it until they release it.
    RemoveFunction {
        name: String,
        /// The client that submitted it, if one did.
        #[serde(default)]
        client: Option<String>,
    },
    /// Declares a client by its manifest's text.
    AddClient {
        /// The manifest's text, TOML.
        manifest: String,
        /// Where it came from, for errors.
        file: PathBuf,
    },
    /// Takes a client away, with its grants and its window.
    RemoveClient { name: String },
    /// Gives a client one more VM. A client of one VM that its manifest does not name
    /// keeps that, by the client's name.
    AddVm {
        client: String,
        /// The VM's name.
        vm: String,
        /// Size of its window, as a manifest says it; that of the client if none.
        window: Option<String>,
        /// Its transport's name; that of the client if none.
        transport: Option<String>,
    },
    /// Takes a VM away, with its grants and its window.
    RemoveVm {
        client: String,
        /// The VM's name.
        vm: String,
    },
    /// Ports of VMs, and how they are.
    Ports,
    /// Gives a VM a port, or changes one.
    AddPort {
        client: String,
        /// The VM's name.
        vm: String,
        /// The port's name.
        name: String,
        /// What its lines in the manifest say.
        port: PortLines,
    },
    /// Takes a port away from a VM.
    RemovePort {
        client: String,
        /// The VM's name.
        vm: String,
        /// The port's name.
        name: String,
    },
    /// Direct links between ports, and why there are no others.
    Links,
    /// Turns the direct link from one port to another off, or lets it be again.
    LinkOff {
        /// The port that sends, by its name on the host.
        from: String,
        /// The port that receives.
        to: String,
        off: bool,
    },
    /// Rules past which frames go over direct links.
    LinkFlows(FlowsAsk),
    /// Further windows of VMs that are declared.
    Windows,
    /// Declares a further window by its manifest's text.
    AddWindow {
        /// The manifest's text, TOML.
        manifest: String,
        /// Where it came from, for errors.
        file: PathBuf,
    },
    /// Takes a further window away, with the buffers in it.
    RemoveWindow { name: String },
    /// Takes a grant away.
    Revoke { grant: String },
    /// The policy in force.
    Policy {
        /// Of this client only.
        client: Option<String>,
    },
    /// Puts a policy in the place of the one there is.
    SetPolicy {
        /// The policy's text, TOML.
        text: String,
        /// Where it came from, for errors.
        file: PathBuf,
    },
    /// Reads the policy file again.
    ReloadPolicy,
    /// Makes a token for apps of a client.
    AddToken {
        client: String,
        /// Apps it is for: a name in which each `*` stands for any text.
        app: String,
        /// How long it is valid, ms; for ever if it says nothing.
        lives_ms: Option<i64>,
    },
    /// Makes a token in the place of another one, which ends after a while.
    RotateToken {
        /// The token's number.
        id: u64,
        /// How long it is valid still, ms.
        grace_ms: i64,
    },
    /// Takes a token away, with the sessions that it opened.
    RevokeToken { id: u64 },
    /// Lists tokens.
    Tokens {
        /// Of this client only.
        client: Option<String>,
    },
    /// Who holds which VF, and why.
    Leases,
    /// Leases VFs in another way from now on; what is not named stays.
    SetLeases {
        /// The policy's name.
        policy: Option<vfun_leases::Policy>,
        /// Between two decisions, ms.
        interval_ms: Option<u64>,
        /// How long a lease lasts at least, ms.
        min_hold_ms: Option<u64>,
    },
    /// What people did here, and who was refused what.
    Audit(Query),
    /// Grant nothing new.
    Drain,
    /// Grant nothing new of this, or do again.
    DrainOf {
        /// What is drained.
        of: DrainOf,
        /// Whether it is drained from now on.
        on: bool,
    },
    /// What is left of this.
    Draining {
        /// What is drained.
        of: DrainOf,
    },
    /// End the manager and its services.
    Stop,
}

/// What the manager says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Reply {
    /// To [`Ask::Status`].
    Status(Status),
    /// To [`Ask::Functions`].
    Functions {
        /// Functions, sorted by name.
        functions: Vec<FunctionRow>,
    },
    /// To [`Ask::Clients`].
    Clients {
        /// By id.
        clients: Vec<ClientRow>,
    },
    /// To [`Ask::Ports`].
    Ports {
        /// By client, VM and number.
        ports: Vec<PortRow>,
    },
    /// To [`Ask::Links`].
    Links {
        /// By the sending port's name on the host.
        links: Vec<LinkRow>,
    },
    /// To [`FlowsAsk::Sums`].
    LinkFlows(FlowsView),
    /// To [`FlowsAsk::Hold`].
    LinksHeld {
        /// Links of the bridge whose frames do not all go through the switch yet.
        direct: usize,
    },
    /// To [`Ask::Windows`].
    Windows {
        /// Windows, sorted by name.
        windows: Vec<WindowRow>,
    },
    /// To [`Ask::Grants`].
    Grants {
        /// By handle.
        grants: Vec<GrantRow>,
    },
    /// To [`Ask::Draining`].
    Draining(Progress),
    /// To [`Ask::Services`].
    Services {
        /// By number.
        services: Vec<ServiceRow>,
    },
    /// To [`Ask::Sandbox`].
    Sandbox(SandboxView),
    /// To [`Ask::History`].
    History {
        /// Newest first.
        rows: Vec<HistoryRow>,
    },
    /// To [`Ask::Policy`].
    Policy(View),
    /// A token was made.
    TokenMade(Fresh),
    /// To [`Ask::Tokens`].
    Tokens {
        /// Oldest first.
        tokens: Vec<Kept>,
    },
    /// To [`Ask::Leases`].
    Leases(LeasesView),
    /// To [`Ask::Audit`].
    Audit {
        /// Newest first, but for [`Query::after`].
        rows: Vec<Row>,
    },
    /// It is done.
    Done {
        /// What was done, for people.
        sentence: String,
    },
    /// A client was added.
    ClientAdded(ClientRow),
    /// A further window was added.
    WindowAdded(WindowRow),
    /// Not done.
    Error {
        /// Why, and what to do.
        sentence: String,
    },
}

/// The sandbox of this manager's services.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct SandboxView {
    /// Whether a service has it, as the kernel told; if not, none has run yet
    /// and this is what the manager expects of the host.
    pub seen: bool,
    /// The layers that hold, and those that are missing, with the reason.
    pub standing: vfun_jail::Standing,
}

/// How VFs are leased, and to whom.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeasesView {
    /// The settings in force.
    pub settings: vfun_leases::Settings,
    /// Devices for which some grant competes.
    pub devices: Vec<DeviceRow>,
}

/// A device whose VFs are leased.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Its name: that of its function, unless the manifests of several name it.
    pub function: String,
    /// What it is: a simulated one says so.
    pub location: String,
    /// How many VFs it has.
    pub vfs: u16,
    /// Of these, those that failed a client and are not lent to it for a while.
    #[serde(default)]
    pub kept_off: Vec<KeptOff>,
    /// What was wrong with one of them last, if anything was.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Grants that compete for them, by handle.
    pub grants: Vec<LeaseRow>,
    /// What would be decided now (nothing is done by asking).
    pub next: Vec<vfun_leases::Move>,
}

/// A VF that failed a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptOff {
    /// Number of the VF on its device, from 0.
    pub vf: u16,
    /// Whom: nobody else is kept off it.
    pub client: String,
    /// How often in a row.
    pub times: u32,
    /// When it is lent to this client again, ms from now.
    pub ms: u64,
}

/// A grant that competes for a VF.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeaseRow {
    /// Its handle, as `vfun ps` shows it.
    pub grant: String,
    /// The same as a number, as in [`DeviceRow::next`].
    pub number: u64,
    pub client: String,
    /// The VM that its app is in, if it is in one.
    #[serde(default)]
    pub vm: Option<String>,
    pub app: String,
    /// Where its calls run now.
    pub location: String,
    /// The VF that was decided to be its.
    pub vf: Option<u16>,
    /// The step of a switch under way, if there is one.
    pub moving: Option<switch::Phase>,
    /// How often it has switched.
    pub switches: u64,
    /// Since when it stands so, ms ago.
    pub since_ms: u64,
    /// Completed calls a second, smoothed.
    pub per_s: f64,
    /// What it was weighed by.
    pub score: f64,
    /// (software − hardware) / software, where both were measured.
    pub boost: Option<f64>,
    /// Why it has a VF or has none.
    pub reason: vfun_leases::Reason,
    /// The same in words.
    pub why: String,
}

/// How far a drain is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// Whether nothing new is granted to anybody.
    pub draining: bool,
    /// Clients that are granted nothing new.
    pub clients: BTreeSet<String>,
    /// Functions of which nothing new is granted.
    pub functions: BTreeSet<String>,
    /// Grants that are left of what was asked about.
    pub grants: usize,
    /// Calls in flight in these.
    pub calls: u64,
}

/// The manager at a glance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    /// Number of its process, on the host.
    pub pid: u32,
    /// Root of the tree.
    pub root: PathBuf,
    /// The generation of this run: goes up at each start.
    pub generation: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Whether it grants nothing new.
    pub draining: bool,
    /// Windows that are laid out now.
    pub windows: usize,
    /// Sessions of apps that are open now.
    pub sessions: usize,
    pub grants: usize,
    /// Service processes.
    pub services: usize,
    /// Bytes of windows given out.
    pub window_bytes_used: u64,
    /// Buffers that both sides write.
    #[serde(default)]
    pub buffers: usize,
    /// Bytes of these; they are among the bytes given out.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// Its resident memory, bytes.
    pub resident_bytes: u64,
    /// Where the gateway listens, if there is one.
    pub tcp: Option<String>,
    /// Where Prometheus finds the metrics, if anywhere.
    #[serde(default)]
    pub metrics: Option<String>,
    /// Whether it lends network VFs (`--nics`).
    #[serde(default)]
    pub nics: bool,
    /// Whether it watches switches for direct links (`--links`).
    #[serde(default)]
    pub links: bool,
    /// How it makes these.
    #[serde(default)]
    pub link_settings: LinkSettings,
    /// Why nothing new is granted, if policy or tokens could not be read.
    #[serde(default)]
    pub policy_unreadable: Option<String>,
    /// Program that serves functions.
    pub service_program: PathBuf,
    /// What is wrong, a sentence each: the manager goes on all the same.
    #[serde(default)]
    pub troubles: Vec<String>,
    /// How often clients were held up, since the manager's start.
    #[serde(default)]
    pub held_up: HeldUp,
}

/// How often clients were held up so that others were not.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct HeldUp {
    /// Times that requests of a window that is there now were left to wait.
    pub requests: u64,
    /// Times that its bell was not listened to.
    pub bells: u64,
    /// Windows and connections that were refused because of their rate.
    pub connections: u64,
    /// Starts of services that were put off or refused because of their client's rate.
    pub starts: u64,
    /// Times that a grant's state was left for later, as its client has so many.
    pub records: u64,
    /// Lines of the log that were left out.
    pub lines: u64,
    /// Functions of clients that crashed too often and are not started now.
    pub open_breakers: u64,
}

/// A function, for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FunctionRow {
    /// The function's number (functionID).
    pub id: u32,
    pub name: String,
    /// The client that submitted it, and alone may use it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    pub version: String,
    /// What it does, in one line.
    pub summary: String,
    /// Where it can run.
    pub locations: Vec<String>,
    /// Its library, or that it is built in.
    pub driver: String,
    /// The kind of services that serve it, as manifests have it.
    #[serde(default)]
    pub kind: String,
    /// Deadline of a call, ms.
    pub deadline_ms: u32,
    /// Most bytes of arguments of a call.
    pub max_args: u32,
    /// Most bytes of results of a call.
    pub max_result: u32,
    /// What error codes of its driver mean, those that its manifest tells of.
    #[serde(default)]
    pub codes: Vec<CodeRow>,
    /// Its signature, if it has one.
    #[serde(default)]
    pub signature: Option<String>,
    /// Fingerprint of its signature, 16 hexadecimal digits, if it has one.
    #[serde(default)]
    pub fingerprint: Option<String>,
}

/// An error code of a function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CodeRow {
    /// The function's own error code, or -3.
    pub code: i32,
    pub means: String,
}

/// A client, for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientRow {
    /// The client's number (clientID).
    pub id: u32,
    pub name: String,
    /// `vm` or `host`.
    pub kind: String,
    /// The VM that this row shows the wiring of, the next five fields; see
    /// [`ClientRow::of_vm`]. None of a client of kind `host`.
    #[serde(default)]
    pub vm: Option<String>,
    /// Size of its window.
    pub window_bytes: u64,
    /// How its window gets to its VM or program.
    pub transport: Transport,
    /// The window's file, where it is one.
    pub window_file: Option<PathBuf>,
    /// Where the VM connects, if it does.
    pub socket: Option<PathBuf>,
    /// Whether a VM has connected there.
    pub connected: bool,
    /// All VMs of it: first the one that has its name, then by name.
    #[serde(default)]
    pub vms: Vec<VmRow>,
    /// Functions it may use.
    pub functions: Vec<String>,
    /// Most grants that it may hold at once.
    pub max_grants: u32,
    /// Whether TCP callers may act for it.
    pub tcp: bool,
    /// Whether they need prove nothing, unless all its apps must.
    pub tcp_open: bool,
    /// Whether it has a credential that its apps may show.
    pub credential: bool,
    /// Whether each of its apps must show a token (policy): its credential does not do then.
    pub tokens: bool,
    /// Tokens of it that are valid now.
    pub tokens_valid: usize,
    /// The NIC that its programs for RDMA see.
    #[serde(default)]
    pub rdma: RdmaView,
    /// Which direct links its VMs' ports may have.
    #[serde(default)]
    pub links: LinksOfClient,
    /// Addresses that its manifest gives its VMs, by the VM's name; that of programs on the
    /// host by the client's.
    #[serde(default)]
    pub addresses: BTreeMap<String, IpAddr>,
    /// Files that are the memory of its VMs, by the VM's name: its services may map all of it.
    #[serde(default)]
    pub shared_memory: BTreeMap<String, String>,
    /// How its VMs' QEMUs are reached, by the VM's name.
    #[serde(default)]
    pub vmms: BTreeMap<String, VmmAt>,
    /// Ports of its VMs.
    #[serde(default)]
    pub ports: PortsOfClient,
}

/// A VM of a client, and how it is wired, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmRow {
    pub vm: String,
    /// Size of its window.
    pub window_bytes: u64,
    /// How its window gets to it.
    pub transport: Transport,
    /// The window's file, where it is one.
    pub window_file: Option<PathBuf>,
    /// Where it connects, if it does.
    pub socket: Option<PathBuf>,
    /// Whether it has connected there.
    pub connected: bool,
}

impl ClientRow {
    /// The row with the wiring of one of its VMs.
    pub fn of_vm(&self, vm: &VmRow) -> ClientRow {
        let VmRow { vm, window_bytes, transport, window_file, socket, connected } = vm.clone();
        let vm = Some(vm);
        ClientRow { vm, window_bytes, transport, window_file, socket, connected, ..self.clone() }
    }

    /// The same for the VM that a person means: the one that is named; without a name
    /// the client's only one, or the one that has the client's name. None on the host.
    ///
    /// # Errors
    /// The names that there are, as a person writes them.
    pub fn meant(&self, vm: Option<&str>) -> Result<ClientRow, Vec<String>> {
        let found = match (vm, self.vms.as_slice()) {
            (None, []) => return Ok(self.clone()),
            (None, [one]) => Some(one),
            (None, all) => all.iter().find(|v| v.vm == self.name),
            (Some(name), all) => all.iter().find(|v| v.vm == name),
        };
        let all = self.vms.iter().map(|v| VmName::new(&self.name, &v.vm).to_string());
        found.map(|v| self.of_vm(v)).ok_or_else(|| all.collect())
    }

    /// What the VM is called whose wiring this row shows.
    pub fn vm_name(&self) -> Option<VmName> {
        self.vm.as_deref().map(|vm| VmName::new(&self.name, vm))
    }

    /// The client, and its VM if that has a name of its own, for people.
    pub fn shown(&self) -> String {
        vm::owner(&self.name, self.vm.as_deref())
    }
}

/// A grant, for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrantRow {
    /// The grant's handle, as people type it: `INDEX.GENERATION`.
    pub grant: String,
    pub client_id: u32,
    pub client: String,
    /// The VM that its app is in; none of a program on the host or over TCP.
    #[serde(default)]
    pub vm: Option<String>,
    pub app_id: u32,
    pub app: String,
    pub function: String,
    /// Who brought it: `host`, or `submitted` by its client.
    #[serde(default)]
    pub origin: String,
    /// Where it runs (functionLoc).
    pub location: String,
    /// Its state: `granted`, `active` and so on.
    pub state: String,
    /// Transport of its window.
    pub transport: String,
    /// How its service waits.
    #[serde(default)]
    pub wait: String,
    pub depth: u16,
    /// Data space per cell and side.
    pub cell_bytes: u32,
    /// Process ID of the service; none while it has none.
    pub pid: Option<u32>,
    /// Time since it was granted, ms.
    pub age_ms: u64,
    /// Starts of its service after the first.
    pub restarts: u32,
    /// Calls posted and not answered.
    #[serde(default)]
    pub in_flight: u64,
    /// Buffers that belong to it.
    #[serde(default)]
    pub buffers: u32,
    /// Bytes of these buffers.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// Buffers of its app's session that belong to no grant; each of the session's
    /// grants says the same.
    #[serde(default)]
    pub session_buffers: u32,
    /// Bytes of these buffers.
    #[serde(default)]
    pub session_buffer_bytes: u64,
    /// Live counters; the time of a call that lasts is in them.
    pub counters: Counters,
    /// What it has of its NIC for RDMA, if it is a program's way to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<RdmaRow>,
}

impl GrantRow {
    /// The client, and the VM if that has a name of its own, for people.
    pub fn owner(&self) -> String {
        vm::owner(&self.client, self.vm.as_deref())
    }
}

/// A service that runs, for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServiceRow {
    pub id: u32,
    /// The client that it serves.
    pub client: String,
    /// The function that it serves.
    pub function: String,
    /// Number of its process, on the host.
    pub pid: u32,
    /// Channels that it serves.
    pub channels: usize,
    /// The user of the host that it alone runs as, if it has one.
    pub user: Option<u32>,
    /// What it may use.
    pub limits: vfun_jail::Limits,
    /// Its sandbox, as the kernel tells it.
    pub sandbox: vfun_jail::Standing,
    /// How it computes, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
