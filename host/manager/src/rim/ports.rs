//! Ports of VMs: their lines in manifests, their tap devices on the host, and how they are.

use super::Daemon;
use crate::admin::Reply;
use crate::admin::ports::{PortCounts, PortLines, PortRow, PortsOfClient};
use crate::core::Grant;
use crate::core::catalog::{Catalog, Client};
use crate::core::ports::{FUNCTION, Port, built_in};
use crate::limits::{SWITCH_KILLED, SWITCH_TIME};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use vfun_admin::VmName;
use vfun_wire::Handle;

/// What is wrong with tap devices, by their names; nothing of those that are as they should be.
type Trouble = Arc<Mutex<BTreeMap<String, String>>>;

/// The tap devices that this manager looks after.
#[derive(Default)]
pub(super) struct Taps {
    /// Ports whose devices were made, by their devices.
    made: BTreeMap<String, Port>,
    trouble: Trouble,
    /// The catalog was looked at since it changed.
    followed: bool,
    /// The last thread that changes switches, one after the other.
    changes: Option<std::thread::JoinHandle<()>>,
}

fn say(trouble: &Trouble, tap: &str, what: Option<String>) {
    let mut all = trouble.lock().unwrap_or_else(PoisonError::into_inner);
    match what {
        Some(what) => {
            tracing::warn!("the tap device {tap}: {what}");
            all.insert(tap.to_owned(), what);
        }
        None => _ = all.remove(tap),
    }
}

/// A sentence for an error of the system, with what to do.
fn advised(tap: &str, e: &io::Error) -> String {
    use io::ErrorKind::{NotFound, PermissionDenied};
    match (e.kind(), e.raw_os_error()) {
        (PermissionDenied, _) => format!(
            "this manager may not make it ({e}): start vfund with --ports, as root, or make it: `ip tuntap add dev {tap} mode tap user USER` with the user of vfund"
        ),
        (NotFound, _) => format!("this host has no /dev/net/tun ({e}): `modprobe tun`"),
        // EBUSY: somebody has it open.
        (_, Some(16)) => {
            "another program has it open: end that one, or give the port another `tap`".into()
        }
        (_, Some(22)) => format!(
            "an interface {tap} is there that is no tap device: give the port another `tap`"
        ),
        _ => e.to_string(),
    }
}

/// Makes a port's device, with its MTU, and sets it up. It stays when nobody has it open.
fn make(port: &Port) -> io::Result<()> {
    if !vfun_taps::is_there(&port.tap) {
        let tap = vfun_taps::open(&port.tap)?;
        vfun_taps::keep(&tap, true)?;
    }
    vfun_taps::set_up(&port.tap, port.mtu)
}

/// Removes a device that nobody has open.
fn remove(tap: &str) -> io::Result<()> {
    let device = vfun_taps::open(tap)?;
    vfun_taps::keep(&device, false)
}

/// Runs `ovs-vsctl`, which ends by itself in time.
fn vsctl(words: &[&str]) -> Result<(), String> {
    let time = format!("--timeout={}", SWITCH_TIME.as_secs());
    let child = Command::new("ovs-vsctl")
        .args([time.as_str()].iter().chain(words))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            "no ovs-vsctl is installed: install openvswitch-switch".to_owned()
        }
        _ => format!("ovs-vsctl could not be started: {e}"),
    })?;
    let since = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(end)) if end.success() => return Ok(()),
            Ok(Some(_)) => break,
            Ok(None) if since.elapsed() < SWITCH_KILLED => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("ovs-vsctl did not end: is ovsdb-server running?".into());
            }
            Err(e) => return Err(format!("ovs-vsctl was lost: {e}")),
        }
    }
    let mut said = String::new();
    if let Some(mut from) = child.stderr.take() {
        let _ = io::Read::read_to_string(&mut from, &mut said);
    }
    Err(said.lines().next().unwrap_or("ovs-vsctl failed").chars().take(200).collect())
}

/// Puts a port's device into its bridge or switch. A bridge of Linux is known by sysfs.
fn join(switch: &str, tap: &str) -> Result<(), String> {
    if vfun_taps::is_bridge(switch) {
        return vfun_taps::join(switch, tap)
            .map_err(|e| format!("it could not be put into the bridge {switch}: {e}"));
    }
    vsctl(&["--may-exist", "add-port", switch, tap]).map_err(|e| {
        format!("it could not be put into {switch}, which is no bridge of Linux, and Open vSwitch says: {e}")
    })
}

impl Taps {
    /// There is another catalog.
    pub fn catalog_changed(&mut self) {
        self.followed = false;
    }

