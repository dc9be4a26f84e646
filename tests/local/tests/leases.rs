//! Leases: grants move between software and the VFs of a (pretended) device
//! while they are called, and no call notices.

use crate::moving::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfun::{CellState, Function, FunctionRequest, Location, Preference};
use vfun_admin::Ask;
use vfun_testdriver::{Mode, ledger};
use vfun_tests_local::{Stand, Stop, programs, repo};

/// One caller: its calls reach the driver in the order in which they were made,
/// each once; a state that is new knows of none. How many, how many states, how
/// many calls on a VF.
fn in_order(f: &Function, stop: &AtomicBool) -> (u64, u64, u64) {
    let (mut call, mut states, mut on_vf, mut before) = (0, 0, 0, vec![0; 6]);
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
        assert_eq!(w[5], 0, "the VF was scrubbed before this state was let in");
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
        let end = Stop(stop);
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
        drop(end);
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
        let end = Stop(&stop);
        for _ in 0..10 {
            let before = switches(&stand);
            stand.until("they move", |s| switches(s) > before + 4);
            stand.kill_vfund();
            stand.start_vfund();
        }
        drop(end);
        for t in threads {
            let (calls, states, _) = t.join().unwrap();
            assert!(calls > 100 && states > 5, "{calls} calls, {states} states");
        }
    });
}

#[test]
fn a_device_that_is_lost_costs_no_call() {
    let stand = Stand::with(&["--leases", "first", "--lease-interval-ms", "10"]);
    offer(&stand, 1);
    let session = stand.connect("loses");
    let f = session.function("misbehave").unwrap();
    for turn in 1..=2 {
        stand.until("it gets the VF", |_| on_vf(&f));
        let mut lose = order(7);
        lose[0] = Mode::Lose as u8;
        let w = words(&f.call(&lose).unwrap());
        assert_eq!((w[0], w[4]), (7, 0), "the same call, run in software");
        assert!(!on_vf(&f), "the VF is left alone for a while");
        let view = leases(&stand);
        let off = &view.devices[0].kept_off;
        assert_eq!(off.iter().map(|k| (k.vf, &*k.client)).collect::<Vec<_>>(), [(0, "host")]);
        assert_eq!(off[0].times, turn, "twice in a row is twice as long");
        let trouble = view.devices[0].trouble.as_deref().unwrap();
        assert!(trouble.contains("VF 0") && trouble.contains("told to be gone"), "{trouble}");
    }
    assert_eq!(errors(&stand), 0);
    assert_eq!(stand.grants()[0].restarts, 0);
}

#[test]
fn a_vf_that_is_taken_away_during_a_call_is_left_after_it() {
    let stand = Stand::with(&["--leases", "first", "--lease-interval-ms", "10"]);
    offer(&stand, 1);
    let session = stand.connect("long");
    let f = session.function("misbehave").unwrap();
    stand.until("it gets the VF", |_| on_vf(&f));
    let mut slow = order(9);
    slow[0] = Mode::Slow as u8;
    slow[4..8].copy_from_slice(&300_000u32.to_le_bytes());
    let long = f.submit(&slow).unwrap();
    stand.until("it has begun", |_| long.state() != CellState::Wait);
    lease_by(&stand, vfun_leases::Policy::None);
    let w = words(&long.wait().unwrap());
    assert_eq!((w[0], w[4]), (9, 1), "it ended where it began");
    stand.until("it runs in software", |_| !on_vf(&f));
    assert_eq!(errors(&stand), 0);
}

#[test]
fn calls_that_fail_win_no_vf() {
    let mut policy = PREEMPT.to_vec();
    policy[1] = "activity";
    policy[3] = "50";
    let stand = Stand::with(&policy);
    offer(&stand, 1);
    let session = stand.connect("activity");
    let get = || session.function("misbehave").unwrap();
    let (busy, useful) = (get(), get());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wrong = [0; 5];
            wrong[0] = Mode::Code as u8;
            wrong[1] = 1;
            while !stop.load(Ordering::Relaxed) {
                assert!(busy.call(&wrong).is_err());
            }
        });
        let _end = Stop(&stop);
        stand.until("the VF goes to who does something", |_| {
            std::thread::sleep(Duration::from_millis(1));
            on_vf(&useful)
        });
        // It may lose it for want of calls, where it has no processor for an
        // interval; the other one does not win it.
        let had = busy.info().grant;
        let switches_of = || {
            let all = leases(&stand).devices.into_iter().flat_map(|d| d.grants);
            all.into_iter().find(|g| g.number == had).expect("it competes").switches
        };
        let before = switches_of();
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(1));
            on_vf(&useful);
        }
        assert_eq!(switches_of(), before, "{:#?}", leases(&stand));
    });
}

