//! How the QEMU of a client's VM is reached: `qmp` or `libvirt`, or `[vm.NAME]`'s where the
//! manifest names VMs.

use super::{ClientToml, ManifestError, Source};
use crate::catalog::ClientKind;
use crate::limits::{DOMAIN_CHARS, SOCKET_PATH_BYTES};
use std::collections::BTreeMap;
use toml::Spanned;
use vfun_admin::links::VmmAt;

/// The two keys, each with its value.
type Keys<'a> = [(&'static str, Option<&'a Spanned<String>>); 2];

/// By the VM's name.
pub(super) fn of_client(
    src: &Source<'_>,
    (client, kind): (&str, ClientKind),
    t: &ClientToml,
) -> Result<BTreeMap<String, VmmAt>, ManifestError> {
    let own: Keys<'_> = [("qmp", t.qmp.as_ref()), ("libvirt", t.libvirt.as_ref())];
    for (key, at) in own {
        if let (Some(at), false) = (at, t.vm.is_empty()) {
            let to =
                format!("this manifest names VMs: write {key} in [vm.NAME] of each that has it");
            return Err(src.error(at, to));
        }
    }
    let vms = t.vm.iter().map(|(name, vm)| {
        let keys: Keys<'_> = [("qmp", vm.qmp.as_ref()), ("libvirt", vm.libvirt.as_ref())];
        (&**name.get_ref(), keys)
    });
    let mut all: BTreeMap<String, VmmAt> = BTreeMap::new();
    for (name, keys) in std::iter::once((client, own)).chain(vms) {
        let at = match keys {
            [(_, None), (_, None)] => continue,
            [(_, Some(_)), (_, Some(at))] => {
                return Err(src.error(at, "a VM has one of qmp and libvirt: drop the other one"));
            }
            [(key, Some(at)), _] | [_, (key, Some(at))] if kind == ClientKind::Host => {
                let none = format!("programs on the host have no QEMU: drop {key}");
                return Err(src.error(at, none));
            }
            [(_, Some(at)), _] => (at, socket(at.get_ref())),
            [_, (_, Some(at))] => (at, domain(at.get_ref())),
        };
        let (at, vmm) = (at.0, at.1.map_err(|why| src.error(at.0, why))?);
        if let Some((other, _)) = all.iter().find(|(_, of)| **of == vmm) {
            return Err(src.error(at, format!("VM {other} has this one already")));
        }
        all.insert(name.to_owned(), vmm);
    }
    Ok(all)
}

fn socket(path: &str) -> Result<VmmAt, String> {
    let plain = path.starts_with('/') && !path.contains('\0') && path.len() <= SOCKET_PATH_BYTES;
    match plain {
        true => Ok(VmmAt::Qmp(path.into())),
        false => Err(format!(
            "qmp is the path of a control socket of the VM's QEMU, from / on, with at most {SOCKET_PATH_BYTES} bytes"
        )),
    }
}

fn domain(name: &str) -> Result<VmmAt, String> {
    let length = name.chars().count();
    let plain = (1..=DOMAIN_CHARS).contains(&length)
        && !name.starts_with('-')
        && !name.contains(|c: char| c.is_control() || c == '/');
    match plain {
        true => Ok(VmmAt::Libvirt(name.to_owned())),
        false => Err(format!(
            "libvirt is the name or UUID of the VM's domain, without '/', not beginning with '-', with at most {DOMAIN_CHARS} characters"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use std::path::Path;

    fn read(text: &str) -> Result<Vec<(String, VmmAt)>, String> {
        let client = client(Path::new("web.toml"), text, 1).map_err(|e| e.to_string())?;
        Ok(client.vmms.into_iter().collect())
    }

    #[test]
    fn a_client_or_each_of_its_vms_has_one() {
        let of = |text: &str| read(text).unwrap();
        let [web, a] = ["/run/web.qmp", "/run/a.qmp"].map(|path| VmmAt::Qmp(path.into()));
        assert_eq!(of("name = \"web\"\nqmp = \"/run/web.qmp\""), [("web".into(), web)]);
        let two = of("name = \"web\"\n[vm.a]\nqmp = \"/run/a.qmp\"\n[vm.b]\nlibvirt = \"b 1\"\n");
        assert_eq!(two, [("a".into(), a), ("b".into(), VmmAt::Libvirt("b 1".into()))]);
        assert!(of("name = \"web\"").is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let why = |text: &str| read(text).unwrap_err();
        for line in ["qmp = \"/m\"", "libvirt = \"m\""] {
            let named = why(&format!("name = \"web\"\n{line}\n[vm.a]\n"));
            assert!(named.contains("this manifest names VMs") && named.contains(":2"), "{named}");
            let host = why(&format!("name = \"web\"\nkind = \"host\"\n{line}"));
            assert!(host.contains("no QEMU"), "{host}");
            let twice = why(&format!("name = \"web\"\n[vm.a]\n{line}\n[vm.b]\n{line}"));
            assert!(twice.contains("VM a has this one already"), "{twice}");
        }
        for path in ["m", "", &format!("/{}", "x".repeat(107))] {
            let wrong = why(&format!("name = \"web\"\nqmp = \"{path}\""));
            assert!(wrong.contains("from / on"), "{wrong}");
        }
        for name in ["", "-c", "a/b", "a\\nb", &"x".repeat(251)] {
            let wrong = why(&format!("name = \"web\"\nlibvirt = \"{name}\""));
            assert!(wrong.contains("the VM's domain"), "{wrong}");
        }
        let both = why("name = \"web\"\nqmp = \"/m\"\nlibvirt = \"m\"");
        assert!(both.contains("one of qmp and libvirt") && both.contains(":3"), "{both}");
    }
}
