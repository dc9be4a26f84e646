//! The host's side of a VF whose packets a switch takes from the VM's memory (vhost-user).
//!
//! QEMU listens, and the switch connects: so a switch that starts anew comes back by itself.

use super::{Qmp, netdev_id, refused};
use crate::hands::{device_id, vf_of_device};
use crate::limits::{OVS_CONNECTS, OVS_CONNECTS_LOOK, QMP_ANSWER};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use vfun_nics::VfId;

/// What begins the names of VFs' sockets in QEMU.
const PREFIX: &str = "chr-";
/// How to make a VM's memory reachable, for people.
const SHARE: &str = "start QEMU with -object memory-backend-memfd,id=ram,size=SIZE,share=on -machine memory-backend=ram";

impl Qmp {
    /// Makes it, also where one was left behind.
    pub(super) fn add_vhost_user(&mut self, vf: &VfId, socket: &Path) -> Result<(), String> {
        self.memory_is_shared()?;
        self.remove_host_side(vf)?;
        let made = self
            .listen(vf, socket)
            // Before: until the switch connects, QEMU does nothing but wait for it here, and
            // the VM stands still.
            .and_then(|()| self.until_connected(vf, socket))
            .and_then(|()| {
                let netdev = netdev_id(vf);
                let side = json!({ "type": "vhost-user", "id": netdev, "chardev": chardev_id(vf) });
                self.add_netdev(&netdev, side)
            });
        if made.is_err() {
            // What is left of it is replaced by the next attempt.
            let _ = self.remove_chardev(vf);
        }
        made
    }

    /// Takes QEMU's socket away, if it is there.
    pub(super) fn remove_chardev(&mut self, vf: &VfId) -> Result<(), String> {
        self.ask("chardev-remove", json!({ "id": chardev_id(vf) }), QMP_ANSWER).map(drop)
    }

    /// Looks once in each connection for sockets of VFs that left the VM while this program did
    /// not hear of it. QEMU would remove such a socket's path when it ends, and the path may be
    /// another VM's by then.
    pub(super) fn find_what_was_left(&mut self, plugged: &[VfId]) {
        if !std::mem::take(&mut self.fresh) {
            return;
        }
        let chardevs = self.list("query-chardev", json!({})).unwrap_or_default();
        let vfs =
            chardevs.iter().filter_map(|c| vf_of_device(text(c, "label").strip_prefix(PREFIX)?));
        self.left_behind.extend(vfs.filter(|vf| !plugged.contains(vf)));
    }

    /// Checks that a switch can reach all memory of the VM. QEMU itself would plug the NIC in
    /// and say to nobody but its log that no packet goes through it.
    fn memory_is_shared(&mut self) -> Result<(), String> {
        for object in self.list("qom-list", json!({ "path": "/objects" }))? {
            let (name, kind) = (text(&object, "name"), text(&object, "type"));
            if !kind.contains("memory-backend-") {
                continue;
            }
            let asked = json!({ "path": format!("/objects/{name}"), "property": "share" });
            let shared = self.ask("qom-get", asked, QMP_ANSWER)?;
            let shared = shared.map_err(|r| refused("qom-get", &r))?;
            // This kind is no file, which could be given to the switch.
            let has_file = !kind.contains("memory-backend-ram");
            if shared != true || !has_file {
                return Err(format!(
                    "the VM's memory '{name}' is QEMU's alone, and the switch has to reach it: {SHARE}"
                ));
            }
        }
        Ok(())
    }

    /// Lets QEMU listen on a socket. (One that this program made and gave away would need no
    /// folder of QEMU's, but QEMU passes the VM's memory on by sockets only that it made.)
    fn listen(&mut self, vf: &VfId, socket: &Path) -> Result<(), String> {
        let address = json!({ "type": "unix", "data": { "path": socket } });
        let data = json!({ "addr": address, "server": true, "wait": false });
        let backend = json!({ "type": "socket", "data": data });
        let chardev = json!({ "id": chardev_id(vf), "backend": backend });
        let added = self.ask("chardev-add", chardev, QMP_ANSWER)?;
        added.map(drop).map_err(|r| refused("chardev-add", &r))
    }

    /// Waits until the switch has connected.
    fn until_connected(&mut self, vf: &VfId, socket: &Path) -> Result<(), String> {
        let until = Instant::now() + OVS_CONNECTS;
        let name = chardev_id(vf);
        loop {
            let chardevs = self.list("query-chardev", json!({}))?;
            let is_connected = |c: &Value| !text(c, "filename").starts_with("disconnected:");
            match chardevs.iter().find(|c| text(c, "label") == name) {
                Some(chardev) if is_connected(chardev) => return Ok(()),
                Some(_) if Instant::now() < until => std::thread::sleep(OVS_CONNECTS_LOOK),
                Some(_) => {
                    return Err(format!(
                        "Open vSwitch did not connect to {} within {} s: does ovs-vswitchd run, as root? Its log says more",
                        socket.display(),
                        OVS_CONNECTS.as_secs()
                    ));
                }
                None => return Err("the VF's socket is gone from QEMU".into()),
            }
        }
    }
}

fn chardev_id(vf: &VfId) -> String {
    format!("{PREFIX}{}", device_id(vf))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
