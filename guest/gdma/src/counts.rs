//! What this library tells of itself and the library on the host does not. Programs find it by its
//! name with `dlsym`; no header has it.
#![allow(unsafe_code)]

use crate::generated::REMOTE;

/// How often this process has asked the host. A call that was answered here does not count; a
/// batch of calls counts once.
#[unsafe(no_mangle)]
pub extern "C" fn vfun_gdma_crossings() -> u64 {
    REMOTE.crossings()
}
