//! The back end of the API `gdma`: what a service does for a call beside the channel's own work, the
//! library's functions among it.

use crate::{CALLS, scenario, scenario_begins, scenario_ends};
use vfun_gdmaback::{Gdma, Native};
use vfun_remoting::{AnswerHead, CallHead, Name, Reader, numbers, put_record};
use vfun_remoting_host::Memory;
use vfun_remoting_host::trial::{Heard, Trial};

/// As in tools/apigen/apis/gdma/numbers.toml.
mod calls {
    pub const INIT: u16 = 16;
    pub const NODE_BY_ID: u16 = 21;
    pub const BUFFER_ALLOC: u16 = 23;
    pub const BUFFER_FREE: u16 = 24;
    pub const TRANSFER_START: u16 = 28;
    pub const TRANSFER_QUERY: u16 = 31;
    pub const TRANSFER_RELEASE: u16 = 32;
}

const POOL: usize = 1 << 20;
const HANDLE: u64 = 1 << 32;
const BUSY: i32 = 1;

fn name(place: usize, generation: u32) -> u64 {
    Name::new(place, generation).value()
}

const CONTEXT: usize = 0;
const HERE: usize = 1;
const THERE: usize = 2;
const FIRST_FREE: usize = 8;

/// A call, by its words.
fn call(number: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = CallHead { sequence: 0, call: number }.to_bytes().to_vec();
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes
}

/// The body of the answer to a call that succeeds, from its status on.
fn made(trial: &mut Trial<Gdma>, bytes: &[u8]) -> Vec<u8> {
    let Heard::Answer(answer) = trial.call(bytes) else { panic!("answered at once") };
    let (head, body) = AnswerHead::split(&answer).expect("a head");
    assert_eq!((head.refusal, head.failed), (None, 0));
    body.to_vec()
}

fn succeeds(trial: &mut Trial<Gdma>, number: u16, words: &[u64]) {
    let body = made(trial, &call(number, words));
    assert_eq!(Reader::new(&body).i32(), Ok(0), "call {number}: is there Verilator?");
}

fn open() -> Trial<Gdma> {
    let mut trial = Trial::over(Gdma::over(Native::linked()), 4096);
    let memory = vec![0u8; POOL + 4096].leak();
    let skip = memory.as_ptr().align_offset(4096);
    trial.lend(HANDLE, Memory { start: memory[skip..].as_mut_ptr(), len: POOL });
    succeeds(&mut trial, calls::INIT, &[1, HANDLE, name(CONTEXT, 1)]);
    for node in [HERE, THERE] {
        let words = [name(CONTEXT, 1), node as u64, name(node, 1)];
        succeeds(&mut trial, calls::NODE_BY_ID, &words);
        succeeds(&mut trial, calls::BUFFER_ALLOC, &[name(node, 1), 4096, name(2 + node, 1)]);
    }
    trial
}

/// Transfers that have ended, one for each call.
fn transfers(trial: &mut Trial<Gdma>, generation: u32) -> Vec<u64> {
    let names: Vec<_> = (0..CALLS).map(|n| name(FIRST_FREE + n, generation)).collect();
    for transfer in &names {
        let words = [name(2 + THERE, 1), 0, name(2 + HERE, 1), 0, 8, 0, *transfer];
        succeeds(trial, calls::TRANSFER_START, &words);
        let asked = call(calls::TRANSFER_QUERY, &[*transfer]);
        let busy = |body: Vec<u8>| Reader::new(&body[8..]).i32() == Ok(BUSY);
        while busy(made(trial, &asked)) {}
    }
    names
}

/// Releases that nobody waits for, in one call: a figure is of one of them.
fn records(trial: &mut Trial<Gdma>) {
    for generation in [1, 2] {
        let transfers = transfers(trial, generation);
        let mut batch = call(numbers::BATCH, &[]);
        for transfer in transfers {
            put_record(&mut batch, calls::TRANSFER_RELEASE, false, |w| w.u64(transfer));
        }
        scenario_begins("gdma, a collected record");
        assert!(made(trial, &batch).is_empty());
        if generation == 2 {
            scenario_ends("gdma, a collected record");
        }
    }
}

pub fn all() {
    let mut trial = open();
    let words = [name(CONTEXT, 1), THERE as u64, name(FIRST_FREE, 1)];
    let asked = call(calls::NODE_BY_ID, &words);
    scenario("gdma, a forwarded call", || drop(made(&mut trial, &asked)));
    records(&mut trial);
    let mut generation = 2;
    scenario("gdma, a buffer allocated and freed", || {
        generation += 1;
        let buffer = name(FIRST_FREE, generation);
        succeeds(&mut trial, calls::BUFFER_ALLOC, &[name(HERE, 1), 4096, buffer]);
        succeeds(&mut trial, calls::BUFFER_FREE, &[buffer]);
    });
}
