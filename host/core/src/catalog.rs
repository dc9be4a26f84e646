//! What is offered to whom: functions and clients, as the manifests declare them.

use crate::policy::{Key, Policy, key_of, matches};
use crate::ports::{self, Port, PortWay};
use crate::rdma::Rdma;
use crate::services::Owner;
use core::net::IpAddr;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use vfun_admin::links::VmmAt;
pub use vfun_admin::transport::ClientKind;
use vfun_admin::{Transport, VmName};
use vfun_jail::Device;
use vfun_signature::Signature;
use vfun_supervise::{Driver, Lengths};
use vfun_wire::kind::ChannelKind;
use vfun_wire::message::Location;
use vfun_wire::version::FunctionVersion;

/// A function on offer.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// functionID: kept for the name's life.
    pub id: u32,
    pub name: String,
    pub version: FunctionVersion,
    /// One line for people.
    pub summary: String,
    /// How it runs in software, if it does.
    pub software: Option<Driver>,
    /// How it runs on hardware, if it does.
    pub hardware: Option<Hardware>,
    /// Deadline of a call, ms; the most a caller may ask for.
    pub deadline_ms: u32,
    /// No caller may ask for less either: a call that is past its deadline ends the service of all
    /// apps of its client, which keeps what these have.
    pub fixed_deadline: bool,
    /// Longest arguments of a call, bytes; the signature's, where there is one.
    pub max_args: u32,
    /// Longest results of a call, bytes; the signature's, where there is one.
    pub max_result: u32,
    /// Settings for the driver.
    pub settings: BTreeMap<String, String>,
    /// Files and directories that its driver reads.
    pub reads: Vec<PathBuf>,
    /// Folders in which its driver writes: one for each client, whose name stands for
    /// `{client}`.
    pub writes: Vec<String>,
    /// Environment of its services; names are put in as in `writes`.
    pub environment: BTreeMap<String, String>,
    /// Whether its driver makes machine code, or loads libraries, while it serves.
    pub makes_code: bool,
    /// Devices that its driver opens, the one of its hardware if it has any.
    pub devices: Vec<Device>,
    /// What error codes of its driver mean, those that its manifest tells of.
    pub codes: BTreeMap<i32, String>,
    /// What its arguments and results are, if its manifest says so.
    pub signature: Option<Signature>,
}

impl Function {
    /// Its driver at a place, if it has one there.
    pub fn driver_at(&self, location: Location) -> Option<&Driver> {
        match location.is_hardware() {
            true => self.hardware.as_ref().map(|h| &h.driver),
            false => self.software.as_ref(),
        }
    }

    /// Whether it has channels of a kind: all its drivers serve them.
    pub fn serves(&self, kind: ChannelKind) -> bool {
        let drivers = self.software.iter().chain(self.hardware.iter().map(|h| &h.driver));
        drivers.map(vfun_kinds::of).all(|k| k.channels.contains(&kind))
    }

    /// The devices that its driver at a place opens.
    pub fn devices_at(&self, location: Location) -> &[Device] {
        self.driver_at(location).map_or(&[], |driver| self.devices_of(driver))
    }

    /// The devices that one of its drivers opens: if it has hardware, none of
    /// those in software.
    pub fn devices_of(&self, driver: &Driver) -> &[Device] {
        match &self.hardware {
            Some(h) if h.driver != *driver => &[],
            _ => &self.devices,
        }
    }

