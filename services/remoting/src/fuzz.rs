//! Random calls for a back end, made of what the API's description says that calls carry: most are
//! nearly right, and each is deterministic by its seed or by a fuzzer's bytes.

use crate::backend::Backend;
use crate::objects::Kind;
use crate::trial::{Heard, Trial};
use std::collections::BTreeMap;
use vfun_remoting::limits::{LONG_BYTES, SECRET_BYTES};
use vfun_remoting::{AnswerHead, CallHead, HEAD_BYTES, NOWHERE, Name, numbers, put_record};

/// The calls of an API, as the generator says them.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    pub calls: &'static [Call],
}

/// One call, and what its body has.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub number: u16,
    pub name: &'static str,
    pub secret: bool,
    /// The kind of object that it frees.
    pub frees: Option<Kind>,
    pub carries: &'static [Shape],
}

/// A part of a body.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Number {
        bits: u8,
        signed: bool,
    },
    /// 0 or 1.
    Flag,
    /// The name of an object; `number`: programs hold it by a number, which may stand for none.
    Object {
        kind: Kind,
        number: bool,
    },
    /// The name that is proposed for a new object.
    New(Kind),
    /// Names that are proposed for objects that are found.
    Found(Kind),
    /// The handle of a buffer that is lent.
    Lent,
    Bytes,
    /// So many.
    BytesOf(u64),
    /// Bytes of a call that may be split, and how many more a length is asked for.
    LongBytes,
    /// So many bytes, without their length.
    Raw(usize),
    /// How much room there is for an answer.
    Room,
    /// A struct.
    All(&'static [Shape]),
    /// Structs behind their number.
    List(&'static [Shape]),
    /// Structs that are to be filled.
    Fill(&'static [Shape]),
    /// A number that says what comes behind it.
    Tagged(&'static [(u64, Case)]),
}

/// What comes behind a tag.
#[derive(Clone, Copy, Debug)]
pub enum Case {
    /// So many bytes: least and most.
    Bytes(u64, u64),
    /// A struct of so many bytes in C.
    Struct(u64, &'static [Shape]),
}

/// Calls of the core that are made between those of the API.
const CORE: [Call; 6] = [
    Call { number: numbers::EVENTS, name: "EVENTS", secret: false, frees: None, carries: &[] },
    core(numbers::ATTACH, &[Shape::Lent]),
    core(numbers::ATTACHED, &[Shape::Lent]),
    core(numbers::DETACH, &[Shape::Lent]),
    core(numbers::END, &[]),
    // No function has this number.
    core(numbers::FIRST - 1, &[Shape::Number { bits: 64, signed: false }]),
];

const fn core(number: u16, carries: &'static [Shape]) -> Call {
    Call { number, name: "a call of the core", secret: false, frees: None, carries }
}

/// Where the choices come from.
pub enum Dice<'a> {
    /// A small generator of numbers (xorshift64*): the same seed, the same calls.
    Seed(u64),
    /// A fuzzer's bytes; zeros behind their end.
    Bytes(&'a [u8]),
}

impl Dice<'_> {
    pub fn new(seed: u64) -> Dice<'static> {
        Dice::Seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// So many bytes of a number.
    fn take(&mut self, bytes: usize) -> u64 {
        match self {
            Dice::Seed(state) => {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                state.wrapping_mul(0x2545_F491_4F6C_DD1D)
            }
            Dice::Bytes(left) => {
                let (some, rest) = left.split_at(bytes.min(left.len()));
                *left = rest;
                some.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
        }
    }

    fn roll(&mut self) -> u64 {
        self.take(8)
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        let bytes = if end <= 256 { 1 } else { 3 };
        (self.take(bytes) % end.max(1) as u64) as usize
    }

    /// Whether the one of so many cases has come.
    fn once_in(&mut self, cases: usize) -> bool {
        // A fuzzer's bytes end in zeros, which are the usual case.
        self.below(cases) == cases - 1
    }

    /// Whether nothing more is to be chosen.
    fn is_empty(&self) -> bool {
        matches!(self, Dice::Bytes([]))
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub calls: u64,
    /// Calls that reached the library, by their names.
    pub made: BTreeMap<&'static str, u64>,
    /// Why the others did not.
    pub refused: BTreeMap<u16, u64>,
}

impl Tally {
    /// With those of an earlier run.
    pub fn and(mut self, earlier: Tally) -> Tally {
        self.calls += earlier.calls;
        earlier.made.into_iter().for_each(|(name, n)| *self.made.entry(name).or_default() += n);
        earlier.refused.into_iter().for_each(|(why, n)| *self.refused.entry(why).or_default() += n);
        self
    }

    /// Calls that reached the library.
    pub fn reached(&self) -> u64 {
        self.made.values().sum()
    }

    /// Calls of the API that never reached the library.
    pub fn never_made(&self, api: &Api) -> Vec<&'static str> {
        let names = api.calls.iter().map(|call| call.name);
        names.filter(|name| !self.made.contains_key(name)).collect()
    }
}

/// Names that are proposed: few, so that they are met again.
const PLACES: usize = 64;
/// Of fewer objects of a kind, more are made now and then before one is used.
const LIVE: usize = 3;
/// Longest bytes, but for a few.
const SHORT: usize = 48;

/// Makes random calls of an API.
pub struct Fuzzer<'a> {
    dice: Dice<'a>,
    api: Api,
    /// Handles of buffers that may be lent.
    lent: Vec<u64>,
    /// The next number of a call that stands in an order.
    sequence: u32,
}

/// The body of a call that is being made.
struct Body<'f, 'a> {
    dice: &'f mut Dice<'a>,
    lent: &'f [u64],
    /// Names of objects that live, by kind.
    live: &'f BTreeMap<Kind, Vec<Name>>,
    /// Places that this body proposed.
    proposed: usize,
    words: Vec<u8>,
}

impl Body<'_, '_> {
    fn word(&mut self, word: u64) {
        self.words.extend_from_slice(&word.to_le_bytes());
    }

    fn number(&mut self, bits: u8, signed: bool) {
        let dice = &mut *self.dice;
        let wide = match dice.below(16) {
            0..=7 => dice.below(4) as u64,
            8..=10 => dice.below(512) as u64,
            11 | 12 => dice.below(6000) as u64,
            13 => u64::MAX - dice.below(3) as u64,
            _ => dice.roll() >> dice.below(64),
        };
        let out_of_range = self.dice.once_in(32);
        let value = match (bits, signed) {
            _ if out_of_range => wide,
            (64, _) => wide,
            (bits, false) => wide & ((1 << bits) - 1),
            (bits, true) => (((wide << (64 - bits)) as i64) >> (64 - bits)) as u64,
        };
        self.word(value);
    }

    /// A name that nobody gave: of a place that may be in use, or nonsense.
    fn wild(&mut self) -> u64 {
        match self.dice.below(4) {
            0 => 0,
            1 | 2 => Name::new(self.dice.below(PLACES), 1 + self.dice.below(2) as u32).value(),
            _ => self.dice.roll(),
        }
    }

    fn object(&mut self, kind: Kind) {
        let wild = self.dice.once_in(16);
        let name = match self.live.get(&kind).filter(|live| !wild && !live.is_empty()) {
            Some(live) => live[self.dice.below(live.len())].value(),
            None => self.wild(),
        };
        self.word(name);
    }

    fn new_name(&mut self) {
        if self.dice.once_in(32) {
            let wild = self.wild();
            return self.word(wild);
        }
        let taken = |place: usize| {
            let mut all = self.live.values().flatten();
            all.any(|name| name.place().is_some_and(|(at, _)| at == place))
        };
        let from = self.dice.below(PLACES);
        let free = (0..PLACES).map(|n| (from + n) % PLACES).filter(|place| !taken(*place));
        let place = free.clone().nth(self.proposed).unwrap_or(from);
        self.proposed += 1;
        self.word(Name::new(place, 1).value());
    }

    fn bytes(&mut self, len: usize) {
        let fill = self.dice.below(256) as u8;
        self.words.resize(self.words.len() + len.next_multiple_of(8), 0);
        let from = self.words.len() - len.next_multiple_of(8);
        self.words[from..from + len].fill(fill);
    }

    /// Bytes behind their length, which is seldom wrong.
    fn blob(&mut self, len: usize) {
        let said = if self.dice.once_in(64) { self.dice.roll() } else { len as u64 };
        self.word(said);
        self.bytes(len);
    }

    fn some_bytes(&mut self) {
        match self.dice.below(16) {
            14 => self.word(NOWHERE),
            15 => {
                let len = self.dice.below(70_000);
                self.blob(len);
            }
            _ => {
                let len = self.dice.below(SHORT);
                self.blob(len);
            }
        }
    }

    fn room(&mut self) {
        let room = match self.dice.below(16) {
            0..=9 => 64,
            10 => NOWHERE,
            11 => self.dice.below(48) as u64,
            12 | 13 => self.dice.below(70_000) as u64,
            14 => LONG_BYTES as u64 + self.dice.below(2) as u64,
            _ => self.dice.roll(),
        };
        self.word(room);
    }

    fn count(&mut self) -> usize {
        let count = self.dice.below(4);
        let said = if self.dice.once_in(32) { self.dice.roll() } else { count as u64 };
        self.word(said);
        count
    }

    fn tagged(&mut self, cases: &'static [(u64, Case)]) {
        let (tag, case) = cases[self.dice.below(cases.len())];
        let other = self.dice.below(16);
        if other == 15 {
            // Not what belongs behind it.
            self.number(64, false);
            return self.some_bytes();
        }
        self.word(tag);
        match case {
            _ if other >= 12 => self.word(NOWHERE),
            Case::Bytes(least, most) => {
                let more = self.dice.below((most - least) as usize + 1);
                self.blob(least as usize + more);
            }
            Case::Struct(bytes, members) => {
                self.word(bytes);
                self.all(members);
            }
        }
    }

    fn all(&mut self, shapes: &'static [Shape]) {
        shapes.iter().for_each(|shape| self.put(shape));
    }

    fn put(&mut self, shape: &'static Shape) {
        match shape {
            Shape::Number { bits, signed } => self.number(*bits, *signed),
            Shape::Flag => self.number(1, false),
            Shape::Object { kind, .. } => self.object(*kind),
            Shape::New(_) => self.new_name(),
            Shape::Found(_) => (0..self.count()).for_each(|_| self.new_name()),
            Shape::Lent if self.lent.is_empty() || self.dice.once_in(16) => self.number(64, false),
            Shape::Lent => {
                let handle = self.lent[self.dice.below(self.lent.len())];
                self.word(handle);
            }
            Shape::Bytes => self.some_bytes(),
            Shape::BytesOf(len) => match self.dice.below(8) {
                7 => self.some_bytes(),
                _ => self.blob(*len as usize),
            },
            Shape::LongBytes => {
                self.some_bytes();
                let more = match self.dice.below(8) {
                    6 => self.dice.below(1 << 20) as u64,
                    7 => LONG_BYTES as u64 + self.dice.below(2) as u64,
                    _ => 0,
                };
                self.word(more);
            }
            Shape::Raw(len) => self.bytes(*len),
            Shape::Room => self.room(),
            Shape::All(shapes) => self.all(shapes),
            Shape::List(_) if self.dice.once_in(8) => self.word(NOWHERE),
            Shape::List(shapes) => (0..self.count()).for_each(|_| self.all(shapes)),
            Shape::Fill(shapes) => {
                for _ in 0..self.count() {
                    let members = shapes.iter().filter(|shape| !matches!(shape, Shape::Bytes));
                    members.for_each(|shape| self.put(shape));
                    self.room();
                }
            }
            Shape::Tagged(cases) => self.tagged(cases),
        }
    }
}

impl<'a> Fuzzer<'a> {
    pub fn new(dice: Dice<'a>, api: Api, lent: &[u64]) -> Fuzzer<'a> {
        Fuzzer { dice, api, lent: lent.to_vec(), sequence: 1 }
    }

    /// Kinds of objects, with the names of those that live.
    fn live<B: Backend>(&self, trial: &Trial<B>) -> BTreeMap<Kind, Vec<Name>> {
        let mut live = BTreeMap::new();
        for shape in self.api.calls.iter().flat_map(|call| call.carries) {
            if let Shape::Object { kind, .. } | Shape::New(kind) | Shape::Found(kind) = shape {
                live.entry(*kind).or_insert_with(|| trial.names(*kind));
            }
        }
        live
    }

    /// The next call. Where one needs an object of which few live, one that makes such objects.
    fn choose(&mut self, live: &BTreeMap<Kind, Vec<Name>>) -> Call {
        if self.dice.once_in(16) {
            return CORE[self.dice.below(CORE.len())];
        }
        let calls = self.api.calls;
        let mut call = calls[self.dice.below(calls.len())];
        if call.frees.is_some() && !self.dice.once_in(4) {
            call = calls[self.dice.below(calls.len())];
        }
        for _ in 0..4 {
            let mut few = |kind: &Kind| match live.get(kind).map_or(0, Vec::len) {
                0 => true,
                n => n < LIVE && self.dice.once_in(4),
            };
            let lacking = call.carries.iter().find_map(|shape| match shape {
                Shape::Object { kind, .. } => Some(*kind).filter(&mut few),
                _ => None,
            });
            let Some(kind) = lacking else { break };
            let makes = |call: &&Call| {
                call.carries.iter().any(|shape| matches!(shape, Shape::New(made) if *made == kind))
            };
            let makers: Vec<_> = calls.iter().filter(makes).collect();
            // Some calls find no object to make others of: these are made all the same.
            if makers.is_empty() || self.dice.once_in(8) {
                break;
            }
            call = *makers[self.dice.below(makers.len())];
        }
        call
    }

    fn body(&mut self, call: &Call, live: &BTreeMap<Kind, Vec<Name>>) -> Vec<u8> {
        let (dice, lent) = (&mut self.dice, &self.lent);
        let mut body = Body { dice, lent, live, proposed: 0, words: vec![] };
        body.all(call.carries);
        let mut words = body.words;
        if call.secret {
            words.resize(words.len().max(SECRET_BYTES - HEAD_BYTES), 0);
        }
        if self.dice.once_in(16) && !words.is_empty() {
            let at = self.dice.below(words.len() / 8) * 8;
            let word = self.dice.roll().to_le_bytes();
            words[at..at + 8].copy_from_slice(&word);
        }
        if self.dice.once_in(32) {
            words.truncate(self.dice.below(words.len() + 1));
        }
        words
    }

    /// The number of a call: mostly none, sometimes the next, one that is early or one that is past.
    fn sequence(&mut self) -> u32 {
        if !self.dice.once_in(16) {
            return 0;
        }
        let ahead = [0, 0, 0, 1, 2, u32::MAX][self.dice.below(6)];
        let sequence = self.sequence.wrapping_add(ahead);
        self.sequence += u32::from(ahead == 0);
        sequence
    }

    /// The bytes of a call, by itself or in a batch.
    fn bytes(&mut self, call: &Call, live: &BTreeMap<Kind, Vec<Name>>) -> Vec<u8> {
        let sequence = self.sequence();
        let body = self.body(call, live);
        let mut bytes = vec![];
        if self.dice.once_in(8) {
            bytes.extend(CallHead { sequence, call: numbers::BATCH }.to_bytes());
            for _ in 0..self.dice.below(3) {
                let more = self.body(call, live);
                put_record(&mut bytes, call.number, false, |w| w.bytes(&more));
            }
            put_record(&mut bytes, call.number, true, |w| w.bytes(&body));
        } else {
            bytes.extend(CallHead { sequence, call: call.number }.to_bytes());
            bytes.extend(body);
        }
        if self.dice.once_in(64) {
            let at = self.dice.below(bytes.len());
            bytes[at] ^= 1 << self.dice.below(8);
        }
        bytes
    }

    /// Makes `count` calls, or fewer if a fuzzer's bytes end before.
    pub fn run<B: Backend>(&mut self, trial: &mut Trial<B>, count: u64) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..count {
            if self.dice.is_empty() {
                break;
            }
            let live = self.live(trial);
            let call = self.choose(&live);
            let bytes = self.bytes(&call, &live);
            tally.calls += 1;
            let heard = trial.call(&bytes);
            trial.events();
            let Heard::Answer(answer) = heard else { continue };
            let Ok((head, _)) = AnswerHead::split(&answer) else { panic!("an answer has a head") };
            match head.refusal {
                None => *tally.made.entry(call.name).or_default() += 1,
                Some(refusal) => *tally.refused.entry(refusal.number()).or_default() += 1,
            }
        }
        tally
    }
}
