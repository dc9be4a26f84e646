//! The experiments: which work in which place, how often and in which order.

mod bare_vm;
mod domains;
mod footprint;
mod grain;
mod in_turns;
mod isolation;
mod jail;
mod latency;
pub mod leases;
mod module;
mod nics;
mod ports;
mod prepare;
mod queues;
mod remoting;
mod scale;
mod verbs;
mod waiting;
mod wasm;

pub use domains::{DomainsPlan, domains};
pub use footprint::{FootprintPlan, footprint};
pub use grain::{GrainPlan, grain};
pub use isolation::{IsolationPlan, isolation};
pub use jail::{JailPlan, jail};
pub use latency::{LatencyPlan, latency};
pub use leases::{LeasesPlan, leases};
pub use module::{ModulePlan, module};
pub use nics::{NicsPlan, nics};
pub use ports::{LinksPlan, PortsPlan, links, ports};
pub use prepare::{Bench, Where};
pub use queues::{QueuesPlan, queues};
pub use remoting::{RemotingPlan, remoting};
pub use scale::{ScalePlan, scale};
pub use verbs::{VerbsPlan, verbs};
pub use waiting::{WaitingPlan, waiting};
pub use wasm::{WasmPlan, wasm};

/// Says on stderr what is going on.
pub(crate) fn progress(line: impl std::fmt::Display) {
    eprintln!("bench: {line}");
}
