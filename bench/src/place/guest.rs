//! Work inside the guest: over its window, or over its network.

use super::Place;
use crate::Result;
use crate::lab::LabGuest;
use crate::measure::{Job, Outcome};
use crate::report::Domain;
use std::rc::Rc;
use std::time::Duration;

/// One of the two ways out of a guest.
pub struct InGuest {
    guest: Rc<LabGuest>,
    net: bool,
}

impl InGuest {
    /// Over the guest's network, or else over its window.
    pub fn new(guest: Rc<LabGuest>, net: bool) -> Self {
        InGuest { guest, net }
    }
}

impl Place for InGuest {
    fn domain(&self) -> Domain {
        if self.net { Domain::GuestNet } else { Domain::GuestHost }
    }

    fn transport(&self) -> &str {
        if self.net { "tcp" } else { self.guest.wiring().transport() }
    }

    fn run(&mut self, job: &Job, work: Duration) -> Result<Outcome> {
        self.guest.run(self.net, job, work)
    }
}
