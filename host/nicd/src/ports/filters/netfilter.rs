//! Rules of netfilter that a VF would pass by: chains of nftables on bridges and on a tap,
//! and iptables, where the kernel sends packets of bridges through it.

use super::{list, parse};
use crate::child::{self, ChildTrouble};
use crate::limits::IP_TIME;
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Switches that send packets of bridges through iptables: of all bridges in
/// `/proc/sys/net/bridge/bridge-nf-call-...`, of one in its `bridge/nf_call_...`.
const CALLED: [&str; 3] = ["iptables", "ip6tables", "arptables"];

/// The chains of all tables, as nft lists them.
pub fn chains() -> Result<Value, String> {
    let words = ["-j", "list", "chains"];
    match child::run("nft", &words, "", IP_TIME) {
        Ok(said) if said.ok => parse("nft", &said.stdout),
        Ok(said) => Err(format!("`nft {}`: {}", words.join(" "), said.stderr)),
        // Without nft there are no rules of nftables that anybody could have made.
        Err(ChildTrouble::NotHere(_)) => Ok(Value::Null),
        Err(trouble) => Err(trouble.to_string()),
    }
}

/// Chains that packets of this tap pass, a sentence each.
pub fn of_tap(tap: &str, chains: &Value) -> Vec<String> {
    let chains = list(&chains["nftables"]).iter().map(|entry| &entry["chain"]);
    let word = |chain: &Value, key: &str| chain[key].as_str().unwrap_or("?").to_owned();
    let sentence = |chain: &Value| {
        let name = format!("table {}, chain {}", word(chain, "table"), word(chain, "name"));
        match &chain["dev"] {
            _ if chain["hook"].is_null() => None,
            Value::Null if chain["family"] == "bridge" => {
                Some(format!("nftables filters on bridges ({name})"))
            }
            devices => {
                let one = std::slice::from_ref(devices);
                let devices = devices.as_array().map_or(one, Vec::as_slice);
                let is_it = |d: &Value| d.as_str().is_some_and(|d| matches(d, tap));
                let found = devices.iter().any(is_it);
                found.then(|| format!("nftables filters at its tap {tap} ({name})"))
            }
        }
    };
    chains.filter_map(sentence).collect()
}

/// A device in a chain may end in `*`, for all whose names begin so.
fn matches(device: &str, tap: &str) -> bool {
    match device.strip_suffix('*') {
        Some(begin) => tap.starts_with(begin),
        None => device == tap,
    }
}

/// Whether the kernel sends packets of this bridge through iptables, a sentence each.
pub fn iptables(bridge: &str, sys: &Path, proc: &Path) -> Vec<String> {
    let of_all = proc.join("sys/net/bridge");
    let of_one = sys.join("class/net").join(bridge).join("bridge");
    let files = CALLED.iter().flat_map(|name| {
        [of_all.join(format!("bridge-nf-call-{name}")), of_one.join(format!("nf_call_{name}"))]
    });
    let sentence = |file: std::path::PathBuf| match fs::read_to_string(&file) {
        Ok(text) if text.trim() == "0" => None,
        Ok(_) => Some(format!(
            "packets on its bridge pass the host's iptables ({0} is not 0); if no rule there is meant for VMs, switch that off: echo 0 > {0}",
            file.display()
        )),
        // The module br_netfilter is not loaded.
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => Some(format!("{} cannot be read: {e}", file.display())),
    };
    files.filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(chain: Value) -> usize {
        let all = json!({ "nftables": [{ "metainfo": {} }, { "chain": chain }] });
        of_tap("t1", &all).len()
    }

    #[test]
    fn chains_on_bridges_and_at_the_tap_are_found() {
        let at = |dev: Value| json!({ "family": "netdev", "table": "f", "name": "in", "hook": "ingress", "dev": dev });
        assert_eq!(found(at(json!("t1"))), 1);
        assert_eq!(found(at(json!(["t2", "t1"]))), 1);
        assert_eq!(found(at(json!("t*"))), 1);
        assert_eq!(found(at(json!(["t2", "t11"]))), 0);
        let bridge = json!({ "family": "bridge", "table": "f", "name": "c", "hook": "forward" });
        assert_eq!(found(bridge), 1);
        assert_eq!(found(json!({ "family": "bridge", "table": "f", "name": "called" })), 0);
        assert_eq!(found(json!({ "family": "inet", "name": "input", "hook": "input" })), 0);
        assert!(of_tap("t1", &Value::Null).is_empty());
    }

    #[test]
    fn iptables_on_bridges_is_a_filter_and_the_cure_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (sys, proc) = (dir.path().join("sys"), dir.path().join("proc"));
        let of_all = proc.join("sys/net/bridge");
        let of_one = sys.join("class/net/br0/bridge");
        assert!(iptables("br0", &sys, &proc).is_empty());
        for folder in [&of_all, &of_one] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(of_all.join("bridge-nf-call-ip6tables"), "0\n").unwrap();
        fs::write(of_all.join("bridge-nf-call-iptables"), "1\n").unwrap();
        fs::write(of_one.join("nf_call_arptables"), "1\n").unwrap();
        let found = iptables("br0", &sys, &proc);
        assert!(found.len() == 2 && found[0].contains("echo 0 > "), "{found:?}");
        assert_eq!(iptables("br1", &sys, &proc).len(), 1);
        fs::create_dir(of_all.join("bridge-nf-call-arptables")).unwrap();
        assert!(iptables("br1", &sys, &proc)[1].contains("cannot be read"));
    }
}
