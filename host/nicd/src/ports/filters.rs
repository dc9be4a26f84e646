//! What a VM's port enforces that a VF would pass by: filters and queues of `tc`, VLANs and
//! flags of the bridge, rules of netfilter, another switch. What cannot be read counts as
//! a filter: a VF would pass that by too.

mod netfilter;
mod openvswitch;

pub use netfilter::iptables;

use super::Port;
use crate::child;
use crate::limits::IP_TIME;
use crate::netdev::Netdev;
use crate::places::Places;
use crate::switch::Switch;
use openvswitch::SwitchRules;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Queues that bound and filter nothing.
const PLAIN_QUEUES: [&str; 7] =
    ["noqueue", "pfifo_fast", "pfifo", "fq_codel", "fq", "mq", "multiq"];
/// Queues that bound the rate.
const RATE_QUEUES: [&str; 4] = ["tbf", "htb", "hfsc", "cbq"];
/// Hooks that filters hang on; they themselves do nothing.
const HOOKS: [&str; 2] = ["ingress", "clsact"];

/// What `tc`, `bridge` and `nft` say of all ports, and Open vSwitches of theirs.
pub struct Rules {
    queues: Result<Value, String>,
    vlans: Result<Value, String>,
    links: Result<Value, String>,
    chains: Result<Value, String>,
    switches: BTreeMap<Switch, Result<SwitchRules, String>>,
}

fn json(program: &str, words: &[&str]) -> Result<Value, String> {
    parse(program, &child::must(program, words, "", IP_TIME)?)
}

