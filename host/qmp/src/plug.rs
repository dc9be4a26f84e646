//! A window into a VM that runs, and out of it.

use crate::client::Qmp;
use crate::limits::{FORGETS, FORGETS_LOOK};
use crate::ports::{self, Device};
use crate::{Fault, Refusal};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// What goes into a QEMU that runs.
pub struct HotPlug {
    /// What the thing behind the device is called in QEMU.
    pub id: String,
    /// The command that makes it.
    pub backend: &'static str,
    /// The command's arguments.
    pub arguments: Value,
    /// Arguments of `device_add`, without name and bus.
    pub device: Value,
    /// The device's name (`id`) in QEMU.
    pub device_id: String,
}

impl HotPlug {
    /// A file as the memory of an ivshmem device without doorbells.
    pub fn ivshmem_plain(id: &str, file: &Path, bytes: u64) -> Self {
        HotPlug {
            id: id.to_owned(),
            backend: "object-add",
            arguments: memory(id, file, bytes),
            device: json!({ "driver": "ivshmem-plain", "memdev": id }),
            device_id: format!("{id}-device"),
        }
    }

    /// What a server at this socket gives, as an ivshmem device with so many doorbells.
    pub fn ivshmem_doorbell(id: &str, socket: &Path, vectors: u16) -> Self {
        HotPlug {
            id: id.to_owned(),
            backend: "chardev-add",
            arguments: json!({ "id": id, "backend": { "type": "socket", "data": {
                "server": false, "addr": { "type": "unix", "data": { "path": socket } } } } }),
            device: json!({ "driver": "ivshmem-doorbell", "chardev": id, "vectors": vectors }),
            device_id: id.to_owned(),
        }
    }
}

/// Memory of a file, as the arguments of `object-add`.
pub fn memory(id: &str, file: &Path, bytes: u64) -> Value {
    json!({ "qom-type": "memory-backend-file", "id": id, "share": true,
        "mem-path": file, "size": bytes })
}

/// What a VM did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugged {
    /// It was so before.
    pub already: bool,
    /// Where the device is, as the host numbers it.
    pub pci: Option<String>,
    /// The port that it is plugged into, where that is known.
    pub port: Option<String>,
    /// What it took.
    pub took: Option<Duration>,
}

fn devices(qmp: &mut Qmp) -> Result<Vec<Device>, Fault> {
    Ok(ports::devices(&qmp.ask("query-pci", Value::Null)?))
}

/// Whether QEMU has a device of this name, on a bus or on its way off it.
fn has_device(qmp: &mut Qmp, id: &str) -> Result<bool, Fault> {
    let list = qmp.try_ask("qom-list", json!({ "path": format!("/machine/peripheral/{id}") }))?;
    Ok(list.is_ok())
}

/// Ports of QEMU that take devices while the machine runs.
const HOT: [&str; 3] = ["pcie-root-port", "ioh3420", "xio3130-downstream"];

fn is_hot(qmp: &mut Qmp, port: &Device) -> Result<bool, Fault> {
    let path = format!("/machine/peripheral/{}", port.id);
    let mut get = |name: &str| qmp.try_ask("qom-get", json!({"path": path, "property": name}));
    let kind = get("type")?.unwrap_or_default();
    // QEMU before 6.1 has no such property and can always.
    let hot = get("hotplug")?.map_or(true, |v| v != false);
    Ok(hot && kind.as_str().is_some_and(|k| HOT.contains(&k)))
}

/// A free port; none for the root bus of a machine where that will do.
fn free_port(qmp: &mut Qmp, devices: &[Device]) -> Result<Option<String>, Fault> {
    for port in ports::free(devices) {
        if is_hot(qmp, port)? {
            return Ok(Some(port.id.clone()));
        }
    }
    if ports::root_takes_devices(devices) {
        return Ok(None);
    }
    Err(Fault::failed("this QEMU has no free PCIe port that takes devices while it runs")
        .advise("start it with a spare one, `-device pcie-root-port,id=vf0,chassis=1`"))
}

fn refused(what: &str, r: &Refusal) -> Fault {
    let failure = Fault::failed(format!("QEMU refused {what}: {}", r.sentence));
    match r.sentence.contains("connect") || r.sentence.contains("open backing store") {
        true => failure.advise(
            "QEMU's user must be let at the socket or file and its folders: `vfun client show NAME` says how",
        ),
        false => failure,
    }
}

