//! `vfund --check`: what a manager that is set up like this would lack, for people. It
//! looks, and leaves nothing behind.

use super::catalogs::{beside, function, manifests};
use super::setup::{Config, StartError};
use crate::tree;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use vfun_jail::probe;

/// What was found of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// All is well.
    Ok(String),
    /// It limits something.
    Note(String),
    /// The manager would start, and something that was asked for would not be there.
    Lacks(String),
    /// No manager would start.
    Stops(String),
}

impl Foreseen {
    /// The exit status of the worst: 2 where no manager would start, 1 where one would
    /// lack something, else 0.
    pub fn exit_status(all: &[Foreseen]) -> u8 {
        let worst = all.iter().map(|f| match f {
            Foreseen::Ok(_) | Foreseen::Note(_) => 0,
            Foreseen::Lacks(_) => 1,
            Foreseen::Stops(_) => 2,
        });
        worst.max().unwrap_or(0)
    }
}

impl std::fmt::Display for Foreseen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (word, what) = match self {
            Foreseen::Ok(what) => ("ok", what),
            Foreseen::Note(what) => ("note", what),
            Foreseen::Lacks(what) => ("LACKS", what),
            Foreseen::Stops(what) => ("WRONG", what),
        };
        write!(f, "{word:6} {what}")
    }
}

/// The folder itself, or the one above it that is there and in which it would be made.
fn nearest(folder: &Path) -> &Path {
    folder.ancestors().find(|a| a.exists()).unwrap_or(Path::new("/"))
}

fn stops(e: StartError) -> Foreseen {
    Foreseen::Stops(e.to_string())
}

impl Config {
    /// Looks at all that this names, and at what the host gives.
    pub fn foresee(&self) -> Vec<Foreseen> {
        let (root, serves) = self.foresee_root();
        let mut all = vec![root];
        all.push(self.check_programs().map_or_else(stops, |()| Foreseen::Ok("programs".into())));
        all.push(self.foresee_windows());
        all.push(self.check_drivers().map_or_else(stops, |()| {
            Foreseen::Ok(format!("libraries of drivers in {}", self.drivers.display()))
        }));
        all.extend(self.functions.iter().map(|dir| self.foresee_functions(dir)));
        if self.tcp_tls.cert.is_some() {
            let tls = self.tcp_tls.check(&self.gateway_program);
            all.push(tls.map_or_else(stops, |()| Foreseen::Ok("certificate and key".into())));
        }
        all.extend(self.addresses().map(|(option, address)| match TcpListener::bind(address) {
            // Its helpers have them.
            Err(e) if serves && e.kind() == std::io::ErrorKind::AddrInUse => Foreseen::Ok(format!(
                "{option} {address}: in use, by the manager that serves now if it has this address"
            )),
            Err(e) if e.kind() == std::io::ErrorKind::AddrNotAvailable => {
                Foreseen::Note(format!("{option} {address}: no interface has this address yet"))
            }
            Err(e) => stops(StartError::address(option, address, e)),
            Ok(_) => Foreseen::Ok(format!("{option} {address}")),
        }));
        all.extend(self.lacks_for_nics().map(Foreseen::Lacks));
        all.extend(self.foresee_sandbox());
        all
    }

    /// And whether a manager serves it now.
    fn foresee_root(&self) -> (Foreseen, bool) {
        let root = &self.root;
        let shown = format!("root {}", root.display());
        let lock = tree::lock(root);
        // Without making it: only a manager does that.
        match File::options().read(true).open(&lock).map(|f| f.try_lock().is_err()) {
            Ok(true) => return (Foreseen::Ok(format!("{shown}: a manager serves it now")), true),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                return (stops(StartError::root(root, e)), false);
            }
            _ => {}
        }
        let needs = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        match rustix::fs::access(nearest(root), needs) {
            Ok(()) => (Foreseen::Ok(shown), false),
            Err(e) => (stops(StartError::root(root, e.into())), false),
        }
    }

    fn foresee_windows(&self) -> Foreseen {
        if let Err(e) = self.check_window_dir() {
            return stops(e);
        }
        let dir = self.window_dir.display();
        let memory = rustix::fs::statfs(nearest(&self.window_dir))
            .is_ok_and(|fs| MEMORY.contains(&fs.f_type));
        match memory {
            true => Foreseen::Ok(format!("windows in {dir}")),
            false => Foreseen::Note(format!(
                "windows in {dir}: this is on a disk, which makes calls slow; name a folder on tmpfs, such as /dev/shm"
            )),
        }
    }

    fn foresee_functions(&self, dir: &Path) -> Foreseen {
        let shown = format!("functions of {}", dir.display());
        if let Err(e) = std::fs::read_dir(dir) {
            return stops(StartError::folder("--functions", dir, e));
        }
        let all = manifests(dir);
        let wrong: Vec<_> =
            all.iter().filter_map(|file| self.foresee_function(file).err()).collect();
        match wrong.is_empty() {
            true => Foreseen::Ok(format!("{shown}: {}", all.len())),
            false => Foreseen::Lacks(format!("{shown}: {}", wrong.join("; "))),
        }
    }

    fn foresee_function(&self, file: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let parsed = function(&self.drivers, file, &text, beside(file), 0);
        parsed.map(|_| ()).map_err(|e| e.to_string())
    }

    /// What services would have of their sandbox, by a trial.
    fn foresee_sandbox(&self) -> Vec<Foreseen> {
        let tried = match probe::try_out(&self.jail_program) {
            Ok(tried) => tried,
            // Why, the check of programs says.
            Err(_) if self.check_programs().is_err() => return vec![],
            Err(e) => {
                return vec![Foreseen::Stops(format!("sandbox: no service would start: {e}"))];
            }
        };
        let all = vfun_jail::Layer::ALL.len();
        let mut said =
            vec![Foreseen::Ok(format!("sandbox: {} of {all} layers", tried.layers.len()))];
        let missing = tried.missing.iter().filter(|m| !self.without.contains(&m.layer));
        said.extend(
            missing.map(|m| Foreseen::Note(format!("sandbox without '{}': {}", m.layer, m.why))),
        );
        said
    }
}

/// Kinds of file systems that are memory: tmpfs, hugetlbfs (include/uapi/linux/magic.h).
const MEMORY: [i64; 2] = [0x0102_1994, 0x9584_58f6];
