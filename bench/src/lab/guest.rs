//! A guest that measures: this program inside it, the guest's window as its memory.

use super::{BarePeer, GUEST_CLIENT, Manager, NET_CLIENT, Plan, Wiring};
use crate::measure::{Job, Outcome};
use crate::{BenchError, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vfun_testguest::{Doorbell, Guest, GuestConfig, Window};

/// Where this program is in the guest.
pub const GUEST_PROGRAM: &str = "/bin/vfun-bench";
/// The kernel module in the guest.
pub const MODULE: &str = "/lib/vfun.ko";
/// The module's device of the guest's window.
pub const DEVICE: &str = "/dev/vfun0";
/// The module's device of a bare doorbell.
pub const BARE_DEVICE: &str = "/dev/vfun1";
/// Two files by which callers in several guests begin together: a caller is ready, and
/// all may begin.
pub const READY: &str = "/tmp/vfun-bench-ready";
/// The file that the host makes when all may begin; see [`READY`].
pub const GO: &str = "/tmp/vfun-bench-go";
/// The host's loopback as the guest's network card shows it.
pub const GATEWAY: &str = "10.0.2.2";
/// Memory of the guest: two copies of 64 MiB, its initramfs, and room.
const MEMORY_MIB: u32 = 640;
/// How long the guest may live: the published size takes an hour on a slow machine.
const LIFE: Duration = Duration::from_secs(6 * 3600);
/// How long one job may take beyond its work, which is what an emulated processor takes
/// to start a program, and waits of all sorts.
const JOB: Duration = Duration::from_secs(120);

/// What the program inside a guest is told: how to connect, and what to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// How to reach the host: a [`vfun::Endpoint`], as text.
    pub endpoint: String,
    /// The client to name, if any.
    pub client: Option<String>,
    pub job: Job,
}

/// What guest to boot, and how it is wired.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// The client of its window.
    pub client: &'static str,
    /// How it reaches its window.
    pub wiring: Wiring,
    /// The processors that all of it runs on; none: any.
    pub cpus: Vec<usize>,
    pub memory_mib: u32,
    /// Whether it has a network.
    pub net: bool,
    /// Whether it has a bare doorbell besides, and the processor of that one's other end.
    pub bare: Option<Option<usize>>,
    /// Empty ports for windows that come later.
    pub ports: u32,
}

impl GuestSpec {
    /// The usual one, on the caller's processor.
    pub fn new(wiring: Wiring, plan: &Plan) -> Self {
        GuestSpec {
            client: GUEST_CLIENT,
            wiring,
            cpus: plan.caller().into_iter().collect(),
            memory_mib: MEMORY_MIB,
            net: true,
            bare: (wiring == Wiring::Module).then_some(plan.service()),
            ports: 0,
        }
    }
}

/// A running guest with this program in it.
pub struct LabGuest {
    guest: Guest,
    gateway_port: Option<u16>,
    wiring: Wiring,
    bare: Option<BarePeer>,
}

impl LabGuest {
    /// Boots one.
    ///
    /// # Errors
    /// [`BenchError::Guest`]; what is missing on this machine is named with the script
    /// that brings it.
    pub fn boot(manager: &Manager, spec: &GuestSpec, program: &Path) -> Result<Self> {
        let clients = manager.clients()?;
        let client = clients.iter().find(|c| c.name == spec.client);
        let no_window =
            || BenchError::Manager(format!("it has no window for the client {}", spec.client));
        let client = client.ok_or_else(no_window)?;
        let mut config = GuestConfig {
            memory_mib: spec.memory_mib,
            files: vec![(program.to_owned(), GUEST_PROGRAM.to_owned())],
            net: spec.net,
            pin: Some(spec.cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
                .filter(|cpus| !cpus.is_empty()),
            hotplug_ports: spec.ports,
            max_life: LIFE,
            // QEMU 7.2 gets this instruction wrong, which kernels from 6.6 on use for
            // each allocation; they can do without.
            kernel_args: "clearcpuid=cx16".into(),
            ..GuestConfig::new("bench")
        };
        // A running manager's client is as its manifest says.
        let wiring = match (&client.socket, &client.window_file, spec.wiring) {
            (Some(socket), _, wiring) => {
                config.doorbells.push(Doorbell::new(socket));
                if wiring == Wiring::Module { Wiring::Module } else { Wiring::Raw }
            }
            (None, Some(path), _) => {
                let (path, size) = (path.clone(), client.window_bytes);
                config.windows.push(Window { path, size });
                Wiring::Plain
            }
            (None, None, _) => return Err(no_window()),
        };
        let mut bare = None;
        if wiring == Wiring::Module {
            let module = Wiring::module()?;
            config.files.push((module.clone(), MODULE.to_owned()));
            config.kernel_module = Some(module);
            bare = spec.bare.map(BarePeer::start).transpose()?;
            config.doorbells.extend(bare.as_ref().map(BarePeer::doorbell));
        }
        let tcp = manager.status()?.tcp;
        let gateway_port = tcp.and_then(|at| at.rsplit_once(':')?.1.parse().ok());
        Ok(LabGuest { guest: Guest::boot(&config)?, gateway_port, wiring, bare })
    }

    /// How it reaches its window.
    pub fn wiring(&self) -> Wiring {
        self.wiring
    }

    /// Whether it has a bare doorbell.
    pub fn has_bare_doorbell(&self) -> bool {
        self.bare.is_some()
    }

    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// Runs a script that must succeed.
    pub fn script(&self, script: &str) -> Result<()> {
        Ok(self.guest.run_ok(script, JOB).map(drop)?)
    }

    /// `kvm`, or `tcg` where the guest's processor is emulated.
    pub fn accel(&self) -> &'static str {
        self.guest.accel().name()
    }

    /// The process ID of QEMU.
    pub fn pid(&self) -> u32 {
        self.guest.pid()
    }

    /// QEMU's program, as far as it is known.
    pub fn qemu(&self) -> PathBuf {
        std::fs::read_link(format!("/proc/{}/exe", self.guest.pid())).unwrap_or_default()
    }

    /// Measures in the guest, through its window or over its network.
    pub fn run(&self, net: bool, job: &Job, work: Duration) -> Result<Outcome> {
        let (endpoint, client) = match (net, self.gateway_port) {
            (false, _) => (self.wiring.endpoint(), None),
            (true, Some(port)) => (format!("tcp:{GATEWAY}:{port}"), Some(NET_CLIENT.to_owned())),
            (true, None) => {
                return Err(BenchError::Manager("it serves no callers over TCP (--tcp)".into()));
            }
        };
        self.run_at(endpoint, client, job, work)
    }

    /// Measures in the guest over an endpoint.
    pub fn run_at(
        &self,
        endpoint: String,
        client: Option<String>,
        job: &Job,
        work: Duration,
    ) -> Result<Outcome> {
        let inside = Inside { endpoint, client, job: job.clone() };
        let text = serde_json::to_string(&inside).map_err(|e| BenchError::Inside(e.to_string()))?;
        let script = format!("exec {GUEST_PROGRAM} inside '{}'", text.replace('\'', ""));
        let output = self.guest.run(&script, JOB + 20 * work)?;
        if output.status != 0 {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(BenchError::Inside(format!("status {}, {}", output.status, said.trim())));
        }
        let text = output.text();
        serde_json::from_str(&text)
            .map_err(|e| BenchError::Inside(format!("its answer '{text}' is unreadable: {e}")))
    }
}
