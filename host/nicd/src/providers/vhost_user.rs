//! Ports of an Open vSwitch with DPDK, which takes packets from the memory of the VMs.

use super::names::{MARK, port_name};
use super::{Provider, VfOwner};
use crate::limits::{OVS_LEARNS, OVS_LEARNS_LOOK};
use crate::places::Places;
use crate::switch::{Row, Switch};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Instant;
use vfun_nics::limits::SOCKET_BYTES;
use vfun_nics::{PoolName, VfFound, VfId};

/// The kind of port that connects to QEMU's socket.
const PORT: &str = "dpdkvhostuserclient";
/// The mark of a port's bridge: its counters are asked for there.
const BRIDGE: &str = "vfun-bridge";

/// The ports of a pool, one a VF.
pub struct VhostUser {
    pool: PoolName,
    vfs: u16,
    switch: Switch,
    places: Places,
    /// Bridges that have ports of the pool.
    bridges: BTreeSet<String>,
}

/// The socket of a VF, on which the QEMU of its owner listens. Its folder is of QEMU's user:
/// who else reached it could take the VM's packets.
pub fn vhost_socket(places: &Places, vf: &VfId) -> PathBuf {
    places.vhost.join(port_name(vf)).join("socket")
}

impl VhostUser {
    pub fn new(pool: PoolName, vfs: u16, switch: Switch, places: &Places) -> Self {
        let (places, bridges) = (places.clone(), BTreeSet::new());
        VhostUser { pool, vfs, switch, places, bridges }
    }

    fn ids(&self) -> impl Iterator<Item = VfId> + '_ {
        (0..self.vfs).map(|n| VfId(format!("{}-{n}", self.pool)))
    }

    /// The ports of the switch that have names of VFs.
    fn ports(&self) -> Result<BTreeMap<String, Row>, String> {
        let rows = self.switch.table("Port", &["name", "external_ids"], None)?;
        Ok(rows.into_iter().map(|row| (row.text("name"), row)).collect())
    }

    /// Why the switch as a whole has no such ports.
    fn lacks(&self) -> Result<Option<String>, String> {
        let rows = self.switch.table("Open_vSwitch", &["iface_types"], None)?;
        let has = rows.iter().any(|row| row.members("iface_types").iter().any(|t| *t == PORT));
        Ok((!has).then(|| {
            "Open vSwitch runs without DPDK: install openvswitch-switch-dpdk, and say `ovs-vsctl set Open_vSwitch . other_config:dpdk-init=true`".into()
        }))
    }

    /// Checks that a bridge forwards by the processor and not by the kernel.
    fn bridge_fits(&self, bridge: &str) -> Result<(), String> {
        let rows = self.switch.table("Bridge", &["name", "datapath_type"], None)?;
        match rows.iter().find(|row| row.text("name") == bridge) {
            None => Err(format!(
                "Open vSwitch has no bridge {bridge}: make it, or declare the VM with another --bridge"
            )),
            Some(row) if row.text("datapath_type") != "netdev" => Err(format!(
                "the bridge {bridge} forwards in the kernel, which has no such ports: `ovs-vsctl set Bridge {bridge} datapath_type=netdev`"
            )),
            Some(_) => Ok(()),
        }
    }

    /// Makes the port. The switch takes each port into its database, also one that it cannot
    /// make: then it says why in a column.
    fn add(&self, vf: &VfId, owner: &VfOwner) -> Result<(), String> {
        let port = port_name(vf);
        let words = add_words(vf, &port, owner, &vhost_socket(&self.places, vf));
        self.switch.change(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        let rows = self.switch.table("Interface", &["error"], Some(&port))?;
        match rows.first().map(|row| row.text("error")) {
            Some(error) if error.is_empty() => Ok(()),
            Some(error) => Err(format!("Open vSwitch cannot make the port {port}: {error}")),
            None => Err(format!("another program took the port {port} away")),
        }
    }

    fn remove(&self, vf: &VfId) -> Result<(), String> {
        let name = port_name(vf);
        if let Some(port) = self.ports()?.get(&name) {
            if let Some(why) = of_others(port, vf) {
                return Err(why);
            }
            self.switch.change(&["del-port", &name])?;
        }
        match fs::remove_dir_all(self.folder(vf)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(format!("the folder {} cannot be removed: {e}", self.folder(vf).display()))
            }
            _ => Ok(()),
        }
    }

    fn folder(&self, vf: &VfId) -> PathBuf {
        self.places.vhost.join(port_name(vf))
    }

    /// A folder for a VF's socket, in which only this user makes one. There is none yet.
    fn make_folder(&self, vf: &VfId, user: Option<u32>) -> Result<(), String> {
        let (socket, folder) = (vhost_socket(&self.places, vf), self.folder(vf));
        if socket.as_os_str().len() > SOCKET_BYTES {
            return Err(format!(
                "the path of a VF's socket, {}, is too long for a socket: give the manager a root with a shorter path",
                socket.display()
            ));
        }
        let failed = |e| format!("the folder {} cannot be made: {e}", folder.display());
        let make = |folder: &Path, mode| fs::DirBuilder::new().mode(mode).create(folder);
        match make(&self.places.vhost, 0o711) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(e)),
            // Whatever this process's umask is.
            _ => fs::set_permissions(&self.places.vhost, Permissions::from_mode(0o711))
                .map_err(failed)?,
        }
        make(&folder, 0o700).map_err(failed)?;
        chown(&folder, user, None).map_err(failed)
    }
}

