//! The simulated engine: the SystemVerilog of `rtl/` as C++ that Verilator made
//! of it. There is no hardware: it is a model in this process's memory, exact to
//! the bit and the clock cycle.

#[cfg(not(gdma_model))]
mod absent;

#[cfg(gdma_model)]
use crate::edge::Model;
#[cfg(not(gdma_model))]
use absent::Model;

use crate::edge::PoolMemory;
use crate::limits::{RUN_CYCLES, STUCK_CYCLES};
use crate::registers as r;
use std::sync::Arc;

/// Why a register was not read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusError {
    /// SLVERR: there is no such register, or this is not the moment.
    Refused,
    /// The port does not answer.
    Silent,
}

/// A fault: the engine moves nothing.
pub const FAULT_MOVES: u8 = 1;
/// A fault: the port takes and answers nothing.
pub const FAULT_PORT: u8 = 2;

/// One transfer, as the engine gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Global addresses: [`global`].
    pub source: u64,
    pub destination: u64,
    pub bytes: u32,
    pub tag: u32,
}

/// How a descriptor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub tag: u32,
    /// One of `registers::DONE_*`.
    pub status: u32,
    pub moved: u32,
    pub cycles: u32,
}

/// The global address of a byte of a node's memory.
pub fn global(node: u32, offset: u64) -> u64 {
    u64::from(node) << r::NODE_SHIFT | offset
}

/// An engine and its port.
pub struct Engine(Model);

impl Engine {
    /// An engine of node `node` after its reset. `fault`: bits of `FAULT_*`.
    pub fn new(node: u32, fault: u8) -> Result<Self, String> {
        let node = u16::try_from(node).map_err(|_| "a node's number has 16 bits")?;
        Model::new(node, fault).map(Engine)
    }

    /// What the engine reaches as the memory of node `node`.
    pub fn set_memory(&mut self, node: u32, memory: Arc<PoolMemory>) {
        self.0.set_memory(node as u16, memory);
    }

    /// From now on the memories pause at random; 0: no more. For tests.
    pub fn set_pauses(&mut self, seed: u64) {
        self.0.set_pauses(seed);
    }

    /// How often the engine broke a rule of AXI: 0, unless the RTL is wrong.
    pub fn violations(&mut self) -> u64 {
        self.0.violations()
    }

    /// Up to `cycles` clock cycles; fewer if the interrupt is high. How many.
    pub fn run(&mut self, cycles: u32) -> u32 {
        self.0.run(cycles)
    }

    pub fn read(&mut self, register: u32) -> Result<u32, BusError> {
        let (end, value) = self.0.read(register as u16);
        ended(end).map(|()| value)
    }

    pub fn write(&mut self, register: u32, word: u32) -> Result<(), BusError> {
        self.write_all(&[[register, word]])
    }

    /// Writes registers, one after the other. Refused if one of them was; the
    /// others were written all the same.
    pub fn write_all(&mut self, pairs: &[[u32; 2]]) -> Result<(), BusError> {
        ended(self.0.write(pairs))
    }

    /// Registers a window of the global address space.
    pub fn open_window(&mut self, entry: u32, base: u64, bytes: u32) -> Result<(), BusError> {
        let at = r::WINDOWS + 16 * entry;
        self.write_all(&[
            [at, base as u32],
            [at + 4, (base >> 32) as u32],
            [at + 8, bytes],
            [at + 12, 1],
        ])
    }

    pub fn close_window(&mut self, entry: u32) -> Result<(), BusError> {
        self.write(r::WINDOWS + 16 * entry + 12, 0)
    }

    /// Forgets all descriptors, windows and completions, and stops what is being moved: after the
    /// bursts that its memory has taken. Silent if it does not stop.
    pub fn abort(&mut self) -> Result<(), BusError> {
        self.write(r::CONTROL, r::CONTROL_RESET)?;
        for _ in 0..STUCK_CYCLES / RUN_CYCLES {
            if self.read(r::STATUS)? & r::STATUS_BUSY == 0 {
                return Ok(());
            }
            self.run(RUN_CYCLES);
        }
        Err(BusError::Silent)
    }

    /// Queues a descriptor. Refused if there is no room for it.
    pub fn start(&mut self, d: &Descriptor) -> Result<(), BusError> {
        self.write_all(&[
            [r::SOURCE, d.source as u32],
            [r::SOURCE + 4, (d.source >> 32) as u32],
            [r::DESTINATION, d.destination as u32],
            [r::DESTINATION + 4, (d.destination >> 32) as u32],
            [r::LENGTH, d.bytes],
            [r::TAG, d.tag],
            [r::CONTROL, r::CONTROL_START],
        ])
    }

    /// Takes the oldest completion, if one waits.
    pub fn take(&mut self) -> Result<Option<Completion>, BusError> {
        if self.read(r::STATUS)? & r::STATUS_DONE == 0 {
            return Ok(None);
        }
        let done = Completion {
            tag: self.read(r::DONE_TAG)?,
            status: self.read(r::DONE_STATUS)?,
            moved: self.read(r::DONE_MOVED)?,
            cycles: self.read(r::DONE_CYCLES)?,
        };
        self.write(r::CONTROL, r::CONTROL_TAKE)?;
        Ok(Some(done))
    }
}

/// As the shim numbers it.
fn ended(end: i32) -> Result<(), BusError> {
    match end {
        0 => Ok(()),
        1 => Err(BusError::Refused),
        _ => Err(BusError::Silent),
    }
}
