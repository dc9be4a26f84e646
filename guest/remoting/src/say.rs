//! What a front end says to people: C's statuses have no words.

use std::sync::Once;

/// If it is set, a front end says nothing on standard error.
const QUIET: &str = "VFUN_QUIET";

/// Says it on standard error, once in this process.
pub fn once(said: &Once, lines: impl FnOnce() -> Vec<String>) {
    said.call_once(|| {
        if std::env::var_os(QUIET).is_none() {
            lines().iter().for_each(|line| eprintln!("VirtFun: {line}"));
        }
    });
}
