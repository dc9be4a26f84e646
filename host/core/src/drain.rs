//! To whom nothing new is granted: to everybody, to some clients, or of some
//! functions. What is active goes on, its service is started again if it dies.

use super::{Core, DrainOf, Grant, GrantState};
use std::collections::BTreeSet;
use vfun_wire::{Handle, Nack, NackCode};

/// What is drained.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drain {
    pub all: bool,
    /// By name.
    pub clients: BTreeSet<String>,
    /// By name.
    pub functions: BTreeSet<String>,
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
        let sentence = if self.drain.all {
            "the host is finishing what is in flight and grants nothing new".to_owned()
        } else if self.drain.clients.contains(client) {
            format!("client {client} is drained: nothing new is granted to it")
        } else if self.drain.functions.contains(function) {
            format!("'{function}' is drained: nothing new is granted of it")
        } else {
            return Ok(());
        };
        Err(Nack::new(NackCode::Draining, sentence))
    }

    /// Grants that are not released yet of what is named.
    pub fn grants_of<'a>(
        &'a self,
        of: &'a DrainOf,
    ) -> impl Iterator<Item = (Handle, &'a Grant)> + 'a {
        self.grants().filter(move |(_, g)| {
            let it = match of {
                DrainOf::All => true,
                DrainOf::Client(name) => g.client == *name,
                DrainOf::Function(name) => g.function == *name,
            };
            it && g.state != GrantState::Released
        })
    }
}
