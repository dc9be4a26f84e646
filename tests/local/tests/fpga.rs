//! Functions with a simulated FPGA behind them: who gets a VF, who gets the
//! software, and what becomes of calls on a device that fails. There is no
//! hardware anywhere: the device is RTL that Verilator runs in the service.

use vfun::{Error, Function, FunctionRequest, Location, NackCode, Preference};
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, args, number, repo};

/// The manifest that ships, with some of its words replaced.
fn manifest(function: &str, replace: &[(&str, &str)]) -> String {
    let path = repo().join("services/fpga/functions").join(function).join("function.toml");
    let mut text = std::fs::read_to_string(path).expect("it ships");
    for (from, to) in replace {
        assert!(text.contains(from), "{text} has no {from}");
        text = text.replace(from, to);
    }
    text
}

fn offer(stand: &Stand, function: &str, replace: &[(&str, &str)]) {
    let file = "test.toml".into();
    stand.ask(&Ask::AddFunction { manifest: manifest(function, replace), file });
}

fn get(session: &vfun::Session, request: &FunctionRequest) -> Result<Function, Error> {
    session.negotiate(request)?.activate()
}

#[test]
fn the_first_client_has_the_vf_and_the_next_ones_the_software() {
    let stand = Stand::start();
    offer(&stand, "factorial", &[("instances = 4", "instances = 1")]);
    stand.add_client("name = \"second\"\nkind = \"host\"\n").unwrap();
    stand.add_client("name = \"without\"\nkind = \"host\"\nhardware = false\n").unwrap();
    let first = stand.connect("first");
    let second = stand.options("second").client("second").connect().unwrap();
    let without = stand.options("without").client("without").connect().unwrap();
    let any = FunctionRequest::new("factorial");
    let hardware = any.clone().preference(Preference::Hardware);
    let refused = |session, code, words: &str| match get(session, &hardware) {
        Err(Error::Refused(n)) => {
            assert_eq!((n.code, n.software_instead), (code, true), "{n}");
            assert!(n.to_string().contains(words), "{n}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    };

    // Software although the VF is free, for whoever may not have hardware or does not want it.
    assert_eq!(get(&without, &any).unwrap().info().location, Location::Software);
    refused(&without, NackCode::Denied, "may not use hardware");
    let wanted = any.clone().preference(Preference::Software);
    assert_eq!(get(&second, &wanted).unwrap().info().location, Location::Software);

    let on_vf = get(&first, &any).unwrap();
    let in_software = get(&second, &any).unwrap();
    assert_eq!(on_vf.info().location, Location::FpgaSimulated);
    assert_eq!(in_software.info().location, Location::Software);
    refused(&second, NackCode::DeviceBusy, "all 1 instances of 'factorial' on fpga (simulated)");
    for n in [0, 1, 5, 20, 51, 66, 300] {
        let results = [&on_vf, &in_software].map(|f| number(&f.call(&args(n, 2)).unwrap()));
        assert_eq!(results, [(1..=n).fold(1, u64::wrapping_mul); 2], "{n}!");
    }

    // Everybody who looks sees that it is simulated.
    let mut seen: Vec<_> = stand.grants().into_iter().map(|g| (g.client, g.location)).collect();
    seen.sort();
    assert_eq!(
        seen,
        [("host".into(), "fpga (simulated)".into()), ("second".into(), "software".into())]
    );
    match stand.ask(&Ask::Functions) {
        Reply::Functions { functions } => {
            let row = functions.iter().find(|f| f.name == "factorial").unwrap();
            assert_eq!(row.locations, ["software", "fpga (simulated) × 1"]);
        }
        other => panic!("{other:?}"),
    }

    // Given back, it is the next one's, once its service has scrubbed it and closed the channel.
    on_vf.release().unwrap();
    stand.until("the end of the grant", |s| s.grants().iter().all(|g| g.location == "software"));
    let again = get(&second, &hardware).unwrap();
    assert_eq!(again.info().location, Location::FpgaSimulated);
    assert_eq!(number(&again.call(&args(5, 1)).unwrap()), 120);
    refused(&first, NackCode::DeviceBusy, "are taken");
}

#[test]
fn channels_of_one_client_share_the_devices_vfs() {
    let folder = repo().join("services/fpga/functions");
    let stand = Stand::with(&["--functions", folder.to_str().unwrap()]);
    let session = stand.connect("many");
    for name in ["factorial", "fibonacci", "sha256"] {
        let request = FunctionRequest::new(name);
        let all: Vec<_> = (0..5).map(|_| get(&session, &request).unwrap()).collect();
        let locations: Vec<_> = all.iter().map(|f| f.info().location).collect();
        assert_eq!(locations[..4], [Location::FpgaSimulated; 4]);
        assert_eq!(locations[4], Location::Software);
        std::thread::scope(|scope| {
            for (i, f) in all.iter().enumerate() {
                scope.spawn(move || {
                    for k in 0..20 {
                        let n = 10 * i as u64 + k;
                        match name {
                            "factorial" => {
                                let want = (1..=n).fold(1, u64::wrapping_mul);
                                assert_eq!(number(&f.call(&args(n, 1)).unwrap()), want);
                            }
                            "fibonacci" => {
                                let (want, _) =
                                    (0..n).fold((0u64, 1u64), |(a, b), _| (b, a.wrapping_add(b)));
                                assert_eq!(number(&f.call(&args(n, 1)).unwrap()), want);
                            }
                            _ => {
                                assert_eq!(f.call(b"abc").unwrap()[..4], [0xba, 0x78, 0x16, 0xbf]);
                            }
                        }
                    }
                    f.rst().unwrap();
                });
            }
        });
        // Data of several blocks, read where the app wrote it: the same either way.
        if name == "sha256" {
            let data: Vec<u8> = (0..4000u32).map(|i| (i * i) as u8).collect();
            assert_eq!(all[0].call(&data).unwrap(), all[4].call(&data).unwrap());
        }
    }
}

#[test]
fn a_lease_moves_between_software_and_the_device_under_calls() {
    let stand =
        Stand::with(&["--leases", "fair", "--lease-interval-ms", "10", "--lease-hold-ms", "0"]);
    offer(&stand, "factorial", &[("instances = 4", "instances = 1, leased = true")]);
    offer(&stand, "sha256", &[("instances = 4", "instances = 1, leased = true")]);
    let session = stand.connect("moving");
    let factorials = [0, 1].map(|_| session.function("factorial").unwrap());
    let digests = [0, 1].map(|_| session.function("sha256").unwrap());
    let data: Vec<u8> = (0..1000u32).map(|i| (i * i) as u8).collect();
    let digest = digests[0].call(&data).unwrap();
    let (mut seen, mut n) = (std::collections::BTreeSet::new(), 0);
    stand.until("each of them has moved, ten times, and both have been seen in both places", |s| {
        for _ in 0..20 {
            n = (n + 1) % 300;
            let want = (1..=n).fold(1, u64::wrapping_mul);
            for f in &factorials {
                assert_eq!(number(&f.call(&args(n, 2)).unwrap()), want, "{n}!");
            }
            for f in &digests {
                assert_eq!(f.call(&data).unwrap(), digest);
            }
        }
        seen.extend(s.grants().into_iter().map(|g| (g.function, g.location)));
        match s.ask(&Ask::Leases) {
            Reply::Leases(view) => {
                assert_eq!(view.devices.iter().find_map(|d| d.trouble.clone()), None);
                let mut grants = view.devices.iter().flat_map(|d| &d.grants);
                grants.all(|g| g.switches >= 10) && seen.len() == 4
            }
            other => panic!("{other:?}"),
        }
    });
    for g in stand.grants() {
        assert_eq!((g.counters.errors, g.restarts), (0, 0), "{g:?}");
    }
}

#[test]
fn a_manifest_that_promises_more_vfs_than_the_device_has() {
    let stand = Stand::start();
    offer(&stand, "fibonacci", &[("instances = 4", "instances = 5")]);
    let session = stand.connect("greedy");
    let request = FunctionRequest::new("fibonacci");
    let _held: Vec<_> = (0..4).map(|_| get(&session, &request).unwrap()).collect();
    match get(&session, &request) {
        Err(Error::Refused(n)) => {
            assert!(n.to_string().contains("all 4 VFs of the simulated FPGA are in use"), "{n}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert_eq!(number(&_held[3].call(&args(10, 1)).unwrap()), 55, "the others go on");
}

#[test]
fn a_device_that_never_answers_fails_the_call_or_the_deadline_ends_it() {
    let stand = Stand::start();
    let patience = "fpga_answer_ms = 10000";
    offer(&stand, "factorial", &[(patience, "fpga_fault = \"cores\"\nfpga_answer_ms = 20")]);
    offer(&stand, "fibonacci", &[(patience, "fpga_fault = \"cores\"\nfpga_answer_ms = 600000")]);
    offer(&stand, "sha256", &[(patience, "fpga_fault = \"port\"")]);
    let session = stand.connect("patient");
    let f = session.function("factorial").unwrap();
    for _ in 0..2 {
        match f.call(&args(5, 1)) {
            Err(Error::Driver { code, sentence }) => {
                assert_eq!(code, 1);
                assert!(sentence.starts_with("the device did not answer in 20 ms"), "{sentence}");
            }
            other => panic!("{other:?}"),
        }
    }
    // The driver would wait for longer than the call may take.
    let short = std::time::Duration::from_millis(100);
    let f = get(&session, &FunctionRequest::new("fibonacci").deadline(short)).unwrap();
    assert_eq!(f.info().location, Location::FpgaSimulated);
    for _ in 0..2 {
        assert!(matches!(f.call(&args(5, 1)), Err(Error::Deadline)));
    }
    // A device whose port is dead is found when the channel opens.
    match get(&session, &FunctionRequest::new("sha256")) {
        Err(Error::Refused(n)) => assert!(n.to_string().contains("port does not answer"), "{n}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
}
