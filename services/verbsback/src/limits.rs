//! Every limit of the NIC's service, with its reason. Those of the NIC's tables are in
//! `services/verbs/src/limits.rs`.

use std::time::Duration;

/// Looks for one's turn before one sleeps: about as long as a run of the NIC takes.
pub const TURN_LOOKS: u32 = 200;
/// Runs of pages that the regions of one connection may have together before they are
/// registered: those of one region as long as may be. Each costs 24 bytes.
pub const STAGED_RUNS: usize = vfun_verbs_nic::limits::EXTENTS;
/// Runs that one call takes: what fits a cell of 4096 bytes, with room for the call.
pub const RUNS_OF_CALL: usize = 128;
/// Reads and atomics of a queue pair under way, as common cards offer. This NIC does one entry
/// after the other.
pub const READS: u8 = 16;
/// First and longest pause between two looks while programs have no doorbell: as a channel of
/// calls without one (services/sdk).
pub const NAP_FIRST: Duration = Duration::from_micros(50);
pub const NAP_LAST: Duration = Duration::from_millis(8);