    /// What its grants and services are made by, as text: a service that was started
    /// by another one is outdated. What is only read by people is not in it, but its
    /// summary, which was in it before, as all else was: managers compare the texts of
    /// one another, so that no field of before leaves it or comes elsewhere.
    pub fn terms(&self) -> String {
        struct ComparedTerms<'a>(&'a Function);
        impl fmt::Debug for ComparedTerms<'_> {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Function {
                    id,
                    name,
                    version,
                    summary,
                    software,
                    hardware,
                    deadline_ms,
                    fixed_deadline,
                    max_args,
                    max_result,
                    settings,
                    reads,
                    writes,
                    environment,
                    makes_code,
                    devices,
                    codes: _,
                    signature,
                } = self.0;
                let mut text = out.debug_struct("Function");
                text.field("id", id)
                    .field("name", name)
                    .field("version", version)
                    .field("summary", summary)
                    .field("software", software)
                    .field("hardware", hardware)
                    .field("deadline_ms", deadline_ms)
                    .field("max_args", max_args)
                    .field("max_result", max_result)
                    .field("settings", settings)
                    .field("reads", reads)
                    .field("makes_code", makes_code)
                    .field("devices", devices)
                    .field("signature", signature);
                // Managers of before knew neither: a function without them is as it was.
                if !writes.is_empty() || !environment.is_empty() {
                    text.field("writes", writes).field("environment", environment);
                }
                if *fixed_deadline {
                    text.field("fixed_deadline", fixed_deadline);
                }
                text.finish()
            }
        }
        format!("{:?}", ComparedTerms(self))
    }

    /// Fingerprint of its signature; 0 if it has none.
    pub fn fingerprint(&self) -> u64 {
        self.signature.as_ref().map_or(0, Signature::fingerprint)
    }

    /// Lengths its arguments can have, if it has a signature.
    pub fn lengths(&self) -> Option<Lengths> {
        let args = &self.signature.as_ref()?.args;
        // Within a cell, as the signature's own limit is.
        let max = args.max_bytes().min(self.max_args.into()) as u32;
        Some(Lengths { min: args.min_bytes() as u32, max, step: args.step() as u32 })
    }

    /// Which module it is, and on which terms, if a client submitted it.
    pub fn own_print(&self) -> Option<u64> {
        let Some(Driver::Submitted { sha256, memory_bytes, .. }) = &self.software else {
            return None;
        };
        let lengths = (self.max_args, self.max_result, self.deadline_ms);
        let text =
            format!("{sha256} {memory_bytes} {} {lengths:?} {}", self.version, self.fingerprint());
        let hash = Sha256::digest(text.as_bytes());
        Some(u64::from_le_bytes(hash[..8].try_into().expect("eight of 32")))
    }
}

/// A function's driver for hardware, beside the one in software.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// What kind of hardware it is, as callers are told.
    pub location: Location,
    pub driver: Driver,
    /// The device whose VFs they are; functions that name the same one share them.
    pub device: String,
    /// How many grants it serves at once (VFs).
    pub instances: u32,
    /// Whether its VFs are leased: a grant may move between software and a VF
    /// between any two calls, since calls leave nothing behind.
    pub leased: bool,
    /// What a VF usually saves a call, ns, before anything was measured.
    pub usual_gain_ns: u64,
}

/// A tenant: policy, quota, names and credentials are its; how a window gets into a VM
/// is the VM's.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// clientID: kept for the name's life.
    pub id: u32,
    pub name: String,
    /// Whose programs use its windows.
    pub kind: ClientKind,
    /// Size of the windows of its programs on the host, or over TCP.
    pub window_bytes: u64,
    /// Its VMs: first the one that has its name, then by name. None of kind
    /// [`ClientKind::Host`], at least one of the other.
    pub vms: Vec<Vm>,
    /// Functions of the host that it may use; `*` for all. Its own, and whether it
    /// may have any, are policy's.
    pub functions: Vec<String>,
    /// Most grants at once.
    pub max_grants: u32,
    /// Whether it may have hardware.
    pub hardware: bool,
    /// Whether its apps may have services that spin: each such channel keeps a
    /// processor of the host busy, calls or none.
    pub spin: bool,
    /// Which callers over TCP may act for it.
    pub tcp: OverTcp,
    /// SHA-256 of the credential that its apps present, if one is asked for.
    pub credential_sha256: Option<[u8; 32]>,
    /// Users of the host that may act for it, besides root and the manager's own.
    pub uids: Vec<u32>,
    /// How its VMs compete for network VFs, by the VM's name; those that do.
    pub nics: BTreeMap<String, vfun_nics::declared::Vm>,
    /// Addresses of its VMs in the network that they have among themselves, by the VM's name;
    /// that of programs on the host by the client's. Those that have one.
    pub addresses: BTreeMap<String, IpAddr>,
    /// Memory of its VMs that the client's services may map, all of it, by the VM's name.
    pub shared_memory: BTreeMap<String, SharedMemory>,
    /// How its VMs' QEMUs are reached, by the VM's name: windows that two VMs share are plugged in
    /// by these.
    pub vmms: BTreeMap<String, VmmAt>,
    /// The NIC that its programs for RDMA see.
    pub rdma: Rdma,
    /// Ports of its VMs, by the VM's name, each VM's by their numbers.
    pub ports: BTreeMap<String, Vec<Port>>,
    /// Between which of them frames may go past the switch.
    pub links: LinkRule,
}

