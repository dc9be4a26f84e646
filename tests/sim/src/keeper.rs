//! The keeper: what a manager leaves to the next one.

use crate::memory::Memory;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfun_core::WindowId;
use vfun_keeper::Change;

/// What was handed to it besides a note.
#[derive(Clone)]
pub enum KeptThing {
    /// A note only.
    Nothing,
    /// A window and the connection of whoever has it.
    Window(Rc<Memory>),
    /// A service's socket and pidfd.
    Service(u32),
}

/// One thing.
#[derive(Clone)]
pub struct Thing {
    pub note: String,
    pub held: KeptThing,
}

/// See [`vfun_keeper`].
#[derive(Default)]
pub struct Keeper {
    pub things: BTreeMap<String, Thing>,
}

impl Keeper {
    /// One packet of changes: all of it or nothing.
    pub fn change(&mut self, changes: &[Change]) {
        for c in changes {
            match &c.note {
                None => drop(self.things.remove(&c.name)),
                Some(note) => {
                    let fresh = || Thing { note: String::new(), held: KeptThing::Nothing };
                    self.things.entry(c.name.clone()).or_insert_with(fresh).note = note.clone();
                }
            }
        }
    }

    /// Takes a thing with what belongs to it.
    pub fn hold(&mut self, name: String, note: String, held: KeptThing) {
        self.things.insert(name, Thing { note, held });
    }

    /// Processes and windows that it holds.
    pub fn held(&self) -> (BTreeSet<u32>, BTreeSet<WindowId>) {
        let (mut pids, mut windows) = (BTreeSet::new(), BTreeSet::new());
        for (name, thing) in &self.things {
            match &thing.held {
                KeptThing::Nothing => {}
                KeptThing::Service(pid) => drop(pids.insert(*pid)),
                KeptThing::Window(_) => {
                    let id = name.rsplit('/').next().and_then(|id| id.parse().ok());
                    windows.insert(id.expect("a window's name ends with its number"));
                }
            }
        }
        (pids, windows)
    }
}
