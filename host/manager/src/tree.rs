//! The published tree of files: `admin/`, `service/<client>/<app-function>/`
//! and `vmcli/<client>/<app-function>/`, under one root.
//!
//! The two sides of each grant are a JSON file each, named by its handle;
//! they are there for people and scripts to look at, nothing is decided by them.

use crate::core::{GrantRecord, GrantState};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use vfun_admin::VmName;

/// Paths of the manager's files below its root.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

fn clients(root: &Path) -> PathBuf {
    root.join("admin").join("clients")
}

/// Where the keeper of this root's manager is found.
pub fn keeper_socket(root: &Path) -> PathBuf {
    root.join("admin").join("keeper.sock")
}

/// Held locked by the manager of this root.
pub fn lock(root: &Path) -> PathBuf {
    root.join("admin").join("vfund.lock")
}

/// The one name of a root, however it was named: through a link, or from another
/// folder. That it was given, where it cannot be found out.
pub fn one_name(root: &Path) -> PathBuf {
    root.canonicalize().unwrap_or_else(|_| root.to_owned())
}

/// The manifest of a client that was added to the manager of this root.
pub fn client_manifest(root: &Path, client: &str) -> PathBuf {
    clients(root).join(format!("{client}.toml"))
}

fn windows(root: &Path) -> PathBuf {
    root.join("admin").join("windows")
}

/// The manifest of a further window that was added to the manager of this root.
pub fn window_manifest(root: &Path, name: &str) -> PathBuf {
    windows(root).join(format!("{name}.toml"))
}

impl Tree {
    /// Makes what is missing of it.
    pub fn new(root: &Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let tree = Tree { root: root.to_owned() };
        for dir in [
            tree.admin(),
            tree.functions(),
            tree.clients(),
            tree.windows(),
            root.join("service"),
            root.join("vmcli"),
            root.join("ivshmem"),
        ] {
            fs::create_dir_all(&dir)?;
        }
        fs::set_permissions(tree.admin(), fs::Permissions::from_mode(0o700))?;
        Ok(tree)
    }

