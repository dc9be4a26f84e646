//! A guest that writes what it likes: random calls, over a model of the library that checks each
//! object, and over the library itself.

use vfun_gdmaback::{Gdma, Native, model};
use vfun_remoting::{
    AnswerHead, CallHead, HEAD_BYTES, Reader, Records, Refusal, numbers, put_record,
};
use vfun_remoting_host::fuzz::{Dice, Fuzzer, Tally};
use vfun_remoting_host::trial::{Heard, Trial};
use vfun_remoting_host::{Memory, Name};

mod shapes;

/// Numbers of calls that a guest begins with (tools/apigen/apis/gdma/numbers.toml).
mod calls {
    pub const INIT: u16 = 16;
    pub const EXIT: u16 = 17;
    pub const NODE_BY_ID: u16 = 21;
    pub const BUFFER_ALLOC: u16 = 23;
    pub const TRANSFER_START: u16 = 28;
    pub const TRANSFER_QUERY: u16 = 31;
    pub const TRANSFER_RELEASE: u16 = 32;
}

/// Calls of each run; `VFUN_FUZZ_CALLS` says another number.
const CALLS: u64 = 20_000;
const POOL: usize = 1 << 20;
/// Calls before buffers that were taken back are lent again.
const ROUND: u64 = 10;

