//! Manifests on disk become what is offered.

use super::Daemon;
use crate::core::catalog::{Catalog, Client, Function};
use crate::manifest::{self, ManifestError};
use std::fs;
use std::path::{Path, PathBuf};

/// Reads one function's manifest: libraries are looked for beside it, then in the
/// directory of drivers.
pub(super) fn function(
    drivers: &Path,
    file: &Path,
    text: &str,
    beside: &Path,
    id: u32,
) -> Result<Function, ManifestError> {
    match manifest::function(file, text, beside, id) {
        Err(e) if e.reason.starts_with("there is no driver library") => {
            manifest::function(file, text, drivers, id)
        }
        other => other,
    }
}

/// The folder in which a manifest lies, if its path says so from the root on.
pub(super) fn beside(file: &Path) -> &Path {
    // A caller may give a bare name. The manager's own folder is beside no manifest: a service
    // would not find there what the manager finds.
    let folder = file.parent().filter(|folder| folder.is_absolute());
    folder.unwrap_or(Path::new("/"))
}

impl Daemon {
    /// Reads every manifest. A wrong one is left out and said to be, so that
    /// it does not take the others with it.
    pub(super) fn read_catalog(&self) -> (Catalog, Vec<String>) {
        let mut catalog = Catalog::default();
        let mut wrong = vec![];
        let mut dirs = self.config.functions.clone();
        dirs.push(self.tree.functions());
        for file in dirs.iter().flat_map(|d| manifests(d)) {
            let read = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()));
            let parsed = read.and_then(|text| {
                let f = function(&self.config.drivers, &file, &text, beside(&file), 0)
                    .map_err(|e| e.to_string())?;
                let id = self.records.id("function", &f.name).map_err(|e| e.to_string())?;
                Ok(Function { id, ..f })
            });
            match parsed {
                Ok(f) => {
                    catalog.functions.insert(f.name.clone(), f);
                }
                Err(e) => wrong.push(e),
            }
        }
        match self.records.id("function", vfun_submit::FUNCTION) {
            Ok(id) => {
                let f = crate::submitted::built_in(id);
                catalog.functions.insert(f.name.clone(), f);
            }
            Err(e) => wrong.push(e.to_string()),
        }
        if self.config.nics {
            match self.records.id("function", vfun_bond::FUNCTION) {
                Ok(id) => {
                    let f = crate::core::bond::built_in(id);
                    catalog.functions.insert(f.name.clone(), f);
                }
                Err(e) => wrong.push(e.to_string()),
            }
        }
        for file in manifests(&self.tree.clients()) {
            let read = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()));
            let parsed = read.and_then(|text| {
                let c = manifest::client(&file, &text, 0).map_err(|e| e.to_string())?;
                let id = self.records.id("client", &c.name).map_err(|e| e.to_string())?;
                Ok(Client { id, ..c })
            });
            match parsed {
                Ok(c) => {
                    catalog.clients.insert(c.id, c);
                }
                Err(e) => wrong.push(e),
            }
        }
        if catalog.client("host").is_none() {
            match self.records.id("client", "host") {
                Ok(id) => {
                    catalog.clients.insert(id, manifest::default_host_client(id));
                }
                Err(e) => wrong.push(e.to_string()),
            }
        }
        if let Err(e) = self.offer_ports(&mut catalog) {
            wrong.push(e);
        }
        (catalog, wrong)
    }
}

/// `DIR/*.toml` and `DIR/*/function.toml`, sorted by name.
pub(super) fn manifests(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return vec![] };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter_map(|e| {
            let path = e.path();
            if path.extension().is_some_and(|x| x == "toml")
                && path.file_name() != Some("Cargo.toml".as_ref())
            {
                return Some(path);
            }
            let inner = path.join("function.toml");
            inner.is_file().then_some(inner)
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_never_looked_for_where_the_manager_was_started() {
        assert_eq!(beside(Path::new("/etc/f/function.toml")), Path::new("/etc/f"));
        for bare in ["function.toml", "f/function.toml", ""] {
            assert_eq!(beside(Path::new(bare)), Path::new("/"), "{bare}");
        }
    }
}
