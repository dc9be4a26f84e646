//! A guest that writes what it likes: random calls, over a model of the library that checks each
//! object, and over the library itself.

use vfun_gdmaback::{Gdma, Native, model};
use vfun_remoting_host::fuzz::Fuzzer;
use vfun_remoting_host::trial::Trial;
use vfun_remoting_host::{Memory, Name};

/// Numbers of calls that a guest begins with (tools/apigen/apis/gdma/numbers.toml).
mod calls {
    pub const INIT: u16 = 16;
    pub const EXIT: u16 = 17;
    pub const NODE_LOCAL: u16 = 20;
    pub const BUFFER_ALLOC: u16 = 23;
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
