//! What a manager needs before it can serve: tried before it says that it is ready,
//! and before one that serves is started anew.

use super::Daemon;
use super::setup::{Config, StartError};
use crate::limits::LEFT_ENDS;
use crate::{files, numbers, privileges};
use rustix::fs::Access;
use rustix::thread::CapabilitySet;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

impl Config {
    /// Whether a manager can be started like this where none serves.
    pub(super) fn check(&self) -> Result<(), StartError> {
        self.check_again()?;
        self.gone_folders().next().map_or(Ok(()), Err)?;
        for (option, address) in self.addresses() {
            address.to_socket_addrs().map_err(|e| StartError::address(option, address, e))?;
        }
        Ok(())
    }

    /// Whether the program on disk can take the place of a manager that serves, as far
    /// as that can be told without taking anything that this one has. Without a folder
    /// of functions it would offer fewer of them, and the helper of an address whose
    /// name nobody knows tries again and again: both are no reason to stay.
    pub fn check_again(&self) -> Result<(), StartError> {
        self.check_programs()?;
        self.tcp_tls.check(&self.gateway_program)?;
        self.check_window_dir()
    }

    /// What a manager lacks that goes on where another one was, for people. It serves
    /// all the same: who has a window needs a manager. Names of hosts are not looked
    /// up, which may take many seconds, in which nobody would serve.
    pub(super) fn lacks(&self) -> Vec<String> {
        let needed = [self.check_programs(), self.check_window_dir()];
        let lacks = needed.into_iter().filter_map(Result::err).chain(self.gone_folders());
        lacks.map(|e| e.to_string()).collect()
    }

    pub(super) fn check_window_dir(&self) -> Result<(), StartError> {
        let needs = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        let dir = &self.window_dir;
        // The root is made at the start, if it is not there.
        if *dir == self.root && !dir.exists() {
            return Ok(());
        }
        // As the path of a folder, whatever is there.
        rustix::fs::access(dir.join("."), needs)
            .map_err(|e| StartError::folder("--window-dir", dir, e.into()))
    }

    /// Folders of functions and of drivers that cannot be read.
    fn gone_folders(&self) -> impl Iterator<Item = StartError> {
        let functions = self.functions.iter().filter_map(|dir| {
            let e = std::fs::read_dir(dir).err()?;
            Some(StartError::folder("--functions", dir, e))
        });
        functions.chain(self.check_drivers().err())
    }

    /// Libraries are opened by name: nobody lists this folder.
    pub(super) fn check_drivers(&self) -> Result<(), StartError> {
        let dir = &self.drivers;
        rustix::fs::access(dir.join("."), Access::EXEC_OK)
            .map_err(|e| StartError::folder("--drivers", dir, e.into()))
    }

    pub(super) fn check_programs(&self) -> Result<(), StartError> {
        let mut needed = vec![
            (&self.service_program, "service program"),
            (&self.jail_program, "launcher of services"),
            (&self.keeper_program, "keeper"),
        ];
        needed.extend(self.tcp.as_ref().map(|_| (&self.gateway_program, "gateway")));
        needed.extend(
            self.metrics
                .as_ref()
                .map(|_| (&self.metrics_program, "program that shows the metrics")),
        );
        needed.extend(self.nics.then_some((&self.nics_program, "program that lends network VFs")));
        needed.extend(self.links.then_some((&self.links_program, "program that watches switches")));
        for (program, what) in needed {
            let program = program.clone();
            match std::fs::metadata(&program) {
                Ok(found) if found.is_file() => {}
                Err(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
                    return Err(StartError::HiddenProgram { what, program, source });
                }
                _ => return Err(StartError::NoProgram { what, program }),
            }
        }
        Ok(())
    }

    /// What it lacks to lend network VFs, which it is asked to, for people. It does all
    /// else without.
    pub(super) fn lacks_for_nics(&self) -> Option<String> {
        let has = || privileges::effective().unwrap_or(CapabilitySet::empty());
        self.nics.then(|| privileges::lacks_for_nics(has())).flatten()
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let both = [("--tcp", &self.tcp), ("--metrics", &self.metrics)];
        both.into_iter().filter_map(|(option, address)| Some((option, address.as_deref()?)))
    }

