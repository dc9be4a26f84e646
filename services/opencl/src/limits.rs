//! Every limit of the OpenCL driver, with its reason. Those of a mapping are
//! `vfun_kernelmap::limits`.

/// Largest source or binary, bytes: binaries of FPGAs have some ten MiB.
pub const PROGRAM_BYTES_MAX: u64 = 64 << 20;
/// Longest part of a compiler's log that is kept, bytes: the first errors
/// matter, and the service's log is bounded too.
pub const LOG_BYTES: usize = 16 << 10;
/// Devices looked at on all platforms together.
pub const DEVICES_MAX: usize = 64;
/// Buffers over the window that a channel keeps: each cell's arguments and
/// results lie where they always lie, so calls find theirs again. Two or three
/// a cell for the first forty cells; what is beyond is made anew each call.
pub const BUFFERS_KEPT: usize = 128;
/// Alignment of memory of our own that a device works on: a cache line, and
/// the largest vector type twice.
pub const OWN_ALIGN: usize = 128;