    /// What only the operator sees: database, manifests, admin socket.
    pub fn admin(&self) -> PathBuf {
        self.root.join("admin")
    }
    /// Manifests of functions that were added.
    pub fn functions(&self) -> PathBuf {
        self.admin().join("functions")
    }
    /// Manifests of clients that were added.
    pub fn clients(&self) -> PathBuf {
        clients(&self.root)
    }
    /// Manifests of further windows that were added.
    pub fn windows(&self) -> PathBuf {
        windows(&self.root)
    }
    /// Path of the socket on which the manager is asked.
    pub fn admin_socket(&self) -> PathBuf {
        self.admin().join("vfund.sock")
    }
    /// Where programs on the host get their windows.
    pub fn host_socket(&self) -> PathBuf {
        self.root.join("host.sock")
    }
    /// Where switches with DPDK get the memory of ports.
    pub fn ports_socket(&self) -> PathBuf {
        self.root.join("ports.sock")
    }
    /// Where a VM's QEMU connects.
    pub fn vm_socket(&self, vm: &VmName) -> PathBuf {
        self.root.join("ivshmem").join(format!("{}.sock", vm.file_name()))
    }
    /// Where the QEMU of one of its two VMs takes a window that was made for direct links.
    pub fn made_socket(&self, window: &str, vm: usize) -> PathBuf {
        self.root.join("ivshmem").join(format!("{window}.{vm}.sock"))
    }
    /// All of these that are there.
    pub fn made_sockets(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.root.join("ivshmem"));
        let all = all.into_iter().flatten().flatten();
        let is_made = |name: &OsString| name.to_str().is_some_and(vfun_admin::window::is_made);
        all.filter(|f| is_made(&f.file_name())).map(|f| f.path()).collect()
    }
    /// Where the keeper of this tree's manager is found.
    pub fn keeper_socket(&self) -> PathBuf {
        keeper_socket(&self.root)
    }
    pub fn database(&self) -> PathBuf {
        self.admin().join("virtfun.db")
    }
    /// What each client may use, as its operator wrote it.
    pub fn policy(&self) -> PathBuf {
        self.admin().join("policy.toml")
    }
    /// Tokens of apps, hashed.
    pub fn tokens(&self) -> PathBuf {
        self.admin().join("tokens.json")
    }
    /// Modules that clients submitted, a folder a client.
    pub fn modules(&self) -> PathBuf {
        self.admin().join("modules")
    }
    /// Who did what, and who was refused what.
    pub fn audit(&self) -> PathBuf {
        self.admin().join("audit.db")
    }
    /// Held locked by the manager of this tree.
    pub fn lock(&self) -> PathBuf {
        lock(&self.root)
    }
    /// The log of a client's service of a function. All functions that it submitted
    /// share one: their names are its to choose, so that one for each would be files
    /// without end, and such as are called like the folder of a grant.
    pub fn service_log(&self, client: &str, function: &str) -> io::Result<PathBuf> {
        let dir = self.root.join("service").join(client);
        fs::create_dir_all(&dir)?;
        let name = if vfun_submit::is_own(function) { "my" } else { function };
        Ok(dir.join(format!("{name}.log")))
    }

    /// Every service's log.
    pub fn service_logs(&self) -> Vec<PathBuf> {
        let clients = subdirs(&self.root.join("service")).unwrap_or_default();
        let files = clients.iter().filter_map(|c| fs::read_dir(c).ok()).flatten().flatten();
        files.map(|f| f.path()).filter(|p| p.extension().is_some_and(|e| e == "log")).collect()
    }

    fn grant_files(&self, g: &GrantRecord) -> [PathBuf; 2] {
        let at = |side: &str| {
            self.root
                .join(side)
                .join(&g.client)
                .join(format!("{}-{}", g.app, g.function))
                .join(format!("{}.json", g.grant))
        };
        [at("service"), at("vmcli")]
    }

    /// Shows what a grant became.
    pub fn grant(&self, g: &GrantRecord) -> io::Result<()> {
        for file in self.grant_files(g) {
            let dir = file.parent().expect("it has one");
            if g.state == GrantState::Released {
                let _ = fs::remove_file(&file);
                let _ = fs::remove_dir(dir); // only if it was the last there
                continue;
            }
            fs::create_dir_all(dir)?;
            let text = serde_json::json!({
                "grant": g.grant.to_string(),
                "clientID": g.client_id, "client": g.client, "vm": g.vm,
                "AppID": g.app_id, "app": g.app,
                "functionID": g.function_id, "function": g.function,
                "functionLoc": g.location.text(),
                "state": g.state.text(),
            });
            fs::write(&file, format!("{text:#}\n"))?;
        }
        Ok(())
    }

    /// Shows where a VM's window is: `vmcli/<client>/window`, or `window@<VM>` of one that
    /// has a name of its own.
    pub fn window(&self, vm: &VmName, file: &Path) -> io::Result<()> {
        let dir = self.root.join("vmcli").join(&vm.client);
        fs::create_dir_all(&dir)?;
        let link = match vm.is_main() {
            true => dir.join("window"),
            false => dir.join(format!("window@{}", vm.vm)),
        };
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(file, link)
    }

    /// Removes what an earlier manager's grants left, and nothing else.
    pub fn clear_grants(&self) -> io::Result<()> {
        for side in ["service", "vmcli"] {
            for client in subdirs(&self.root.join(side))? {
                for app in subdirs(&client)? {
                    fs::remove_dir_all(app)?;
                }
            }
        }
        Ok(())
    }
}

fn subdirs(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use vfun_wire::Handle;
    use vfun_wire::message::Location;

    fn record(app: &str, function: &str) -> GrantRecord {
        GrantRecord {
            grant: Handle::new(1, 1),
            client_id: 1,
            client: "vm1".into(),
            vm: None,
            app_id: 2,
            app: app.into(),
            function_id: 5,
            function: function.into(),
            location: Location::Software,
            state: GrantState::Active,
            why: None,
        }
    }

    #[test]
    fn a_log_is_never_where_grants_are_shown_whatever_a_client_calls_its_functions() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::new(dir.path()).unwrap();
        for (log_of, app, function) in
            [("my.a-my.b", "my.a", "my.b.log"), ("my.c-my.d", "my.c", "my.d.log.1")]
        {
            let log = tree.service_log("vm1", log_of).unwrap();
            fs::write(&log, "").unwrap();
            fs::write(log.with_extension("log.1"), "").unwrap();
            tree.grant(&record(app, function)).unwrap();
        }
    }

    #[test]
    fn a_client_cannot_make_logs_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::new(dir.path()).unwrap();
        let log = |function: &str| tree.service_log("vm1", function).unwrap();
        let own: BTreeSet<_> = (0..1000).map(|i| log(&format!("my.f{i}"))).collect();
        assert_eq!(own.len(), 1);
        assert!(log("echo") != log("sha256") && !own.contains(&log("submit")));
        assert_ne!(tree.service_log("vm2", "my.f1").unwrap(), log("my.f1"));
    }
}