    /// Whether the helpers of a manager that takes over from none can have their
    /// addresses. Those of one that was killed a moment ago may not have ended.
    pub(super) fn check_addresses(&self) -> Result<(), StartError> {
        let until = Instant::now() + LEFT_ENDS;
        for (option, address) in self.addresses() {
            while let Err(e) = TcpListener::bind(address) {
                // A bridge may come up later: the helper tries again and again.
                if e.kind() == std::io::ErrorKind::AddrNotAvailable {
                    tracing::warn!("{option} {address}: no interface has this address yet");
                    break;
                }
                if e.kind() != std::io::ErrorKind::AddrInUse || Instant::now() >= until {
                    return Err(StartError::address(option, address, e));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}

impl Daemon {
    /// Whether the next manager finds what this one has: its database can be
    /// written, or is so broken that it is made anew, and so can its folder.
    pub(super) fn check_root(&self) -> Result<(), String> {
        let database = self.tree.database();
        numbers::try_open(&database)
            .map_err(|e| format!("the database {}: {e}", database.display()))?;
        let probe = self.tree.admin().join("try");
        let written = files::write_whole(&probe, &[0; 4096]);
        let _ = std::fs::remove_file(&probe);
        written.map_err(|e| format!("the folder {}: {e}", at(&probe)))
    }
}

fn at(file: &Path) -> String {
    file.parent().unwrap_or(file).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rim::Foreseen;
    use rustix::thread::CapabilitySets;

    /// One whose programs are there.
    fn config(dir: &Path) -> Config {
        let config = Config { functions: vec![dir.into()], ..Config::in_folder(dir) };
        for program in [
            &config.service_program,
            &config.jail_program,
            &config.keeper_program,
            &config.gateway_program,
            &config.metrics_program,
        ] {
            std::fs::write(program, "").unwrap();
        }
        config
    }

    #[test]
    fn an_address_that_no_interface_has_yet_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        // No machine has this one: it is there for documents.
        let mut config = Config { tcp: Some("192.0.2.1:7733".into()), ..config(dir.path()) };
        config.check().unwrap();
        config.check_addresses().unwrap();
        // One that another program has will not become free by itself.
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        config.metrics = Some(address.clone());
        let why = config.check_addresses().unwrap_err().to_string();
        assert!(why.contains(&format!("--metrics {address}")), "{why}");
        drop(taken);
        config.check_addresses().unwrap();
    }

    #[test]
    fn capabilities_that_are_missing_are_said_where_network_vfs_are_lent() {
        let dir = tempfile::tempdir().unwrap();
        let without = config(dir.path());
        let lends = Config { nics: true, ..without.clone() };
        // Each thread has its own.
        let bare = std::thread::spawn(move || {
            let none = CapabilitySet::empty();
            let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
            rustix::thread::set_capabilities(None, sets).unwrap();
            (lends.lacks_for_nics(), lends.foresee(), without.lacks_for_nics())
        });
        let (lacks, foreseen, nothing) = bare.join().unwrap();
        let lacks = lacks.unwrap();
        assert!(lacks.contains("net_admin") && lacks.contains("dac_override"), "{lacks}");
        assert!(foreseen.contains(&Foreseen::Lacks(lacks)), "{foreseen:?}");
        assert_eq!(nothing, None);
    }

    #[test]
    fn what_a_manager_can_serve_without_is_no_reason_to_have_none() {
        let dir = tempfile::tempdir().unwrap();
        let whole = config(dir.path());
        whole.check().unwrap();
        assert!(whole.lacks().is_empty(), "{:?}", whole.lacks());
        let functions = vec![dir.path().join("gone"), dir.path().into(), dir.path().join("too")];
        let gone = Config { functions, ..whole.clone() };
        assert!(gone.check().unwrap_err().to_string().contains("gone"));
        gone.check_again().unwrap();
        let lacks = gone.lacks();
        assert_eq!(lacks.len(), 2, "{lacks:?}");
        assert!(lacks[0].contains("gone") && lacks[1].contains("too"), "{lacks:?}");
        let without = Config { drivers: dir.path().join("none"), ..whole.clone() };
        assert!(without.check().unwrap_err().to_string().contains("Name a folder that is there"));
        without.check_again().unwrap();
        assert!(without.lacks()[0].starts_with("--drivers "), "{:?}", without.lacks());
        // The root is made by the manager, windows in it or not.
        let root = dir.path().join("root");
        let own = Config { window_dir: root.clone(), root, ..whole.clone() };
        own.check().unwrap();
        let other = Config { window_dir: dir.path().join("windows"), ..own };
        assert!(other.check().unwrap_err().to_string().starts_with("--window-dir "));
        // Nobody has a name this long, which is known without asking anybody.
        let name = "a".repeat(64);
        let nameless = Config { tcp: Some(format!("{name}:7733")), ..whole.clone() };
        assert!(nameless.check().unwrap_err().to_string().contains(&format!("--tcp {name}")));
        nameless.check_again().unwrap();
        assert!(nameless.lacks().is_empty());
        // Who serves stays rather than become one that could start no service, but
        // where none serves any more, one that starts none is better.
        let lame = Config { jail_program: dir.path().join("none"), ..whole };
        lame.check_again().unwrap_err();
        assert_eq!(lame.lacks().len(), 1);
    }
}
