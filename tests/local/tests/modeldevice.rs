//! The modelled device behind a real manager: what it is called, that its results
//! are software's, and what becomes of calls when it fails.

use vfun::{Error, Function, FunctionRequest, Location, Preference};
use vfun_admin::{Ask, Reply};
use vfun_modeldevice::{DEVICE_RESET, MANIFEST, Told, arguments, checksum, read_result};
use vfun_tests_local::Stand;

/// The manifest that ships, with little times and more settings.
fn offer(stand: &Stand, vfs: u32, settings: &str) {
    let head = MANIFEST.split("[settings]").next().unwrap();
    let head = head.replace("instances = 2", &format!("instances = {vfs}"));
    let manifest = format!("{head}[settings]\nsoftware_ns = 20000\nhardware_ns = 5000\n{settings}");
    stand.ask(&Ask::AddFunction { manifest, file: "test.toml".into() });
}

fn get(session: &vfun::Session, preference: Preference) -> Function {
    let request = FunctionRequest::new("model").preference(preference).cell_bytes(1 << 16);
    session.negotiate(&request).unwrap().activate().unwrap()
}

/// A call that is told where it ran; its result is checked.
fn told(f: &Function, number: u64) -> Result<Told, Error> {
    let data = number.to_le_bytes().repeat((number % 7) as usize);
    let result = f.call(&arguments(number, 0, true, &data))?;
    let (sum, told) = read_result(&result).expect("a result");
    assert_eq!(sum, checksum(number, 0, &data));
    Ok(told.expect("it asked"))
}

#[test]
fn it_is_said_to_be_simulated_and_computes_what_software_computes() {
    let stand = Stand::with(&["--leases", "none"]);
    offer(&stand, 2, "");
    match stand.ask(&Ask::Functions) {
        Reply::Functions { functions } => {
            let row = functions.iter().find(|f| f.name == "model").unwrap();
            assert_eq!(row.locations, ["software", "model (simulated) × 2"]);
        }
        other => panic!("{other:?}"),
    }
    let session = stand.connect("both");
    let both = [Preference::Hardware, Preference::Software].map(|p| get(&session, p));
    assert_eq!(both[0].info().location, Location::ModelSimulated);
    assert!(stand.grants().iter().any(|g| g.location == "model (simulated)"));
    for number in 0..200u64 {
        let data: Vec<u8> = (0..number * 97).map(|i| (i ^ number) as u8).collect();
        let args = arguments(number, 1, false, &data);
        let results = both.each_ref().map(|f| f.call(&args).unwrap());
        assert_eq!(results[0], results[1], "bit for bit");
        assert_eq!(results[0], checksum(number, 1, &data).to_le_bytes());
    }
    assert_eq!(told(&both[0], 3).unwrap().vf, Some(0));
    assert_eq!(told(&both[1], 3).unwrap().vf, None);
}

#[test]
fn a_lease_moves_under_calls_and_every_answer_is_the_right_one() {
    let stand =
        Stand::with(&["--leases", "fair", "--lease-interval-ms", "10", "--lease-hold-ms", "0"]);
    offer(&stand, 1, "");
    let session = stand.connect("moving");
    let fs = [0, 1].map(|_| get(&session, Preference::Any));
    let mut last: [Option<Told>; 2] = [None, None];
    let (mut moved, mut number) = (0, 0);
    stand.until("leases move forty times", |_| {
        for _ in 0..200 {
            number += 1;
            for (f, last) in fs.iter().zip(&mut last) {
                let now = told(f, number).unwrap();
                if let Some(last) = last.replace(now) {
                    // One more in the same state, or the first of a new one: nothing ran twice.
                    let fresh = now.calls == 1;
                    assert!(fresh || (now.calls, now.vf) == (last.calls + 1, last.vf), "{now:?}");
                    moved += u32::from(fresh);
                }
            }
        }
        moved >= 40
    });
    for (f, stats) in fs.iter().map(|f| (f, f.stats().unwrap())) {
        assert_eq!((stats.calls, stats.errors, stats.restarts), (number, 0, 0), "{f:?}");
    }
}

