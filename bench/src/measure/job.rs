//! What a place is asked to measure, and its answer: sent to guests as JSON.

use super::BareVm;
use crate::report::stats::Percentiles;
use crate::report::{Function, LatencyRow, Mode};
use serde::{Deserialize, Serialize};

/// Something to measure, sent as JSON to where it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// So many calls of so much work, one after the other.
    Work {
        /// The function that is called.
        function: Function,
        /// Computations within a call.
        repetitions: u64,
        /// How many calls are made.
        iterations: u64,
    },
    /// Other jobs, one after the other, each a line of JSON that comes over a TCP connection and whose
    /// outcome goes back there, until its other end is closed.
    Serve {
        /// `HOST:PORT` to connect to.
        address: String,
    },
    /// Round trips of nothing, each timed.
    Trips {
        /// What goes there and back.
        of: Trip,
        /// Most calls that are timed one by one.
        samples: u32,
        /// Most time for them, ms.
        millis: u32,
    },
    /// The same from a bare virtual machine, and from this process in turns.
    BareVm {
        /// How many turns there are.
        rounds: u32,
        /// Most samples of each in a turn.
        samples: u32,
        /// Most time for each in a turn, ms.
        millis: u32,
    },
    /// The same with several under way.
    Rate {
        /// What goes there and back: the floor or the null call.
        of: Trip,
        /// How many at once: a power of two.
        in_flight: u32,
        /// How long it runs, ms.
        millis: u32,
    },
    /// Calls that carry data.
    Bandwidth {
        /// Bytes of arguments, a multiple of 8.
        bytes: u64,
        /// How many turns there are.
        rounds: u32,
        /// Least time for each in a turn, ms.
        millis: u32,
    },
    /// Copies within one process.
    Copies {
        /// Bytes that one copy moves.
        bytes: u64,
        /// How many turns there are.
        rounds: u32,
        /// Least time for a turn, ms.
        millis: u32,
    },
    /// Round trips to a TCP server that echoes: the bare network.
    Tcp {
        /// `HOST:PORT` on which the other side listens.
        address: String,
        /// How many turns there are.
        rounds: u32,
        /// Most samples in a turn.
        samples: u32,
        /// Most time for a turn, ms.
        millis: u32,
    },
    /// How long it takes to negotiate and activate a function.
    Activations {
        /// How many of each sort.
        count: u32,
    },
    /// An active function that nobody calls.
    Hold {
        /// For how long, ms.
        millis: u64,
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
    /// Loads the kernel module and calls. Needs no session.
    LoadModule {
        /// The module's file.
        module: String,
        /// The device that it will make.
        device: String,
    },
    /// Waits for a device of the kernel module and calls. Needs no session.
    AwaitDevice {
        /// The device's file, such as `/dev/vfun0`.
        device: String,
    },
    /// Rings of the host by the kernel module.
    Rings {
        /// The device's file, such as `/dev/vfun0`.
        device: String,
    },
    /// Many active functions that nobody calls.
    Idle {
        /// How many channels are open at once.
        channels: u32,
        /// For how long, ms.
        millis: u64,
    },
    /// How this place's clock runs.
    Clock,
}

/// What goes there and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trip {
    /// Raw lines of the function `floor`.
    Floor,
    /// A null call, waiting as callers do by default.
    Null,
    /// A null call in one way to wait.
    Mode(Mode),
    /// Rings of a bare doorbell, by the kernel module's device.
    Bell(String),
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Of [`Job::Work`]: for all calls.
    Seconds(f64),
    /// Of [`Job::Rings`]: nanoseconds a call.
    NsPerCall(f64),
    /// Rows of a latency report.
    Rows(Vec<LatencyRow>),
    /// Of [`Job::BareVm`]: what the calls of the bare VM took.
    BareVm(BareVm),
    /// Of [`Job::Activations`]: each one, in nanoseconds.
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
    /// Of [`Job::Hold`], [`Job::Idle`], [`Job::AwaitDevice`] and [`Job::Serve`].
    Held,
    /// Of [`Job::Trips`]: how long the trips took.
    Trips(Percentiles),
    /// Of [`Job::Rate`], a second.
    PerS(f64),
    /// Of [`Job::Load`]: how many calls went through.
    Load(Load),
}

/// What a caller that calls all the time got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Calls that ended in this time.
    pub calls: u64,
    /// How long it ran, seconds.
    pub seconds: f64,
    /// Half of them took no longer, ns.
    pub p50_ns: f64,
    /// All but one in a hundred took no longer, ns.
    pub p99_ns: f64,
}

/// How long one activation took, by its steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activation {
    /// From the start of the negotiation to the function that can be called.
    pub ns: f64,
    /// Whether the service had to be started.
    pub started: bool,
}
