//! Operations on the ends of a ring of packets, out of a fuzzer's bytes.

use crate::Bytes;

#[path = "../../protocol/packet/tests/common/mod.rs"]
mod common;

pub use common::{Op, Pair, RING};

/// A word that a hostile peer writes: mostly a position, or the head of a record.
fn word(b: &mut Bytes) -> u64 {
    match b.u8() % 4 {
        0 => u64::from(b.u8()) * 64,
        1 => u64::from(b.u8() % 8) << 32 | u64::from(b.u16() % 4096),
        2 => 0u64.wrapping_sub(b.u16().into()),
        _ => b.u64(),
    }
}

/// Where it is written: mostly a named word, or the ring's.
fn place(b: &mut Bytes) -> u32 {
    let near = u32::from(b.u8());
    if near < 200 { near } else { 4096 + u32::from(b.u16()) }
}

/// The next operation of either end, or of a peer that writes anything anywhere.
pub fn op(b: &mut Bytes) -> Op {
    match b.u8() % 32 {
        0..=5 => Op::Put { bytes: b.len(), seed: b.u8().into() },
        6..=7 => Op::PutNoted { bytes: b.len(), seed: b.u8().into() },
        8..=12 => Op::Publish,
        13..=14 => Op::MustRing,
        15..=17 => Op::Get { room: if b.u8() < 224 { 4096 } else { b.u8().into() } },
        18..=20 => Op::GetNoted { room: if b.u8() < 224 { 4096 } else { b.u8().into() } },
        21..=23 => Op::Take,
        24..=25 => Op::Sleep,
        26..=27 => Op::PokeSender { at: place(b), value: word(b) },
        28..=29 => Op::PokeReceiver { at: place(b), value: word(b) },
        30 => Op::TakeUpSender,
        _ => Op::TakeUpReceiver,
    }
}