/// The words by which `ovs-vsctl` adds a VF's port, in one transaction.
fn add_words(vf: &VfId, port: &str, owner: &VfOwner, socket: &Path) -> Vec<String> {
    let mut words = vec!["add-port".to_owned(), owner.bridge.clone(), port.to_owned()];
    words.extend(owner.vlan.map(|vlan| format!("tag={vlan}")));
    words.push(format!("external_ids:{MARK}=\"{vf}\""));
    words.push(format!("external_ids:{BRIDGE}=\"{}\"", owner.bridge));
    words.extend(["--", "set", "Interface", port].map(str::to_owned));
    words.push(format!("type={PORT}"));
    words.push(format!("options:vhost-server-path=\"{}\"", socket.display()));
    if let Some(mbit) = owner.rate_mbit {
        // In kbit/s and kbit. Open vSwitch advises a tenth of a second; a burst must have room
        // for some packets.
        let kbit = u64::from(mbit) * 1000;
        words.push(format!("ingress_policing_rate={kbit}"));
        words.push(format!("ingress_policing_burst={}", (kbit / 10).max(BURST_KBIT_MIN)));
    }
    words
}

/// Least burst, kbit: ten of the longest packets.
const BURST_KBIT_MIN: u64 = 120;

/// Why a port that is there is not this program's own.
fn of_others(port: &Row, vf: &VfId) -> Option<String> {
    let name = port_name(vf);
    (port.entry("external_ids", MARK) != Some(&vf.0)).then(|| {
        format!(
            "another program made the port {name} of Open vSwitch: rename it there, or remove it if nobody uses it (ovs-vsctl del-port {name})"
        )
    })
}

/// Whether a switch sends the packets for a MAC address to this port, by its table, as
/// `ovs-appctl fdb/show` shows it.
fn sends_to(table: &str, mac: &str, port: &str) -> bool {
    table.lines().any(|line| {
        let mut words = line.split_whitespace();
        let (at, _vlan, of) = (words.next(), words.next(), words.next());
        at == Some(port) && of.is_some_and(|of| of.eq_ignore_ascii_case(mac))
    })
}

/// Packets in both directions at each port, as `ovs-ofctl dump-ports` shows them.
fn counted(text: &str) -> BTreeMap<String, u64> {
    let mut packets: BTreeMap<String, u64> = BTreeMap::new();
    let mut port = String::new();
    for line in text.lines() {
        let count = match line.trim().strip_prefix("port ") {
            Some(line) => {
                let Some((name, count)) = line.split_once(": ") else { continue };
                port = name.trim().trim_matches('"').to_owned();
                count
            }
            None => line.trim(),
        };
        let number = |direction: &str| {
            let text = count.strip_prefix(direction)?.trim_start().strip_prefix("pkts=")?;
            text.split(',').next()?.parse::<u64>().ok()
        };
        if let Some(n) = number("rx").or_else(|| number("tx")) {
            let so_far = packets.entry(port.clone()).or_default();
            *so_far = so_far.saturating_add(n);
        }
    }
    packets
}

impl Provider for VhostUser {
    fn list(&mut self) -> Result<Vec<VfFound>, String> {
        let ports = self.ports()?;
        let lacks = self.lacks()?;
        let found = |vf: VfId| {
            let port = ports.get(&port_name(&vf));
            let unusable = port.and_then(|p| of_others(p, &vf)).or_else(|| lacks.clone());
            let clean = port.is_none() && !self.folder(&vf).exists();
            VfFound { vf, unusable, clean }
        };
        let found = self.ids().map(found).collect();
        let ours = self.ids().filter_map(|vf| {
            let port = ports.get(&port_name(&vf)).filter(|p| of_others(p, &vf).is_none())?;
            port.entry("external_ids", BRIDGE).map(str::to_owned)
        });
        self.bridges = ours.collect();
        Ok(found)
    }

    fn prepare(&mut self, vf: &VfId, owner: &VfOwner) -> Result<(), String> {
        self.bridge_fits(&owner.bridge)?;
        self.remove(vf)?;
        let made = self.make_folder(vf, owner.user);
        if let Err(why) = made.and_then(|()| self.add(vf, owner)) {
            // What is left of it is removed before the next attempt.
            let _ = self.remove(vf);
            return Err(why);
        }
        self.bridges.insert(owner.bridge.clone());
        Ok(())
    }

