//! A guest that writes what it likes: random calls over a model of a module that checks each handle
//! and each pointer; and calls that a guest's library never makes.

use vfun_pkcs11back::{Pkcs11, Slots, model};
use vfun_remoting::{AnswerHead, HEAD_BYTES, NOWHERE, Reader, Records, Refusal, Writer, numbers};
use vfun_remoting_host::Name;
use vfun_remoting_host::fuzz::{Dice, Fuzzer, Tally};
use vfun_remoting_host::trial::{Heard, Trial};

mod shapes;

/// Numbers of calls (tools/apigen/apis/pkcs11/numbers.toml).
mod calls {
    pub const GET_SLOT_LIST: u16 = 20;
    pub const GET_SLOT_INFO: u16 = 21;
    pub const WAIT: u16 = 23;
    pub const OPEN_SESSION: u16 = 29;
    pub const CLOSE_SESSION: u16 = 30;
    pub const CLOSE_ALL: u16 = 31;
    pub const CREATE: u16 = 37;
    pub const GET_ATTRIBUTE: u16 = 41;
    pub const FIND_INIT: u16 = 43;
    pub const FIND: u16 = 44;
    pub const ENCRYPT_INIT: u16 = 46;
}

/// Calls of each run; `VFUN_FUZZ_CALLS` says another number.
const CALLS: u64 = 20_000;
const CELL: usize = 69632;
const OK: u64 = 0;
/// Truth values in answers: an object is of the token; a session was the last one.
const NO: u64 = 0;
const YES: u64 = 1;
/// Tests of one model at a time: it counts sessions.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn one() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn name(place: usize) -> u64 {
    Name::new(place, 1).value()
}

fn trial(slots: Slots) -> Trial<Pkcs11> {
    Trial::over(Pkcs11::over(model::NATIVE, slots), CELL)
}

/// Words of a call with a secret have zeros behind them.
fn padded(words: &[u64]) -> Vec<u64> {
    let mut all = words.to_vec();
    all.resize(all.len().max(7), 0);
    all
}

fn run(seed: u64, calls: u64) -> Tally {
    let mut trial = trial(Slots::All);
    let mut fuzzer = Fuzzer::new(Dice::new(seed), shapes::API, &[]);
    let before = model::deep_calls();
    let tally = fuzzer.run(&mut trial, calls);
    let deep = model::deep_calls() - before;
    drop(trial);
    let reached = tally.reached();
    assert!(deep * 10 > calls, "of {calls} calls {reached} were made, {deep} with a session");
    eprintln!("seed {seed}: of {calls} calls {reached} were made, {deep} with a session");
    tally
}

#[test]
fn no_call_of_a_guest_reaches_a_handle_or_a_pointer_that_is_not_there() {
    let _one = one();
    let calls = std::env::var("VFUN_FUZZ_CALLS").ok().and_then(|n| n.parse().ok());
    let seeds = 8;
    let mut tally = Tally::default();
    for seed in 1..=seeds {
        tally = tally.and(run(seed, calls.unwrap_or(CALLS) / seeds));
    }
    assert_eq!(tally.never_made(&shapes::API), [""; 0], "{tally:?}");
    assert_eq!(model::sessions(), 0, "what a guest left behind is closed with its connection");
}

