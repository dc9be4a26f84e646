//! What a test runs beside itself: programs that were built with it, and how
//! long a test may take its time.

use crate::{programs, repo};
use std::process::Command;

/// Whether tests run at their full length (`make test-all`): all rows of the
/// crash matrix, each attack for its whole time.
pub fn full() -> bool {
    std::env::var_os("VFUN_TESTS").is_some_and(|v| v == "full")
}

/// The first of them where tests run short, the second where they run at full length.
pub fn long<T>(short: T, full_length: T) -> T {
    if full() { full_length } else { short }
}

/// Has cargo build more, with the profile of this test: `what` are its arguments.
/// Does nothing where `tests/built.py` runs the test, as it has built everything.
///
/// # Panics
///
/// If cargo fails.
pub fn build(what: &[&str]) {
    if std::env::var_os("VFUN_BUILT").is_some() {
        return;
    }
    let folder = programs();
    let profile = match folder.file_name().and_then(|n| n.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is no profile's folder", folder.display()),
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", profile])
        .args(what)
        .arg("--target-dir")
        .arg(folder.parent().expect("a profile's folder is in one"))
        .current_dir(repo())
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo build {}: {status}", what.join(" "));
}
