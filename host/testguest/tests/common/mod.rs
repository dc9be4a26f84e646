//! What all tests with real guests share.
//!
//! A missing QEMU or kernel fails these tests with a sentence, on purpose: run
//! packaging/setup.sh and packaging/guest-kernel.sh.
#![allow(dead_code)] // each test program uses its part

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use vfun_testguest::{Guest, GuestConfig};

/// Time for what takes a second: an emulated guest on a starved machine is slow.
pub const SHORT: Duration = Duration::from_secs(120);

pub fn boot(config: &GuestConfig) -> Guest {
    Guest::boot(config).unwrap_or_else(|e| panic!("{e}"))
}

/// Checks `what` again and again until it holds.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < SHORT, "not so in {SHORT:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub fn alive(pid: u32) -> bool {
    // A zombie has no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| !c.is_empty())
}

/// This program again, doing only the ignored test `name`, its stdout a pipe.
pub fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).stdout(Stdio::piped());
    command
}