/// The status and the rest of an answer, or why the module was not asked.
fn made(
    trial: &mut Trial<Pkcs11>,
    call: u16,
    write: impl FnOnce(&mut Writer<'_>),
) -> Result<(u64, Vec<u64>), Refusal> {
    let Heard::Answer(answer) = trial.make(call, write) else { panic!("answered at once") };
    let (head, _) = AnswerHead::split(&answer)?;
    head.refusal.map_or(Ok(()), Err)?;
    let mut body = Reader::new(&answer[HEAD_BYTES..]);
    let status = body.u64()?;
    Ok((status, std::iter::from_fn(|| body.u64().ok()).collect()))
}

fn words(all: &[u64]) -> impl FnOnce(&mut Writer<'_>) {
    move |w| all.iter().for_each(|word| w.u64(*word))
}

fn open(trial: &mut Trial<Pkcs11>, place: usize) {
    let opened = made(trial, calls::OPEN_SESSION, words(&[1, 4, name(place)]));
    assert_eq!(opened, Ok((OK, vec![])));
}

#[test]
fn a_parameter_that_its_mechanism_does_not_have_never_reaches_the_module() {
    let _one = one();
    let mut trial = trial(Slots::All);
    open(&mut trial, 0);
    let mut begin = |mechanism: &[u64]| {
        let all: Vec<u64> = [name(0)].into_iter().chain(mechanism.to_vec()).chain([0]).collect();
        made(&mut trial, calls::ENCRYPT_INIT, words(&all))
    };
    const NO_OBJECT: u64 = 0x82;
    let reached = Ok((NO_OBJECT, vec![]));
    assert_eq!(begin(&[0x1081, NOWHERE]), reached, "ECB has none");
    assert_eq!(begin(&[0x1081, 8, 1]), Err(Refusal::Argument), "but no bytes");
    assert_eq!(begin(&[0x1082, 16, 1, 2]), reached, "CBC's block");
    assert_eq!(begin(&[0x1082, 24, 1, 2, 3]), Err(Refusal::Argument));
    assert_eq!(begin(&[0x8000_1234, 8, 1]), Err(Refusal::Argument), "a vendor's");
    // A struct of GCM as plain bytes, which would be pointers.
    let raw = begin(&[0x1087, 48, 0x7FFF_0000_0000, 12, 96, 0x7FFF_0000_0000, 8, 128]);
    assert_eq!(raw, Err(Refusal::Malformed));
    assert_eq!(begin(&[0x1087, 48, 8, 1, 96, NOWHERE, 128]), reached);
    assert_eq!(begin(&[0x1087, 40, 8, 1, 96, NOWHERE]), Err(Refusal::Argument));
}

#[test]
fn a_template_in_a_template_never_reaches_the_module() {
    let _one = one();
    let mut trial = trial(Slots::All);
    open(&mut trial, 0);
    for (tag, expected) in [
        (0x4000_0211, Err(Refusal::Argument)),
        (0x8000_0001, Err(Refusal::Argument)),
        (0x4000_0600, Ok(OK)),
    ] {
        let create = padded(&[name(0), 1, tag, 8, 0x7FFF_0000_0000, name(1)]);
        // Whether the object is of the token depends on what other tests left in the model.
        let status = made(&mut trial, calls::CREATE, words(&create)).map(|(status, _)| status);
        assert_eq!(status, expected, "{tag:#x}");
        let get = padded(&[name(0), 0, 1, tag, 64]);
        let got = made(&mut trial, calls::GET_ATTRIBUTE, words(&get));
        assert_eq!(got.is_err(), expected.is_err(), "{tag:#x}");
    }
    let much = padded(&[name(0), name(1), 2, 0, 1 << 19, 0, (1 << 19) + 8]);
    assert_eq!(made(&mut trial, calls::GET_ATTRIBUTE, words(&much)), Err(Refusal::Limit));
}

#[test]
fn attributes_that_can_be_told_are_told() {
    let _one = one();
    let mut trial = trial(Slots::All);
    open(&mut trial, 0);
    made(&mut trial, calls::CREATE, words(&padded(&[name(0), 0, name(1)]))).expect("made");
    // Told, its length alone, sensitive, too small.
    let get = [name(0), name(1), 4, 0, 40, 3, NOWHERE, 1, 40, 7, 8];
    let (status, rest) = made(&mut trial, calls::GET_ATTRIBUTE, words(&get)).expect("made");
    let bytes = 0x5A5A_5A5A_5A5A_5A5A;
    assert_eq!(status, 0x150);
    assert_eq!(rest, [40, bytes, bytes, bytes, bytes, bytes, 40, NOWHERE, NOWHERE]);
}

#[test]
fn a_found_object_has_one_name() {
    let _one = one();
    let mut trial = trial(Slots::All);
    open(&mut trial, 0);
    made(&mut trial, calls::CREATE, words(&padded(&[name(0), 0, name(1)]))).expect("made");
    let mut find = |first: usize| {
        made(&mut trial, calls::FIND_INIT, words(&[name(0), NOWHERE])).expect("made");
        let all: Vec<u64> = (first..first + 64).map(name).collect();
        let ask: Vec<u64> = [name(0), 64].into_iter().chain(all).collect();
        made(&mut trial, calls::FIND, words(&ask)).expect("made").1
    };
    let once = find(10);
    assert!(once.contains(&name(1)), "the created one keeps its name");
    assert_eq!(once, find(100));
    assert_eq!(
        made(&mut trial, calls::FIND, words(&[name(0), 2, name(200), name(200)])),
        Err(Refusal::Object)
    );
}

/// How many objects a program finds, with names of places from one on.
fn found(trial: &mut Trial<Pkcs11>, places: usize) -> usize {
    made(trial, calls::FIND_INIT, words(&[name(0), NOWHERE])).expect("made");
    let mut all = 0;
    loop {
        let first = places + all;
        let ask: Vec<u64> = [name(0), 64].into_iter().chain((first..).take(64).map(name)).collect();
        let (status, names) = made(trial, calls::FIND, words(&ask)).expect("made");
        assert_eq!((status, names[0]), (OK, names.len() as u64 - 1));
        all += names.len() - 1;
        if names.len() <= 64 {
            return all;
        }
    }
}

#[test]
fn objects_of_sessions_are_their_own_programs() {
    let _one = one();
    let (mut mine, mut others) = (trial(Slots::All), trial(Slots::All));
    open(&mut mine, 0);
    open(&mut others, 0);
    let before = found(&mut others, 10);
    assert_eq!(found(&mut mine, 10), before);
    for place in 1..=4 {
        let create = padded(&[name(0), 0, name(place)]);
        made(&mut mine, calls::CREATE, words(&create)).expect("made");
    }
    // The model says that every second one is of the token.
    assert_eq!(found(&mut mine, 30_000), before + 4);
    assert_eq!(found(&mut others, 30_000), before + 2);
}

#[test]
fn slots_that_are_not_a_clients_are_not_there() {
    let _one = one();
    let mut trial = trial(Slots::Named(vec!["2".into(), "slot:3".into()]));
    let list = |trial: &mut Trial<Pkcs11>, asked| {
        made(trial, calls::GET_SLOT_LIST, words(&[0, asked])).expect("made")
    };
    assert_eq!(list(&mut trial, NOWHERE), (OK, vec![2]));
    assert_eq!(list(&mut trial, 1), (0x150, vec![2]));
    assert_eq!(list(&mut trial, 2), (OK, vec![2, 2, 3]));
    for (slot, status) in [(1, 3), (2, OK), (3, OK), (9, 3)] {
        let info = made(&mut trial, calls::GET_SLOT_INFO, words(&[slot])).expect("made");
        assert_eq!(info.0, status, "slot {slot}");
        let open = made(&mut trial, calls::OPEN_SESSION, words(&[slot, 4, name(slot as usize)]));
        assert_eq!(open.expect("made").0, status, "slot {slot}");
    }
}

#[test]
fn a_program_closes_its_own_sessions_only() {
    let _one = one();
    let (mut mine, mut others) = (trial(Slots::All), trial(Slots::All));
    open(&mut mine, 0);
    open(&mut mine, 1);
    open(&mut others, 0);
    assert_eq!(model::sessions(), 3);
    // The model says that each session is with slot 1.
    assert_eq!(made(&mut mine, calls::CLOSE_ALL, words(&[2])), Ok((OK, vec![0, NO])));
    let closed = made(&mut mine, calls::CLOSE_ALL, words(&[1]));
    assert_eq!(closed, Ok((OK, vec![2, name(0), name(1), YES])), "the last ones");
    assert_eq!(model::sessions(), 1);
    const NO_SESSION: u64 = 0xB3;
    let close = |trial: &mut Trial<Pkcs11>| made(trial, calls::CLOSE_SESSION, words(&[name(0)]));
    assert_eq!(close(&mut mine), Ok((NO_SESSION, vec![])), "another's session of this name");
    assert_eq!(close(&mut others), Ok((OK, vec![YES])), "its last one");
    open(&mut mine, 0);
    let Heard::Answer(_) = mine.make(numbers::END, |_| ()) else { panic!("answered") };
    assert_eq!(model::sessions(), 0, "the end of a program");
}

#[test]
fn a_connection_has_so_many_sessions() {
    let _one = one();
    let mut trial = trial(Slots::All);
    (0..1024).for_each(|place| open(&mut trial, place));
    let more = made(&mut trial, calls::OPEN_SESSION, words(&[1, 4, name(2000)]));
    assert_eq!(more, Err(Refusal::Limit));
}

/// The slots of events that a program was told of, by its open calls.
fn told(trial: &mut Trial<Pkcs11>) -> Vec<u64> {
    let answers = trial.events();
    let bodies = answers.iter().map(|answer| &answer.as_ref().expect("events")[HEAD_BYTES..]);
    let slot = |record: Result<vfun_remoting::Record<'_>, Refusal>| {
        let record = record.expect("well formed");
        let mut body = Reader::new(record.body);
        assert_eq!((record.call, body.u64()), (calls::WAIT, Ok(OK)));
        body.u64().expect("a slot")
    };
    bodies.flat_map(|body| Records::new(body).map(slot).collect::<Vec<_>>()).collect()
}

