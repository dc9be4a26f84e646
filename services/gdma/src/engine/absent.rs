//! In place of the model, where this was built without Verilator.

use crate::edge::PoolMemory;
use std::sync::Arc;

/// The simulated engine, in a build without it: there is no value of this type.
pub enum Model {}

impl Model {
    /// Says why there is none.
    pub fn new(_: u16, _: u8) -> Result<Self, String> {
        Err("built without the simulated engine: run packaging/setup.sh (it installs verilator) and build again".into())
    }
    pub fn set_memory(&mut self, _: u16, _: Arc<PoolMemory>) {
        match *self {}
    }
    pub fn set_pauses(&mut self, _: u64) {
        match *self {}
    }
    pub fn violations(&mut self) -> u64 {
        match *self {}
    }
    pub fn run(&mut self, _: u32) -> u32 {
        match *self {}
    }
    pub fn read(&mut self, _: u16) -> (i32, u32) {
        match *self {}
    }
    pub fn write(&mut self, _: &[[u32; 2]]) -> i32 {
        match *self {}
    }
}
