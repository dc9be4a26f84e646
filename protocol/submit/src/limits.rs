//! Every limit of submitted modules that no policy can raise, with its reason.

/// Largest module, bytes: compiling takes about a second for each MiB, and it
/// has ten.
pub const MODULE_BYTES_MAX: u32 = 8 << 20;
/// Most modules that any policy allows a client: a list of them fits one answer.
pub const MODULES_MAX: u32 = 128;
/// Bytes of a request before signature and module.
pub const REQUEST_HEAD: usize = 88;
/// Longest request: the largest module with the longest signature.
pub const REQUEST_BYTES_MAX: u32 =
    REQUEST_HEAD as u32 + vfun_wire::limits::SIGNATURE_BYTES as u32 + MODULE_BYTES_MAX;
/// Bytes of an answer before its entries.
pub const ANSWER_HEAD: usize = 8;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 144;
/// Longest answer, bytes: a list of all modules that a client may have.
pub const ANSWER_BYTES_MAX: u32 = ANSWER_HEAD as u32 + MODULES_MAX * ENTRY_BYTES as u32;
