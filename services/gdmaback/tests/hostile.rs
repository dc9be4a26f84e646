//! A guest that writes what it likes: random calls, over a model of the library that checks each
//! object, and over the library itself.

use vfun_gdmaback::{Gdma, Native, model};
use vfun_remoting::{
    AnswerHead, CallHead, HEAD_BYTES, Reader, Records, Refusal, numbers, put_record,
};
use vfun_remoting_host::fuzz::Fuzzer;
use vfun_remoting_host::trial::{Heard, Trial};
use vfun_remoting_host::{Memory, Name};

/// Numbers of calls that a guest begins with (tools/apigen/apis/gdma/numbers.toml).
mod calls {
    pub const INIT: u16 = 16;
    pub const EXIT: u16 = 17;
    pub const NODE_LOCAL: u16 = 20;
    pub const BUFFER_ALLOC: u16 = 23;
    pub const TRANSFER_START: u16 = 28;
}

/// Calls of each run; `VFUN_FUZZ_CALLS` says another number.
const CALLS: u64 = 20_000;
const POOL: usize = 1 << 20;

fn how_many() -> u64 {
    std::env::var("VFUN_FUZZ_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(CALLS)
}

/// Memory for pools; a context may still use it when its test fails.
fn pool() -> Memory {
    let memory = vec![0u8; POOL + 4096].leak();
    let skip = memory.as_ptr().align_offset(4096);
    Memory { start: memory[skip..].as_mut_ptr(), len: POOL }
}

fn run(native: Native, seed: u64, calls: u64) {
    let mut trial = Trial::over(Gdma::over(native), 4096);
    let handles = [1 << 32, 2 << 32];
    handles.into_iter().for_each(|handle| trial.lend(handle, pool()));
    // What the host does, most of it often, the end of a context seldom; and a few numbers beyond.
    let often = (16..25).chain([28, 31, 32]).filter(|n| *n != calls::EXIT);
    let numbers: Vec<u16> = often.cycle().take(48).chain([14, 25, 40, calls::EXIT]).collect();
    // The version of the interface is liked as well: without it nothing begins.
    let mut fuzzer = Fuzzer::new(seed, &numbers, &[handles[0], handles[1], 1]);
    let name = |place| Name::new(place, 1).value();
    for (place, pool) in [(0, handles[0]), (1, handles[1])] {
        fuzzer.teach(calls::INIT, &[1, pool, name(place)]);
        fuzzer.teach(calls::NODE_LOCAL, &[name(place), name(2 + place)]);
        fuzzer.teach(calls::BUFFER_ALLOC, &[name(2 + place), 4096, name(4 + place)]);
    }
    let tally = fuzzer.run(&mut trial, calls);
    let started = std::time::Instant::now();
    drop(trial);
    assert!(tally.made * 50 > tally.calls, "almost all calls never reached the library: {tally:?}");
    eprintln!("seed {seed}: {tally:?}, ended in {:?}", started.elapsed());
}

#[test]
fn no_call_of_a_guest_reaches_an_object_that_does_not_live() {
    let seeds = 8;
    for seed in 1..=seeds {
        run(model::native(), seed, how_many() / seeds);
    }
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
    assert_eq!((body.name(), body.i32(), body.bool()), (Ok(name), Ok(-1), Ok(false)));
}