/// What a program said; null if it said nothing.
fn parse(program: &str, text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|e| format!("`{program}` does not speak JSON: {e}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Rules {
    pub fn read(ports: &[Port]) -> Self {
        let mut bridges: BTreeMap<&Switch, BTreeSet<&str>> = BTreeMap::new();
        for port in ports {
            if let Some(switch) = &port.switch {
                bridges.entry(switch).or_default().insert(&port.bridge);
            }
        }
        let rules = |(switch, bridges): (&Switch, BTreeSet<&str>)| {
            (switch.clone(), SwitchRules::read(switch, bridges))
        };
        Rules {
            queues: json("tc", &["-j", "qdisc", "show"]),
            vlans: json("bridge", &["-j", "vlan", "show"]),
            links: json("bridge", &["-d", "-j", "link", "show"]),
            chains: netfilter::chains(),
            switches: bridges.into_iter().map(rules).collect(),
        }
    }

    /// Of one port, a sentence each.
    pub fn of(&self, port: &Port, places: &Places) -> Vec<String> {
        let Places { sys, proc, .. } = places;
        let tap = Netdev::new(sys, &port.tap);
        if !tap.is_there() {
            return vec![format!("its tap {} is not there", port.tap)];
        }
        let unreadable = |what: &str, why: &String| format!("{what} cannot be read: {why}");
        let mut found = match port.switch.as_ref().and_then(|switch| self.switches.get(switch)) {
            Some(Ok(rules)) => rules.of(port),
            Some(Err(why)) => vec![unreadable("its Open vSwitch", why)],
            None => self.switch(port, &tap, sys),
        };
        match &self.queues {
            Ok(queues) => found.extend(queue_rules(port, queues, tc_filters)),
            Err(why) => found.push(unreadable("the port's traffic control", why)),
        }
        match &self.links {
            Ok(links) => found.extend(flags(port, links)),
            Err(why) => found.push(unreadable("the port's flags", why)),
        }
        match &self.chains {
            Ok(chains) => found.extend(netfilter::of_tap(&port.tap, chains)),
            Err(why) => found.push(unreadable("the host's nftables", why)),
        }
        if port.switch.is_none() {
            found.extend(netfilter::iptables(&port.bridge, sys, proc));
        }
        found
    }

    /// What its switch does.
    fn switch(&self, port: &Port, tap: &Netdev, sys: &Path) -> Vec<String> {
        match tap.master() {
            Some(master) if master == port.bridge => {}
            Some(master) if master == "ovs-system" => {
                return vec!["its tap is a port of Open vSwitch, whose rules are not read".into()];
            }
            Some(master) => {
                return vec![format!(
                    "its tap {} is a port of {master}, not of {}",
                    port.tap, port.bridge
                )];
            }
            None => return vec![format!("its tap {} is a port of no bridge", port.tap)],
        }
        let bridge = Netdev::new(sys, &port.bridge);
        if bridge.read("bridge/vlan_filtering").as_deref() != Some("1") {
            let other = port.vlan.map(|v| {
                format!("VLAN {v} is declared, but the bridge {} knows no VLANs", port.bridge)
            });
            return other.into_iter().collect();
        }
        let own = bridge.read("bridge/default_pvid").and_then(|v| v.parse().ok()).unwrap_or(1);
        match &self.vlans {
            Ok(vlans) => vlan_rules(port, vlans, own).into_iter().collect(),
            Err(why) => vec![format!("the port's VLANs cannot be read: {why}")],
        }
    }
}

/// Filters on a hook of a port, as `tc` lists them.
fn tc_filters(tap: &str, hook: &str) -> Result<Value, String> {
    json("tc", &["-j", "filter", "show", "dev", tap, hook])
}

fn queue_rules(
    port: &Port,
    queues: &Value,
    filters: impl Fn(&str, &str) -> Result<Value, String>,
) -> Vec<String> {
    let mut found = vec![];
    for queue in list(queues).iter().filter(|q| q["dev"] == port.tap.as_str()) {
        let kind = queue["kind"].as_str().unwrap_or("unknown");
        if HOOKS.contains(&kind) {
            for hook in ["ingress", "egress"].into_iter().take(if kind == "clsact" { 2 } else { 1 })
            {
                match filters(&port.tap, hook) {
                    Ok(filters) if list(&filters).is_empty() => {}
                    Ok(_) => found.push(format!("its tap has filters of tc ({hook})")),
                    Err(why) => found.push(format!("its tap's filters cannot be read: {why}")),
                }
            }
        } else if RATE_QUEUES.contains(&kind) {
            // The VF has a bound of its own.
            if port.rate_mbit.is_none() {
                found.push(format!(
                    "its tap bounds the rate ({kind}); declare the VM with --rate, then its VF is bound too"
                ));
            }
        } else if !PLAIN_QUEUES.contains(&kind) {
            found.push(format!("its tap has a queue of tc that does more than queueing ({kind})"));
        }
    }
    found
}

/// `own`: the VLAN in which the bridge has its untagged packets.
fn vlan_rules(port: &Port, vlans: &Value, own: u16) -> Option<String> {
    let entry = list(vlans).iter().find(|e| e["ifname"] == port.tap.as_str())?;
    let wanted = u64::from(port.vlan.unwrap_or(own));
    let is_wanted = |v: &Value| {
        let flags = list(&v["flags"]);
        v["vlan"].as_u64() == Some(wanted)
            && v["vlanEnd"].is_null()
            && ["PVID", "Egress Untagged"].iter().all(|f| flags.iter().any(|g| g == f))
    };
    let there = list(&entry["vlans"]);
    if there.len() == 1 && is_wanted(&there[0]) {
        return None;
    }
    let names: Vec<String> = there.iter().map(|v| v["vlan"].to_string()).collect();
    Some(match port.vlan {
        Some(vlan) => {
            format!("its port is in the VLANs [{}], and VLAN {vlan} is declared", names.join(", "))
        }
        None => format!(
            "its port is in the VLANs [{}]; declare the VM with --vlan if it is one, untagged",
            names.join(", ")
        ),
    })
}

fn flags(port: &Port, links: &Value) -> Vec<String> {
    let Some(link) = list(links).iter().find(|l| l["ifname"] == port.tap.as_str()) else {
        return vec![];
    };
    let is = |flag: &str| link[flag] == true || link[flag] == "on";
    let mut found = vec![];
    if is("isolated") {
        found.push("its port is isolated from others of the bridge".to_owned());
    }
    if is("locked") {
        found.push("its port is locked: the bridge takes known addresses only".to_owned());
    }
    if is("guard") {
        found.push("its port guards against spanning tree packets (bpdu guard)".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vfun_admin::VmName;

    fn port(vlan: Option<u16>, rate_mbit: Option<u32>) -> Port {
        let name = VmName::new("a", "a");
        let (tap, bridge) = ("t1".into(), "br0".into());
        Port { name, tap, bridge, vlan, rate_mbit, switch: None }
    }

    fn none(_: &str, _: &str) -> Result<Value, String> {
        Ok(json!([]))
    }

    #[test]
    fn a_plain_port_has_no_filters() {
        let queues = json!([{"kind": "fq_codel", "dev": "t1"}, {"kind": "netem", "dev": "t2"},
            {"kind": "clsact", "dev": "t1"}]);
        assert!(queue_rules(&port(None, None), &queues, none).is_empty());
        let links = json!([{"ifname": "t1", "isolated": false, "locked": false}]);
        assert!(flags(&port(None, None), &links).is_empty());
    }

    #[test]
    fn filters_and_bounds_are_named() {
        let queues = json!([{"kind": "ingress", "dev": "t1"}, {"kind": "netem", "dev": "t1"},
            {"kind": "tbf", "dev": "t1"}]);
        let some = |_: &str, _: &str| Ok(json!([{"protocol": "ip"}]));
        let found = queue_rules(&port(None, None), &queues, some);
        assert!(found.len() == 3 && found[0].contains("ingress"), "{found:?}");
        // A declared rate is carried by the VF.
        assert_eq!(queue_rules(&port(None, Some(100)), &queues, some).len(), 2);
        let broken = |_: &str, _: &str| Err("no".to_owned());
        assert!(queue_rules(&port(None, None), &queues, broken)[0].contains("cannot be read"));
        let links = json!([{"ifname": "t1", "isolated": true, "locked": true}]);
        assert_eq!(flags(&port(None, None), &links).len(), 2);
    }

    #[test]
    fn a_vlan_is_carried_only_where_it_is_the_declared_one() {
        let untagged = json!(["PVID", "Egress Untagged"]);
        let one = |v: u16| json!([{"ifname": "t1", "vlans": [{"vlan": v, "flags": untagged}]}]);
        assert_eq!(vlan_rules(&port(None, None), &one(1), 1), None);
        assert_eq!(vlan_rules(&port(Some(7), None), &one(7), 1), None);
        assert!(vlan_rules(&port(None, None), &one(7), 1).is_some());
        assert!(vlan_rules(&port(Some(7), None), &one(1), 1).is_some());
        let tagged = json!([{"ifname": "t1", "vlans": [{"vlan": 7}]}]);
        assert!(vlan_rules(&port(Some(7), None), &tagged, 1).is_some());
        let range =
            json!([{"ifname": "t1", "vlans": [{"vlan": 1, "vlanEnd": 9, "flags": untagged}]}]);
        assert!(vlan_rules(&port(None, None), &range, 1).is_some());
    }

    #[test]
    fn what_cannot_be_read_counts_as_a_filter() {
        let dir = tempfile::tempdir().unwrap();
        let net = dir.path().join("class/net");
        std::fs::create_dir_all(net.join("t1")).unwrap();
        std::fs::create_dir_all(net.join("br0/bridge")).unwrap();
        let places = Places {
            sys: dir.path().to_owned(),
            proc: dir.path().join("proc"),
            dev: dir.path().join("dev"),
            own: dir.path().join("own"),
            vhost: dir.path().join("vhost"),
        };
        let no = || Err("no".to_owned());
        let switches = BTreeMap::new();
        let rules = Rules { queues: no(), vlans: no(), links: no(), chains: no(), switches };
        let found = rules.of(&port(None, None), &places);
        assert!(found.len() == 4 && found[0].contains("no bridge"), "{found:?}");
        std::os::unix::fs::symlink("../br0", net.join("t1/master")).unwrap();
        assert_eq!(rules.of(&port(None, None), &places).len(), 3);
        assert!(rules.of(&port(Some(3), None), &places)[0].contains("knows no VLANs"));
        std::fs::write(net.join("br0/bridge/vlan_filtering"), "1\n").unwrap();
        assert_eq!(rules.of(&port(None, None), &places).len(), 4);
    }
}