/// Takes it away; that there is none is all right.
fn remove_backend(qmp: &mut Qmp, id: &str) -> Result<(), Fault> {
    // Only one of the two is there, and which one is not asked: a client may
    // have changed its transport since.
    let _ = qmp.try_ask("chardev-remove", json!({ "id": id }))?;
    let _ = qmp.try_ask("object-del", json!({ "id": id }))?;
    Ok(())
}

/// Waits until QEMU has forgotten memory of this name. It does so some time after the device went out, and ends itself
/// if memory of the same name comes to the same place before (seen with 7.2: "RAMBlock already registered").
fn wait_until_forgotten(qmp: &mut Qmp, id: &str) -> Result<(), Fault> {
    let until = Instant::now() + FORGETS;
    loop {
        let all =
            qmp.try_ask("human-monitor-command", json!({ "command-line": "info ramblock" }))?;
        // One that does not say is believed to be done.
        let all = all.ok().and_then(|all| all.as_str().map(str::to_owned)).unwrap_or_default();
        let names = all.lines().filter_map(|line| line.split_whitespace().next());
        if !names.into_iter().any(|name| name.rsplit('/').next() == Some(id)) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(Fault::failed(format!(
                "QEMU has memory named {id} still, of a device that went out before"
            ))
            .advise("ask again: this machine may only be busy; if it lasts, start the VM again"));
        }
        std::thread::sleep(FORGETS_LOOK);
    }
}

/// Plugs a window in. `is_free` refuses one that is in another VM, once it is known that it is
/// not in this one; QEMU has not been told anything then.
///
/// # Errors
/// QEMU cannot be reached, or refuses; or `is_free` refuses.
pub fn attach<E: From<Fault>>(
    socket: &Path,
    window: HotPlug,
    is_free: impl FnOnce() -> Result<(), E>,
    bus: Option<&str>,
) -> Result<Plugged, E> {
    let mut qmp = Qmp::open(socket)?;
    let HotPlug { id: backend_id, backend, arguments, mut device, device_id: id } = window;
    let before = devices(&mut qmp)?;
    if let Some(d) = before.iter().find(|d| d.id == id) {
        let pci = Some(d.address.clone());
        return Ok(Plugged { already: true, pci, port: None, took: None });
    }
    is_free()?;
    let port = match bus {
        Some(bus) => Some(bus.to_owned()),
        None => free_port(&mut qmp, &before)?,
    };
    // Left by an attempt that did not come to its end.
    remove_backend(&mut qmp, &backend_id)?;
    wait_until_forgotten(&mut qmp, &backend_id)?;
    let began = Instant::now();
    qmp.try_ask(backend, arguments)?.map_err(|r| refused("the window", &r))?;
    device["id"] = json!(id);
    if let Some(port) = &port {
        device["bus"] = json!(port);
    }
    if let Err(r) = qmp.try_ask("device_add", device)? {
        remove_backend(&mut qmp, &backend_id)?;
        return Err(refused("the device", &r).into());
    }
    let took = Some(began.elapsed());
    let now = devices(&mut qmp)?;
    let pci = now.into_iter().find(|d| d.id == id).map(|d| d.address);
    Ok(Plugged { already: false, pci, port, took })
}

/// Takes a window out, and waits until the VM has let go of it.
///
/// # Errors
/// QEMU cannot be reached, or refuses; or the VM does not let go of it in time.
pub fn detach(socket: &Path, backend: &str, at_most: Duration) -> Result<Plugged, Fault> {
    let mut qmp = Qmp::open(socket)?;
    let names = [backend.to_owned(), format!("{backend}-device")];
    let mut found = None;
    for name in names {
        if has_device(&mut qmp, &name)? {
            found = Some(name);
        }
    }
    let Some(id) = found else {
        remove_backend(&mut qmp, backend)?;
        return Ok(Plugged { already: true, pci: None, port: None, took: None });
    };
    let pci = devices(&mut qmp)?.into_iter().find(|d| d.id == id).map(|d| d.address);
    let began = Instant::now();
    match qmp.try_ask("device_del", json!({ "id": id }))? {
        Ok(_) => {}
        // Asked before, and not yet out.
        Err(r) if r.sentence.contains("in the process of unplug") => {}
        Err(r) => return Err(refused("to take the device out", &r)),
    }
    let gone = qmp.event("DEVICE_DELETED", |d| d["device"] == id.as_str(), at_most)?;
    if gone.is_none() && has_device(&mut qmp, &id)? {
        return Err(Fault::kept("the VM", at_most));
    }
    let took = Some(began.elapsed());
    remove_backend(&mut qmp, backend)?;
    Ok(Plugged { already: false, pci, port: None, took })
}
