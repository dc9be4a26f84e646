//! What one service may use.

use serde::{Deserialize, Serialize};

/// Bounds on a service process, from its client's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time, percent of one processor: 150 is one and a half. `None`
    /// for no bound.
    pub cpu_percent: Option<u32>,
    /// Memory of its own, bytes; its client's window does not count.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: u32,
}

impl Default for Limits {
    /// Those of a client without a policy.
    fn default() -> Self {
        Limits {
            cpu_percent: None,
            // Room for what a driver loads; a runaway one is stopped before the host swaps.
            memory_bytes: 1 << 30,
            // One a channel, and a client has at most a few hundred of these.
            threads: 1024,
        }
    }
}
