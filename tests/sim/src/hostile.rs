//! A hostile guest: requests that make no sense, handles of others, floods,
//! anything anywhere in its window.

use crate::ledger::Ledger;
use crate::memory::Memory;
use std::rc::Rc;
use vfun_wire::control::REQUEST_BODY;
use vfun_wire::kind::CallsShape;
use vfun_wire::limits::{CONTROL_CELLS, CREDENTIAL_BYTES, SESSIONS};
use vfun_wire::message::*;
use vfun_wire::names;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// See the module.
pub struct Hostile {
    rng: fastrand::Rng,
    sessions: Vec<u64>,
    grants: Vec<u64>,
}

impl Hostile {
    pub fn new(rng: fastrand::Rng) -> Self {
        Hostile { rng, sessions: vec![], grants: vec![] }
    }

    /// One step; a flood now and then.
    pub fn step(&mut self, memory: &Rc<Memory>, ledger: &Ledger) {
        memory.scribbled.set(true);
        self.listen(memory);
        let times = if self.rng.u32(0..30) == 0 { CONTROL_CELLS * 2 } else { 1 };
        for _ in 0..times {
            match self.rng.u32(0..12) {
                0..=6 => self.ask(memory, ledger),
                7 => {
                    let body: Vec<u8> =
                        (0..self.rng.usize(0..REQUEST_BODY)).map(|_| self.rng.u8(..)).collect();
                    let kind = self.rng.u16(0..24);
                    let session = self.session(ledger);
                    self.post(memory, kind, session, &body);
                }
                8 | 9 => self.scribble(memory),
                10 => {
                    let line = self.rng.u16(0..SESSIONS as u16);
                    memory.beat(line, self.rng.u64(..));
                }
                _ => {}
            }
        }
    }

    /// What it was given is in the answers.
    fn listen(&mut self, memory: &Memory) {
        let (_, kind, body) = memory.answered(self.rng.usize(0..CONTROL_CELLS));
        if kind == 0 && body.len() >= 24 {
            let word = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("eight"));
            self.sessions.push(word(16));
            self.grants.push(word(0));
            for list in [&mut self.sessions, &mut self.grants] {
                if list.len() > 64 {
                    list.remove(0);
                }
            }
        }
    }

    fn pick(&mut self, own: bool, ledger: &Ledger) -> u64 {
        let list = if own { &self.sessions } else { &self.grants };
        match self.rng.u32(0..8) {
            0 => self.rng.u64(..),
            1 => u64::from(self.rng.u32(0..6)) | u64::from(self.rng.u32(0..12)) << 32,
            2 => ledger.handle(self.rng.usize(..)).unwrap_or(0),
            _ if list.is_empty() => 0,
            _ => list[self.rng.usize(0..list.len())],
        }
    }

    fn session(&mut self, ledger: &Ledger) -> u64 {
        self.pick(true, ledger)
    }

    fn post(&mut self, memory: &Memory, kind: u16, session: u64, body: &[u8]) {
        let cell = self.rng.usize(0..CONTROL_CELLS);
        let ahead = if self.rng.u32(0..20) == 0 { self.rng.u32(..) } else { 1 };
        let seq = memory.posted(cell).wrapping_add(ahead);
        memory.post(cell, seq, kind, session, body);
    }

    fn ask(&mut self, memory: &Memory, ledger: &Ledger) {
        let session = self.session(ledger);
        let (kind, body) = match self.rng.u32(0..10) {
            0 | 1 => {
                let h = Hello {
                    version_min: U16::new(self.rng.u16(0..4)),
                    version_max: U16::new(9),
                    pid: U32::new(1),
                    features: U64::new(self.rng.u64(..)),
                    app: names::encode(&format!("evil{}", self.rng.u32(0..9))).expect("short"),
                    credential_len: U16::new(0),
                    reserved: [0; 6],
                    credential: [0; CREDENTIAL_BYTES],
                };
                (Kind::Hello, h.as_bytes().to_vec())
            }
            2..=4 => {
                let name = ["add", "mul", "fast", "none"][self.rng.usize(0..4)];
                let n = Negotiate {
                    function: names::encode(name).expect("short"),
                    version: U32::new(0),
                    preference: self.rng.u8(0..4),
                    wait: 0,
                    kind: U16::new(1),
                    deadline_ms: U32::new(0),
                    reserved0: U32::ZERO,
                    signature: U64::new(0),
                    shape: CallsShape::new(1 << self.rng.u32(0..11), self.rng.u32(0..80_000))
                        .shape(),
                    reserved1: [U64::ZERO; 3],
                };
                (Kind::Negotiate, n.as_bytes().to_vec())
            }
            5..=6 => (Kind::Activate, self.pick(false, ledger).to_le_bytes().to_vec()),
            7 => (Kind::Release, self.pick(false, ledger).to_le_bytes().to_vec()),
            8 => (Kind::Goodbye, vec![0; 8]),
            _ => (Kind::Reset, vec![0; 8]),
        };
        self.post(memory, kind.to_wire(), session, &body);
    }

    fn scribble(&mut self, memory: &Memory) {
        let words = (memory.bytes / 8) as usize;
        for _ in 0..self.rng.u32(1..40) {
            // Mostly where something is.
            let word = match self.rng.bool() {
                true => self.rng.usize(0..words.min(60_000)),
                false => self.rng.usize(0..words),
            };
            let value = if self.rng.bool() { self.rng.u64(..) } else { self.rng.u64(0..4) };
            memory.store(word, value);
        }
    }
}
