//! Hands by QEMU's control socket (QMP), one connection kept open.

mod connection;
mod vhost;

use super::{Device, Hands, Kind, SaidByVm, device_id, vf_of_device};
use crate::limits::{LOOK_AT_VM, QMP_ABSENT, QMP_ABSENT_PAUSE, QMP_AGAIN, QMP_ANSWER, QMP_PLUG};
use connection::{Absent, Connection, QmpTrouble};
use serde_json::{Value, json};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vfun_nics::{VfId, VmFound};

/// Hands of a VM whose QEMU listens on a socket that nobody else uses.
pub struct Qmp {
    socket: PathBuf,
    connection: Option<Connection>,
    /// When to connect again, after trouble, and the pause that led to it.
    again: Option<(Instant, Duration, String)>,
    /// The QEMU that was connected last.
    process: Option<connection::Process>,
    said: Vec<SaidByVm>,
    /// VFs that are gone, whose host's side in QEMU may be there still.
    left_behind: Vec<VfId>,
    /// It is not known what was left in it before it was connected.
    fresh: bool,
}

impl Qmp {
    pub fn new(socket: PathBuf) -> Self {
        Qmp {
            socket,
            connection: None,
            again: None,
            process: None,
            said: vec![],
            left_behind: vec![],
            fresh: true,
        }
    }

    /// Connects, if it is not. None: no QEMU is there.
    fn connect(&mut self) -> Result<Option<&mut Connection>, String> {
        if self.connection.is_some() {
            return Ok(self.connection.as_mut());
        }
        if let Some((at, _, why)) = &self.again
            && Instant::now() < *at
        {
            return Err(why.clone());
        }
        for attempt in 0..QMP_ABSENT {
            if attempt > 0 {
                std::thread::sleep(QMP_ABSENT_PAUSE);
            }
            match Connection::open(&self.socket) {
                Ok(Ok(connection)) => {
                    self.process = connection.process();
                    (self.again, self.fresh) = (None, true);
                    return Ok(Some(self.connection.insert(connection)));
                }
                Ok(Err(Absent)) => {}
                Err(trouble) => return Err(self.broken(&trouble)),
            }
        }
        match self.process.as_ref().filter(|p| p.runs()) {
            Some(process) => Err(format!(
                "nobody listens on its control socket {}, but QEMU (process {}) still runs",
                self.socket.display(),
                process.pid
            )),
            None => Ok(None),
        }
    }

    /// Closes the connection; the next one is opened after a pause.
    fn broken(&mut self, trouble: &QmpTrouble) -> String {
        self.connection = None;
        let pause = self.again.take().map_or(QMP_AGAIN.0, |(_, p, _)| (p * 2).min(QMP_AGAIN.1));
        let why = format!("QEMU's control socket {}: {trouble}", self.socket.display());
        self.again = Some((Instant::now() + pause, pause, why.clone()));
        why
    }

    /// Runs a command. The outer error: nothing is known of what became of it.
    fn ask(
        &mut self,
        name: &str,
        arguments: Value,
        at_most: Duration,
    ) -> Result<Result<Value, vfun_qmp::Refusal>, String> {
        let Some(connection) = self.connect()? else {
            return Err(format!("the VM does not run: no QEMU on {}", self.socket.display()));
        };
        let asked = connection.ask(name, arguments, at_most);
        self.take_events();
        asked.map_err(|trouble| self.broken(&trouble))
    }

    fn take_events(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        for event in connection.events() {
            if event["event"] == "DEVICE_DELETED"
                && let Some(vf) = event["data"]["device"].as_str().and_then(vf_of_device)
            {
                let said = SaidByVm::Deleted(vf.clone());
                if !self.said.contains(&said) {
                    self.said.push(said);
                    self.left_behind.push(vf);
                }
            }
        }
    }

    /// The VFs that are plugged in, those that are leaving too.
    fn plugged(&mut self) -> Result<Vec<VfId>, String> {
        let listed = self.list("qom-list", json!({ "path": "/machine/peripheral" }))?;
        Ok(listed.iter().filter_map(|d| vf_of_device(d["name"].as_str()?)).collect())
    }

    /// Asks for a list.
    fn list(&mut self, question: &str, arguments: Value) -> Result<Vec<Value>, String> {
        match self.ask(question, arguments, QMP_ANSWER)? {
            Ok(Value::Array(list)) => Ok(list),
            Ok(_) => Err(format!("QEMU's answer to {question} is no list")),
            Err(refusal) => Err(refused(question, &refusal)),
        }
    }

