//! Operations on a queue's ends, out of a fuzzer's bytes.

use crate::Bytes;

#[path = "../../protocol/queue/tests/common/mod.rs"]
mod common;

pub use common::{consumer_ops, producer_ops};

/// Entries' bytes as a power of two, and how many there are: 2 to 16.
pub fn shape(b: &mut Bytes) -> (u32, u32) {
    let byte = b.u8();
    (4 + u32::from(byte & 3), 2 << (byte >> 2 & 3))
}

fn word(b: &mut Bytes) -> u64 {
    let small = u64::from(b.u8());
    b.or(small, Bytes::u64)
}

/// The next operation of a hostile producer or of the consumer under test.
pub fn consumer_op(b: &mut Bytes) -> consumer_ops::Op {
    use consumer_ops::Op;
    match b.u8() % 16 {
        0..=5 => Op::Put { ahead: b.u8().into(), off: b.or(0, Bytes::u32), fill: b.u64() },
        6 => Op::Poke { index: b.index().into(), value: word(b) },
        7 => Op::PokeOwn { index: b.index().into(), value: word(b) },
        8 => Op::End { reason: word(b) },
        9..=12 => Op::Consume { most: u16::from(b.u8()) % 40 },
        13 => Op::Ready { hard: b.u8() & 1 != 0 },
        14 => Op::Sleep,
        _ => Op::TakeUp,
    }
}

/// The next operation of a hostile consumer or of the producer under test.
pub fn producer_op(b: &mut Bytes) -> producer_ops::Op {
    use producer_ops::Op;
    match b.u8() % 16 {
        0..=4 => Op::Produce { count: u16::from(b.u8()) % 40, seed: b.u64() },
        5..=8 => Op::Count { ahead: word(b) },
        9 => Op::Poke { index: b.index().into(), value: word(b) },
        10 => Op::PokeOwn { index: b.index().into(), value: word(b) },
        11 => Op::End { reason: word(b) },
        12 => Op::Room { wanted: b.u8().into() },
        13 => Op::Ready { hard: b.u8() & 1 != 0 },
        14 => Op::Sleep,
        _ => Op::TakeUp,
    }
}
