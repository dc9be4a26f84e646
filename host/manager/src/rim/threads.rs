//! Services' threads: how many each may have, and, where no control group
//! shares the processors, the priority of those that its driver started.

use super::Daemon;
use crate::core::ServiceId;
use crate::core::services::Owner;
use crate::limits::THREADS_LOOK;
use crate::process::Process;
use std::time::{Duration, Instant};
use vfun_jail::{Layer, threads};
use vfun_rim::methods::*;

/// Whether it stands beside others without a share of the processors.
fn unshared(p: &Process) -> bool {
    !p.sandbox.standing.layers.contains(&Layer::CgroupCpu)
}

impl Daemon {
    /// One more channel is about to be opened: its thread is not one of the driver's.
    pub(super) fn make_room_for_threads(&mut self, id: ServiceId) {
        let Some((Owner::Client(client), function)) = self.rim.core.service_of(id) else { return };
        // Those that other services serve may be on their way here.
        let all = self.rim.core.charges(client, Some(function)).channels;
        let Some(process) = self.rim.services.get_mut(&id) else { return };
        let sandbox = &mut process.sandbox;
        if all <= sandbox.channels {
            return;
        }
        sandbox.channels = all;
        let grown = sandbox.group.serve(&sandbox.limits, all);
        if let Err(e) = grown.and_then(|()| threads::allow(process.pid, &sandbox.limits, all)) {
            tracing::warn!(service = id, "its bound on threads stays too low: {e}");
        }
        self.hold_service(id);
    }

    /// Lowers the priority of threads that drivers started.
    pub(super) fn look_after_threads(&mut self) {
        if self.threads_patience() != Some(Duration::ZERO) {
            return;
        }
        self.last_threads = Instant::now();
        for (id, p) in self.rim.services.iter().filter(|(_, p)| unshared(p)) {
            if let Err(e) = threads::give_way(p.pid, p.sandbox.channels as usize) {
                tracing::debug!(service = id, "its threads keep their priority: {e}");
            }
        }
    }

    pub(super) fn threads_patience(&self) -> Option<Duration> {
        let some = self.rim.services.values().any(unshared);
        some.then(|| THREADS_LOOK.saturating_sub(self.last_threads.elapsed()))
    }
}
