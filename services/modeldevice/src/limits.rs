//! Limits of the modelled device, with their reasons.

/// Most bytes of a call's data: as in the manifest's signature. Enough to show what
/// size does; a megabyte is a tenth of a millisecond of copying.
pub const DATA_MAX: usize = 1 << 20;
/// VFs of a device: as many as the manager's leases may name.
pub const VFS: u16 = 1024;
/// Longest time of a call, ns: an hour, as the longest deadline.
pub const CALL_NS_MAX: f64 = 3.6e12;
