//! Ports of an Open vSwitch with DPDK: each is an interface of type `dpdk`, whose driver
//! connects to this manager ([`switches`](super::switches)). The switch's database has them
//! with the manager's mark, and keeps them while neither of the two runs.

use crate::core::ports::Port;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vfun_hostnet::switch::Switch;

/// The key of the mark among an interface's `external_ids`.
const KEY: &str = "virtfun";

/// What the driver is told: which device it is, where it connects, for which port, and whose
/// that socket is.
pub(super) fn devargs(socket: &Path, name: &str) -> String {
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.into());
    let owner = rustix::process::geteuid().as_raw();
    format!("net_vfun_{name},socket={},port={name},owner={owner}", socket.display())
}

/// The ports that this manager has made, or one before it with its root.
pub(super) struct SwitchPorts {
    mark: String,
    socket: std::path::PathBuf,
    /// Ports that are in the switch as they are to be.
    made: BTreeMap<String, Port>,
    /// Those that were declared at the last look; nothing before it.
    seen: Option<BTreeSet<String>>,
}

impl SwitchPorts {
    pub fn new(mark: &str, socket: &Path) -> Self {
        SwitchPorts { mark: mark.into(), socket: socket.into(), made: BTreeMap::new(), seen: None }
    }

    /// Removes those that are not among these any more.
    pub fn remove_others<'a>(&mut self, declared: impl Iterator<Item = &'a Port>) {
        let declared: BTreeSet<String> = declared.map(|p| p.tap.clone()).collect();
        if self.seen.as_ref() == Some(&declared) {
            return;
        }
        self.made.retain(|name, _| declared.contains(name));
        let removed = self.own().and_then(|own| {
            let mut others = own.iter().filter(|name| !declared.contains(*name));
            others.try_for_each(|name| {
                Switch::of_host().change(&["--if-exists", "del-port", name.as_str()])
            })
        });
        // A switch that does not run has its database later, and is asked again. Without
        // ports for it nobody waits for that.
        if removed.is_ok() || declared.is_empty() {
            self.seen = Some(declared);
        }
    }

    /// The interfaces that bear this manager's mark.
    fn own(&self) -> Result<Vec<String>, String> {
        let all = Switch::of_host().table("Interface", &["name", "external_ids"], None)?;
        let own = all.iter().filter(|row| row.entry("external_ids", KEY) == Some(&self.mark));
        Ok(own.map(|row| row.text("name")).collect())
    }

    /// Sees to it that a port is in its switch.
    pub fn make(&mut self, port: &Port, may_change: bool) -> Result<(), String> {
        let (name, Some(bridge)) = (port.tap.as_str(), port.switch.as_deref()) else {
            return Ok(());
        };
        if self.made.get(name) == Some(port) {
            return Ok(());
        }
        let devargs = devargs(&self.socket, name);
        if !may_change {
            return Err(format!(
                "this manager changes no switch: start vfund with --ports, or run `ovs-vsctl add-port {bridge} {name} -- set Interface {name} type=dpdk options:dpdk-devargs={devargs}`"
            ));
        }
        if devargs.contains([' ', '"']) || devargs.matches(',').count() != 3 {
            return Err(format!(
                "DPDK takes no path with a comma, a quotation mark or a space: give vfund another root than {}",
                self.socket.display()
            ));
        }
        self.leave_other(name, bridge)?;
        self.add(port, bridge, &devargs)?;
        self.made.insert(name.into(), port.clone());
        Ok(())
    }

    /// Takes a port of this manager out of a bridge that is not its own any more.
    fn leave_other(&self, name: &str, bridge: &str) -> Result<(), String> {
        let switch = Switch::of_host();
        let found = switch.table("Interface", &["external_ids"], Some(name)).map_err(said)?;
        let Some(there) = found.first() else { return Ok(()) };
        let is_in = switch.ask(&["port-to-br", name]).map_err(said)?;
        if there.entry("external_ids", KEY) != Some(&self.mark) {
            return Err(format!(
                "a port {name} is in {is_in} that this manager has not made: give the port another `tap`"
            ));
        }
        if is_in != bridge {
            switch.change(&["--if-exists", "del-port", name]).map_err(said)?;
        }
        Ok(())
    }

    fn add(&self, port: &Port, bridge: &str, devargs: &str) -> Result<(), String> {
        let (name, switch) = (port.tap.as_str(), Switch::of_host());
        let words = [
            "--may-exist",
            "add-port",
            bridge,
            name,
            "--",
            "set",
            "Interface",
            name,
            "type=dpdk",
            &format!("options:dpdk-devargs=\"{devargs}\""),
            &format!("mtu_request={}", port.mtu),
            &format!("external_ids:{KEY}=\"{}\"", self.mark),
        ];
        switch.change(&words).map_err(said)?;
        let found = switch.table("Interface", &["error"], Some(name)).map_err(said)?;
        match found.first().map(|row| row.text("error")).unwrap_or_default().as_str() {
            "" => Ok(()),
            why => Err(format!(
                "Open vSwitch cannot open it: {why} (it needs DPDK, a bridge with datapath_type=netdev, and the driver: `ovs-vsctl get Open_vSwitch . dpdk_initialized other_config:dpdk-extra`; its log says more)"
            )),
        }
    }
}

fn said(e: String) -> String {
    format!("Open vSwitch says: {e}")
}
