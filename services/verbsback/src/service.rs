//! The engine of the service process.

use crate::{Driver, NIC, Nic, Quota};
use std::sync::Arc;
use vfun_sdk::loader::{Instance, Library};
use vfun_sdk::service::{Engine, QueuesChannel, QueuesCounts, QueuesHeld};
use vfun_sdk::{Config, DriverError, OpenCalls};

/// Longest call and answer of the control calls, bytes: a cell, as tools/apigen/apis/verbs says.
const CELL_BYTES: u32 = 4096;

/// What the service loads: the NIC with its thread, and a driver for its control calls.
pub struct VerbsService {
    nic: Nic,
    calls: Library,
}

/// A channel of queues that the NIC has.
struct VerbsQueues {
    nic: Nic,
    key: u64,
}

impl QueuesHeld for VerbsQueues {
    fn end(self: Box<Self>) {
        self.nic.end_channel(self.key);
    }

    fn counts(&self) -> Option<QueuesCounts> {
        self.nic.counts_of_channel(self.key)
    }
}

impl VerbsService {
    /// Makes the NIC of this process, which is a client's, and starts its thread.
    ///
    /// # Errors
    /// A sentence.
    pub fn begin(client: &str, quota: Quota) -> Result<Self, String> {
        let begun = Nic::new(client, quota).and_then(|nic| nic.start().map(|_| nic));
        let nic = begun.map_err(|e| format!("the NIC's thread cannot be started: {e}"))?;
        NIC.set(nic.clone()).map_err(|_| "this process has a NIC already".to_owned())?;
        let calls = Library::of_driver::<Driver>("verbs", (1, 0), (CELL_BYTES, CELL_BYTES));
        Ok(VerbsService { nic, calls })
    }
}

impl Engine for VerbsService {
    type Instance = Instance;

    fn max_args(&self) -> u32 {
        CELL_BYTES
    }

    fn max_result(&self) -> u32 {
        CELL_BYTES
    }

    fn open(&self, config: &Config) -> Result<Instance, DriverError> {
        Engine::open(&self.calls, config)
    }

    fn open_later(&self, config: &Config, calls: &OpenCalls) -> Result<Instance, DriverError> {
        Engine::open_later(&self.calls, config, calls)
    }

    fn open_queues(
        &self,
        _: &Config,
        channel: QueuesChannel,
    ) -> Result<Box<dyn QueuesHeld>, DriverError> {
        let key = self.nic.add_channel(Arc::new(channel));
        Ok(Box::new(VerbsQueues { nic: self.nic.clone(), key }))
    }
}