/// Which direct links the ports of a client's VMs may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRule {
    /// They may have some: among themselves, and with ports of the clients `with`.
    pub on: bool,
    /// Clients that name this one, too.
    pub with: Vec<String>,
}

impl Default for LinkRule {
    fn default() -> Self {
        LinkRule { on: true, with: vec![] }
    }
}

/// Where all memory of a VM is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedMemory {
    /// In this file.
    File(PathBuf),
    /// In the largest memfd of the process whose number is in this file.
    Process(PathBuf),
}

/// Stands before the path of [`SharedMemory::Process`].
const PIDFILE: &str = "pidfile:";

impl SharedMemory {
    /// As a manifest says it; none: it is no path from the root.
    pub fn parse(text: &str) -> Option<Self> {
        let (make, path): (fn(PathBuf) -> Self, _) = match text.strip_prefix(PIDFILE) {
            Some(path) => (SharedMemory::Process, path),
            None => (SharedMemory::File, text),
        };
        path.starts_with('/').then(|| make(path.into()))
    }
}

impl std::fmt::Display for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SharedMemory::File(path) => write!(f, "{}", path.display()),
            SharedMemory::Process(path) => write!(f, "{PIDFILE}{}", path.display()),
        }
    }
}

/// A VM of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Its name: no other VM of its client has it.
    pub name: String,
    /// How its window gets into it.
    pub transport: Transport,
    /// Size of its window.
    pub window_bytes: u64,
}

/// Which VM, by the clientID and its name: what things of a VM are kept by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VmId {
    /// Number of the client, as on the wire.
    pub client: u32,
    pub vm: String,
}

/// A VM with its client.
#[derive(Clone, Copy, Debug)]
pub struct VmOf<'a> {
    pub client: &'a Client,
    pub vm: &'a Vm,
}

impl VmOf<'_> {
    /// What it is kept by.
    pub fn id(&self) -> VmId {
        VmId { client: self.client.id, vm: self.vm.name.clone() }
    }

    /// What it is called.
    pub fn name(&self) -> VmName {
        VmName::new(&self.client.name, &self.vm.name)
    }
}

/// Which callers over TCP may act for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverTcp {
    Nobody,
    /// Those that show its credential or a token.
    Proven,
    /// Whoever reaches the gateway, unless the client asks all its apps for more.
    Open,
}

impl Client {
    /// A VM of it.
    pub fn vm(&self, name: &str) -> Option<VmOf<'_>> {
        self.vms_of().find(|v| v.vm.name == name)
    }

    /// All VMs of it.
    pub fn vms_of(&self) -> impl Iterator<Item = VmOf<'_>> {
        self.vms.iter().map(|vm| VmOf { client: self, vm })
    }

    /// Whether its manifest lets it use a function.
    pub fn may_use(&self, function: &str) -> bool {
        // Who has ports may use them.
        let own = function == ports::FUNCTION && !self.ports.is_empty();
        own || key_of(function) == Key::Submit
            || self.functions.iter().any(|f| f == "*" || f == function)
    }
}