#[test]
fn calls_beyond_the_cap_win_no_vf() {
    // One calls every millisecond and has the VF; the other one calls without a pause.
    let beside_a_busier_one = |cap: &[&str], then: &dyn Fn(&Stand, &str, &str)| {
        let mut options = vec!["--leases", "activity", "--lease-interval-ms", "200"];
        options.extend(["--lease-hold-ms", "0"].iter().chain(cap));
        let stand = Stand::with(&options);
        offer(&stand, 1);
        let sessions = ["steady", "busy"].map(|app| stand.connect(app));
        let fs = sessions.each_ref().map(|s| s.function("misbehave").unwrap());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let call = |f: &Function, pause: Duration| {
                while !stop.load(Ordering::Relaxed) {
                    on_vf(f);
                    std::thread::sleep(pause);
                }
            };
            let [steady, busy] = &fs;
            scope.spawn(move || call(steady, Duration::from_millis(1)));
            stand.until("the steady one has it", |s| lease(s, "steady").vf.is_some());
            stand.until("it is known by its rate", |s| lease(s, "steady").per_s > 4.0);
            scope.spawn(move || call(busy, Duration::ZERO));
            let end = Stop(&stop);
            then(&stand, "steady", "busy");
            drop(end);
        });
    };
    beside_a_busier_one(&[], &|stand, _, busy| {
        stand.until("the busier one wins it", |s| lease(s, busy).vf.is_some());
    });
    beside_a_busier_one(&["--lease-rate-cap", "5"], &|stand, steady, busy| {
        stand.until("its rate is at the cap", |s| lease(s, busy).per_s > 4.9);
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(200));
            assert!(lease(stand, steady).vf.is_some(), "{:#?}", leases(stand));
            assert!(lease(stand, busy).per_s <= 5.0);
        }
    });
}

#[test]
fn a_client_holds_as_many_vfs_as_it_may_and_a_priority_counts() {
    let mut options = PREEMPT.to_vec();
    options[1] = "activity";
    options.extend(["--lease-client-vfs", "1"]);
    let stand = Stand::with(&options);
    offer(&stand, 1);
    stand.add_client("name = \"second\"\nkind = \"host\"\n").unwrap();
    let policy = "[client.second]\nlease_priority = 10\n";
    stand.ask(&Ask::SetPolicy { text: policy.into(), file: "test.toml".into() });
    let first = stand.connect("first").function("misbehave").unwrap();
    let session = stand.options("second").client("second").connect().unwrap();
    let second = session.function("misbehave").unwrap();
    // As many calls of each, so that only the priority tells them apart.
    let both = || {
        let got = (on_vf(&first), on_vf(&second));
        std::thread::sleep(Duration::from_micros(500));
        got
    };
    stand.until("the VF is the second one's", |_| both() == (false, true));
    drop((first, second));
    // With another VF the first one has one as well; with a third, nobody has two.
    // Who was granted it before stays with what it was then.
    offer(&stand, 3);
    let first = stand.connect("first").function("misbehave").unwrap();
    let second = session.function("misbehave").unwrap();
    let both = || {
        let got = (on_vf(&first), on_vf(&second));
        std::thread::sleep(Duration::from_micros(500));
        got
    };
    let third = session.function("misbehave").unwrap();
    stand.until("each client has one", |s| {
        on_vf(&third);
        let view = leases(s);
        let holders = view.devices[0].grants.iter().filter(|g| g.vf.is_some()).count();
        both();
        view.devices[0].vfs == 3 && holders == 2
    });
    for _ in 0..100 {
        on_vf(&third);
        both();
        let view = leases(&stand);
        let of = |client: &str| {
            let rows = view.devices[0].grants.iter();
            rows.filter(|g| g.client == client && g.vf.is_some()).count()
        };
        assert!(of("second") <= 1, "{view:#?}");
    }
}

