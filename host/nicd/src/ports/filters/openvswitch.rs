//! What an Open vSwitch does with a VM's port because it is that port. The VM's VF is another
//! port of the same bridge: what the bridge does with all packets, it does with the VF's too.

use crate::ports::Port;
use crate::switch::{Row, Switch};
use std::collections::{BTreeMap, BTreeSet};

/// Columns with the ports that a mirror copies from.
const MIRRORED: [&str; 2] = ["select_src_port", "select_dst_port"];

/// What one switch says of the ports of some bridges.
pub struct SwitchRules {
    bridges: Vec<Row>,
    ports: Vec<Row>,
    interfaces: Vec<Row>,
    mirrors: Vec<Row>,
    /// Rules by bridge, as text.
    flows: BTreeMap<String, Result<String, String>>,
}

impl SwitchRules {
    pub fn read(switch: &Switch, bridges: BTreeSet<&str>) -> Result<Self, String> {
        let all = |table, columns: &[&str]| switch.table(table, columns, None);
        let flows = |bridge: &str| (bridge.to_owned(), switch.ofctl("dump-flows", bridge));
        Ok(SwitchRules {
            bridges: all("Bridge", &["name", "ports"])?,
            ports: all("Port", &["_uuid", "name", "tag", "trunks", "vlan_mode", "qos"])?,
            interfaces: all("Interface", &["name", "ingress_policing_rate"])?,
            mirrors: all("Mirror", &MIRRORED)?,
            flows: bridges.into_iter().map(flows).collect(),
        })
    }

    /// Of one port, a sentence each.
    pub fn of(&self, port: &Port) -> Vec<String> {
        let Port { tap, bridge, .. } = port;
        let named = |rows: &'_ [Row], name: &str| rows.iter().position(|r| r.text("name") == *name);
        let Some(on) = named(&self.bridges, bridge) else {
            return vec![format!("Open vSwitch has no bridge {bridge}")];
        };
        let there = named(&self.ports, tap).map(|at| &self.ports[at]);
        let Some(row) = there.filter(|row| self.bridges[on].refers_to("ports", row)) else {
            return vec![format!("its tap {tap} is no port of Open vSwitch's bridge {bridge}")];
        };
        let mut found: Vec<String> = vlan(port, row).into_iter().collect();
        if !row.members("qos").is_empty() {
            found.push("its port has queues of Open vSwitch (QoS)".into());
        }
        let interface = named(&self.interfaces, tap).map(|at| &self.interfaces[at]);
        let bound = interface.map(|i| i.text("ingress_policing_rate")).unwrap_or_default();
        if !["", "0"].contains(&&*bound) && port.rate_mbit.is_none() {
            found.push(format!(
                "its port bounds the rate ({bound} kbit/s); declare the VM with --rate, then its VF is bound too"
            ));
        }
        if self.mirrors.iter().any(|m| MIRRORED.iter().any(|c| m.refers_to(c, row))) {
            found.push("its port is mirrored".into());
        }
        match self.flows.get(bridge) {
            Some(Ok(flows)) => found.extend(rules(tap, flows)),
            Some(Err(why)) => found.push(format!("the bridge's rules cannot be read: {why}")),
            None => {}
        }
        found
    }
}

fn vlan(port: &Port, row: &Row) -> Option<String> {
    let (tag, mode) = (row.text("tag"), row.text("vlan_mode"));
    let wanted = port.vlan.map(|v| v.to_string()).unwrap_or_default();
    let plain = ["", "access"].contains(&&*mode) && row.members("trunks").is_empty();
    match plain && tag == wanted {
        true => None,
        false if !plain => Some("its port is in several VLANs (trunks, vlan_mode)".into()),
        false if tag.is_empty() => {
            Some(format!("its port has no tag, and VLAN {wanted} is declared"))
        }
        false => Some(format!(
            "its port has the tag {tag}: declare the VM with --vlan {tag}, then its VF has it too"
        )),
    }
}

/// Rules that name the port, or of which that is not known.
fn rules(tap: &str, flows: &str) -> Option<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let names_it = flows.split(|c| !is_letter(c)).any(|word| word == tap);
    match names_it {
        true => Some(format!("rules of the bridge name its port {tap}, and not its VF's")),
        false if flows.contains("group:") => {
            Some("rules of the bridge send packets to groups, which are not read".into())
        }
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vfun_admin::VmName;

    fn row(value: serde_json::Value) -> Row {
        Row::new(value.as_object().unwrap().clone())
    }

    fn port(vlan: Option<u16>, rate_mbit: Option<u32>) -> Port {
        let name = VmName::new("a", "a");
        let switch = Some(Switch::new("/run/x".into()));
        Port { name, tap: "t1".into(), bridge: "br0".into(), vlan, rate_mbit, switch }
    }

    fn set() -> serde_json::Value {
        json!(["set", []])
    }

    /// A bridge with the port `t1`, which has a tag or a bound or none.
    fn switch(tag: serde_json::Value, bound: u32, flows: &str) -> SwitchRules {
        let uuid = json!(["uuid", "u1"]);
        SwitchRules {
            bridges: vec![row(json!({ "name": "br0", "ports": uuid }))],
            ports: vec![row(json!({
                "_uuid": uuid, "name": "t1", "tag": tag, "trunks": set(), "vlan_mode": set(),
                "qos": set(),
            }))],
            interfaces: vec![row(json!({ "name": "t1", "ingress_policing_rate": bound }))],
            mirrors: vec![],
            flows: BTreeMap::from([("br0".to_owned(), Ok(flows.to_owned()))]),
        }
    }

    #[test]
    fn a_port_like_any_other_has_no_filters() {
        let normal = " cookie=0x0, priority=0 actions=NORMAL";
        assert!(switch(set(), 0, normal).of(&port(None, None)).is_empty());
        assert!(switch(json!(7), 0, normal).of(&port(Some(7), None)).is_empty());
        assert!(switch(set(), 9, normal).of(&port(None, Some(1))).is_empty());
        assert!(switch(set(), 0, "in_port=t11 actions=drop").of(&port(None, None)).is_empty());
    }

    #[test]
    fn what_is_done_with_the_port_alone_is_said() {
        let said = |s: SwitchRules, p: Port| s.of(&p).join("; ");
        let none = || port(None, None);
        assert!(said(switch(json!(7), 0, ""), none()).contains("--vlan 7"));
        assert!(said(switch(set(), 0, ""), port(Some(7), None)).contains("VLAN 7 is declared"));
        assert!(said(switch(set(), 9, ""), none()).contains("--rate"));
        for flows in ["in_port=t1 actions=drop", "in_port=\"t1\",ip actions=2"] {
            assert!(said(switch(set(), 0, flows), none()).contains("name its port t1"), "{flows}");
        }
        assert!(said(switch(set(), 0, "ip actions=group:7"), none()).contains("groups"));
        let mut rich = switch(set(), 0, "");
        rich.mirrors = vec![row(json!({ "select_src_port": ["uuid", "u1"] }))];
        assert!(said(rich, none()).contains("mirrored"));
        let mut apart = switch(set(), 0, "");
        apart.bridges = vec![row(json!({ "name": "br0", "ports": set() }))];
        assert!(said(apart, none()).contains("no port of Open vSwitch's bridge br0"));
        let mut gone = switch(set(), 0, "");
        gone.bridges.clear();
        assert!(said(gone, none()).contains("no bridge br0"));
    }
}
