//! Addresses that a client's manifest gives its VMs, in the network that these have among
//! themselves: `address`, or `[vm.NAME]`'s where the manifest names VMs.

use super::{ClientToml, ManifestError, Source};
use core::net::IpAddr;
use std::collections::BTreeMap;

/// By the VM's name; that of a client of kind "host" by its own.
pub(super) fn of_client(
    src: &Source<'_>,
    client: &str,
    t: &ClientToml,
) -> Result<BTreeMap<String, IpAddr>, ManifestError> {
    if let (Some(at), false) = (&t.address, t.vm.is_empty()) {
        let where_to = "this manifest names VMs: write address in [vm.NAME] of each that has one";
        return Err(src.error(at, where_to));
    }
    let own = t.address.iter().map(|at| (client, at));
    let vms = t.vm.iter().filter_map(|(name, vm)| Some((&**name.get_ref(), vm.address.as_ref()?)));
    let mut all: BTreeMap<String, IpAddr> = BTreeMap::new();
    for (name, at) in own.chain(vms) {
        let address = address(at.get_ref()).map_err(|e| src.error(at, e))?;
        if let Some((other, _)) = all.iter().find(|(_, of)| **of == address) {
            return Err(src.error(at, format!("VM {other} has the address {address} already")));
        }
        all.insert(name.to_owned(), address);
    }
    Ok(all)
}

/// One that a machine can have. Link-local ones are those that a NIC gives by itself.
fn address(text: &str) -> Result<IpAddr, String> {
    let wrong = || {
        format!(
            "'{text}' is no address of a machine: write one such as \"10.0.0.5\" or \"fd00::5\""
        )
    };
    let address = text.parse::<IpAddr>().map_err(|_| wrong())?.to_canonical();
    let common = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    let special = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if common || special { Err(wrong()) } else { Ok(address) }
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use std::path::Path;

    fn read(text: &str) -> Result<BTreeMap<String, IpAddr>, String> {
        client(Path::new("web.toml"), text, 1).map(|c| c.addresses).map_err(|e| e.to_string())
    }

    #[test]
    fn a_client_or_each_of_its_vms_has_one() {
        let of = |text: &str| {
            let all = read(text).unwrap().into_iter().map(|(vm, at)| format!("{vm} {at}"));
            all.collect::<Vec<_>>()
        };
        assert_eq!(of("name = \"web\"\naddress = \"10.0.0.5\""), ["web 10.0.0.5"]);
        assert_eq!(of("name = \"h\"\nkind = \"host\"\naddress = \"fd00::5\""), ["h fd00::5"]);
        let two = "name = \"web\"\n[vm.web]\n[vm.a]\naddress = \"::ffff:10.0.0.6\"\n[vm.b]\naddress = \"fd00::5\"";
        assert_eq!(of(two), ["a 10.0.0.6", "b fd00::5"]);
        assert!(of("name = \"web\"").is_empty());
    }

    #[test]
    fn what_no_machine_can_have_is_refused_with_its_line() {
        for text in [
            "",
            "10.0.0",
            "web",
            "0.0.0.0",
            "127.0.0.1",
            "::1",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "169.254.1.1",
            "fe80::1",
            "::ffff:127.0.0.1",
        ] {
            let said = read(&format!("name = \"web\"\naddress = \"{text}\"")).unwrap_err();
            assert!(said.starts_with("web.toml:2") && said.contains("such as"), "{said}");
        }
        let twice =
            "name = \"web\"\n[vm.a]\naddress = \"10.0.0.6\"\n[vm.b]\naddress = \"10.0.0.6\"";
        let said = read(twice).unwrap_err();
        assert!(said.contains("VM a has the address 10.0.0.6 already"), "{said}");
        let both = "name = \"web\"\naddress = \"10.0.0.6\"\n[vm.a]";
        assert!(read(both).unwrap_err().contains("[vm.NAME]"));
    }
}
