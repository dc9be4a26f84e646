//! Guests that run scripts, whoever runs their QEMU.

use serde_json::Value;
use std::time::Duration;
use vfun_testguest::{Guest, RunOutput};

/// A guest, and its QEMU.
pub trait Runs {
    /// As [`Guest::run`].
    fn run(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<RunOutput>;
    /// As [`Guest::run_ok`].
    fn run_ok(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<String>;
    /// Asks QEMU: what it answers, or why it refuses.
    fn qmp(&self, command: &str, arguments: Value) -> Result<Value, String>;
}

impl Runs for Guest {
    fn run(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<RunOutput> {
        self.run(script, at_most)
    }

    fn run_ok(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<String> {
        self.run_ok(script, at_most)
    }

    fn qmp(&self, command: &str, arguments: Value) -> Result<Value, String> {
        self.qmp(command, arguments).map_err(|e| e.to_string())
    }
}
