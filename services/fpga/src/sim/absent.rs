//! In place of the model, where this was built without Verilator.

use super::pins::{Inputs, Outputs};

/// The simulated device, in a build without it: there is no value of this type.
pub enum Model {}

impl Model {
    /// Says why there is none.
    pub fn new() -> Result<Self, String> {
        Err("built without the simulated FPGA: run packaging/setup.sh (it installs verilator) and build again".into())
    }
    /// Cannot be called.
    pub fn cycle(&mut self, _: &Inputs) -> Outputs {
        match *self {}
    }
    /// Cannot be called.
    pub fn run(&mut self, _: &Inputs, _: u32, _: u8) -> u32 {
        match *self {}
    }
    /// Cannot be called.
    pub fn state(&mut self) -> Vec<u8> {
        match *self {}
    }
}