    /// Makes what a catalog declares, and removes what it does not declare any more.
    fn follow(&mut self, catalog: &Catalog) {
        let all = catalog.clients.values().flat_map(|c| c.ports.values().flatten());
        let wanted: BTreeMap<&str, &Port> = all.map(|p| (p.tap.as_str(), p)).collect();
        let mut changes = vec![];
        for (tap, port) in &self.made {
            let kept = wanted.get(tap.as_str()).is_some_and(|p| p.switch == port.switch);
            if !kept && let Some(switch) = &port.switch {
                changes.push(Change::Leave(switch.clone(), tap.clone()));
            }
            if !wanted.contains_key(tap.as_str()) {
                changes.push(Change::Remove(tap.clone()));
            }
        }
        for (tap, port) in &wanted {
            if self.made.get(*tap) != Some(port) {
                changes.push(Change::Make((*port).clone()));
            }
        }
        self.made = wanted.into_iter().map(|(tap, p)| (tap.to_owned(), p.clone())).collect();
        if !changes.is_empty() {
            self.begin(changes);
        }
    }

    /// Does changes on a thread of their own, after those before: a switch may take seconds.
    fn begin(&mut self, changes: Vec<Change>) {
        let (before, trouble) = (self.changes.take(), self.trouble.clone());
        let work = move || {
            if let Some(before) = before {
                let _ = before.join();
            }
            changes.into_iter().for_each(|change| change.done(&trouble));
        };
        match std::thread::Builder::new().name("switches".into()).spawn(work) {
            Ok(thread) => self.changes = Some(thread),
            Err(e) => tracing::error!("ports are not put into their switches: no thread: {e}"),
        }
    }

    fn trouble_of(&self, tap: &str) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get(tap).cloned()
    }
}

/// What is to be done with a tap device.
enum Change {
    Make(Port),
    /// Out of this switch.
    Leave(String, String),
    Remove(String),
}

impl Change {
    fn done(self, trouble: &Trouble) {
        match self {
            Change::Make(port) => {
                let made = make(&port).map_err(|e| advised(&port.tap, &e));
                let joined = made.and_then(|()| match &port.switch {
                    Some(switch) => join(switch, &port.tap),
                    None => Ok(()),
                });
                say(trouble, &port.tap, joined.err());
            }
            // A bridge of Linux forgets it with the device, or with the next bridge.
            Change::Leave(switch, _) if vfun_taps::is_bridge(&switch) => {}
            Change::Leave(switch, tap) => {
                if let Err(e) = vsctl(&["--if-exists", "del-port", &switch, &tap]) {
                    tracing::warn!("the tap device {tap} stays in {switch}: {e}");
                }
            }
            Change::Remove(tap) => {
                say(trouble, &tap, None);
                if let Err(e) = remove(&tap) {
                    tracing::warn!("the tap device {tap} stays: {e}");
                }
            }
        }
    }
}

/// What a manifest says of a client's ports, with what follows from their names.
pub(super) fn lines(client: &Client) -> PortsOfClient {
    let one = |p: &Port| PortLines {
        number: Some(p.number),
        mac: Some(p.mac.to_string()),
        mtu: Some(p.mtu),
        ring: Some(p.ring_bytes.to_string()),
        tap: Some(p.tap.clone()),
        switch: p.switch.clone(),
    };
    let of_vm = |all: &Vec<Port>| all.iter().map(|p| (p.name.clone(), one(p))).collect();
    client.ports.iter().map(|(vm, all)| (vm.clone(), of_vm(all))).collect()
}

impl Daemon {
    /// Does what the catalog says of ports, if it may be another one than at the last look.
    pub(super) fn follow_ports(&mut self) {
        if !std::mem::replace(&mut self.taps.followed, true) {
            self.taps.follow(self.rim.core.catalog());
        }
    }

    /// Offers the function where a client has ports, and nowhere else.
    pub(super) fn offer_ports(&self, catalog: &mut Catalog) -> Result<(), String> {
        if catalog.clients.values().all(|c| c.ports.is_empty()) {
            catalog.functions.remove(FUNCTION);
        } else if !catalog.functions.contains_key(FUNCTION) {
            let f = built_in(self.id("function", FUNCTION)?);
            catalog.functions.insert(f.name.clone(), f);
        }
        Ok(())
    }

    /// The tap device of the port whose way into its VM is a channel.
    pub(super) fn tap_of(&self, channel: u64) -> io::Result<OwnedFd> {
        let gone = || io::Error::other("its port is not there any more");
        let core = &self.rim.core;
        let g = core.grant(Handle(channel)).ok_or_else(gone)?;
        let port = core.catalog().port_of(g).ok_or_else(gone)?;
        vfun_taps::open(&port.tap).map_err(|e| {
            io::Error::other(format!("its tap device {}: {}", port.tap, advised(&port.tap, &e)))
        })
    }

