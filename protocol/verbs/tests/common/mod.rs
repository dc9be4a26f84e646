//! Queues of work in plain memory.
#![allow(dead_code, unused_imports)]

use vfun_queue::Memory;
use vfun_verbs::{WorkConsumer, WorkProducer, WorkShape};

#[path = "../../../window/tests/common/plain.rs"]
mod plain;

pub use plain::{Plain, Side, peek, poke, zeroed};

/// Both sides of something: the program's, the NIC's.
pub fn sides(program: u64, nic: u64) -> (Plain, Plain) {
    let (a, b) = (zeroed(program), zeroed(nic));
    (Plain { mine: a.clone(), theirs: b.clone() }, Plain { mine: b, theirs: a })
}

/// Both ends of a queue of work, and the program's side.
pub fn work(shape: WorkShape) -> (WorkProducer<Plain>, WorkConsumer<Plain>, Side) {
    let (mine, theirs) = sides(shape.program_bytes(), shape.nic_bytes());
    let side = mine.mine.clone();
    let ends = (WorkProducer::new(mine, shape), WorkConsumer::new(theirs, shape));
    (ends.0.unwrap(), ends.1.unwrap(), side)
}
