//! The model that Verilator made, through `model/shim.cpp`.
#![allow(unsafe_code)]

use super::pins::{Inputs, Outputs};
use std::ffi::c_void;
use std::ptr::NonNull;

unsafe extern "C" {
    fn vfun_fpga_new() -> *mut c_void;
    fn vfun_fpga_free(model: *mut c_void);
    fn vfun_fpga_cycle(model: *mut c_void, inputs: *const Inputs, outputs: *mut Outputs);
    fn vfun_fpga_run(model: *mut c_void, inputs: *const Inputs, cycles: u32, lines: u8) -> u32;
    fn vfun_fpga_state(model: *mut c_void, to: *mut u8, capacity: usize) -> usize;
}

/// A simulated device: the C++ that Verilator made of the RTL.
pub struct Model(NonNull<c_void>);

// SAFETY: the model holds no thread's own data: whoever has it may use it, one
// thread at a time, which `&mut self` sees to.
unsafe impl Send for Model {}

impl Model {
    /// One that was never clocked.
    pub fn new() -> Result<Self, String> {
        // SAFETY: no conditions; null if memory ran out.
        let model = unsafe { vfun_fpga_new() };
        NonNull::new(model).map(Model).ok_or_else(|| "no memory for the simulated device".into())
    }

    /// One clock cycle.
    #[inline]
    pub fn cycle(&mut self, inputs: &Inputs) -> Outputs {
        let mut outputs = Outputs::default();
        // SAFETY: the model is ours alone; both structs are those of the shim
        // and live during the call.
        unsafe { vfun_fpga_cycle(self.0.as_ptr(), inputs, &mut outputs) };
        outputs
    }

    /// Up to `cycles` clock cycles with the same inputs; fewer if one of the
    /// interrupt lines in `lines` is high. How many there were.
    pub fn run(&mut self, inputs: &Inputs, cycles: u32, lines: u8) -> u32 {
        // SAFETY: as in `cycle`.
        unsafe { vfun_fpga_run(self.0.as_ptr(), inputs, cycles, lines) }
    }

    /// Every bit of state that the device has, for comparing two of them.
    pub fn state(&mut self) -> Vec<u8> {
        let mut bytes = vec![];
        // SAFETY: as in `cycle`; no byte is written to a capacity of 0.
        let len = unsafe { vfun_fpga_state(self.0.as_ptr(), bytes.as_mut_ptr(), 0) };
        bytes.resize(len, 0);
        // SAFETY: there is room for `len` bytes.
        let again = unsafe { vfun_fpga_state(self.0.as_ptr(), bytes.as_mut_ptr(), len) };
        assert!(len > 0 && again == len, "no memory for the device's state");
        bytes
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: it is ours, and this is its last use.
        unsafe { vfun_fpga_free(self.0.as_ptr()) };
    }
}
