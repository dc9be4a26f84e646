//! Work inside the guest: over its window, or over its network.

use super::Place;
use super::errand::Errand;
use crate::Result;
use crate::lab::LabGuest;
use crate::measure::{Job, Outcome};
use crate::report::Domain;
use std::sync::Arc;
use std::time::Duration;

/// One of the two ways out of a guest.
pub struct InGuest {
    // Before the guest: it ends first.
    errand: Option<Errand>,
    guest: Arc<LabGuest>,
    net: bool,
}

impl InGuest {
    /// Over the guest's network, or else over its window.
    pub fn new(guest: Arc<LabGuest>, net: bool) -> Self {
        InGuest { errand: None, guest, net }
    }
}

impl Place for InGuest {
    fn domain(&self) -> Domain {
        if self.net { Domain::GuestNet } else { Domain::GuestHost }
    }

    fn transport(&self) -> &str {
        if self.net { "tcp" } else { self.guest.wiring().transport() }
    }

    fn stay(&mut self) -> Result<()> {
        self.errand = Some(Errand::start(&self.guest, self.net)?);
        Ok(())
    }

    fn leave(&mut self) {
        self.errand = None;
    }

    fn run(&mut self, job: &Job, work: Duration) -> Result<Outcome> {
        match &mut self.errand {
            Some(errand) => errand.run(job, work),
            None => self.guest.run(self.net, job, work),
        }
    }
}
