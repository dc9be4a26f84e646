//! Guests that run scripts. This program runs their QEMU, or libvirt does.

use std::time::Duration;
use vfun_testguest::{Guest, RunOutput};

/// A guest.
pub trait Runs {
    /// As [`Guest::run`].
    fn run(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<RunOutput>;
    /// As [`Guest::run_ok`].
    fn run_ok(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<String>;
}

impl Runs for Guest {
    fn run(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<RunOutput> {
        self.run(script, at_most)
    }

    fn run_ok(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<String> {
        self.run_ok(script, at_most)
    }
}
