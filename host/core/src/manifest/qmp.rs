//! How the QEMU of a client's VM is reached: `qmp`, or `[vm.NAME]`'s where the manifest names VMs.

use super::{ClientToml, ManifestError, Source};
use crate::catalog::ClientKind;
use crate::limits::SOCKET_PATH_BYTES;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// By the VM's name.
pub(super) fn of_client(
    src: &Source<'_>,
    (client, kind): (&str, ClientKind),
    t: &ClientToml,
) -> Result<BTreeMap<String, PathBuf>, ManifestError> {
    if let (Some(at), false) = (&t.qmp, t.vm.is_empty()) {
        let to = "this manifest names VMs: write qmp in [vm.NAME] of each that has it";
        return Err(src.error(at, to));
    }
    let own = t.qmp.iter().map(|at| (client, at));
    let vms = t.vm.iter().filter_map(|(name, vm)| Some((&**name.get_ref(), vm.qmp.as_ref()?)));
    let mut all: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (name, at) in own.chain(vms) {
        if kind == ClientKind::Host {
            return Err(src.error(at, "programs on the host have no QEMU: drop qmp"));
        }
        let path = at.get_ref();
        let plain =
            path.starts_with('/') && !path.contains('\0') && path.len() <= SOCKET_PATH_BYTES;
        if !plain {
            let wrong = format!(
                "qmp is the path of a control socket of the VM's QEMU, from / on, with at most {SOCKET_PATH_BYTES} bytes"
            );
            return Err(src.error(at, wrong));
        }
        let path = PathBuf::from(path);
        if let Some((other, _)) = all.iter().find(|(_, of)| **of == path) {
            return Err(src.error(at, format!("VM {other} has this socket already")));
        }
        all.insert(name.to_owned(), path);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use std::path::Path;

    fn read(text: &str) -> Result<Vec<(String, PathBuf)>, String> {
        let client = client(Path::new("web.toml"), text, 1).map_err(|e| e.to_string())?;
        Ok(client.qmp.into_iter().collect())
    }

    #[test]
    fn a_client_or_each_of_its_vms_has_one() {
        let of = |text: &str| read(text).unwrap();
        let one = of("name = \"web\"\nqmp = \"/run/web.qmp\"");
        assert_eq!(one, [("web".into(), "/run/web.qmp".into())]);
        let two = of("name = \"web\"\n[vm.a]\nqmp = \"/run/a.qmp\"\n[vm.b]\n");
        assert_eq!(two, [("a".into(), "/run/a.qmp".into())]);
        assert!(of("name = \"web\"").is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let why = |text: &str| read(text).unwrap_err();
        let named = why("name = \"web\"\nqmp = \"/m\"\n[vm.a]\n");
        assert!(named.contains("this manifest names VMs") && named.contains(":2"), "{named}");
        for path in ["m", "", &format!("/{}", "x".repeat(107))] {
            let wrong = why(&format!("name = \"web\"\nqmp = \"{path}\""));
            assert!(wrong.contains("from / on"), "{wrong}");
        }
        let host = why("name = \"web\"\nkind = \"host\"\nqmp = \"/m\"");
        assert!(host.contains("no QEMU"), "{host}");
        let twice = why("name = \"web\"\n[vm.a]\nqmp = \"/m\"\n[vm.b]\nqmp = \"/m\"");
        assert!(twice.contains("VM a has this socket already"), "{twice}");
    }
}