/// Two clients, whose services know nothing of each other, and one VF, whose memory
/// outlives both: a file, which services can use that are in no sandbox. A VF that
/// is found unscrubbed is refused, which would show as trouble.
#[test]
fn a_vf_that_goes_from_client_to_client_keeps_nothing_of_the_one_before() {
    let mut options = vec!["--leases", "fair", "--lease-interval-ms", "10", "--lease-hold-ms", "0"];
    for layer in ["mount", "landlock", "seccomp", "own-user"] {
        options.extend(["--without-layer", layer]);
    }
    let stand = Stand::with(&options);
    let board = stand.root().join("board");
    std::fs::write(&board, []).unwrap();
    offer(&stand, 1, &format!("board = \"{}\"\n", board.display()));
    stand.add_client("name = \"second\"\nkind = \"host\"\n").unwrap();
    let sessions =
        [stand.connect("first"), stand.options("second").client("second").connect().unwrap()];
    let fs = sessions.each_ref().map(|s| get(s, Preference::Any));
    let kept = || std::fs::read(&board).unwrap().iter().any(|byte| *byte != 0);
    let (mut turns, mut number, mut was_kept) = ([0, 0], 0, false);
    stand.until("each has had the VF, ten times", |s| {
        for _ in 0..50 {
            number += 1;
            for (f, turns) in fs.iter().zip(&mut turns) {
                let told = told(f, number).unwrap();
                *turns += u32::from(told.vf.is_some() && told.calls == 1);
            }
            was_kept |= kept();
        }
        match s.ask(&Ask::Leases) {
            Reply::Leases(view) => assert_eq!(view.devices[0].trouble, None),
            other => panic!("{other:?}"),
        }
        turns.iter().all(|n| *n >= 10)
    });
    assert!(was_kept, "the VF keeps what it computed, in that file");
    for f in fs {
        f.release().unwrap();
    }
    stand.until("nothing is left in it", |_| !kept());
}

#[test]
fn a_device_that_is_reset_fails_one_call_and_one_that_crashes_leaves_its_grant_to_software() {
    let stand = Stand::with(&["--leases", "first", "--lease-interval-ms", "10"]);
    offer(&stand, 1, "fault = \"reset\"\nfault_after = 3\n");
    let session = stand.connect("reset");
    let f = get(&session, Preference::Hardware);
    let codes: Vec<_> = (0..6)
        .map(|n| match told(&f, n) {
            Ok(told) => i64::try_from(told.calls).unwrap(),
            Err(Error::Driver { code, .. }) => -i64::from(code),
            Err(e) => panic!("{e}"),
        })
        .collect();
    // The reset scrubbed the VF: its calls are counted anew.
    assert_eq!(codes, [1, 2, 3, -i64::from(DEVICE_RESET), 1, 2]);
    f.release().unwrap();

    offer(&stand, 1, "fault = \"crash\"\nfault_after = 3\n");
    let f = get(&session, Preference::Any);
    let mut crashed = 0;
    stand.until("it crashed, and its calls went on in software", |_| match told(&f, 1) {
        Ok(told) => crashed > 0 && told.vf.is_none(),
        Err(Error::DriverCrashed) => {
            crashed += 1;
            false
        }
        Err(e) => panic!("{e}"),
    });
}

#[test]
fn a_device_that_is_lost_costs_a_leased_grant_no_call() {
    let stand = Stand::with(&["--leases", "first", "--lease-interval-ms", "10"]);
    offer(&stand, 1, "fault = \"lost\"\nfault_after = 20\n");
    let session = stand.connect("lost");
    let f = get(&session, Preference::Any);
    let (mut number, mut on_vf, mut after) = (0, 0, 0);
    stand.until("it was lost, and its calls went on in software", |_| {
        for _ in 0..10 {
            number += 1;
            match told(&f, number).unwrap().vf {
                Some(_) => on_vf += 1,
                None if on_vf > 0 => after += 1,
                None => {}
            }
        }
        after >= 50
    });
    assert_eq!(on_vf, 20, "as many as it was told to compute");
    let stats = f.stats().unwrap();
    assert_eq!((stats.calls, stats.errors), (number, 0));
}
