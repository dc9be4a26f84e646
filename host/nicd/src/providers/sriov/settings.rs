//! What the card does for a VF: set by `ip link set PF vf N`.

use crate::child;
use crate::limits::IP_TIME;
use crate::providers::VfOwner;
use serde_json::Value;
use std::collections::BTreeMap;
use vfun_nics::VfId;

const NO_MAC: &str = "00:00:00:00:00:00";

fn set(pf: &str, number: u16, words: &[&str]) -> Result<(), String> {
    let number = number.to_string();
    let words = [&["link", "set", "dev", pf, "vf", &number], words].concat();
    child::must("ip", &words, "", IP_TIME).map(drop)
}

/// Writes a setting that some cards do not have; there it is as it must be already.
fn set_if_possible(pf: &str, number: u16, words: &[&str]) -> Result<(), String> {
    match set(pf, number, words) {
        Err(why) if why.contains("not supported") => Ok(()),
        done => done,
    }
}

/// Everything, also what an owner before may have had and this one has not.
pub fn write(pf: &str, number: u16, owner: &VfOwner) -> Result<(), String> {
    set(pf, number, &["spoofchk", "on"])?;
    set_if_possible(pf, number, &["trust", "off"])?;
    match owner.vlan {
        Some(vlan) => set(pf, number, &["vlan", &vlan.to_string()])?,
        None => set_if_possible(pf, number, &["vlan", "0"])?,
    }
    match owner.rate_mbit {
        Some(rate) => set(pf, number, &["max_tx_rate", &rate.to_string()])?,
        None => set_if_possible(pf, number, &["max_tx_rate", "0"])?,
    }
    set(pf, number, &["mac", &owner.mac])
}

/// Nothing of the last owner.
pub fn clear(pf: &str, number: u16, vf: &VfId) -> Result<(), String> {
    if set(pf, number, &["mac", NO_MAC]).is_err() {
        // Some cards take no zero address: one that nobody has.
        set(pf, number, &["mac", &nobodys_mac(vf)])?;
    }
    set_if_possible(pf, number, &["vlan", "0"])?;
    set_if_possible(pf, number, &["max_tx_rate", "0"])?;
    set(pf, number, &["spoofchk", "on"])?;
    set_if_possible(pf, number, &["trust", "off"])
}

/// A locally administered address, by the VF's own.
fn nobodys_mac(vf: &VfId) -> String {
    let part =
        |n: usize| vf.0.split([':', '.']).nth(n).and_then(|p| u8::from_str_radix(p, 16).ok());
    let [bus, slot, function] = [1, 2, 3].map(|n| part(n).unwrap_or(0));
    format!("02:76:66:{bus:02x}:{slot:02x}:{function:02x}")
}

/// Packets in both directions of each VF, of what `ip -s -j link show` says.
pub fn packets(json: &str) -> BTreeMap<u16, u64> {
    let all: Value = serde_json::from_str(json).unwrap_or_default();
    let list = all[0]["vfinfo_list"].as_array().cloned().unwrap_or_default();
    let count = |vf: &Value| {
        let side = |name: &str| vf["stats"][name]["packets"].as_u64();
        let number = u16::try_from(vf["vf"].as_u64()?).ok()?;
        Some((number, side("rx")?.saturating_add(side("tx")?)))
    };
    list.iter().filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_vfs_are_read() {
        let json = r#"[{"ifname":"eth2","vfinfo_list":[
            {"vf":0,"stats":{"rx":{"bytes":1,"packets":5},"tx":{"bytes":1,"packets":7}}},
            {"vf":1,"mac":"x"}]}]"#;
        assert_eq!(packets(json), BTreeMap::from([(0, 12)]));
        assert!(packets("").is_empty() && packets("[]").is_empty());
    }

    #[test]
    fn an_address_of_nobody_is_the_vfs_own() {
        assert_eq!(nobodys_mac(&VfId("0000:01:1f.7".into())), "02:76:66:01:1f:07");
    }
}
