//! Engines and the memories that they reach, for the other files.

use gdma::edge::PoolMemory;
use gdma::engine::{Completion, Descriptor, Engine, global};
use gdma::limits::NODES;
use gdma::registers::*;
use std::sync::Arc;

/// Bytes of each node's memory, where a test does not need more.
pub const MEMORY: u64 = 32 << 10;

pub struct Fabric {
    /// By node, from 0 for node 1.
    pub memories: Vec<Arc<PoolMemory>>,
}

impl Fabric {
    /// Memories in which each byte says a bit of where it is.
    pub fn new(bytes: u64) -> Self {
        let memory = |node| {
            let memory = PoolMemory::new(bytes).expect("memory");
            let fill: Vec<u8> = (0..bytes).map(|at| pattern(node, at)).collect();
            memory.write(0, &fill).expect("within");
            Arc::new(memory)
        };
        Fabric { memories: (1..=NODES).map(memory).collect() }
    }

    /// An engine of node `node` that knows no window.
    pub fn engine(&self, node: u32) -> Engine {
        let mut engine = Engine::new(node, 0).expect("the simulated engine");
        for (n, memory) in (1..).zip(&self.memories) {
            engine.set_memory(n, memory.clone());
        }
        engine
    }

    /// One whose windows are all of all memories.
    pub fn open_engine(&self, node: u32) -> Engine {
        let mut engine = self.engine(node);
        for (entry, memory) in (0..).zip(&self.memories) {
            let bytes = memory.bytes() as u32;
            engine.open_window(entry, global(entry + 1, 0), bytes).expect("a free entry");
        }
        engine
    }

    pub fn read(&self, node: u32, from: u64, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        self.memories[node as usize - 1].read(from, &mut found).expect("within");
        found
    }

    /// All of each node's memory.
    pub fn all(&self) -> Vec<Vec<u8>> {
        let bytes = self.memories[0].bytes() as usize;
        (1..=NODES).map(|node| self.read(node, 0, bytes)).collect()
    }
}

pub fn pattern(node: u32, at: u64) -> u8 {
    (at as u32).wrapping_mul(0x9E37_79B1).wrapping_add(node.wrapping_mul(0x85EB_CA6B)).to_be_bytes()
        [0]
}

pub fn descriptor(from: (u32, u64), to: (u32, u64), bytes: u32, tag: u32) -> Descriptor {
    Descriptor { source: global(from.0, from.1), destination: global(to.0, to.1), bytes, tag }
}

/// Runs until nothing is moved or waits any more.
pub fn settle(engine: &mut Engine) {
    for _ in 0..10_000 {
        engine.run(256);
        if engine.read(STATUS).expect("an answer") & STATUS_BUSY == 0 {
            return;
        }
    }
    panic!("the engine does not end");
}

/// Does one descriptor.
pub fn run(engine: &mut Engine, descriptor: &Descriptor) -> Completion {
    engine.start(descriptor).expect("room");
    settle(engine);
    engine.take().expect("an answer").expect("a completion")
}