/// What an app may show to prove that it may act for its client.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its number: never that of another one.
    pub id: u64,
    /// SHA-256 of the secret.
    pub sha256: [u8; 32],
    /// Apps it is for: a name in which each `*` stands for any text.
    pub app: String,
    /// When it ends, on the clock of [`Core::handle`](super::Core::handle).
    /// Whoever got in before stays.
    pub expires_ms: Option<u64>,
}

impl Token {
    /// Whether an app of this name may use it.
    pub fn is_of(&self, app: Option<&str>) -> bool {
        app.is_none_or(|a| matches(&self.app, a))
    }

    /// Whether its time is over.
    pub fn expired(&self, now: u64) -> bool {
        self.expires_ms.is_some_and(|e| e <= now)
    }
}

/// Every function and client that manifests declare.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Functions by name.
    pub functions: BTreeMap<String, Function>,
    /// What clients submitted, by clientID and name: each is offered to that
    /// client alone.
    pub submitted: BTreeMap<u32, BTreeMap<String, Function>>,
    /// By clientID.
    pub clients: BTreeMap<u32, Client>,
    /// Where each client's window file is, for those that have one.
    pub windows: BTreeMap<u32, PathBuf>,
    /// What each client may use, besides what its manifest says.
    pub policy: Policy,
    /// There is a policy that nobody could read: nothing new is granted.
    pub policy_unreadable: bool,
    /// Tokens that apps may present, by clientID. Revoked ones are not here.
    pub tokens: BTreeMap<u32, Vec<Token>>,
}

impl Catalog {
    /// What a client means by a function's name: one of its own, or one of the
    /// host's. No name can mean both.
    pub fn function(&self, client: u32, name: &str) -> Option<&Function> {
        match vfun_submit::is_own(name) {
            true => self.submitted.get(&client)?.get(name),
            false => self.functions.get(name),
        }
    }

    /// All functions that there are for a client, its own first.
    pub fn functions_of(&self, client: u32) -> impl Iterator<Item = &Function> {
        let own = self.submitted.get(&client).into_iter().flat_map(BTreeMap::values);
        own.chain(self.functions.values())
    }

    /// What a service's function is now, if it is there.
    pub(super) fn function_of(&self, owner: Owner, name: &str) -> Option<&Function> {
        let Owner::Client(client) = owner;
        self.function(client, name)
    }

    /// What an owner of services is called, if it is there.
    pub(super) fn owner_name(&self, owner: Owner) -> Option<&str> {
        let Owner::Client(client) = owner;
        self.clients.get(&client).map(|c| c.name.as_str())
    }

    /// The [`terms`](Function::terms) of a service's function, if it is there.
    pub(super) fn terms(&self, owner: Owner, name: &str) -> Option<String> {
        self.function_of(owner, name).map(Function::terms)
    }

    /// Ports that a switch with DPDK has, each with its client and its VM.
    pub fn dpdk_ports(&self) -> impl Iterator<Item = (&Client, &str, &Port)> {
        self.clients
            .values()
            .flat_map(|c| {
                let vms = c.ports.iter();
                vms.flat_map(move |(vm, ports)| ports.iter().map(move |p| (c, vm.as_str(), p)))
            })
            .filter(|(.., port)| port.way == PortWay::Dpdk)
    }

    /// A VM by its name, if it is there.
    pub fn vm_named(&self, name: &VmName) -> Option<VmOf<'_>> {
        self.client(&name.client)?.vm(&name.vm)
    }

    /// A VM, if it is there.
    pub fn vm(&self, id: &VmId) -> Option<VmOf<'_>> {
        self.clients.get(&id.client)?.vm(&id.vm)
    }

    /// A client by name.
    pub fn client(&self, name: &str) -> Option<&Client> {
        self.clients.values().find(|c| c.name == name)
    }
}
