//! Lines of a client's manifest by which its VMs compete for network VFs: `[nics]`, or
//! `[vm.NAME.nics]` where the manifest names VMs.

use super::{ClientToml, ManifestError, Source};
use crate::catalog::ClientKind;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;
use vfun_nics::declared::{Hypervisor, Vm as NicVm, WrongField};

/// The same fields as the options of `vfun nics add`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NicsToml {
    pool: Spanned<String>,
    bridge: Spanned<String>,
    tap: Spanned<String>,
    mac: Spanned<String>,
    qmp: Option<Spanned<PathBuf>>,
    libvirt: Option<Spanned<String>>,
    #[serde(default)]
    external: bool,
    bus: Option<Spanned<String>>,
    vlan: Option<Spanned<u16>>,
    rate: Option<Spanned<u32>>,
    #[serde(default)]
    bypass_filters: bool,
}

/// What a manifest declares, by the VM's name.
pub(super) fn of_client(
    src: &Source<'_>,
    client: &str,
    kind: ClientKind,
    t: &ClientToml,
) -> Result<BTreeMap<String, NicVm>, ManifestError> {
    let mut all = BTreeMap::new();
    if let Some(nics) = &t.nics {
        let why = match (kind, t.vm.is_empty()) {
            (ClientKind::Host, _) => {
                "a client of kind \"host\" has no VM that could get a network VF: leave [nics] out"
            }
            (ClientKind::Vm, false) => {
                "this manifest names VMs: write [vm.NAME.nics] for each that competes for a network VF, instead of [nics]"
            }
            (ClientKind::Vm, true) => "",
        };
        if !why.is_empty() {
            return Err(src.error(nics, why));
        }
        all.insert(client.to_owned(), of_vm(src, nics)?);
    }
    for (name, own) in &t.vm {
        if let Some(nics) = &own.nics {
            all.insert(name.get_ref().clone(), of_vm(src, nics)?);
        }
    }
    Ok(all)
}

fn of_vm(src: &Source<'_>, toml: &Spanned<NicsToml>) -> Result<NicVm, ManifestError> {
    let t = toml.get_ref();
    let vm = NicVm {
        bus: t.bus.as_ref().map(|b| b.get_ref().clone()),
        vlan: t.vlan.as_ref().map(|v| *v.get_ref()),
        rate_mbit: t.rate.as_ref().map(|r| *r.get_ref()),
        bypass_filters: t.bypass_filters,
        ..NicVm::new(
            src.name(&t.pool)?,
            hypervisor(src, toml)?,
            t.mac.get_ref(),
            t.bridge.get_ref(),
            t.tap.get_ref(),
        )
    };
    vm.check().map_err(|wrong| at_its_line(src, toml, &wrong))?;
    Ok(vm)
}

fn hypervisor(src: &Source<'_>, toml: &Spanned<NicsToml>) -> Result<Hypervisor, ManifestError> {
    let t = toml.get_ref();
    match (&t.qmp, &t.libvirt, t.external) {
        (Some(socket), None, false) => Ok(Hypervisor::Qmp { socket: socket.get_ref().clone() }),
        (None, Some(domain), false) => Ok(Hypervisor::Libvirt { domain: domain.get_ref().clone() }),
        (None, None, true) => Ok(Hypervisor::External),
        (None, None, false) => Err(src.error(
            toml,
            "nics: who plugs is not said: add qmp = \"SOCKET\", libvirt = \"DOMAIN\" or external = true",
        )),
        _ => Err(src.error(
            toml,
            "nics: several plug: leave one of qmp, libvirt and external, and take the others away",
        )),
    }
}

