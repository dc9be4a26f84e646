//! Leases: grants move between software and the VFs of a (pretended) device
//! while they are called, and no call notices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfun::{Function, FunctionRequest, Location, Preference};
use vfun_manager::admin::{Ask, LeasesView, Reply};
use vfun_testdriver::{Mode, ledger};
use vfun_tests_local::{Stand, repo};

const PREEMPT: &[&str] = &["--leases", "fair", "--lease-interval-ms", "10", "--lease-hold-ms", "0"];

/// The test driver as its own hardware: what runs on a "VF" is another process.
fn offer(stand: &Stand, vfs: u32) {
    let path = repo().join("services/testdriver/function.toml");
    let text = std::fs::read_to_string(path).unwrap()
        + &format!(
            "hardware = {{ location = \"fpga-simulated\", library = \"libvfun_testdriver.so\", instances = {vfs}, leased = true }}\n"
        );
    stand.ask(&Ask::AddFunction { manifest: text, file: "test.toml".into() });
}

fn leases(stand: &Stand) -> LeasesView {
    match stand.ask(&Ask::Leases) {
        Reply::Leases(view) => view,
        other => panic!("{other:?}"),
    }
}

fn switches(stand: &Stand) -> u64 {
    leases(stand).devices.iter().flat_map(|d| &d.grants).map(|g| g.switches).sum()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn order(call: u64) -> [u8; 16] {
    let mut args = [0; 16];
    args[0] = Mode::Order as u8;
    args[8..].copy_from_slice(&call.to_le_bytes());
    args
}

/// One caller: its calls reach the driver in the order in which they were made,
/// each once; a state that is new knows of none. How many, how many states, how
/// many calls on a VF.
fn in_order(f: &Function, stop: &AtomicBool) -> (u64, u64, u64) {
    let (mut call, mut states, mut on_vf, mut before) = (0, 0, 0, vec![0; 5]);
    while !stop.load(Ordering::Relaxed) {
        call += 1;
        let w = words(&f.call(&order(call)).unwrap());
        assert_eq!(w[0], call, "the answer is to this call");
        if w[2] == 1 {
            assert_eq!(w[1], 0);
            states += 1;
        } else {
            assert_eq!((w[1], w[2]), (call - 1, before[2] + 1), "call {call} after {before:?}");
            assert_eq!(w[3..], before[3..], "of the same process and VF");
        }
        on_vf += u64::from(w[4] > 0);
        before = w;
    }
    (call, states, on_vf)
}

/// Several threads on one channel: each cell's ledger, which outlives services,
/// has each of its calls once.
fn in_ledger(f: &Function, channel: u64, thread: u64, stop: &AtomicBool) -> u64 {
    let mut call = 0;
    while !stop.load(Ordering::Relaxed) {
        call += 1;
        let number = thread << 32 | call;
        let w = words(&f.call(&ledger::arguments(channel, number, 0)).unwrap());
        assert_eq!(w[0], number);
        assert!(!w[3..].contains(&number), "call {number:x} ran twice: {w:x?}");
    }
    call
}

#[test]
fn a_thousand_switches_under_load_lose_repeat_and_reorder_no_call() {
    let stand = Stand::with(PREEMPT);
    offer(&stand, 1);
    let session = stand.connect("moving");
    let request = FunctionRequest::new("misbehave").cell_bytes(4096);
    let get = || session.negotiate(&request).unwrap().activate().unwrap();
    let (a, b, c) = (get(), get(), get());
    assert_eq!(a.info().location, Location::Software, "it begins in software");
    let stop = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(240);
    std::thread::scope(|scope| {
        let ordered = [&a, &b].map(|f| scope.spawn(|| in_order(f, &stop)));
        let stop = &stop;
        let c = &c;
        let ledgers: Vec<_> =
            (1..=2).map(|t| scope.spawn(move || in_ledger(c, 7, t, stop))).collect();
        let mut seen = 0;
        while seen < 1000 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
            seen = switches(&stand);
            let over =
                ordered.iter().any(|t| t.is_finished()) || ledgers.iter().any(|t| t.is_finished());
            if over {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let mut states = 0;
        for t in ordered {
            let (calls, new, on_vf) = t.join().unwrap();
            assert!(on_vf > 0 && on_vf < calls, "{on_vf} of {calls} calls on the VF");
            states += new;
            eprintln!("{calls} calls in order, by {new} states, {on_vf} on the VF");
        }
        let in_ledgers: u64 = ledgers.into_iter().map(|t| t.join().unwrap()).sum();
        eprintln!("{in_ledgers} calls in ledgers; {seen} switches");
        assert!(seen >= 1000, "{seen} switches:\n{:#?}", leases(&stand));
        assert!(states > 300, "{states} states were made");
    });
    for g in stand.grants() {
        assert_eq!((g.counters.errors, g.restarts), (0, 0), "{g:?}");
    }
}

#[test]
fn whoever_wants_the_hardware_itself_has_a_vf_of_its_own_and_keeps_it() {
    let stand = Stand::with(PREEMPT);
    offer(&stand, 1);
    let session = stand.connect("fixed");
    let hardware = FunctionRequest::new("misbehave").preference(Preference::Hardware);
    let fixed = session.negotiate(&hardware).unwrap().activate().unwrap();
    assert_eq!(words(&fixed.call(&order(1)).unwrap())[4], 1, "VF 0");
    let any = session.function("misbehave").unwrap();
    for call in 1..50 {
        assert_eq!(words(&any.call(&order(call)).unwrap())[4], 0, "in software");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(switches(&stand), 0);
    fixed.release().unwrap();
    stand.until("the other one gets it", |_| words(&any.call(&order(0)).unwrap())[4] == 1);
}

#[test]
fn a_service_that_dies_on_its_vf_leaves_its_grant_to_the_software() {
    let stand = Stand::with(&["--leases", "first", "--lease-interval-ms", "10"]);
    offer(&stand, 1);
    let session = stand.connect("loses");
    let f = session.function("misbehave").unwrap();
    let on_vf = |f: &Function| words(&f.call(&order(1)).unwrap())[4] == 1;
    stand.until("it gets the VF", |_| on_vf(&f));
    assert!(matches!(f.call(&[Mode::Crash as u8]), Err(vfun::Error::DriverCrashed)));
    assert!(!on_vf(&f), "in software at once");
    stand.until("it is tried again later", |_| on_vf(&f));
}

#[test]
fn a_manager_that_is_killed_while_grants_move_finds_each_where_it_is() {
    let mut stand = Stand::with(PREEMPT);
    offer(&stand, 1);
    let session = stand.connect("moving");
    let fs: Vec<_> = (0..2).map(|_| session.function("misbehave").unwrap()).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = fs.iter().map(|f| scope.spawn(|| in_order(f, &stop))).collect();
        for _ in 0..10 {
            let before = switches(&stand);
            stand.until("they move", |s| switches(s) > before + 4);
            stand.kill_vfund();
            stand.start_vfund();
        }
        stop.store(true, Ordering::Relaxed);
        for t in threads {
            let (calls, states, _) = t.join().unwrap();
            assert!(calls > 100 && states > 5, "{calls} calls, {states} states");
        }
    });
}
