//! What is offered to whom: functions and clients, as the manifests declare them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use vfun_supervise::Driver;
use vfun_wire::message::Location;
use vfun_wire::version::FunctionVersion;

/// A function on offer.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// functionID: kept for the name's life.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: FunctionVersion,
    /// One line for people.
    pub summary: String,
    /// How it runs in software, if it does.
    pub software: Option<Driver>,
    /// How it runs on hardware, if it does.
    pub hardware: Option<Hardware>,
    /// Deadline of a call, ms; the most a caller may ask for.
    pub deadline_ms: u32,
    /// Longest arguments, bytes.
    pub max_args: u32,
    /// Longest results, bytes.
    pub max_result: u32,
    /// Settings for the driver.
    pub settings: BTreeMap<String, String>,
}

/// A function's hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// What it is.
    pub location: Location,
    /// The driver.
    pub driver: Driver,
    /// How many grants it serves at once (VFs).
    pub instances: u32,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// clientID: kept for the name's life.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether it is a VM or programs on the host.
    pub kind: ClientKind,
    /// Size of its window.
    pub window_bytes: u64,
    /// Functions it may use; `*` for all.
    pub functions: Vec<String>,
    /// Most grants at once.
    pub max_grants: u32,
    /// Whether it may have hardware.
    pub hardware: bool,
    /// Whether its window has doorbells; a VM's without is a plain file.
    pub doorbell: bool,
    /// Whether its apps may have services that spin: each such channel keeps a
    /// processor of the host busy, calls or none.
    pub spin: bool,
    /// Whether callers over TCP may act for it.
    pub tcp: bool,
    /// SHA-256 of the credential that its apps present, if one is asked for.
    pub credential_sha256: Option<[u8; 32]>,
    /// Users of the host that may act for it, besides root and the manager's own.
    pub uids: Vec<u32>,
}

/// What a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A VM with a window of its own.
    Vm,
    /// Programs on the host, each with a window of its own.
    Host,
}

impl Client {
    /// Whether policy lets it use a function.
    pub fn may_use(&self, function: &str) -> bool {
        self.functions.iter().any(|f| f == "*" || f == function)
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// By name.
    pub functions: BTreeMap<String, Function>,
    /// By clientID.
    pub clients: BTreeMap<u32, Client>,
    /// Where each client's window file is, for those that have one.
    pub windows: BTreeMap<u32, PathBuf>,
}

impl Catalog {
    /// A client by name.
    pub fn client(&self, name: &str) -> Option<&Client> {
        self.clients.values().find(|c| c.name == name)
    }
}
