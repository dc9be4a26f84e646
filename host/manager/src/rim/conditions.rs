//! What a manager needs before it can serve: tried before it says that it is ready,
//! and before one that serves is started anew.

use super::Daemon;
use super::setup::{Config, StartError};
use crate::limits::LEFT_ENDS;
use crate::{files, numbers};
use rustix::fs::Access;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

impl Config {
    /// Whether a manager can be started like this, as far as that can be told without
    /// taking anything that one which serves has.
    pub fn check(&self) -> Result<(), StartError> {
        self.check_programs()?;
        self.tcp_tls.check(&self.gateway_program)?;
        for dir in &self.functions {
            std::fs::read_dir(dir).map_err(|e| StartError::folder("--functions", dir, e))?;
        }
        let needs = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        let dir = &self.window_dir;
        // As the path of a folder, whatever is there.
        rustix::fs::access(dir.join("."), needs)
            .map_err(|e| StartError::folder("--window-dir", dir, e.into()))?;
        for (option, address) in self.addresses() {
            address.to_socket_addrs().map_err(|e| StartError::address(option, address, e))?;
        }
        Ok(())
    }

    fn check_programs(&self) -> Result<(), StartError> {
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

    fn addresses(&self) -> impl Iterator<Item = (&'static str, &str)> {
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