    /// A packet that matches a flow in its cache teaches the switch nothing before it looks
    /// through that cache: twice a second, or less often if it is busy or told so
    /// (`max-revalidator`). Until then it sends to the VF what is for the VM.
    fn relearn(&mut self, vf: &VfId, owner: &VfOwner) -> Result<(), String> {
        let rows = self.switch.table("Interface", &["ofport"], Some(&port_name(vf)))?;
        let Some(port) = rows.first().map(|row| row.text("ofport")) else { return Ok(()) };
        let begin = Instant::now();
        while sends_to(&self.switch.appctl(&["fdb/show", &owner.bridge])?, &owner.mac, &port) {
            if begin.elapsed() >= OVS_LEARNS {
                let s = OVS_LEARNS.as_secs();
                return Err(format!(
                    "the bridge {} sends to the VF what is for {}, {s} s after the VM has left the VF",
                    owner.bridge, owner.mac
                ));
            }
            std::thread::sleep(OVS_LEARNS_LOOK);
        }
        Ok(())
    }

    fn reset(&mut self, vf: &VfId) -> Result<(), String> {
        self.remove(vf)
    }

    fn packets(&mut self) -> BTreeMap<VfId, u64> {
        let mut packets = BTreeMap::new();
        for bridge in &self.bridges {
            // The database has such counters too, but Open vSwitch renews them each 5 s only.
            let Ok(text) = self.switch.ofctl("dump-ports", bridge) else { continue };
            let counted = counted(&text);
            let ours = self.ids().filter_map(|vf| {
                let count = *counted.get(&port_name(&vf))?;
                Some((vf, count))
            });
            packets.extend(ours);
        }
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> VfOwner {
        VfOwner {
            mac: "52:54:00:00:00:01".into(),
            bridge: "br0".into(),
            vlan: None,
            rate_mbit: None,
            user: None,
        }
    }

    fn words(owner: &VfOwner) -> String {
        let vf = VfId("fast-0".into());
        add_words(&vf, &port_name(&vf), owner, Path::new("/v/vt-fast-0")).join(" ")
    }

    #[test]
    fn a_port_is_added_with_its_mark_its_socket_and_its_bounds() {
        let plain = words(&owner());
        assert!(plain.starts_with("add-port br0 vt-fast-0 external_ids:vfun-nics=\"fast-0\""));
        for word in [
            "-- set Interface vt-fast-0 type=dpdkvhostuserclient",
            "options:vhost-server-path=\"/v/vt-fast-0\"",
        ] {
            assert!(plain.contains(word), "{word}: {plain}");
        }
        assert!(!plain.contains("tag=") && !plain.contains("policing"), "{plain}");
        let bound = words(&VfOwner { vlan: Some(7), rate_mbit: Some(100), ..owner() });
        for word in ["vt-fast-0 tag=7", "policing_rate=100000", "policing_burst=10000"] {
            assert!(bound.contains(word), "{word}: {bound}");
        }
        let slow = words(&VfOwner { rate_mbit: Some(1), ..owner() });
        assert!(slow.ends_with("policing_burst=120"), "{slow}");
    }

    #[test]
    fn the_port_of_an_address_is_read() {
        let table = " port  VLAN  MAC                Age\n    12     0  52:54:00:00:00:01    3\n\
             LOCAL     7  52:54:00:00:00:02    1\n";
        assert!(sends_to(table, "52:54:00:00:00:01", "12"));
        assert!(sends_to(table, "52:54:00:00:00:02", "LOCAL"));
        assert!(!sends_to(table, "52:54:00:00:00:01", "1"), "it is at another port");
        assert!(!sends_to(table, "52:54:00:00:00:03", "12"), "it is nowhere");
    }

    #[test]
    fn counters_of_ports_are_read() {
        let text = "OFPST_PORT reply (OF1.4) (xid=0x4): 3 ports\n  \
             port  \"vt-fast-0\": rx pkts=3, bytes=200, drop=0, errs=0, frame=?, over=?, crc=?\n           \
             tx pkts=4, bytes=400, drop=2, errs=?, coll=?\n           duration=9.3s\n  \
             port LOCAL: rx pkts=1, bytes=2, drop=0, errs=0, frame=0, over=0, crc=0\n           \
             tx pkts=5, bytes=0, drop=0, errs=0, coll=0\n  \
             port  down: rx pkts=?, bytes=?, drop=?\n           tx pkts=?, bytes=?\n";
        let counted = counted(text);
        let expected = [("LOCAL", 6), ("vt-fast-0", 7)].map(|(p, n)| (p.to_owned(), n));
        assert_eq!(counted, BTreeMap::from(expected));
    }
}
