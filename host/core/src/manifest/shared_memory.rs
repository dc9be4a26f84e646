//! Memory of a client's VMs that its services may map: `shared_memory`, or `[vm.NAME]`'s where the manifest names VMs.

use super::{ClientToml, ManifestError, Source};
use crate::catalog::{ClientKind, SharedMemory};
use std::collections::BTreeMap;

/// By the VM's name.
pub(super) fn of_client(
    src: &Source<'_>,
    (client, kind): (&str, ClientKind),
    t: &ClientToml,
) -> Result<BTreeMap<String, SharedMemory>, ManifestError> {
    if let (Some(at), false) = (&t.shared_memory, t.vm.is_empty()) {
        let to = "this manifest names VMs: write shared_memory in [vm.NAME] of each that has it";
        return Err(src.error(at, to));
    }
    let own = t.shared_memory.iter().map(|at| (client, at));
    let vms =
        t.vm.iter().filter_map(|(name, vm)| Some((&**name.get_ref(), vm.shared_memory.as_ref()?)));
    let mut all: BTreeMap<String, SharedMemory> = BTreeMap::new();
    for (name, at) in own.chain(vms) {
        if kind == ClientKind::Host {
            return Err(
                src.error(at, "programs on the host have no VM's memory: drop shared_memory")
            );
        }
        let memory = SharedMemory::parse(at.get_ref()).ok_or_else(|| {
            let wrong = "shared_memory is the path of the file that is the VM's memory, from / on, or \"pidfile:\" and the path of the file with the number of its process";
            src.error(at, wrong)
        })?;
        if let Some((other, _)) = all.iter().find(|(_, of)| **of == memory) {
            return Err(src.error(at, format!("VM {other} has this memory already")));
        }
        all.insert(name.to_owned(), memory);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use std::path::Path;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let client = client(Path::new("web.toml"), text, 1).map_err(|e| e.to_string())?;
        let all = client.shared_memory.into_iter();
        Ok(all.map(|(vm, path)| (vm, path.to_string())).collect())
    }

    #[test]
    fn a_client_or_each_of_its_vms_has_it() {
        let of = |text: &str| read(text).unwrap();
        assert_eq!(
            of("name = \"web\"\nshared_memory = \"/dev/shm/web\""),
            [("web".into(), "/dev/shm/web".into())]
        );
        let two = "name = \"web\"\n[vm.a]\nshared_memory = \"/m/a\"\n[vm.b]\n";
        assert_eq!(of(two), [("a".into(), "/m/a".into())]);
        let process = "name = \"web\"\nshared_memory = \"pidfile:/run/web.pid\"";
        assert_eq!(of(process), [("web".into(), "pidfile:/run/web.pid".into())]);
        assert!(of("name = \"web\"").is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let why = |text: &str| read(text).unwrap_err();
        let named = "name = \"web\"\nshared_memory = \"/m\"\n[vm.a]\n";
        assert!(why(named).contains("this manifest names VMs"), "{}", why(named));
        let relative = "name = \"web\"\nshared_memory = \"m\"";
        assert!(why(relative).contains("from / on"), "{}", why(relative));
        let host = "name = \"web\"\nkind = \"host\"\nshared_memory = \"/m\"";
        assert!(why(host).contains("no VM's memory"), "{}", why(host));
        let twice =
            "name = \"web\"\n[vm.a]\nshared_memory = \"/m\"\n[vm.b]\nshared_memory = \"/m\"";
        assert!(why(twice).contains("VM a has this memory already"), "{}", why(twice));
    }
}