    /// Makes the host's side of a NIC, also where one was left behind.
    fn add_netdev(&mut self, id: &str, netdev: Value) -> Result<(), String> {
        let added = self.ask("netdev_add", netdev.clone(), QMP_ANSWER)?;
        let Err(refusal) = added else { return Ok(()) };
        if !refusal.sentence.to_lowercase().contains("duplicate") {
            return Err(refused("netdev_add", &refusal));
        }
        self.remove_netdev(id)?;
        let added = self.ask("netdev_add", netdev, QMP_ANSWER)?;
        added.map(drop).map_err(|r| refused("netdev_add", &r))
    }

    /// Takes away what VFs that are gone left behind.
    fn clean_up(&mut self) {
        for vf in std::mem::take(&mut self.left_behind) {
            // What cannot be taken away now is replaced by the next plug.
            let _ = self.remove_host_side(&vf);
        }
    }

    /// Takes away what a VF has beside its device, whatever of it is there.
    fn remove_host_side(&mut self, vf: &VfId) -> Result<(), String> {
        self.remove_netdev(&netdev_id(vf))?;
        self.remove_chardev(vf)
    }

    /// Takes it away, if it is there.
    fn remove_netdev(&mut self, id: &str) -> Result<(), String> {
        self.ask("netdev_del", json!({ "id": id }), QMP_ANSWER).map(drop)
    }
}

fn netdev_id(vf: &VfId) -> String {
    format!("net-{}", device_id(vf))
}

fn refused(command: &str, refusal: &vfun_qmp::Refusal) -> String {
    format!("QEMU refused {command}: {}", crate::child::short(&refusal.sentence))
}

impl Hands for Qmp {
    fn inspect(&mut self) -> VmFound {
        match self.connect() {
            Ok(None) => return VmFound::Ended,
            Err(why) => return VmFound::Unknown { why },
            Ok(Some(_)) => {}
        }
        match self.plugged() {
            Ok(plugged) => {
                self.find_what_was_left(&plugged);
                VmFound::Runs { plugged }
            }
            Err(why) => VmFound::Unknown { why },
        }
    }

    fn plug(&mut self, device: &Device) -> Result<(), String> {
        if self.plugged()?.contains(&device.vf) {
            return Ok(());
        }
        self.clean_up();
        let (id, netdev) = (device_id(&device.vf), netdev_id(&device.vf));
        let mut arguments = match &device.kind {
            Kind::Pci => json!({ "driver": "vfio-pci", "id": id, "host": device.vf.0 }),
            Kind::Emulated { tap, model } => {
                let side = json!({
                    "type": "tap", "id": netdev, "ifname": tap, "script": "no", "downscript": "no",
                });
                self.add_netdev(&netdev, side)?;
                json!({ "driver": model, "id": id, "netdev": netdev, "mac": device.mac })
            }
            Kind::VhostUser { socket } => {
                self.add_vhost_user(&device.vf, socket)?;
                // The VM makes all checksums: Open vSwitch 3.1 adds none where a packet leaves
                // it by an interface of the kernel, and receivers drop such packets.
                json!({
                    "driver": "virtio-net-pci", "id": id, "netdev": netdev, "mac": device.mac,
                    "csum": false,
                })
            }
        };
        if let Some(bus) = &device.bus {
            arguments["bus"] = bus.as_str().into();
        }
        let added = self.ask("device_add", arguments, QMP_PLUG)?;
        // It has its host's side again.
        self.left_behind.retain(|vf| *vf != device.vf);
        added.map(drop).map_err(|refusal| {
            if device.kind != Kind::Pci {
                // What is left of it is replaced by the next attempt.
                let _ = self.remove_host_side(&device.vf);
            }
            refused("device_add", &refusal)
        })
    }

    fn unplug(&mut self, vf: &VfId) -> Result<(), String> {
        match self.ask("device_del", json!({ "id": device_id(vf) }), QMP_ANSWER)? {
            Ok(_) => Ok(()),
            Err(r) if r.class == "DeviceNotFound" => {
                self.said.push(SaidByVm::Deleted(vf.clone()));
                Ok(())
            }
            Err(r) if r.sentence.contains("in the process of unplug") => Ok(()),
            Err(r) => Err(refused("device_del", &r)),
        }
    }

    fn line(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(Connection::line)
    }

    fn hear(&mut self) -> Vec<SaidByVm> {
        if let Some(connection) = &mut self.connection {
            let heard = connection.hear();
            self.take_events();
            if let Err(trouble) = heard {
                self.broken(&trouble);
            }
        }
        self.clean_up();
        std::mem::take(&mut self.said)
    }

    fn look_again(&self) -> Duration {
        match &self.again {
            Some((_, pause, _)) => *pause,
            None if self.connection.is_none() => QMP_AGAIN.1,
            None => LOOK_AT_VM,
        }
    }
}
