//! To whom nothing new is granted: to everybody, to some clients, or of some
//! functions. What is active goes on, its service is started again if it dies.

use super::{Core, DrainOf, Grant, nacks};
use std::collections::BTreeSet;
use vfun_wire::{Handle, Nack};

/// What is granted no more: all, some clients, some functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drain {
    pub all: bool,
    /// Names of clients that are granted nothing new.
    pub clients: BTreeSet<String>,
    /// Names of functions that are not granted any more.
    pub functions: BTreeSet<String>,
}

/// By what something is drained.
pub(super) enum Drained<'a> {
    All,
    Client(&'a str),
    Function(&'a str),
}

impl Drain {
    /// Drains this, or no longer; everything no longer is nothing any longer.
    pub fn set(&mut self, of: &DrainOf, on: bool) {
        match (of, on) {
            (DrainOf::All, true) => self.all = true,
            (DrainOf::All, false) => *self = Drain::default(),
            (DrainOf::Client(name), true) => drop(self.clients.insert(name.clone())),
            (DrainOf::Client(name), false) => drop(self.clients.remove(name)),
            (DrainOf::Function(name), true) => drop(self.functions.insert(name.clone())),
            (DrainOf::Function(name), false) => drop(self.functions.remove(name)),
        }
    }
}

impl Core {
    /// Whether nothing new is granted to anybody.
    pub fn draining(&self) -> bool {
        self.drain.all
    }

    /// Clients and functions that are drained by themselves.
    pub fn drained(&self) -> (&BTreeSet<String>, &BTreeSet<String>) {
        (&self.drain.clients, &self.drain.functions)
    }

    /// Refuses what is drained.
    pub(super) fn check_drain(&self, client: &str, function: &str) -> Result<(), Nack> {
        if self.drain.all {
            Err(nacks::drained(Drained::All))
        } else if self.drain.clients.contains(client) {
            Err(nacks::drained(Drained::Client(client)))
        } else if self.drain.functions.contains(function) {
            Err(nacks::drained(Drained::Function(function)))
        } else {
            Ok(())
        }
    }

    /// Grants that are not released yet of what is named.
    pub fn grants_of<'a>(
        &'a self,
        of: &'a DrainOf,
    ) -> impl Iterator<Item = (Handle, &'a Grant)> + 'a {
        self.grants().filter(move |(_, g)| match of {
            DrainOf::All => true,
            DrainOf::Client(name) => g.holder.client == *name,
            DrainOf::Function(name) => g.subject.function == *name,
        })
    }
}
