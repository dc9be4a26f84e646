//! The engine that Verilator made, through `model/shim.cpp`.

use super::PoolMemory;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

unsafe extern "C" {
    fn vfun_dma_new(node: u16, fault: u8) -> *mut c_void;
    fn vfun_dma_free(model: *mut c_void);
    fn vfun_dma_memory(model: *mut c_void, node: u16, base: *mut u8, bytes: u64);
    fn vfun_dma_pauses(model: *mut c_void, seed: u64);
    fn vfun_dma_violations(model: *mut c_void) -> u64;
    fn vfun_dma_run(model: *mut c_void, cycles: u32) -> u32;
    fn vfun_dma_read(model: *mut c_void, address: u16, value: *mut u32) -> i32;
    fn vfun_dma_write(model: *mut c_void, pairs: *const [u32; 2], count: u32) -> i32;
}

/// A simulated engine: the C++ that Verilator made of the RTL.
pub struct Model {
    model: NonNull<c_void>,
    /// What the engine reaches, by node: kept as long as it may be clocked.
    memories: Vec<(u16, Arc<PoolMemory>)>,
}

// SAFETY: the model holds no thread's own data: any thread may use it, one at a
// time, which `&mut self` sees to. The memories may be used by all at once.
unsafe impl Send for Model {}

impl Model {
    /// An engine of node `node`, after its reset.
    pub fn new(node: u16, fault: u8) -> Result<Self, String> {
        // SAFETY: no conditions; null if memory ran out.
        let model = unsafe { vfun_dma_new(node, fault) };
        let model = NonNull::new(model).ok_or("no memory for the simulated engine")?;
        Ok(Model { model, memories: vec![] })
    }

    /// Gives node `node` its memory, in place of what it had.
    pub fn set_memory(&mut self, node: u16, memory: Arc<PoolMemory>) {
        // SAFETY: the memory is there as long as `memory` is, which we keep
        // until the engine is gone or has another in its place; it is aligned to
        // pages, and the shim reads and writes it by atomic words.
        unsafe { vfun_dma_memory(self.model.as_ptr(), node, memory.base(), memory.bytes()) };
        self.memories.retain(|(n, _)| *n != node);
        self.memories.push((node, memory));
    }

    pub fn set_pauses(&mut self, seed: u64) {
        // SAFETY: the model is ours alone.
        unsafe { vfun_dma_pauses(self.model.as_ptr(), seed) };
    }

    pub fn violations(&mut self) -> u64 {
        // SAFETY: the model is ours alone.
        unsafe { vfun_dma_violations(self.model.as_ptr()) }
    }

    pub fn run(&mut self, cycles: u32) -> u32 {
        // SAFETY: the model is ours alone, and its memories are there.
        unsafe { vfun_dma_run(self.model.as_ptr(), cycles) }
    }

    /// How the access ended, as the shim numbers it, and the register's value.
    pub fn read(&mut self, address: u16) -> (i32, u32) {
        let mut value = 0;
        // SAFETY: as in `run`; the value lives during the call.
        let end = unsafe { vfun_dma_read(self.model.as_ptr(), address, &mut value) };
        (end, value)
    }

    /// Writes pairs of address and word; how that ended.
    pub fn write(&mut self, pairs: &[[u32; 2]]) -> i32 {
        let count = u32::try_from(pairs.len()).expect("few writes");
        // SAFETY: as in `run`; there are `count` pairs of two words each.
        unsafe { vfun_dma_write(self.model.as_ptr(), pairs.as_ptr(), count) }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: it is ours, and this is its last use.
        unsafe { vfun_dma_free(self.model.as_ptr()) };
    }
}
