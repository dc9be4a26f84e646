//! A connection without a service, for tests of back ends: calls in, answers out, and a look at
//! every answer for addresses.

use crate::attached::Memory;
use crate::backend::Backend;
use crate::objects::Kind;
use crate::remoted::Remoted;
use vfun_remoting::{AnswerHead, CallHead, HEAD_BYTES, Name, Reader, Writer, numbers};
use vfun_sdk::{Args, Driver, DriverError, HeldCall, OpenCalls, Out};

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Answer(Vec<u8>),
    /// It stays open; [`Trial::events`] has what answers it.
    Open,
    Failed(DriverError),
}

/// A connection to a back end in this process.
pub struct Trial<B: Backend> {
    remoted: Remoted<B>,
    calls: OpenCalls,
    /// Open calls, held for as long as this lives: what answers them is in `events`.
    open: Vec<HeldCall>,
    room: Vec<u8>,
}

/// Values below are no addresses of a process: names of objects are.
const LEAST_ADDRESS: u64 = 1 << 44;

/// Whether a value lies in a mapping of this process.
fn is_address(value: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a process has mappings");
    maps.lines().any(|line| {
        let range = line.split_whitespace().next().and_then(|r| r.split_once('-'));
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
        range.is_some_and(|(start, end)| (number(start)..number(end)).contains(&value))
    })
}

/// # Panics
/// If an aligned word of an answer is an address of this process.
pub fn check_addresses(answer: &[u8]) {
    for (word, at) in answer.chunks_exact(8).zip((0..).step_by(8)) {
        let value = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        let suspicious = (LEAST_ADDRESS..1 << 47).contains(&value);
        assert!(
            !suspicious || !is_address(value),
            "byte {at} of an answer is the address {value:#x}"
        );
    }
}

/// What a service does for a call. By itself, so that `tests/counts.py` can count it.
#[inline(never)]
fn made<B: Backend>(
    remoted: &mut Remoted<B>,
    args: &Args<'_>,
    out: &mut Out<'_>,
) -> Result<(), DriverError> {
    remoted.call(args, out)
}

impl<B: Backend> Trial<B> {
    /// A connection whose calls have at most `most_bytes`. It has been greeted, and hears its own
    /// events.
    pub fn over(backend: B, most_bytes: usize) -> Trial<B> {
        let mut trial = Trial {
            remoted: Remoted::over(backend, most_bytes),
            calls: OpenCalls::new(|| ()),
            open: vec![],
            room: vec![0; most_bytes],
        };
        let hello = trial.make(numbers::HELLO, |w| w.u64(B::DESCRIPTION));
        let Heard::Answer(hello) = hello else { panic!("{hello:?}") };
        let token = hello[HEAD_BYTES + 8..].to_vec();
        let heard = trial.make(numbers::LISTEN, |w| w.bytes(&token));
        let Heard::Answer(answer) = heard else { panic!("{heard:?}") };
        assert_eq!(AnswerHead::split(&answer).expect("a head").0.refusal, None);
        trial
    }

    /// Lends memory to the back end, as a guest does by an open call.
    pub fn lend(&mut self, handle: u64, memory: Memory) {
        self.remoted.lend(handle, memory);
    }

    /// Names of the objects of a kind that the connection has.
    pub fn names(&self, kind: Kind) -> Vec<Name> {
        self.remoted.names(kind)
    }

    /// Whether this memory is lent, and not taken back.
    pub fn is_lent(&mut self, handle: u64) -> bool {
        let heard = self.make(numbers::ATTACHED, |w| w.u64(handle));
        let Heard::Answer(answer) = heard else { panic!("{heard:?}") };
        Reader::new(&answer[HEAD_BYTES..]).bool().expect("yes or no")
    }

    /// Makes a call that is well formed up to its body.
    pub fn make(&mut self, call: u16, write: impl FnOnce(&mut Writer<'_>)) -> Heard {
        let mut bytes = vec![];
        write(&mut Writer::call(&mut bytes, CallHead { sequence: 0, call }));
        self.call(&bytes)
    }

    /// Makes a call of these bytes.
    ///
    /// # Panics
    /// If the answer has an address in it.
    pub fn call(&mut self, bytes: &[u8]) -> Heard {
        let mut out = Out::private_later(&mut self.room, &self.calls);
        let done = made(&mut self.remoted, &Args::private(bytes), &mut out);
        let (open, len) = (out.is_later(), out.len());
        if open && let Some(held) = self.calls.hold(0) {
            self.open.push(held);
        }
        match done {
            Err(error) => Heard::Failed(error),
            Ok(()) if open => Heard::Open,
            Ok(()) => {
                check_addresses(&self.room[..len]);
                Heard::Answer(self.room[..len].to_vec())
            }
        }
    }

    /// What open calls were answered with, since the last time.
    pub fn events(&mut self) -> Vec<Result<Vec<u8>, DriverError>> {
        let answers: Vec<_> = self.calls.answers().into_iter().map(|(_, answer)| answer).collect();
        answers.iter().flatten().for_each(|answer| check_addresses(answer));
        answers
    }
}
