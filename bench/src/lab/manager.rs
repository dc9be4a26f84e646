//! A manager: one of the measurement's own under a temporary root, or a running one.

use super::pin::{self, Pinned};
use super::{GUEST_CLIENT, HOST_CLIENT, NET_CLIENT, WINDOW_BYTES, Wiring};
use crate::error::Doing;
use crate::{BenchError, Result};
use std::fs;
use std::net::TcpListener;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_admin::Client;

/// How long a manager may take to answer for the first time, and to end.
const COMES_UP: Duration = Duration::from_secs(15);
const GOES: Duration = Duration::from_secs(20);

/// What a manager of one's own is started from.
pub struct Start<'a> {
    /// The folder with `vfund`, `vfun-service`, `vfun-keeper` and `vfun-gateway`.
    pub programs: &'a Path,
    /// The folder of manifests.
    pub functions: &'a Path,
    /// The folder of drivers.
    pub drivers: &'a Path,
    /// Whether callers over TCP are to be served.
    pub tcp: bool,
    /// How a guest will reach it, if there will be one. (A manager with a window that has
    /// no doorbell looks at it now and then, so one without is idler.)
    pub guest: Option<Wiring>,
    /// Names of more clients.
    pub more: &'a [&'a str],
    /// How those reach it; none: on the host.
    pub more_in: Option<Wiring>,
    /// Which processors services run on; none: any.
    pub services: &'a [usize],
    /// Layers of the sandbox that services do without.
    pub without: &'a [String],
    /// Whether it moves network VFs.
    pub nics: bool,
}

impl<'a> Start<'a> {
    /// One for callers on the host, from these folders.
    pub fn new(programs: &'a Path, functions: &'a Path, drivers: &'a Path) -> Self {
        Start {
            programs,
            functions,
            drivers,
            tcp: false,
            guest: None,
            more: &[],
            more_in: None,
            services: &[],
            without: &[],
            nics: false,
        }
    }
}

/// A manager that answers.
pub struct Manager {
    root: PathBuf,
    client: Client,
    own: Option<Keeper>,
}

struct Keeper {
    shell: Child,
    pipe: Option<ChildStdin>,
}

/// Memory, if it is there and may be written; else the folder for temporary files.
fn temporary_root() -> Result<PathBuf> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("vfun-bench-");
    let made = builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir());
    Ok(made.doing(|| "cannot make a folder for a manager".into())?.keep())
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    Ok(listener.doing(|| "cannot find a free port on the loopback".into())?.port())
}

impl Manager {
    /// A running manager, by its root.
    pub fn running(root: &Path) -> Result<Self> {
        let manager = Manager { root: root.to_owned(), client: Client::at(root), own: None };
        manager.status()?;
        Ok(manager)
    }

    /// Starts one, with clients for the host and, as asked, a guest and callers over TCP.
    pub fn start(start: &Start) -> Result<Self> {
        let vfund = start.programs.join("vfund");
        let beside =
            ["vfun-service", "vfun-jail", "vfun-keeper"].map(|name| start.programs.join(name));
        let mut needed = vec![vfund.clone()];
        needed.extend(beside);
        needed.extend(start.tcp.then(|| start.programs.join("vfun-gateway")));
        if let Some(missing) = needed.into_iter().find(|p| !p.is_file()) {
            return Err(BenchError::NoProgram(missing));
        }
        let root = temporary_root()?;
        let windows = root.join("windows");
        let mut line = Command::new("setsid");
        line.args(["sh", "-c", include_str!("keeper.sh"), "vfun-bench-keeper"])
            .arg(&root)
            .arg(vfund);
        line.arg("--root").arg(&root).arg("--functions").arg(start.functions);
        line.arg("--drivers").arg(start.drivers).arg("--window-dir").arg(&windows);
        for layer in start.without {
            line.arg("--without-layer").arg(layer);
        }
        if start.nics {
            line.arg("--nics");
        }
        if start.tcp {
            line.arg("--tcp").arg(format!("127.0.0.1:{}", free_port()?));
        }
        line.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let spawned = fs::create_dir(&windows).and_then(|()| {
            // What the manager starts inherits its processor.
            let _pinned = Pinned::among(start.services);
            line.spawn()
        });
        let mut shell = spawned.inspect_err(|_| drop(fs::remove_dir_all(&root))).doing(|| {
            "cannot start a manager's keeper (setsid is in the package util-linux)".into()
        })?;
        let pipe = shell.stdin.take();
        let client = Client::at(&root);
        let manager = Manager { root, client, own: Some(Keeper { shell, pipe }) };
        manager.come_up()?;
        manager.let_gateway_run()?;
        manager.add_client(HOST_CLIENT, None, false)?;
        for name in start.more {
            manager.add_client(name, start.more_in, false)?;
        }
        if start.guest.is_some() {
            manager.add_client(GUEST_CLIENT, start.guest, false)?;
        }
        if start.tcp {
            manager.add_client(NET_CLIENT, None, true)?;
        }
        Ok(manager)
    }