#[test]
fn each_program_is_told_of_a_slot_s_event_and_no_thread_of_a_connection_waits() {
    let _one = one();
    let slots = || Slots::Named(vec!["2".into(), "3".into()]);
    let (mut mine, mut others) = (trial(slots()), trial(slots()));
    const NO_EVENT: u64 = 8;
    let ask = |trial: &mut Trial<Pkcs11>, waits: u64| {
        made(trial, calls::WAIT, words(&[waits])).expect("made")
    };
    assert_eq!(mine.make(numbers::EVENTS, |_| ()), Heard::Open);
    assert_eq!((ask(&mut mine, 1), ask(&mut others, 0)), ((NO_EVENT, vec![]), (NO_EVENT, vec![])));
    model::plug(1);
    model::plug(2);
    let began = std::time::Instant::now();
    let heard = loop {
        let heard = told(&mut mine);
        if !heard.is_empty() {
            break heard;
        }
        assert!(began.elapsed().as_secs() < 60, "nobody asks the module");
        std::thread::yield_now();
    };
    assert_eq!(heard, [2], "and not the slot that is not the client's");
    assert_eq!(ask(&mut mine, 0), (NO_EVENT, vec![]), "told once");
    assert_eq!(ask(&mut others, 0), (OK, vec![2]), "another program's is its own");
    assert_eq!(ask(&mut others, 0), (NO_EVENT, vec![]));
    // One that happened before is answered at once, also where the program would wait.
    model::plug(3);
    assert_eq!(ask(&mut others, 1), (OK, vec![3]));
    assert_eq!(made(&mut mine, calls::WAIT, words(&[2])), Err(Refusal::Malformed));
}
