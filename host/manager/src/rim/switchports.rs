//! Ports of an Open vSwitch with DPDK: each is an interface of type `dpdk`, whose driver
//! connects to this manager ([`switches`](super::switches)). The switch's database has them
//! with the manager's mark, and keeps them while neither of the two runs.

use super::ovs::Ovs;
use crate::core::ports::Port;
use crate::limits::SWITCH_REST;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

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
    /// Those that the switch could not open, when that was seen, and why.
    failed: BTreeMap<String, (Instant, String)>,
    /// Those that were declared at the last look; nothing before it.
    seen: Option<BTreeSet<String>>,
    /// When the switch was last asked how they are.
    looked: Instant,
}

impl SwitchPorts {
    pub fn new(mark: &str, socket: &Path) -> Self {
        SwitchPorts {
            mark: mark.into(),
            socket: socket.into(),
            made: BTreeMap::new(),
            failed: BTreeMap::new(),
            seen: None,
            looked: Instant::now(),
        }
    }

    /// Removes those that are not among these any more.
    pub fn remove_others<'a>(&mut self, ovs: &Ovs, declared: impl Iterator<Item = &'a Port>) {
        let declared: BTreeSet<String> = declared.map(|p| p.tap.clone()).collect();
        if self.seen.as_ref() == Some(&declared) {
            return;
        }
        self.made.retain(|name, _| declared.contains(name));
        self.failed.retain(|name, _| declared.contains(name));
        let removed = self.own(ovs).and_then(|own| {
            let names = own.iter().map(|(name, _)| name);
            let mut others = names.filter(|name| !declared.contains(*name));
            others.try_for_each(|name| ovs.change(&["--if-exists", "del-port", name.as_str()]))
        });
        // A switch that does not run has its database later, and is asked again. Without
        // ports for it nobody waits for that.
        if removed.is_ok() || declared.is_empty() {
            self.seen = Some(declared);
        }
    }

    /// The interfaces that bear this manager's mark, and what the switch says is wrong with them.
    fn own(&self, ovs: &Ovs) -> Result<Vec<(String, String)>, String> {
        let all = ovs.run(|s| s.table("Interface", &["name", "external_ids", "error"], None))?;
        let own = all.iter().filter(|row| row.entry("external_ids", KEY) == Some(&self.mark));
        Ok(own.map(|row| (row.text("name"), row.text("error"))).collect())
    }

    /// Asks now and then how they are: a switch that starts again may fail to open them.
    pub fn look(&mut self, ovs: &Ovs) {
        if self.made.is_empty() || self.looked.elapsed() < SWITCH_REST {
            return;
        }
        self.looked = Instant::now();
        for (name, error) in self.own(ovs).unwrap_or_default() {
            if !error.is_empty() && self.made.remove(&name).is_some() {
                self.failed.insert(name, (Instant::now(), cannot_open(&error)));
            }
        }
    }

    /// Sees to it that a port is in its switch.
    pub fn make(&mut self, ovs: &Ovs, port: &Port, may_change: bool) -> Result<(), String> {
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
        if let Some((at, why)) = self.failed.get(name)
            && at.elapsed() < SWITCH_REST
        {
            return Err(why.clone());
        }
        self.failed.remove(name);
        self.leave_other(ovs, name, bridge)?;
        if let Some(why) = self.add(ovs, port, bridge, &devargs)? {
            self.failed.insert(name.into(), (Instant::now(), why.clone()));
            return Err(why);
        }
        self.made.insert(name.into(), port.clone());
        Ok(())
    }

    /// Takes a port of this manager out of a bridge that is not its own any more, and one that
    /// the switch could not open: it tries that again only for a port that comes.
    fn leave_other(&self, ovs: &Ovs, name: &str, bridge: &str) -> Result<(), String> {
        let columns = ["external_ids", "error"];
        let found = ovs.run(|s| s.table("Interface", &columns, Some(name)))?;
        let Some(there) = found.first() else { return Ok(()) };
        let is_in = ovs.run(|s| s.ask(&["port-to-br", name]))?;
        if there.entry("external_ids", KEY) != Some(&self.mark) {
            return Err(format!(
                "a port {name} is in {is_in} that this manager has not made: give the port another `tap`"
            ));
        }
        if is_in != bridge || !there.text("error").is_empty() {
            ovs.change(&["--if-exists", "del-port", name])?;
        }
        Ok(())
    }

    /// Adds a port: what the switch says is wrong with it.
    fn add(
        &self,
        ovs: &Ovs,
        port: &Port,
        bridge: &str,
        devargs: &str,
    ) -> Result<Option<String>, String> {
        let name = port.tap.as_str();
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
        ovs.change(&words)?;
        let found = ovs.run(|s| s.table("Interface", &["error"], Some(name)))?;
        let error = found.first().map(|row| row.text("error")).filter(|e| !e.is_empty());
        Ok(error.map(|e| cannot_open(&e)))
    }
}

fn cannot_open(why: &str) -> String {
    format!(
        "Open vSwitch cannot open it: {why} (it needs DPDK, a bridge with datapath_type=netdev, and the driver: `ovs-vsctl get Open_vSwitch . dpdk_initialized other_config:dpdk-extra`; its log says more)"
    )
}
