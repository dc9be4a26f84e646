//! What one service may use.

use crate::constants::{OWN_THREADS, STACK_BYTES};
use serde::{Deserialize, Serialize};

/// Bounds on a service process, from its client's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time, percent of one processor: 150 is one and a half. `None`
    /// for no bound.
    pub cpu_percent: Option<u32>,
    /// Memory of its own, bytes; its client's window does not count.
    pub memory_bytes: u64,
    /// Threads of its driver's own, besides one for each channel.
    pub threads: u32,
}

impl Limits {
    /// Threads of the whole service while it has so many channels.
    pub fn all_threads(&self, channels: u32) -> u32 {
        self.threads.saturating_add(OWN_THREADS).saturating_add(channels)
    }

    /// Address space of the whole service while it has so many channels, bytes:
    /// what holds where nothing counts the memory that is used, so that stacks
    /// count whole.
    pub fn address_space(&self, channels: u32) -> u64 {
        let stacks = u64::from(self.all_threads(channels)).saturating_mul(STACK_BYTES);
        self.memory_bytes.saturating_add(stacks)
    }
}

impl Default for Limits {
    /// Those of a client without a policy.
    fn default() -> Self {
        Limits {
            cpu_percent: None,
            // Room for what a driver loads; a runaway one is stopped before the host swaps.
            memory_bytes: 1 << 30,
            // One for each processor of most hosts, which is what libraries start;
            // none of the drivers that ship starts any.
            threads: 64,
        }
    }
}
