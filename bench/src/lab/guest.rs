//! A guest that measures: this program inside it, the guest's window as its memory.

use super::{GUEST_CLIENT, Manager, NET_CLIENT, Plan};
use crate::measure::{Job, Outcome};
use crate::{BenchError, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vfun_testguest::{Guest, GuestConfig, Window};

/// Where this program is in the guest.
pub const GUEST_PROGRAM: &str = "/bin/vfun";
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
    /// A [`vfun::Endpoint`].
    pub endpoint: String,
    /// The client to name, if any.
    pub client: Option<String>,
    /// What to measure.
    pub job: Job,
}

/// A running guest with this program in it.
pub struct LabGuest {
    guest: Guest,
    prefix: &'static str,
    gateway_port: Option<u16>,
}

impl LabGuest {
    /// Boots one, on the caller's processor.
    ///
    /// # Errors
    /// [`BenchError::Guest`]; what is missing on this machine is named with the script
    /// that brings it.
    pub fn boot(manager: &Manager, plan: &Plan, program: &Path) -> Result<Self> {
        let clients = manager.clients()?;
        let client = clients.iter().find(|c| c.name == GUEST_CLIENT);
        let window = client
            .and_then(|c| Some(Window { path: c.window_file.clone()?, size: c.window_bytes }));
        let Some(window) = window else {
            return Err(BenchError::Manager(format!(
                "it has no window for the client {GUEST_CLIENT}"
            )));
        };
        let config = GuestConfig {
            memory_mib: MEMORY_MIB,
            windows: vec![window],
            files: vec![(program.to_owned(), GUEST_PROGRAM.to_owned())],
            net: true,
            pin: plan.caller().map(|cpu| cpu.to_string()),
            max_life: LIFE,
            ..GuestConfig::new("bench")
        };
        let tcp = manager.status()?.tcp;
        let gateway_port = tcp.and_then(|at| at.rsplit_once(':')?.1.parse().ok());
        // The same thing is `vfun bench inside` in one program, and `inside` in the other.
        let alone = program.file_name().is_some_and(|name| name == "vfun-bench");
        let prefix = if alone { "inside" } else { "bench inside" };
        Ok(LabGuest { guest: Guest::boot(&config)?, prefix, gateway_port })
    }

    /// "kvm" or "tcg".
    pub fn accel(&self) -> &'static str {
        self.guest.accel().name()
    }

    /// QEMU's process.
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
            (false, _) => ("ivshmem".to_owned(), None),
            (true, Some(port)) => (format!("tcp:{GATEWAY}:{port}"), Some(NET_CLIENT.to_owned())),
            (true, None) => {
                return Err(BenchError::Manager("it serves no callers over TCP (--tcp)".into()));
            }
        };
        let inside = Inside { endpoint, client, job: job.clone() };
        let text = serde_json::to_string(&inside).map_err(|e| BenchError::Inside(e.to_string()))?;
        let script = format!("exec {GUEST_PROGRAM} {} '{}'", self.prefix, text.replace('\'', ""));
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
