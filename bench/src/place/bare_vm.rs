//! Calls from a bare KVM virtual machine, without a guest kernel. This process connects as
//! any program on the host does, and the machine's processor calls in its channels.

use super::{OverSession, Place};
use crate::Result;
use crate::measure::{BARE_VM_TRANSPORT, Job, Outcome};
use crate::report::Domain;
use std::time::Duration;
use vfun::Endpoint;

/// A session in whose channels a bare machine calls.
pub struct InBareVm(OverSession);

impl InBareVm {
    /// Connects, after a try of such a machine.
    ///
    /// # Errors
    /// Why this host runs none, or why there is no session.
    pub fn connect(endpoint: &Endpoint, client: Option<&str>) -> Result<Self> {
        vfun_barevm::tried()?;
        Ok(InBareVm(OverSession::connect(endpoint, client)?))
    }
}

impl Place for InBareVm {
    fn domain(&self) -> Domain {
        Domain::KvmBare
    }

    fn transport(&self) -> &str {
        BARE_VM_TRANSPORT
    }

    fn run(&mut self, job: &Job, work: Duration) -> Result<Outcome> {
        match job {
            Job::BareVm { .. } => self.0.run(job, work),
            _ => Err(self.unfit("anything but null calls")),
        }
    }
}
