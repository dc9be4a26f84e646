//! Random calls for a back end: some right, most wrong, all deterministic by their seed.

use crate::backend::Backend;
use crate::trial::{Heard, Trial};
use std::collections::BTreeMap;
use vfun_remoting::{AnswerHead, CallHead, Name, Refusal, numbers, put_record};

/// A small generator of numbers (xorshift64*): the same seed, the same calls.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub calls: u64,
    /// Calls that reached the library.
    pub made: u64,
    /// Why the others did not.
    pub refused: BTreeMap<u16, u64>,
}

/// Makes random calls of `numbers`. Learns from refusals how long the body of each call is.
pub struct Fuzzer {
    dice: Dice,
    calls: Vec<u16>,
    /// How many words of a body were well formed, by call.
    lengths: BTreeMap<u16, usize>,
    /// Bodies that reached the library, by call: the next ones are made of these.
    good: BTreeMap<u16, Vec<Vec<u8>>>,
    /// Words of bodies that reached the library, the latest: names that live are among them.
    seen: Vec<u64>,
    /// Values that the API likes, such as the handle of a lent buffer.
    likes: Vec<u64>,
    /// The next number of a call that stands in an order.
    sequence: u32,
}

/// Names that are tried: few, so that they are met again.
const PLACES: usize = 32;
/// Words that are kept.
const SEEN: usize = 32;
/// Bodies that are kept of each call.
const GOOD: usize = 16;
/// Most words of a body, but for garbage.
const WORDS: usize = 10;

impl Tally {
    /// With those of an earlier run.
    pub fn and(mut self, earlier: Tally) -> Tally {
        self.calls += earlier.calls;
        self.made += earlier.made;
        earlier.refused.into_iter().for_each(|(why, n)| *self.refused.entry(why).or_default() += n);
        self
    }
}

impl Fuzzer {
    pub fn new(seed: u64, calls: &[u16], likes: &[u64]) -> Fuzzer {
        let (calls, likes) = (calls.to_vec(), likes.to_vec());
        let dice = Dice::new(seed);
        let lengths = BTreeMap::new();
        Fuzzer { dice, calls, lengths, good: BTreeMap::new(), seen: vec![], likes, sequence: 1 }
    }

    /// Shows a call that is right.
    pub fn teach(&mut self, call: u16, words: &[u64]) {
        let body = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.learn(call, body);
    }

    fn learn(&mut self, call: u16, body: Vec<u8>) {
        for word in body.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            if self.seen.len() < SEEN {
                self.seen.push(word);
            } else {
                let at = self.dice.below(SEEN);
                self.seen[at] = word;
            }
        }
        let good = self.good.entry(call).or_default();
        if good.len() < GOOD {
            good.push(body);
        } else {
            let at = self.dice.below(GOOD);
            good[at] = body;
        }
    }

    fn word(&mut self) -> u64 {
        let dice = &mut self.dice;
        match dice.below(10) {
            0..=2 if !self.seen.is_empty() => self.seen[dice.below(self.seen.len())],
            0..=4 => {
                // Mostly the first, so that names are met again.
                let generation = if dice.below(8) == 0 { 2 } else { 1 };
                Name::new(dice.below(PLACES), generation).value()
            }
            5 => dice.below(3) as u64,
            6 => dice.below(5000) as u64,
            7 if !self.likes.is_empty() => self.likes[dice.below(self.likes.len())],
            8 => u64::MAX - dice.below(3) as u64,
            _ => dice.roll() >> dice.below(64),
        }
    }

    fn body(&mut self, call: u16) -> Vec<u8> {
        let good = self.good.get(&call).map_or(0, Vec::len);
        if good > 0 && self.dice.below(4) != 0 {
            let mut body = self.good[&call][self.dice.below(good)].clone();
            if self.dice.below(2) != 0 && !body.is_empty() {
                let at = self.dice.below(body.len() / 8) * 8;
                let word = self.word().to_le_bytes();
                body[at..at + 8].copy_from_slice(&word);
            }
            return body;
        }
        let known = self.lengths.get(&call).copied();
        let words = match known {
            Some(words) if self.dice.below(8) != 0 => words,
            _ => self.dice.below(WORDS),
        };
        let mut body: Vec<u8> = (0..words).flat_map(|_| self.word().to_le_bytes()).collect();
        if self.dice.below(32) == 0 {
            body.truncate(self.dice.below(body.len() + 1));
        }
        body
    }

    /// The number of a call: mostly none, sometimes the next, one that is early or one that is past.
    fn sequence(&mut self) -> u32 {
        if self.dice.below(16) != 0 {
            return 0;
        }
        let ahead = [0, 0, 0, 1, 2, u32::MAX][self.dice.below(6)];
        let sequence = self.sequence.wrapping_add(ahead);
        self.sequence += u32::from(ahead == 0);
        sequence
    }

    /// Makes `count` calls.
    pub fn run<B: Backend>(&mut self, trial: &mut Trial<B>, count: u64) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..count {
            let call = self.calls[self.dice.below(self.calls.len())];
            let body = self.body(call);
            let mut bytes = vec![];
            let in_batch = self.dice.below(8) == 0;
            let sequence = self.sequence();
            if in_batch {
                let head = CallHead { sequence, call: numbers::BATCH };
                bytes.extend_from_slice(&head.to_bytes());
                let records = 1 + self.dice.below(4);
                for record in 0..records {
                    let more = self.body(call);
                    put_record(&mut bytes, call, record + 1 == records, |w| w.bytes(&more));
                }
            } else {
                bytes.extend_from_slice(&CallHead { sequence, call }.to_bytes());
                bytes.extend_from_slice(&body);
            }
            if self.dice.below(64) == 0 && !bytes.is_empty() {
                let at = self.dice.below(bytes.len());
                bytes[at] ^= 1 << self.dice.below(8);
            }
            tally.calls += 1;
            let Heard::Answer(answer) = trial.call(&bytes) else { continue };
            let Ok((head, _)) = AnswerHead::split(&answer) else { panic!("an answer has a head") };
            match head.refusal {
                None => tally.made += 1,
                Some(refusal) => *tally.refused.entry(refusal.number()).or_default() += 1,
            }
            if !in_batch && head.refusal.is_none() && body.len().is_multiple_of(8) {
                self.learn(call, body.clone());
            }
            if !in_batch && head.refusal != Some(Refusal::Malformed) {
                self.lengths.insert(call, body.len() / 8);
            }
            trial.events();
        }
        tally
    }
}
