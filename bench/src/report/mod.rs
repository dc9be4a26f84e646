//! What a measurement says, and every form it is shown in.
//!
//! Sixteen reports exist: [`DomainsReport`] (the published experiment), [`LatencyReport`]
//! (one call, and many), [`GrainReport`] (how small a call may be),
//! [`FootprintReport`] (what calling costs beside the calls), [`WaitingReport`]
//! (the ways to wait), [`ModuleReport`] (the kernel module), [`IsolationReport`]
//! (calls under attack), [`QueuesReport`] (entries that go one way), [`VerbsReport`] (RDMA), [`PortsReport`] (rings of packets), [`ScaleReport`] (many clients and channels),
//! [`jail::JailReport`] (the sandbox), [`wasm::WasmReport`] (WebAssembly),
//! [`LeasesReport`] (who gets hardware, and what it gains), [`NicsReport`] (the same of network VFs) and
//! [`RemotingReport`] (a remoted API beside its library). Each is an object of
//! `machine`, `settings` (but of sandbox and WebAssembly) and `rows`; their field names are a public format.
//!
//! A measuring program fills rows, calls `finish` on the report, and hands it to
//! [`text`], [`json`], [`csv`] or [`chart`].
//!
//! Units are in the names: `_ns` nanoseconds, `seconds`, `_per_s` a second, `bytes`.

pub mod chart;
pub mod checks;
pub mod csv;
mod error;
mod file;
pub mod footprint;
pub mod instances;
pub mod isolation;
pub mod jail;
pub mod json;
pub mod leases;
pub mod machine;
pub mod module;
pub mod names;
pub mod nics;
pub mod ports;
pub mod published;
pub mod queues;
pub mod remoting;
pub mod rows;
pub mod scale;
pub mod settings;
pub mod stats;
pub mod text;
pub mod verbs;
pub mod waiting;
pub mod wasm;

pub use error::ReportError;
pub use footprint::{Footprint, FootprintReport, FootprintRow};
pub use instances::Instance;
pub use isolation::{IsolationReport, IsolationRow};
pub use leases::{LeasesReport, LeasesRow};
pub use machine::Machine;
pub use module::{ModuleFigure, ModuleReport, ModuleRow};
pub use names::{
    Domain, Experiment, Function, How, Kind, Mode, NicsExperiment, Origin, RemotingExperiment,
    Source,
};
pub use nics::{NicsReport, NicsRow};
pub use ports::{PortsFigure, PortsReport, PortsRow};
pub use queues::{QueuesReport, QueuesRow};
pub use remoting::{RemotingRatio, RemotingReport, RemotingRow};
pub use rows::{DomainRow, DomainsReport, GrainReport, GrainRow, LatencyReport, LatencyRow};
pub use scale::{ScaleReport, ScaleRow};
pub use settings::Settings;
pub use verbs::{VerbsFigure, VerbsReport, VerbsRow};
pub use waiting::{Waiting, WaitingReport, WaitingRow};
