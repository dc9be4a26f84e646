//! The Open vSwitch of this host, which may stand still: then it is left alone for a while, so
//! that what does not need it is not kept waiting each time.

use crate::limits::{SWITCH_REST, SWITCH_SLOW};
use std::cell::Cell;
use std::time::Instant;
use vfun_hostnet::switch::{Row, Switch};

/// Asks it. For one thread.
#[derive(Default)]
pub(super) struct Ovs {
    /// When it last failed to answer in time.
    stuck: Cell<Option<Instant>>,
}

impl Ovs {
    /// Changes its database, and waits until it has followed.
    pub fn change(&self, words: &[&str]) -> Result<(), String> {
        self.timed(|switch| switch.change(words))
    }

    /// Rows of a table of its database: all, or those of this name.
    pub fn table(
        &self,
        table: &str,
        columns: &[&str],
        name: Option<&str>,
    ) -> Result<Vec<Row>, String> {
        self.timed(|switch| switch.table(table, columns, name))
    }

    /// What `ovs-vsctl` prints.
    pub fn ask(&self, words: &[&str]) -> Result<String, String> {
        self.timed(|switch| switch.ask(words))
    }

    fn timed<T>(&self, what: impl FnOnce(&Switch) -> Result<T, String>) -> Result<T, String> {
        if self.stuck.get().is_some_and(|at| at.elapsed() < SWITCH_REST) {
            return Err(
                "it did not answer in time, and is asked again in a while: does ovs-vswitchd run?"
                    .into(),
            );
        }
        let began = Instant::now();
        let done = what(&Switch::of_host());
        let stuck = done.is_err() && began.elapsed() >= SWITCH_SLOW;
        self.stuck.set(stuck.then(Instant::now));
        done
    }
}