    /// All ports, by client, VM and number.
    pub(super) fn port_rows(&self) -> Vec<PortRow> {
        let clients = self.rim.core.catalog().clients.values();
        let mut rows: Vec<PortRow> = clients
            .flat_map(|c| c.ports.iter().map(move |(vm, all)| (c, vm, all)))
            .flat_map(|(c, vm, all)| all.iter().map(move |port| self.port_row(c, vm, port)))
            .collect();
        rows.sort_by(|a, b| (&a.client, &a.vm, a.number).cmp(&(&b.client, &b.vm, b.number)));
        rows
    }

    fn port_row(&self, client: &Client, vm: &str, port: &Port) -> PortRow {
        let core = &self.rim.core;
        let its = |g: &Grant| {
            g.holder.client_id == client.id
                && g.holder.vm.as_deref() == Some(vm)
                && core.catalog().port_of(g) == Some(port)
        };
        let grant = core.grants().filter(|(_, g)| its(g)).max_by_key(|(_, g)| g.since_ms);
        let mut windows = self.rim.windows.values();
        PortRow {
            client: client.name.clone(),
            vm: vm.to_owned(),
            port: port.name.clone(),
            number: port.number,
            mac: port.mac.to_string(),
            mtu: port.mtu,
            ring_bytes: port.ring_bytes.into(),
            tap: port.tap.clone(),
            switch: port.switch.clone(),
            trouble: self.taps.trouble_of(&port.tap),
            window: windows.any(|a| a.client == client.id && a.vm.as_deref() == Some(vm)),
            grant: grant.map(|(handle, _)| handle.to_string()),
            state: grant.map(|(_, g)| g.state().text().into()),
            counts: grant.and_then(|(_, g)| self.port_counts(g)),
        }
    }

    fn port_counts(&self, g: &Grant) -> Option<PortCounts> {
        let window = self.rim.windows.get(&g.holder.window)?;
        let facts = window.window.facts(&g.told()?)?;
        let [to_vm, to_vm_bytes, from_vm, from_vm_bytes, full, refused, bad, away] = facts;
        Some(PortCounts { from_vm, from_vm_bytes, to_vm, to_vm_bytes, full, refused, bad, away })
    }

    /// Gives a VM one more port, in the manifest that is kept of its client, or changes it.
    pub(super) fn add_port(
        &mut self,
        client: &str,
        vm: &str,
        name: &str,
        said: &PortLines,
    ) -> Reply {
        let used: Vec<u16> = self.ports_of(client, vm).iter().map(|p| p.number).collect();
        let mut said = said.clone();
        // So that other ports that come or go leave it in its place.
        let free = || (0..vfun_wire::limits::PORTS_MAX as u16).find(|n| !used.contains(n));
        let had = self.ports_of(client, vm).iter().find(|p| p.name == name).map(|p| p.number);
        said.number = said.number.or(had).or_else(free);
        let changed = self.change_ports(client, vm, |ports| {
            let lines = toml::Table::try_from(&said).map_err(|e| e.to_string())?;
            ports.insert(name.to_owned(), lines.into());
            Ok(())
        });
        match changed {
            Ok(()) => Reply::Done {
                sentence: format!("port {name} of VM {} is there", VmName::new(client, vm)),
            },
            Err(sentence) => Reply::Error { sentence },
        }
    }

    /// Takes a port away, in the manifest that is kept of its client.
    pub(super) fn remove_port(&mut self, client: &str, vm: &str, name: &str) -> Reply {
        let all: Vec<String> = self.ports_of(client, vm).iter().map(|p| p.name.clone()).collect();
        let shown = VmName::new(client, vm);
        let changed = self.change_ports(client, vm, |ports| match ports.remove(name) {
            Some(_) => Ok(()),
            None if all.is_empty() => Err(format!("VM {shown} has no ports")),
            None => Err(format!("VM {shown} has no port '{name}': it has {}", all.join(", "))),
        });
        match changed {
            Ok(()) => Reply::Done { sentence: format!("port {name} of VM {shown} is gone") },
            Err(sentence) => Reply::Error { sentence },
        }
    }

    fn ports_of(&self, client: &str, vm: &str) -> &[Port] {
        let client = self.rim.core.catalog().client(client);
        client.and_then(|c| c.ports.get(vm)).map_or(&[], Vec::as_slice)
    }
}
