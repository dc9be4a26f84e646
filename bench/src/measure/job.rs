//! What a place is asked to measure, and its answer: sent to guests as JSON.

use super::BareVm;
use crate::report::{Function, LatencyRow, Mode};
use serde::{Deserialize, Serialize};

/// Something to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// The published experiment: so many calls of so much work, one after the other.
    Work {
        /// What is computed.
        function: Function,
        /// Computations within a call.
        repetitions: u64,
        /// Calls.
        iterations: u64,
    },
    /// The typical time of one call.
    Grain {
        /// What is computed.
        function: Function,
        /// Computations within a call.
        repetitions: u64,
        /// Calls in a batch.
        calls: u64,
        /// Batches, of which the median counts.
        batches: u32,
    },
    /// The null call, and the raw floor where there is shared memory, in turns.
    RoundTrips {
        /// Turns.
        rounds: u32,
        /// Most samples of each in a turn.
        samples: u32,
        /// Most time for each in a turn, ms.
        millis: u32,
    },
    /// The same from a bare virtual machine, and from this process in turns.
    BareVm {
        /// Turns.
        rounds: u32,
        /// Most samples of each in a turn.
        samples: u32,
        /// Most time for each in a turn, ms.
        millis: u32,
    },
    /// Null calls, and lines of the floor, with several under way.
    Rates {
        /// How many at once; each is a power of two.
        in_flight: Vec<u32>,
        /// Turns.
        rounds: u32,
        /// Time for each in a turn, ms.
        millis: u32,
    },
    /// Calls that carry data.
    Bandwidth {
        /// Bytes of arguments, a multiple of 8.
        bytes: u64,
        /// Turns.
        rounds: u32,
        /// Least time for each in a turn, ms.
        millis: u32,
    },
    /// Copies within one process.
    Copies {
        /// Bytes.
        bytes: u64,
        /// Turns.
        rounds: u32,
        /// Least time for a turn, ms.
        millis: u32,
    },
    /// Round trips to a TCP server that echoes: the bare network.
    Tcp {
        /// Where it listens.
        address: String,
        /// Turns.
        rounds: u32,
        /// Most samples in a turn.
        samples: u32,
        /// Most time for a turn, ms.
        millis: u32,
    },
    /// Negotiating and activating.
    Activations {
        /// How many of each sort.
        count: u32,
    },
    /// An active function that nobody calls.
    Hold {
        /// For how long, ms.
        millis: u64,
    },
    /// One turn of null calls in each way to wait.
    Modes {
        /// Most samples of each.
        samples: u32,
        /// Most time for each, ms.
        millis: u32,
    },
    /// Null calls one after the other in one way to wait, all timed.
    Load {
        /// How caller and service wait.
        mode: Mode,
        /// For how long, ms.
        millis: u32,
        /// Whether to begin only when others are ready: makes the file
        /// [`READY`](crate::lab::READY) and waits for [`GO`](crate::lab::GO).
        together: bool,
    },
    /// Round trips of a bare doorbell, by the kernel module.
    Bells {
        /// The module's device.
        device: String,
        /// Most samples.
        samples: u32,
        /// Most time, ms.
        millis: u32,
    },
    /// Loads the kernel module and calls. Needs no session.
    LoadModule {
        /// Its file.
        module: String,
        /// The device that it will make.
        device: String,
    },
    /// Waits for a device of the kernel module and calls. Needs no session.
    AwaitDevice {
        /// The device.
        device: String,
    },
    /// Rings of the host by the kernel module.
    Rings {
        /// The module's device.
        device: String,
    },
    /// Many active functions that nobody calls.
    Idle {
        /// How many channels.
        channels: u32,
        /// For how long, ms.
        millis: u64,
    },
    /// How this place's clock runs.
    Clock,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Of [`Job::Work`]: for all calls.
    Seconds(f64),
    /// Of [`Job::Grain`] and [`Job::Rings`].
    NsPerCall(f64),
    /// Rows of a latency report.
    Rows(Vec<LatencyRow>),
    /// Of [`Job::BareVm`].
    BareVm(BareVm),
    /// Of [`Job::Activations`], nanoseconds.
    Activations(Vec<Activation>),
    /// Of [`Job::Clock`]: nanoseconds a cycle of the processor's counter.
    NsPerCycle(f64),
    /// Of [`Job::LoadModule`]: from the start of the system call that loads it.
    FirstCall {
        /// To its return, ns.
        loaded: f64,
        /// To the call's result, ns.
        called: f64,
    },
    /// Of [`Job::Hold`], [`Job::Idle`] and [`Job::AwaitDevice`].
    Held,
    /// Of [`Job::Modes`]: p50 and p99 of a null call, ns.
    Modes(Vec<(Mode, f64, f64)>),
    /// Of [`Job::Bells`]: p50 and p99 of a round trip, ns.
    Bells(f64, f64),
    /// Of [`Job::Load`].
    Load(Load),
}

/// What a caller that calls all the time got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Calls.
    pub calls: u64,
    /// In this time.
    pub seconds: f64,
    /// Half of them took no longer, ns.
    pub p50_ns: f64,
    /// All but one in a hundred took no longer, ns.
    pub p99_ns: f64,
}

/// One activation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activation {
    /// From the start of the negotiation to the function that can be called.
    pub ns: f64,
    /// Whether the service had to be started.
    pub started: bool,
}
