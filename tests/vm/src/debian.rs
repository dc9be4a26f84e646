//! A guest that runs Debian's own packages, with VirtFun's installed in it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use vfun_testguest::{Disk, Doorbell, GuestConfig};
use vfun_tests_local::{programs, repo};

/// The system, made by packaging/debian-guest.sh, which needs root unless it is
/// up to date.
pub fn disk() -> Disk {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let dir = MADE.get_or_init(|| {
        let target = programs().parent().expect("target/PROFILE").to_owned();
        let mut script = Command::new(repo().join("packaging/debian-guest.sh"));
        // tests/built.py says by this name that all is built, packaging/install.sh where.
        script.env("CARGO_TARGET_DIR", target).env_remove("VFUN_BUILT");
        let out = script.output().expect("a script of ours");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "packaging/debian-guest.sh: {said}");
        String::from_utf8_lossy(&out.stdout).trim().into()
    });
    Disk { image: dir.join("disk"), kernel: dir.join("kernel") }
}

/// A guest's configuration with it.
pub fn debian_config(name: &str, doorbells: Vec<Doorbell>) -> GuestConfig {
    GuestConfig {
        disk: Some(disk()),
        doorbells,
        cpus: 2,
        memory_mib: 512,
        ..GuestConfig::new(name)
    }
}
