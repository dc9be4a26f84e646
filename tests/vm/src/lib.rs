//! A real guest with a window of a real manager.

#![forbid(unsafe_code)]

pub mod module;

use std::path::PathBuf;
use std::time::Duration;
use vfun_manager::admin::Reply;
use vfun_testguest::{Guest, GuestConfig, Window};
use vfun_tests_local::{Stand, programs, repo};

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
        files: vec![(at("vfun"), "/usr/bin/vfun".into())],
        ..GuestConfig::new(name)
    }
}

/// Boots it.
pub fn boot(config: &GuestConfig) -> Guest {
    Guest::boot(config).unwrap_or_else(|e| panic!("{e}"))
}

/// Declares a VM's client with doorbells and says where QEMU connects.
pub fn doorbell_client(stand: &Stand, name: &str, more: &str) -> PathBuf {
    let manifest = format!("name = \"{name}\"\nwindow = \"16 MiB\"\n{more}");
    match stand.add_client(&manifest) {
        Ok(Reply::ClientAdded(row)) => row.socket.expect("a VM's client has a socket"),
        other => panic!("{other:?}"),
    }
}

/// A guest with a port to plug a doorbell window into, the kernel module and
/// users.
pub fn module_config(name: &str) -> GuestConfig {
    let kernel = vfun_testguest::Kernel::find().unwrap_or_else(|e| panic!("{e}"));
    let module = repo().join("target/kmod").join(kernel.version()).join("vfun.ko");
    assert!(module.is_file(), "{} is missing: run packaging/kmod.sh", module.display());
    let here = |file: &str| repo().join("tests/vm/guest").join(file);
    let mut config = GuestConfig { hotplug_ports: 1, ..config(name, vec![]) };
    config.files.extend([
        (programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()),
        (module, "/lib/vfun.ko".into()),
        (here("passwd"), "/etc/passwd".into()),
        (here("group"), "/etc/group".into()),
    ]);
    config
}

/// Loads the module as a package's udev rule would have it.
pub const LOAD: &str = "insmod /lib/vfun.ko && chgrp vfun /dev/vfun*";

/// A script as a user without rights.
pub fn as_user(user: &str, script: &str) -> String {
    format!("su {user} -c '{}'", script.replace('\'', "'\\''"))
}
