//! Turns a fuzzer's bytes into operations on the models that the property
//! tests of `vfun-ring`, `vfun-queue` and `vfun-packet` use.

#[path = "../../protocol/ring/tests/common/mod.rs"]
mod common;

pub mod core;
pub mod packet;
pub mod queue;
pub mod verbs;

pub use common::{caller_ops, server_ops};

/// Fields out of the fuzzer's bytes; zero where they end.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }
    /// A field that is mostly right, so that deep states are reached: one
    /// byte says whether the next are the field.
    pub fn or<T>(&mut self, right: T, read: impl FnOnce(&mut Self) -> T) -> T {
        if self.u8() < 224 { right } else { read(self) }
    }
    /// A length: mostly one byte.
    pub fn len(&mut self) -> u32 {
        let small = u32::from(self.u8());
        self.or(small, Self::u32)
    }
    /// An index of a word: mostly in the header page's used words or the first lines.
    pub fn index(&mut self) -> u16 {
        let b = u16::from(self.u8());
        let near = if b < 64 { b } else { 512 + b - 64 };
        self.or(near, Self::u16)
    }
    /// Cells and data space: 1 to 8 cells, 0 to 192 bytes.
    pub fn shape(&mut self) -> (u16, u32) {
        let b = self.u8();
        (1 << (b & 3), u32::from(b >> 2 & 3) * 64)
    }
}

/// The next operation of a hostile caller or of the service loop.
pub fn server_op(b: &mut Bytes) -> server_ops::Op {
    use server_ops::Op;
    match b.u8() % 16 {
        0..=4 => Op::Post {
            cell: b.u8().into(),
            ahead: b.or(1, Bytes::u32),
            command: b.or(1, Bytes::u8),
            flags: b.u8() & 1 | b.or(0, Bytes::u8),
            reserved: b.or(0, Bytes::u16),
            len: b.len(),
            status: b.or(0, Bytes::u32),
            fill: b.u64(),
        },
        5 => Op::PokeOut { index: b.index(), value: b.u64() },
        6 => Op::PokeIn { index: b.index(), value: b.u64() },
        7 => Op::Next(b.u8()),
        8..=10 => Op::NextAnywhere,
        11..=13 => {
            let how = b.u8();
            Op::Answer {
                nth: b.u8().into(),
                len: b.len(),
                space: how & 1 != 0,
                error: how & 2 != 0,
            }
        }
        14 => match b.u8() % 4 {
            0 => Op::Restart,
            _ => Op::Sleep,
        },
        _ => Op::Begin { nth: b.u8().into() },
    }
}

/// The next operation of an app or of a hostile service.
pub fn caller_op(b: &mut Bytes) -> caller_ops::Op {
    use caller_ops::Op;
    match b.u8() % 16 {
        0..=2 => Op::Claim,
        3 => Op::Unclaim { nth: b.u8().into() },
        4..=6 => {
            let how = b.u8();
            let (nth, len) = (b.u8().into(), b.len());
            Op::Post { nth, len, space: how & 1 != 0, rst: how & 2 != 0, fill: b.u64() }
        }
        7 | 8 => Op::Look { nth: b.u8().into() },
        9 | 10 => Op::Take { nth: b.u8().into() },
        11..=13 => Op::Answer {
            cell: b.u8().into(),
            ahead: b.or(0, Bytes::u32),
            state: b.or(2, Bytes::u8),
            flags: b.u8() & 1 | b.or(0, Bytes::u8),
            reserved: b.or(0, Bytes::u16),
            len: b.len(),
            status: b.u8().into(),
            fill: b.u64(),
        },
        14 => Op::PokeIn { index: b.index(), value: b.u64() },
        _ => Op::Sleep,
    }
}