fn how_many() -> u64 {
    std::env::var("VFUN_FUZZ_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(CALLS)
}

/// Memory for pools; a context may still use it when its test fails.
fn pool() -> Memory {
    let memory = vec![0u8; POOL + 4096].leak();
    let skip = memory.as_ptr().align_offset(4096);
    Memory { start: memory[skip..].as_mut_ptr(), len: POOL }
}

/// How often a buffer was lent again that the guest had taken back, and what came of the calls.
fn run(native: Native, seed: u64, calls: u64) -> (usize, Tally) {
    let mut trial = Trial::over(Gdma::over(native), 4096);
    let handles = [1 << 32, 2 << 32];
    let pools = handles.map(|handle| (handle, pool()));
    let mut fuzzer = Fuzzer::new(Dice::new(seed), shapes::API, &handles);
    let mut tally = Tally::default();
    let mut lent = 0;
    for _ in 0..calls / ROUND {
        for (handle, pool) in pools {
            // After DETACH little could be called.
            if !trial.is_lent(handle) {
                trial.lend(handle, pool);
                lent += 1;
            }
        }
        tally = fuzzer.run(&mut trial, ROUND).and(tally);
    }
    let started = std::time::Instant::now();
    drop(trial);
    assert!(tally.reached() * 20 > tally.calls, "almost no call reached the library: {tally:?}");
    eprintln!("seed {seed}: {tally:?}, ended in {:?}", started.elapsed());
    (lent - handles.len(), tally)
}

#[test]
fn no_call_of_a_guest_reaches_an_object_that_does_not_live() {
    let seeds = 8;
    let (mut taken_back, mut tally) = (0, Tally::default());
    for seed in 1..=seeds {
        let (again, made) = run(model::native(), seed, how_many() / seeds);
        taken_back += again;
        tally = tally.and(made);
    }
    assert!(taken_back > 0, "no buffer was taken back");
    assert_eq!(tally.never_made(&shapes::API), [""; 0], "{tally:?}");
    assert_eq!(model::objects(), 0, "what a guest left behind is freed with its connection");
}

#[test]
fn the_library_itself_survives() {
    run(Native::linked(), 99, how_many() / 40);
}

const HANDLE: u64 = 1 << 32;

fn trial() -> Trial<Gdma> {
    let mut trial = Trial::over(Gdma::over(Native::linked()), 4096);
    trial.lend(HANDLE, pool());
    trial
}

/// Why a call was not made; none: it was.
fn refusal(heard: Heard) -> Option<Refusal> {
    let Heard::Answer(answer) = heard else { panic!("{heard:?}") };
    AnswerHead::split(&answer).expect("a head").0.refusal
}

/// The library's status, or why it was not asked.
fn init(trial: &mut Trial<Gdma>, context: Name) -> Result<i32, Refusal> {
    let heard = trial.make(calls::INIT, |w| {
        w.u32(1);
        w.u64(HANDLE);
        w.name(context);
    });
    let Heard::Answer(answer) = heard else { panic!("{heard:?}") };
    let (head, body) = AnswerHead::split(&answer)?;
    head.refusal.map_or(Ok(()), Err)?;
    Reader::new(body).i32()
}

#[test]
fn a_pool_is_not_taken_back_while_a_context_uses_it() {
    let mut trial = trial();
    let context = Name::new(0, 1);
    const NO_ENGINE: i32 = -8; // built without Verilator
    let status = init(&mut trial, context);
    if status == Ok(NO_ENGINE) {
        return;
    }
    assert_eq!(status, Ok(0));
    assert_eq!(init(&mut trial, Name::new(1, 1)), Err(Refusal::Argument), "a second context");
    let detach = |trial: &mut Trial<Gdma>| trial.make(numbers::DETACH, |w| w.u64(HANDLE));
    assert_eq!(refusal(detach(&mut trial)), Some(Refusal::Argument), "its engine writes there");
    assert_eq!(refusal(trial.make(calls::EXIT, |w| w.name(context))), None);
    assert_eq!(refusal(detach(&mut trial)), None);
    assert_eq!(refusal(detach(&mut trial)), Some(Refusal::Argument), "it is gone");
    assert_eq!(init(&mut trial, context), Err(Refusal::Argument), "it is gone");
}

#[test]
fn buffers_are_lent_and_taken_back_also_behind_calls_that_do_not_wait() {
    let mut trial = trial();
    for (call, body) in [(numbers::ATTACHED, &[1, 0, 0, 0, 0, 0, 0, 0][..]), (numbers::DETACH, &[])]
    {
        let mut batch = CallHead { sequence: 0, call: numbers::BATCH }.to_bytes().to_vec();
        put_record(&mut batch, calls::EXIT, false, |w| w.u64(0));
        put_record(&mut batch, call, true, |w| w.u64(HANDLE));
        let Heard::Answer(answer) = trial.call(&batch) else { panic!("answered at once") };
        assert_eq!(AnswerHead::split(&answer).expect("a head").0.refusal, None);
        assert_eq!(&answer[HEAD_BYTES..], body);
    }
}

#[test]
fn a_transfer_of_a_buffer_that_was_freed_ends_with_an_event() {
    let mut trial = trial();
    assert_eq!(trial.make(numbers::EVENTS, |_| ()), Heard::Open);
    let name = Name::new(9, 1);
    let heard = trial.make(calls::TRANSFER_START, |w| {
        [7 << 32, 0, 7 << 32, 0, 64, 1, name.value()].into_iter().for_each(|word| w.u64(word));
    });
    assert_eq!(refusal(heard), Some(Refusal::Object));
    let events = trial.events();
    let [Ok(answer)] = &events[..] else { panic!("{events:?}") };
    let mut records = Records::new(&answer[HEAD_BYTES..]);
    let event = records.next().expect("an event").expect("well formed");
    let mut body = Reader::new(event.body);
    assert_eq!((body.name(), body.i32(), body.end()), (Ok(name), Ok(-1), Ok(())));
    // It has ended, until it is released.
    let heard = trial.make(calls::TRANSFER_QUERY, |w| w.name(name));
    let Heard::Answer(answer) = heard else { panic!("{heard:?}") };
    let mut progress = Reader::new(&answer[HEAD_BYTES..]);
    assert_eq!((progress.i32(), progress.i32()), (Ok(0), Ok(-1)));
    let release = |trial: &mut Trial<_>| trial.make(calls::TRANSFER_RELEASE, |w| w.name(name));
    assert_eq!(refusal(release(&mut trial)), None);
    assert_eq!(refusal(release(&mut trial)), Some(Refusal::Object));
}

/// The status that a call was answered with.
fn status(trial: &mut Trial<Gdma>, call: u16, words: &[u64]) -> i32 {
    let heard = trial.make(call, |w| words.iter().for_each(|word| w.u64(*word)));
    let Heard::Answer(answer) = heard else { panic!("{heard:?}") };
    assert_eq!(AnswerHead::split(&answer).expect("a head").0.refusal, None, "call {call}");
    Reader::new(&answer[HEAD_BYTES..]).i32().expect("a status")
}

#[test]
fn the_end_of_a_context_does_not_wait_for_its_transfers() {
    // On a busy machine a transfer may be over before its context is to end.
    const TRIALS: usize = 20;
    let mut busy = (0..TRIALS).map(|_| busy_at_the_end());
    assert!(busy.any(|times| times != Some(0)), "it waited");
}

/// How often a context with a transfer under way says at its end that it is busy; none: this was built
/// without Verilator.
fn busy_at_the_end() -> Option<u64> {
    let mut trial = trial();
    let name = |place| Name::new(place, 1);
    if init(&mut trial, name(0)) == Ok(-8) {
        return None;
    }
    let value = |place| name(place).value();
    for (place, id) in [(1, 1), (2, 2)] {
        assert_eq!(status(&mut trial, calls::NODE_BY_ID, &[value(0), id, value(place)]), 0);
        let half = POOL as u64 / 2;
        assert_eq!(
            status(&mut trial, calls::BUFFER_ALLOC, &[value(place), half, value(2 + place)]),
            0
        );
    }
    let (here, there, half) = (value(3), value(4), POOL as u64 / 2);
    let words = [there, 0, here, 0, half, 0, value(5)];
    assert_eq!(status(&mut trial, calls::TRANSFER_START, &words), 0);
    let mut busy = 0;
    while status(&mut trial, calls::EXIT, &[value(0)]) == 1 {
        busy += 1;
    }
    assert_eq!(refusal(trial.make(numbers::DETACH, |w| w.u64(HANDLE))), None, "it has ended");
    Some(busy)
}