/// The field that makes no sense, by its line.
fn at_its_line(src: &Source<'_>, toml: &Spanned<NicsToml>, wrong: &WrongField) -> ManifestError {
    let t = toml.get_ref();
    let reason = format!("nics: {wrong}");
    match (wrong.field, &t.qmp, &t.libvirt, &t.bus, &t.vlan, &t.rate) {
        ("bridge", ..) => src.error(&t.bridge, reason),
        ("tap", ..) => src.error(&t.tap, reason),
        ("mac", ..) => src.error(&t.mac, reason),
        ("qmp", Some(at), ..) => src.error(at, reason),
        ("libvirt", _, Some(at), ..) => src.error(at, reason),
        ("bus", _, _, Some(at), ..) => src.error(at, reason),
        ("vlan", _, _, _, Some(at), _) => src.error(at, reason),
        ("rate", _, _, _, _, Some(at)) => src.error(at, reason),
        _ => src.error(toml, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use std::path::Path;

    const LINES: &str = "pool = \"cards\"\nbridge = \"br0\"\ntap = \"vnet0\"\nmac = \"52:54:00:00:00:01\"\nqmp = \"/run/a.qmp\"\n";

    fn read(text: &str) -> Result<BTreeMap<String, NicVm>, String> {
        client(Path::new("web.toml"), text, 1).map(|c| c.nics).map_err(|e| e.to_string())
    }

    fn one(lines: &str) -> Result<NicVm, String> {
        read(&format!("name = \"web\"\n[nics]\n{lines}")).map(|mut all| all.remove("web").unwrap())
    }

    #[test]
    fn lines_say_what_options_say() {
        let vm = one(LINES).unwrap();
        assert_eq!((vm.pool.as_str(), vm.tap.as_str()), ("cards", "vnet0"));
        assert_eq!(vm.hypervisor, Hypervisor::Qmp { socket: "/run/a.qmp".into() });
        assert_eq!((vm.vlan, vm.rate_mbit, vm.bypass_filters), (None, None, false));
        let more = format!("{LINES}bus = \"rp1\"\nvlan = 7\nrate = 100\nbypass_filters = true\n");
        let vm = one(&more).unwrap();
        assert_eq!((vm.vlan, vm.rate_mbit, vm.bypass_filters), (Some(7), Some(100), true));
        assert_eq!(vm.bus.as_deref(), Some("rp1"));
        assert!(read("name = \"web\"\n").unwrap().is_empty());
    }

    #[test]
    fn each_vm_has_its_own_lines() {
        let second = LINES.replace("qmp = \"/run/a.qmp\"", "libvirt = \"b\"");
        let text = format!("name = \"web\"\n[vm.web]\n[vm.a.nics]\n{LINES}[vm.b.nics]\n{second}");
        let all = read(&text).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(all["b"].hypervisor, Hypervisor::Libvirt { domain: "b".into() });
        let both = format!("name = \"web\"\n[nics]\n{LINES}[vm.web]\n");
        assert!(read(&both).unwrap_err().contains("[vm.NAME.nics]"));
        let host = format!("name = \"x\"\nkind = \"host\"\n[nics]\n{LINES}");
        assert!(read(&host).unwrap_err().contains("kind \"host\""));
    }

    #[test]
    fn a_wrong_field_is_named_with_its_line() {
        let with = |from: &str, to: &str| one(&LINES.replace(from, to)).unwrap_err();
        let more = |line: &str| one(&format!("{LINES}{line}\n")).unwrap_err();
        for (said, begins, says) in [
            (with("52:54:00:00:00:01", "52:54"), "web.toml:6: nics: mac: ", "'52:54'"),
            (with("vnet0", "vt-p-0"), "web.toml:5: nics: tap: ", "vt-p-0"),
            (with("br0", "a/b"), "web.toml:4: nics: bridge: ", "'a/b'"),
            (with("cards", "a/b"), "web.toml:3: name 'a/b'", ""),
            (with("/run/a.qmp", "a.qmp"), "web.toml:7: nics: qmp: ", "from the root"),
            (more("vlan = 4095"), "web.toml:8: nics: vlan: ", "4095"),
            (more("rate = 0"), "web.toml:8: nics: rate: ", "1 Mbit/s"),
            (more("bus = \"a,b\""), "web.toml:8: nics: bus: ", "'a,b'"),
            (more("external = true"), "web.toml:2: nics: several plug", "libvirt"),
            (with("qmp = \"/run/a.qmp\"\n", ""), "web.toml:2: nics: who plugs", "external"),
            (with("tap = \"vnet0\"\n", ""), "web.toml:", "tap"),
            (more("colour = 1"), "web.toml:8", "colour"),
        ] {
            assert!(said.starts_with(begins) && said.contains(says), "{said}");
        }
    }
}
