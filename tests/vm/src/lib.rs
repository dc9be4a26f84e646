//! A real guest with a window of a real manager.

#![forbid(unsafe_code)]

pub mod cli;
pub mod collectors;
pub mod debian;
pub mod fakehost;
pub mod flow;
pub mod handover;
pub mod holder;
pub mod libvirt;
pub mod linkedworld;
pub mod linkwords;
pub mod module;
pub mod nested;
pub mod netns;
pub mod netprograms;
pub mod nics;
pub mod nics_domains;
pub mod oneway;
pub mod openvswitch;
pub mod orders;
pub mod ownport;
pub mod pinger;
pub mod queues;
pub mod roundtrip;
pub mod runs;
pub mod scribble;
pub mod tally;
pub mod testpmd;
pub mod users;

use std::path::PathBuf;
use std::time::Duration;
use vfun_admin::Reply;
use vfun_testguest::{Guest, GuestConfig, Window};
use vfun_tests_local::{Stand, programs};

/// A limit for a command in an emulated guest on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

/// Declares a VM's client and says where its window is.
pub fn client(stand: &Stand, name: &str, more: &str) -> Window {
    let manifest =
        format!("name = \"{name}\"\nwindow = \"16 MiB\"\ntransport = \"ivshmem-plain\"\n{more}");
    match stand.add_client(&manifest) {
        Ok(Reply::ClientAdded(row)) => Window {
            path: row.window_file.expect("a VM's client has a window"),
            size: row.window_bytes,
        },
        other => panic!("{other:?}"),
    }
}

/// A guest's configuration with our programs inside.
pub fn config(name: &str, windows: Vec<Window>) -> GuestConfig {
    let at = |program: &str| -> PathBuf { programs().join(program) };
    GuestConfig {
        windows,
        // The programs lie in memory twice while they are unpacked.
        memory_mib: 512,
        files: vec![(at("vfun"), "/usr/bin/vfun".into())],
        ..GuestConfig::new(name)
    }
}

/// Boots it.
pub fn boot(config: &GuestConfig) -> Guest {
    Guest::boot(config).unwrap_or_else(|e| panic!("{e}"))
}