#[test]
fn what_a_manifest_promises_and_a_driver_lacks_is_named_and_calls_go_on() {
    let stand = || Stand::with(&["--leases", "first", "--lease-interval-ms", "10"]);
    let trouble = |stand: &Stand, words: &str| {
        let session = stand.connect("lacks");
        let f = session.function("misbehave").unwrap();
        stand.until("the trouble is shown", |s| {
            assert!(!on_vf(&f), "in software");
            let view = leases(s);
            let said = view.devices.first().and_then(|d| d.trouble.clone());
            said.is_some_and(|t| t.contains(words))
        });
        assert_eq!(errors(stand), 0);
    };
    // A library that is no such driver any more: replaced after it was added.
    let other = stand();
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("driver.so");
    let put = |name: &str| std::fs::copy(programs().join(name), &library).unwrap();
    put("libvfun_testdriver.so");
    offer_with(&other, library.to_str().unwrap(), 1, "");
    put("libvfun_fn_null.so");
    trouble(&other, "null");
    // More VFs than the device has.
    let fewer = stand();
    let path = repo().join("services/testdriver/function.toml");
    let text = std::fs::read_to_string(path).unwrap()
        + "hardware = { location = \"fpga-simulated\", library = \"libvfun_testdriver.so\", instances = 2, leased = true }\nsettings = { vfs = 0 }\n";
    fewer.ask(&Ask::AddFunction { manifest: text, file: "test.toml".into() });
    trouble(&fewer, "there is no VF 0");
}

#[test]
fn functions_of_one_board_share_its_vfs() {
    let stand = Stand::with(&["--leases", "first", "--lease-interval-ms", "10"]);
    offer_with(&stand, "libvfun_testdriver.so", 1, ", device = \"board\"");
    let path = repo().join("functions/null/function.toml");
    let text = std::fs::read_to_string(path).unwrap()
        + "\nhardware = { location = \"fpga-simulated\", library = \"libvfun_fn_null.so\", instances = 1, leased = true, device = \"board\" }\n";
    stand.ask(&Ask::AddFunction { manifest: text, file: "null.toml".into() });
    let session = stand.connect("board");
    let first = session.function("misbehave").unwrap();
    stand.until("it gets the VF", |_| on_vf(&first));
    let second = session.function("null").unwrap();
    let at = |name: &str| {
        let grants = stand.grants();
        grants.iter().find(|g| g.function == name).map(|g| g.location.clone())
    };
    for _ in 0..20 {
        second.call(&[]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(at("null").unwrap(), "software", "the board's only VF is taken");
    }
    let view = leases(&stand);
    assert_eq!((view.devices.len(), view.devices[0].function.as_str()), (1, "board"));
    first.release().unwrap();
    stand.until("the other function has it", |_| {
        second.call(&[]).unwrap();
        at("null").unwrap() != "software"
    });
}

#[test]
fn whoever_comes_and_goes_before_it_moves_leaves_no_descriptor() {
    // No decision falls into this test: nothing may wait for one.
    let stand = Stand::with(&["--leases", "first", "--lease-interval-ms", "600000"]);
    offer(&stand, 1);
    let session = stand.connect("hasty");
    let open = |stand: &Stand| {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", stand.pid())).unwrap();
        let is_pipe = |e: &std::fs::DirEntry| {
            std::fs::read_link(e.path()).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"))
        };
        fds.flatten().filter(is_pipe).count()
    };
    // Both services are there.
    let f = session.function("misbehave").unwrap();
    stand.until("it is on the VF", |_| on_vf(&f));
    drop(f);
    stand.until("it is gone", |s| s.grants().is_empty());
    let before = open(&stand);
    for _ in 0..100 {
        drop(session.function("misbehave").unwrap());
        stand.until("it is gone", |s| s.grants().is_empty());
    }
    stand.until("nothing is left", |s| open(s) <= before);
}
