//! Further windows, as an operator declares them: memory beside the control windows of VMs,
//! for buffers, or shared by two of them.

use super::{ManifestError, Source, size};
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;
use vfun_admin::{OfVm, VmName};
use vfun_wire::{PAGE, header};

/// Bytes of a huge page: what a contiguous buffer can have.
pub const HUGE: u64 = 2 << 20;

/// A further window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherWindow {
    /// Its name: no other further window of this host has it.
    pub name: String,
    /// The VM that has it, or the two that share it, in the order of their names: a link.
    pub vms: Vec<VmName>,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a page of its file: 4 KiB, or [`HUGE`].
    pub page: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowToml {
    name: Spanned<String>,
    peers: Peers,
    bytes: Spanned<String>,
    pages: Option<Spanned<String>>,
}

type Peers = Spanned<Vec<Spanned<String>>>;

/// Reads the manifest of a further window.
///
/// # Errors
/// With file, line and reason.
pub fn further_window(file: &Path, text: &str) -> Result<FurtherWindow, ManifestError> {
    let src = Source { file, text };
    let t: WindowToml = src.parse()?;
    let name = src.name(&t.name)?;
    let vms = vms(&src, &t.peers)?;
    let page = match t.pages.as_ref().map(|p| (p, size(p.get_ref()))) {
        None => PAGE as u64,
        Some((_, Ok(page))) if page == PAGE as u64 || page == HUGE => page,
        Some((at, _)) => return Err(src.error(at, "pages is \"4 KiB\" or \"2 MiB\"")),
    };
    let bytes = size(t.bytes.get_ref()).and_then(|bytes| {
        header::check_size(bytes).map_err(|e| e.to_string())?;
        match bytes.is_multiple_of(page) {
            true => Ok(bytes),
            false => Err(format!("a window of {bytes} bytes has no whole pages of {page}")),
        }
    });
    let bytes = bytes.map_err(|e| src.error(&t.bytes, e))?;
    Ok(FurtherWindow { name, vms, bytes, page })
}

fn vms(src: &Source<'_>, peers: &Peers) -> Result<Vec<VmName>, ManifestError> {
    let mut vms = vec![];
    for peer in peers.get_ref() {
        let vm = vm_name(peer.get_ref()).map_err(|e| src.error(peer, e))?;
        if vms.contains(&vm) {
            let twice = format!("VM {vm} is there twice: a link is a window of two VMs");
            return Err(src.error(peer, twice));
        }
        vms.push(vm);
    }
    vms.sort();
    match vms.len() {
        1 | 2 => Ok(vms),
        _ => Err(src.error(
            peers,
            "peers names the VM that has the window, as [\"CLIENT\"] or [\"CLIENT/VM\"], or the two VMs that share it",
        )),
    }
}

fn vm_name(text: &str) -> Result<VmName, String> {
    let OfVm { client, vm } = text.parse()?;
    Ok(VmName::new(&client, vm.as_deref().unwrap_or(&client)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FurtherWindow, String> {
        further_window(Path::new("bulk.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_window_is_declared_for_one_vm() {
        let of = |peer: &str| {
            let text = format!("name = \"bulk\"\npeers = [\"{peer}\"]\nbytes = \"64 MiB\"");
            let w = read(&text).unwrap();
            assert_eq!((w.name.as_str(), w.bytes, w.page), ("bulk", 64 << 20, 4096));
            w.vms
        };
        assert_eq!(of("web"), [VmName::new("web", "web")]);
        assert_eq!(of("web/b"), [VmName::new("web", "b")]);
        let huge = read("name = \"b\"\npeers = [\"web\"]\nbytes = \"2 MiB\"\npages = \"2 MiB\"");
        assert_eq!(huge.unwrap().page, HUGE);
    }

    #[test]
    fn a_link_is_declared_for_two_vms_in_any_order() {
        let of = |peers: &str| {
            read(&format!("name = \"pair\"\npeers = [{peers}]\nbytes = \"1 MiB\"")).unwrap()
        };
        let link = of("\"web/b\", \"db\"");
        assert_eq!(link.vms, [VmName::new("db", "db"), VmName::new("web", "b")]);
        assert_eq!(link, of("\"db\", \"web/b\""));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let wrong = |text: &str, says: &str| {
            let e = read(text).unwrap_err();
            assert!(e.contains(says), "{e}");
        };
        let with = |rest: &str| format!("name = \"bulk\"\npeers = [\"web\"]\n{rest}");
        wrong(&with("bytes = \"3 MiB\""), "bulk.toml:3");
        wrong(&with("bytes = \"1 MiB\"\npages = \"2 MiB\""), "no whole pages");
        wrong(&with("bytes = \"4 MiB\"\npages = \"1 GiB\""), "bulk.toml:4: pages is");
        wrong(&with(""), "bytes");
        wrong(&with("bytes = \"4 MiB\"\nkey = 1"), "key");
        let peers = |p: &str| format!("name = \"bulk\"\nbytes = \"4 MiB\"\npeers = {p}");
        wrong(&peers("[]"), "bulk.toml:3");
        wrong(&peers("[\"a\", \"b\", \"c\"]"), "the two VMs that share it");
        wrong(&peers("[\"a\", \"a\"]"), "VM a is there twice");
        // The one VM of a client that names none has the client's name.
        wrong(&peers("[\"a/a\", \"a\"]"), "VM a is there twice");
        wrong(&peers("[\"a/b/c\"]"), "bulk.toml:3");
    }
}
