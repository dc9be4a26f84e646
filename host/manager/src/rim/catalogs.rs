//! Manifests on disk become what is offered, and VMs' windows become files.

use super::{Attached, Daemon};
use crate::core::catalog::{Catalog, Client, ClientKind, Function};
use crate::manifest::{self, ManifestError};
use crate::window::HostWindow;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::fs;
use std::path::{Path, PathBuf};
use vfun_rim::methods::*;

impl Daemon {
    /// Reads one function's manifest: libraries are looked for beside it, then
    /// in the driver directory.
    pub(super) fn parse_function(
        &self,
        file: &Path,
        text: &str,
        beside: &Path,
        id: u32,
    ) -> Result<Function, ManifestError> {
        match manifest::function(file, text, beside, id) {
            Err(e) if e.reason.starts_with("there is no driver library") => {
                manifest::function(file, text, &self.config.drivers, id)
            }
            other => other,
        }
    }

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
                let beside = file.parent().unwrap_or(Path::new("/")).to_owned();
                let f = self.parse_function(&file, &text, &beside, 0).map_err(|e| e.to_string())?;
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
        (catalog, wrong)
    }

    /// Where a VM's window is: a file in shared memory, named so that libvirt
    /// finds it too.
    pub(super) fn window_file(&self, client: &str) -> PathBuf {
        self.config.window_dir.join(format!("virtfun-{client}"))
    }

    /// Makes or takes up a VM's window and lays it out anew.
    pub(super) fn vm_window(&mut self, client: &Client) -> Result<(), String> {
        debug_assert_eq!(client.kind, ClientKind::Vm);
        self.own_window(&client.name)?;
        let file = self.window_file(&client.name);
        let at =
            |what: &str, e: std::io::Error| format!("the window {} {what}: {e}", file.display());
        // Others can write to the directory: no link is followed, and a file
        // that somebody else put there is refused.
        let fd = rustix::fs::open(
            &file,
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
        .map_err(|e| at("cannot be opened", e.into()))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| at("cannot be looked at", e.into()))?;
        if stat.st_uid != rustix::process::getuid().as_raw() || stat.st_nlink != 1 {
            return Err(format!(
                "the window {} belongs to another user: remove it",
                file.display()
            ));
        }
        if stat.st_size == 0 {
            rustix::fs::ftruncate(&fd, client.window_bytes)
                .map_err(|e| at("cannot be sized", e.into()))?;
        } else if stat.st_size as u64 != client.window_bytes {
            return Err(format!(
                "the window {} has {} bytes, client {} declares {}: turn its VM off and remove the file",
                file.display(),
                stat.st_size,
                client.name,
                client.window_bytes
            ));
        }
        // All of it now: shared memory that runs out later would end whoever
        // touches the next page with SIGBUS, this manager included.
        match rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, client.window_bytes) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(e) => {
                if stat.st_size == 0 {
                    let _ = std::fs::remove_file(&file); // made just now
                }
                return Err(at(
                    &format!("needs {} bytes of its file system", client.window_bytes),
                    e.into(),
                ));
            }
        }
        let window = HostWindow::lay_out(
            fd,
            client.window_bytes,
            self.next_window_generation(),
            client.id,
            &client.name,
            None,
        )
        .map_err(|e| format!("the window {}: {e}", file.display()))?;
        window.set_state(self.serving_state());
        if let Err(e) = self.tree.window(&client.name, &file) {
            tracing::warn!("the tree could not show a window: {e}");
        }
        let id = self.fresh_id();
        let attached = Attached {
            window,
            client: client.id,
            transport: super::ivshmem::PLAIN,
            peer: None,
            heartbeats: true,
            proven: false,
            handing: false,
            intake: self.intake(client.id),
        };
        self.window_up(id, attached);
        Ok(())
    }
}

/// `DIR/*.toml` and `DIR/*/function.toml`, sorted by name.
fn manifests(dir: &Path) -> Vec<PathBuf> {
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
