//! Ports of an Open vSwitch with DPDK: each is an interface of type `dpdk`, whose driver
//! connects to this manager ([`switches`](super::switches)). The switch's database has them
//! with the manager's mark, and keeps them while neither of the two runs.

use super::vsctl::vsctl;
use crate::core::ports::Port;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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
        let marked = format!("external_ids:{KEY}=\"{}\"", self.mark);
        let found = vsctl(&["--bare", "--columns=name", "find", "Interface", &marked]);
        // Without ports for it nobody waits for a switch that does not run.
        let heard = found.is_ok() || (declared.is_empty() && self.made.is_empty());
        let own = found.unwrap_or_default();
        let others = own.split_whitespace().filter(|name| !declared.contains(*name));
        let removed: Result<Vec<String>, String> =
            others.map(|name| vsctl(&["--if-exists", "del-port", name])).collect();
        self.made.retain(|name, _| declared.contains(name));
        if removed.is_ok() && heard {
            self.seen = Some(declared);
        }
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
        let said = |e: String| format!("Open vSwitch says: {e}");
        if let Some(is_in) = bridge_of(name).map_err(said)? {
            let own =
                vsctl(&["--if-exists", "get", "Interface", name, &format!("external_ids:{KEY}")]);
            if own.map_err(said)?.trim().trim_matches('"') != self.mark {
                return Err(format!(
                    "a port {name} is in {is_in} that this manager has not made: give the port another `tap`"
                ));
            }
            if is_in != bridge {
                vsctl(&["--if-exists", "del-port", name]).map_err(said)?;
            }
        }
        self.add(port, bridge, &devargs)?;
        self.made.insert(name.into(), port.clone());
        Ok(())
    }

    fn add(&self, port: &Port, bridge: &str, devargs: &str) -> Result<(), String> {
        let name = port.tap.as_str();
        let words = [
            "--may-exist".into(),
            "add-port".into(),
            bridge.into(),
            name.into(),
            "--".into(),
            "set".into(),
            "Interface".into(),
            name.to_owned(),
            "type=dpdk".into(),
            format!("options:dpdk-devargs=\"{devargs}\""),
            format!("mtu_request={}", port.mtu),
            format!("external_ids:{KEY}=\"{}\"", self.mark),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = |e: String| format!("Open vSwitch says: {e}");
        vsctl(&words).map_err(said)?;
        let error = vsctl(&["--if-exists", "get", "Interface", name, "error"]).map_err(said)?;
        match error.trim().trim_matches(['[', ']', '"']) {
            "" => Ok(()),
            why => Err(format!(
                "Open vSwitch cannot open it: {why} (it needs DPDK, a bridge with datapath_type=netdev, and the driver: `ovs-vsctl get Open_vSwitch . dpdk_initialized other_config:dpdk-extra`; its log says more)"
            )),
        }
    }
}

/// The bridge that a port is in, if there is such a port.
fn bridge_of(name: &str) -> Result<Option<String>, String> {
    match vsctl(&["port-to-br", name]) {
        Ok(bridge) => Ok(Some(bridge.trim().to_owned())),
        Err(e) if e.contains("no port named") => Ok(None),
        Err(e) => Err(e),
    }
}
