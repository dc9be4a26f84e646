//! A pretended device: a few VFs, each with a word of memory, of which this
//! process has one state at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vfun_sdk::DriverError;

/// VFs that it has, unless the setting `vfs` says fewer.
pub const VFS: usize = 64;

static MEMORY: [AtomicU64; VFS] = [const { AtomicU64::new(0) }; VFS];
static TAKEN: [AtomicBool; VFS] = [const { AtomicBool::new(false) }; VFS];

/// A VF while a state is on it; scrubbed when that ends.
pub struct OnVf {
    vf: usize,
    found: u64,
}

impl OnVf {
    /// Takes it: nobody else may be on it.
    pub fn new(vf: u64, vfs: u64) -> Result<Self, DriverError> {
        if vf >= vfs.min(VFS as u64) {
            return Err(DriverError::new(
                79,
                format!("the device has {vfs} VFs: there is no VF {vf}"),
            ));
        }
        let vf = vf as usize;
        if TAKEN[vf].swap(true, Ordering::SeqCst) {
            return Err(DriverError::new(78, format!("somebody is on VF {vf} still")));
        }
        Ok(OnVf { vf, found: MEMORY[vf].load(Ordering::SeqCst) })
    }

    /// Leaves something in its memory; what that held at first.
    pub fn keep(&self, word: u64) -> u64 {
        MEMORY[self.vf].store(word, Ordering::SeqCst);
        self.found
    }
}

impl Drop for OnVf {
    fn drop(&mut self) {
        // A scrub takes its time: whoever is let in too early finds what is left.
        std::thread::sleep(std::time::Duration::from_micros(200));
        MEMORY[self.vf].store(0, Ordering::SeqCst);
        TAKEN[self.vf].store(false, Ordering::SeqCst);
    }
}