    /// The manager's root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Layers of the sandbox that its services lack.
    pub fn missing_layers(&self) -> Result<Vec<String>> {
        let row = self.services()?.into_iter().next();
        let missing = row.map_or(vec![], |r| r.sandbox.missing);
        Ok(missing.into_iter().map(|m| m.layer.name().to_owned()).collect())
    }

    /// Waits for the first answer.
    fn come_up(&self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < COMES_UP {
            if self.status().is_ok() {
                return Ok(());
            }
            let log = self.log();
            // Its own word for "this is the end".
            if log.lines().any(|l| l.starts_with("vfund: ")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let log = self.log();
        let tail: Vec<_> = log.lines().rev().take(5).collect();
        let said = tail.into_iter().rev().collect::<Vec<_>>().join(" | ");
        Err(BenchError::Manager(format!("vfund did not come up; it said: {said}")))
    }

    /// What it wrote for people.
    pub fn log(&self) -> String {
        fs::read_to_string(self.root.join("vfund.log")).unwrap_or_default()
    }

    /// The gateway stands beside caller and service and is not to take turns with either.
    fn let_gateway_run(&self) -> Result<()> {
        self.gateways()?.into_iter().try_for_each(|pid| pin::process(pid, None))
    }

    /// The processes that serve callers over TCP.
    fn gateways(&self) -> Result<Vec<u32>> {
        let status = self.status()?;
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let is_one = |pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
            parent == Some(status.pid) && stat.contains("(vfun-gateway)")
        };
        Ok(all.filter(is_one).collect())
    }

    /// All processes of the host that calls are made of: manager, gateway, services that run now.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let services = self.grants()?.into_iter().filter_map(|g| g.pid);
        let mut pids = vec![self.status()?.pid];
        pids.extend(self.gateways()?.into_iter().chain(services));
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    fn add_client(&self, name: &str, guest: Option<Wiring>, tcp: bool) -> Result<()> {
        let (kind, transport) = match guest {
            None => ("host", ""),
            Some(Wiring::Plain) => ("vm", "transport = \"ivshmem-plain\"\n"),
            Some(Wiring::Module | Wiring::Raw) => ("vm", "transport = \"ivshmem-doorbell\"\n"),
        };
        let tcp = if tcp { "\"open\"" } else { "false" };
        let manifest = format!(
            "name = \"{name}\"\nkind = \"{kind}\"\nwindow = \"{WINDOW_BYTES}\"\ntcp = {tcp}\nmax_grants = 256\nspin = true\n{transport}"
        );
        let file = self.root.join(format!("{name}.toml"));
        self.client.add_client(manifest, file)?;
        Ok(())
    }

    /// Whether it was started here.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Where programs on this host connect.
    pub fn host_socket(&self) -> PathBuf {
        self.root.join("host.sock")
    }
}

impl Deref for Manager {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let Some(keeper) = &mut self.own else { return };
        keeper.pipe = None;
        let start = Instant::now();
        while start.elapsed() < GOES && matches!(keeper.shell.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        // The keeper was killed before it could.
        let _ = fs::remove_dir_all(&self.root);
    }
}
