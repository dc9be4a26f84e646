//! The Open vSwitch of this host, which may stand still: then it is left alone for a while, so
//! that what does not need it is not kept waiting each time.

use crate::limits::{SWITCH_REST, SWITCH_SLOW};
use std::cell::Cell;
use std::time::Instant;
use vfun_hostnet::switch::Switch;

/// Asks it. For one thread.
#[derive(Default)]
pub(super) struct Ovs {
    /// When it last failed to answer in time.
    stuck: Cell<Option<Instant>>,
}

impl Ovs {
    /// Changes its database, and waits until it has followed.
    ///
    /// # Errors
    /// As [`Ovs::run`].
    pub fn change(&self, words: &[&str]) -> Result<(), String> {
        self.run(|switch| switch.change(words))
    }

    /// Asks it something.
    ///
    /// # Errors
    /// A sentence: what it says, or that it is left alone now.
    pub fn run<T>(&self, what: impl FnOnce(&Switch) -> Result<T, String>) -> Result<T, String> {
        if self.stuck.get().is_some_and(|at| at.elapsed() < SWITCH_REST) {
            return Err("Open vSwitch did not answer in time, and is asked again within half a minute: see whether ovs-vswitchd runs".into());
        }
        let began = Instant::now();
        let done = what(&Switch::of_host());
        let stuck = done.is_err() && began.elapsed() >= SWITCH_SLOW;
        self.stuck.set(stuck.then(Instant::now));
        done.map_err(advised)
    }
}

fn advised(e: String) -> String {
    match e.contains("Permission denied") {
        true => format!("{e}: run vfund as root, or as a user that may reach the switch's socket"),
        false => e,
    }
}
