//! The drivers' limits, each with its reason.

use std::time::Duration;

/// Bytes of a VF's window: one page, so that a VF can be mapped alone.
pub const WINDOW_BYTES: u32 = 4096;

/// How long a device may compute, or take no data, before the call fails, where
/// the manifest's `fpga_answer_ms` does not say. Less than the shortest useful
/// deadline of a long call and far more than a healthy core needs; the call's
/// own deadline, which ends the service, is the net below it.
pub const ANSWER_DEFAULT: Duration = Duration::from_secs(10);
/// Most that `fpga_answer_ms` may say: the longest deadline of a call.
pub const ANSWER_MS_MAX: u64 = 3_600_000;

/// Clock cycles that the simulated port may take for one transfer. It needs
/// three; one that needs a thousand will never answer.
pub const BUS_CYCLES: u32 = 1000;
/// Clock cycles that a waiting channel simulates in one go, the device's lock
/// held: about 100 µs, so that other channels get to the device.
pub const RUN_CYCLES: u32 = 512;
/// Clock cycles that pass while the driver waits for room for data: about what
/// SHA-256 takes for a block.
pub const PAUSE_CYCLES: u32 = 64;

/// Polls of a memory-mapped device that only let other threads run, before each
/// further one sleeps.
pub const YIELDS: u32 = 200;
/// What it sleeps: short beside anything that takes 200 polls.
pub const POLL: Duration = Duration::from_micros(50);
/// Longest wait for an interrupt before the device's status is read anyway, so
/// that a lost one costs time and nothing else.
pub const INTERRUPT: Duration = Duration::from_millis(10);

/// Bytes of a call's data that are copied out of the caller's memory at a time.
pub const BLOCK_BYTES: usize = 16 << 10;
/// Longest data of one call: a cell's largest data space.
pub const DATA_BYTES: u32 = 1 << 30;
