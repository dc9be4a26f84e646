//! Drains, and how far they are.

use super::Daemon;
use crate::admin::{Progress, Reply};
use crate::core::{DrainOf, Event};
use vfun_rim::methods::*;

impl Daemon {
    /// Grants nothing new of what is named, or does again.
    pub(super) fn drain(&mut self, of: DrainOf, on: bool) -> Reply {
        let known = match &of {
            DrainOf::All => Ok("nothing new is granted; what is active goes on".to_owned()),
            DrainOf::Client(name) => match self.rim.core.catalog().client(name) {
                Some(_) => Ok(format!("client {name} is granted nothing new")),
                None => Err(format!("there is no client '{name}': `vfun client list` shows them")),
            },
            DrainOf::Function(name) => match self.rim.core.catalog().functions.contains_key(name) {
                true => Ok(format!("'{name}' is granted to nobody any more")),
                false => {
                    Err(format!("there is no function '{name}': `vfun function list` shows them"))
                }
            },
        };
        // What is no longer declared may still be drained, and is let go of.
        let sentence = match (known, on) {
            (Ok(sentence), true) => sentence,
            (Err(sentence), true) => return Reply::Error { sentence },
            (_, false) => match &of {
                DrainOf::All => "everything is granted again".into(),
                DrainOf::Client(name) => format!("client {name} is granted what it asks for again"),
                DrainOf::Function(name) => format!("'{name}' is granted again"),
            },
        };
        self.rim.events.push_back(Event::DrainOf { of, on });
        self.settle();
        let state = self.serving_state();
        for a in self.rim.windows.values() {
            a.window.set_state(state);
        }
        Reply::Done { sentence }
    }

    /// What is left of what is named.
    pub(super) fn progress(&self, of: &DrainOf) -> Reply {
        let mut p = Progress {
            draining: self.rim.core.draining(),
            clients: self.rim.core.drained().0.clone(),
            functions: self.rim.core.drained().1.clone(),
            grants: 0,
            calls: 0,
        };
        for (_, g) in self.rim.core.grants_of(of) {
            p.grants += 1;
            if let (Some(place), Some(a)) = (g.channel(), self.rim.windows.get(&g.holder.window)) {
                p.calls += a.window.in_flight(&place);
            }
        }
        Reply::Draining(p)
    }
}
