//! Which of the module's devices to open.

use super::Module;
use crate::error::{Error, Result};
use crate::transport::Transport;
use crate::transport::window::client_of;
use std::path::{Path, PathBuf};

/// Where devices have their nodes.
pub(crate) const DEVICES: &str = "/dev";

impl Module {
    /// Opens the device at `asked`, or the only one below `root`. Of several,
    /// the one whose window belongs to `client` is meant.
    pub fn open(root: &Path, asked: Option<&Path>, client: Option<&str>) -> Result<Module> {
        if let Some(path) = asked {
            return Module::at(path);
        }
        let (mut opened, mut failed) = (vec![], None);
        for path in nodes(root) {
            match Module::at(&path) {
                Ok(module) => opened.push(module),
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        if opened.len() > 1
            && let Some(client) = client
        {
            opened.retain(|m| client_of(m).as_deref() == Some(client));
        }
        if opened.len() > 1 {
            return Err(Error::SeveralWindows(opened.iter().map(|m| m.place()).collect()));
        }
        opened.pop().ok_or_else(|| failed.unwrap_or(Error::NoModule(None)))
    }
}

/// The module's nodes, in order of their numbers.
pub(super) fn nodes(root: &Path) -> Vec<PathBuf> {
    let number = |path: &Path| -> Option<u32> {
        path.file_name()?.to_str()?.strip_prefix("vfun")?.parse().ok()
    };
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| number(p).is_some()).collect();
    found.sort_by_key(|p| number(p));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["vfun10", "vfun2", "vfun", "vfunctl", "vfun-1", "null"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(nodes(dir.path()), [dir.path().join("vfun2"), dir.path().join("vfun10")]);
        assert!(nodes(Path::new("/no/such")).is_empty());
    }

    #[test]
    fn what_is_no_module_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let open = |asked: Option<&Path>| Module::open(dir.path(), asked, None).err().unwrap();
        assert!(matches!(open(None), Error::NoModule(None)));
        let path = dir.path().join("vfun0");
        assert!(matches!(open(Some(&path)), Error::NoModule(Some(p)) if p == path));
        // A file that is no device knows nothing of the module's numbers.
        std::fs::write(&path, "").unwrap();
        assert!(matches!(open(None), Error::Device { path: p, .. } if p == path));
    }
}
