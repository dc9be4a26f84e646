//! What dies takes nothing with it, and every end has a name.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use vfun::{BreakReason, CellState, Error, FunctionRequest, NackCode};
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, number, programs};

#[test]
fn each_misdeed_of_a_driver_is_told_apart() {
    let stand = Stand::start();
    let session = stand.connect("misdeeds");
    let f = session.function("misbehave").unwrap();
    let ok = || assert_eq!(f.call(&[0, 1, 2, 3]).unwrap(), [1, 2, 3]);
    ok();
    match f.call(&[3, 42, 0, 0, 0]) {
        Err(Error::Driver { code: 42, sentence }) => {
            assert!(sentence.starts_with("the test driver was told to fail"), "{sentence}");
        }
        other => panic!("{other:?}"),
    }
    ok();
    assert!(matches!(f.call(&[4]), Err(Error::ResultTooLarge)));
    ok();
    assert!(f.call(&[5]).is_err(), "a panic is an error");
    ok();
    assert!(matches!(f.call(&[1]), Err(Error::DriverCrashed)));
    ok();
    assert!(matches!(f.call(&[9]), Err(Error::DriverCrashed)));
    ok();
    let began = Instant::now();
    assert!(matches!(f.call(&[2]), Err(Error::Deadline)), "the manifest says 2 s");
    assert!(began.elapsed() >= Duration::from_secs(2));
    ok();
    assert!(stand.grants()[0].restarts >= 3);
}

#[test]
fn calls_posted_behind_a_crash_are_served_once_by_the_next_service() {
    let stand = Stand::start();
    let session = stand.connect("behind");
    let f = session.function("misbehave").unwrap();
    let slow = f.submit(&[6, 100, 0, 0, 0]).unwrap();
    let crash = f.submit(&[1]).unwrap();
    let behind: Vec<_> = (0..10u8).map(|i| f.submit(&[0, i]).unwrap()).collect();
    assert!(slow.wait().is_ok());
    assert!(matches!(crash.wait(), Err(Error::DriverCrashed)));
    for (i, call) in behind.into_iter().enumerate() {
        assert_eq!(call.wait().unwrap(), [i as u8]);
    }
    // The state died with the service, so the count says how many calls the
    // second one has seen: ten, and this one.
    assert_eq!(number(&f.call(&[7]).unwrap()), 11);
}

#[test]
fn a_crash_loop_breaks_its_channel_and_no_other() {
    let stand = Stand::start();
    let session = stand.connect("loop");
    let f = session.function("misbehave").unwrap();
    let echo = session.function("echo").unwrap();
    let mut crashes = 0;
    let broken = loop {
        match f.call(&[1]) {
            Err(Error::DriverCrashed) => crashes += 1,
            Err(Error::Broken(reason)) => break reason,
            other => panic!("{other:?}"),
        }
        assert!(crashes < 20);
    };
    assert_eq!(broken, BreakReason::CrashLoop);
    assert_eq!(echo.call(b"fine").unwrap(), b"fine");
    f.release().unwrap();
    // Not at once: whoever asks is told when.
    match session.function("misbehave") {
        Err(Error::Refused(n)) => {
            assert_eq!(n.code, NackCode::ServiceFailed);
            assert!(n.sentence.contains("it is tried again in"), "{n}");
        }
        other => panic!("{:?}", other.map(drop)),
    }
    let mut again = None;
    stand.until("another try", |_| {
        again = session.function("misbehave").ok();
        again.is_some()
    });
    assert_eq!(again.unwrap().call(&[0, 5]).unwrap(), [5], "and may be had again");
}

#[test]
fn a_killed_service_fails_the_call_it_computed_and_comes_back() {
    let stand = Stand::start();
    let session = stand.connect("killed");
    let f = session.function("misbehave").unwrap();
    let pid = stand.grants()[0].pid.expect("it runs");
    let call = f.submit(&[6, 200, 0, 0, 0]).unwrap();
    stand.until("busy", |_| call.state() == CellState::Busy);
    let raw = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
    rustix::process::kill_process(raw, rustix::process::Signal::KILL).expect("it is there");
    assert!(matches!(call.wait(), Err(Error::DriverCrashed)));
    assert_eq!(f.call(&[0, 7]).unwrap(), [7]);
    assert_ne!(stand.grants()[0].pid, Some(pid));
}

#[test]
fn with_a_dead_manager_calls_go_on_and_control_says_why_not() {
    let mut stand = Stand::start();
    let session = stand.connect("orphan");
    let echo = session.function("echo").unwrap();
    stand.kill_vfund();
    for i in 0..1000u64 {
        assert_eq!(number(&echo.call(&i.to_le_bytes()).unwrap()), i);
    }
    // Long enough for the service to fall asleep, and to be woken by a bell.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(echo.call(b"awake").unwrap(), b"awake");
    let Err(e) = session.negotiate(&FunctionRequest::new("echo")) else { panic!("nobody answers") };
    assert!(matches!(e, Error::ManagerGone(_)), "{e}");
    let Err(e) = stand.options("late").connect() else { panic!("nobody is there") };
    let e = e.to_string();
    assert!(e.contains("host.sock"), "{e}");

    // The one that takes its place goes on with what there is.
    stand.start_vfund();
    assert_eq!(echo.call(b"still").unwrap(), b"still");
    assert_eq!(session.function("echo").unwrap().call(b"new").unwrap(), b"new");
    echo.release().unwrap();
    session.close().unwrap();
    stand.until("all given back", |s| s.totals().2 == 0);
}

/// Not a test by itself: the app that another test kills.
#[test]
fn child_app() {
    let Some(socket) = std::env::var_os("VFUN_TEST_CHILD") else { return };
    let session = vfun::ConnectOptions::new("child")
        .endpoint(vfun::Endpoint::Host(Some(socket.into())))
        .connect()
        .unwrap();
    let f = session.function("misbehave").unwrap();
    let _call = f.submit(&[6, 255, 0, 0, 0]).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn an_app_that_dies_in_the_middle_of_a_call_is_cleaned_up_and_another_does_not_notice() {
    let stand = Stand::start();
    let session = stand.connect("witness");
    let echo = session.function("echo").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "trouble::child_app", "--nocapture"])
        .env("VFUN_TEST_CHILD", stand.root().join("host.sock"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    stand.until("the child's grant", |s| {
        s.grants().iter().any(|g| g.app == "child" && g.state == "active")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    for i in 0..1000u64 {
        assert_eq!(number(&echo.call(&i.to_le_bytes()).unwrap()), i);
    }
    stand.until("the clean-up", |s| s.grants().iter().all(|g| g.app != "child"));
    stand.until("its service's end", |s| s.totals() == (1, 1, 1, 1));
    let left = stand.root().join("service/host/child-misbehave");
    assert!(!left.exists(), "the tree shows no grant that is gone");
    assert!(stand.root().join("service/host/witness-echo").is_dir());
}

#[test]
fn a_library_that_is_no_driver_is_refused_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("empty.c");
    std::fs::write(&source, "int nothing;\n").unwrap();
    let library = dir.path().join("libempty.so");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(compiled.unwrap().success());
    let manifest =
        format!("name = \"empty\"\nversion = \"1.0\"\nlibrary = \"{}\"\n", library.display());
    // One that somebody replaces after it was added is as this one: nobody looked.
    std::fs::write(dir.path().join("empty.toml"), &manifest).unwrap();
    let stand = Stand::with(&["--functions", dir.path().to_str().unwrap()]);
    let added = stand.try_ask(&Ask::AddFunction { manifest, file: "empty.toml".into() });
    let told = added.unwrap_err().to_string();
    assert!(told.contains("libempty.so is no driver: it has no symbol vfun_driver_info"), "{told}");
    let session = stand.connect("symbols");
    match session.function("empty") {
        Err(Error::Refused(n)) => {
            assert_eq!(n.code, NackCode::ServiceFailed);
            assert!(n.sentence.contains("vfun_driver_"), "{n}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert_eq!(session.function("echo").unwrap().call(b"x").unwrap(), b"x");
}

/// A name without a path that is not beside the manifest is found among the
/// manager's drivers: there it may be somebody else's.
#[test]
fn another_functions_library_is_refused_and_the_right_one_is_shown() {
    let stand = Stand::start();
    let add = |name: &str, version: &str| {
        let manifest = format!(
            "name = \"{name}\"\nversion = \"{version}\"\nlibrary = \"libvfun_template.so\"\n"
        );
        stand.try_ask(&Ask::AddFunction { manifest, file: "/nowhere/function.toml".into() })
    };
    let there = programs().join("libvfun_template.so");
    for (name, version) in [("mine", "1.0"), ("mytotal", "2.0")] {
        let told = add(name, version).unwrap_err().to_string();
        let expect = format!(
            "{} is the driver of 'mytotal' 1.0, not of '{name}' {version}",
            there.display()
        );
        assert!(told.contains(&expect), "{told}");
    }
    match add("mytotal", "1.0").unwrap() {
        Reply::Done { sentence } => {
            assert_eq!(sentence, format!("function mytotal 1.0 is offered: {}", there.display()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wrong_manifest_is_refused_with_file_line_and_reason() {
    let stand = Stand::start();
    let e = stand.add_client("name = \"vm1\"\nwindow = \"3 MiB\"\n").unwrap_err().to_string();
    assert!(e.contains("test.toml:2:") && e.contains("power of two"), "{e}");
    let manifest = "name = \"x\"\nversion = \"1.0\"\nlibrary = \"nowhere.so\"\n".into();
    let e = stand
        .try_ask(&Ask::AddFunction { manifest, file: "x.toml".into() })
        .unwrap_err()
        .to_string();
    assert!(e.contains("x.toml:3:") && e.contains("nowhere.so"), "{e}");
}

#[test]
fn a_window_that_finds_no_memory_is_refused_and_leaves_nothing() {
    let stand = Stand::start();
    let room = rustix::fs::statvfs(stand.root()).unwrap();
    if room.f_blocks * room.f_frsize >= 64 << 30 {
        println!("passed over: this machine's shared memory holds the largest window");
        return;
    }
    let e = stand
        .add_client("name = \"huge\"\nwindow = \"64 GiB\"\ntransport = \"ivshmem-plain\"\n")
        .unwrap_err()
        .to_string();
    assert!(e.contains("virtfun-huge") && e.contains("needs"), "{e}");
    assert!(!stand.root().join("virtfun-huge").exists());
    match stand.ask(&Ask::Clients) {
        Reply::Clients { clients } => assert!(clients.iter().all(|c| c.name != "huge")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_manager_of_the_same_root_is_refused() {
    let stand = Stand::start();
    let out =
        Command::new(programs().join("vfund")).arg("--root").arg(stand.root()).output().unwrap();
    assert!(!out.status.success());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("another manager already serves"), "{said}");
    assert_eq!(stand.connect("x").function("echo").unwrap().call(b"x").unwrap(), b"x");
}

/// Its address was taken while no manager was there: callers of windows go on.
#[test]
fn a_gateway_that_cannot_serve_is_said_to_be_gone() {
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free().local_addr().unwrap();
    let mut stand = Stand::with(&["--tcp", &address.to_string()]);
    let tcp = |s: &Stand| s.status().tcp;
    stand.until("it serves", |_| std::net::TcpStream::connect(address).is_ok());
    stand.kill_vfund();
    let mut taken = None;
    stand.until("the address is free", |_| {
        taken = std::net::TcpListener::bind(address).ok();
        taken.is_some()
    });
    stand.start_vfund();
    stand.until("the word of it", |s| tcp(s).is_none());
    assert!(stand.log().contains("the gateway for callers over TCP ended"));
    assert_eq!(stand.connect("x").function("echo").unwrap().call(b"x").unwrap(), b"x");
}

#[test]
fn credentials_and_lists_of_functions_are_policy() {
    let stand = Stand::start();
    stand
        .add_client(
            "name = \"picky\"\nkind = \"host\"\nfunctions = [\"echo\"]\nmax_grants = 1\n\
             # sha256 of: secret\n\
             credential_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\n",
        )
        .unwrap();
    let refused = |o: vfun::ConnectOptions| match o.connect() {
        Err(Error::Refused(n)) => n.code,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert_eq!(refused(stand.options("a").client("picky")), NackCode::BadCredential);
    assert_eq!(
        refused(stand.options("a").client("picky").credential("wrong")),
        NackCode::BadCredential
    );
    assert_eq!(refused(stand.options("a").client("nobody")), NackCode::Denied);
    let session = stand.options("a").client("picky").credential("secret").connect().unwrap();
    assert_eq!(session.info().client, "picky");
    let code = |name: &str| match session.negotiate(&FunctionRequest::new(name)) {
        Err(Error::Refused(n)) => n.code,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert_eq!(code("sum"), NackCode::Denied);
    let _echo = session.function("echo").unwrap();
    assert_eq!(code("echo"), NackCode::OverQuota);
}

#[test]
fn the_client_of_the_hosts_own_programs_cannot_be_removed() {
    let stand = Stand::start();
    let e = stand.try_ask(&Ask::RemoveClient { name: "host".into() }).unwrap_err().to_string();
    assert!(e.contains("always exists") && e.contains("[client.host]"), "{e}");
    assert_eq!(stand.connect("x").function("echo").unwrap().call(b"x").unwrap(), b"x");
}

/// What a service measures of a call it says when the call has ended.
#[test]
fn a_call_that_lasts_is_seen_to() {
    let stand = Stand::start();
    let session = stand.connect("busy");
    let f = session.function("factorial").unwrap();
    let call = f.submit(&vfun_tests_local::args(51, u64::MAX)).unwrap();
    stand.until("its time is counted", |s| {
        let g = &s.grants()[0];
        g.counters.busy_ns > 0 && (g.counters.calls, g.in_flight) == (0, 1)
    });
    let before = stand.grants()[0].counters.busy_ns;
    stand.until("it goes on", |s| s.grants()[0].counters.busy_ns > before);
    drop(call);
}

#[test]
fn revoke_and_drain_do_what_they_say() {
    let stand = Stand::start();
    let session = stand.connect("revoked");
    let echo = session.function("echo").unwrap();
    let grant = stand.grants()[0].grant.clone();
    stand.ask(&Ask::Revoke { grant });
    stand.until("the end of the grant", |s| s.grants().is_empty());
    let e = echo.call(b"x").unwrap_err();
    assert!(matches!(e, Error::Released | Error::Broken(BreakReason::Released)), "{e}");
    let echo = session.function("echo").unwrap();
    stand.ask(&Ask::Drain);
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    match session.negotiate(&FunctionRequest::new("echo")) {
        Err(Error::Refused(n)) => assert_eq!(n.code, NackCode::Draining),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn an_orderly_end_finishes_what_is_computed_and_tells_the_apps() {
    let stand = Stand::start();
    let session = stand.connect("end");
    let f = session.function("misbehave").unwrap();
    let call = f.submit(&[6, 100, 0, 0, 0]).unwrap();
    stand.until("busy", |_| call.state() == CellState::Busy);
    stand.ask(&Ask::Stop);
    assert!(call.wait().is_ok(), "what is computed is finished");
    let e = f.call(&[0, 1]).unwrap_err();
    assert!(matches!(e, Error::Broken(BreakReason::Shutdown)), "{e}");
}

/// Fills cells of a function's.
fn kept(f: &vfun::Function, with: u8) -> Vec<vfun::OwnedCell> {
    let mut cells: Vec<_> = (0..CELLS).map(|_| f.keep_cell().unwrap()).collect();
    cells.iter_mut().for_each(|c| c.bytes_mut().fill(with));
    cells
}

/// What was kept of a function that is over is still there, and nothing that is
/// done with it reaches `next`, which has its pages.
fn reaches_nothing(old: &mut [vfun::OwnedCell], next: &vfun::Function) {
    let mut own = kept(next, 0x55);
    for cell in old {
        assert!(cell.bytes_mut().iter().all(|&b| b == 0xaa), "kept");
        cell.bytes_mut().fill(0xee);
        assert!(matches!(cell.post(64), Err(Error::Released)));
        assert!(matches!(cell.post(CELL), Err(Error::Released)));
    }
    for cell in &mut own {
        cell.post(CELL).unwrap();
        let same = cell.finish(|r| {
            let mut got = [0; CELL];
            r.read(0, &mut got).is_ok() && got == [0x55; CELL]
        });
        assert!(same.unwrap(), "what the next function was given is what it was given");
    }
}

const CELLS: usize = 64;
const CELL: usize = 4096;

#[test]
fn what_is_kept_of_a_released_function_reaches_nothing_of_the_next() {
    let stand = Stand::start();
    let (session, other) = (stand.connect("keeps"), stand.connect("next"));
    let open = |s: &vfun::Session, name: &str| {
        let ask = FunctionRequest::new(name).depth(CELLS as u16).cell_bytes(CELL as u32);
        s.negotiate(&ask).unwrap().activate().unwrap()
    };
    let released = |s: &Stand| s.grants().is_empty();

    let echo = open(&session, "echo");
    let mut old = kept(&echo, 0xaa);
    echo.release_shared().unwrap();
    stand.until("the end of the grant", released);
    let sha = open(&session, "sha256");
    assert!(old.iter_mut().all(|c| matches!(c.post(64), Err(Error::Released))));
    assert_eq!(sha.release().unwrap().calls, 0, "nobody called it");
    stand.until("the end of the grant", released);
    let next = open(&other, "echo");
    reaches_nothing(&mut old, &next);
    assert!(matches!(echo.keep_cell(), Err(Error::Released)));
    assert!(matches!(echo.call(b"x"), Err(Error::Released)));
    assert_eq!(next.release().unwrap().calls, CELLS as u64, "and the host counts the same");
    drop((old, echo));

    // The same by the end of the session.
    let echo = open(&session, "echo");
    let mut old = kept(&echo, 0xaa);
    session.close().unwrap();
    stand.until("the end of the grant", released);
    reaches_nothing(&mut old, &open(&other, "echo"));
}

#[test]
fn a_release_under_calls_of_other_threads_counts_each_call_that_was_served() {
    let stand = Stand::start();
    let (session, other) = (stand.connect("under"), stand.connect("next"));
    for round in 0..20u8 {
        let f = session.function("echo").unwrap();
        let (calls, stats) = std::thread::scope(|scope| {
            let each: Vec<_> = (0..4u8)
                .map(|t| {
                    let f = f.shared();
                    scope.spawn(move || {
                        let (mut served, args) = (0u64, [t ^ round; 300]);
                        for len in (1..300).cycle() {
                            match f.call(&args[..len]) {
                                Ok(got) => assert_eq!(got, args[..len]),
                                Err(Error::Released) => return served,
                                Err(e) => panic!("{e}"),
                            }
                            served += 1;
                        }
                        unreachable!()
                    })
                })
                .collect();
            while f.stats().unwrap().calls < 100 {
                std::thread::yield_now();
            }
            let stats = f.release_shared().unwrap();
            // Its pages are given out again at once.
            let next = other.function("echo").unwrap();
            (0..50u8).for_each(|i| assert_eq!(next.call(&[i; 200]).unwrap(), [i; 200]));
            (each.into_iter().map(|t| t.join().unwrap()).sum::<u64>(), stats)
        });
        // Each thread had one under way at most when it ended.
        assert!((calls..=calls + 4).contains(&stats.calls), "{calls} of {}", stats.calls);
    }
}

/// Stops a service's process, as an operator or a driver that has it may: it runs no
/// more, and does not end.
fn freeze(pid: u32) {
    let raw = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
    rustix::process::kill_process(raw, rustix::process::Signal::STOP).expect("it is there");
    // Each thread stops when it is next interrupted.
    let runs = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        !stat.contains(") T ")
    };
    let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("it is there").flatten();
    while tasks().any(runs) {
        std::thread::yield_now();
    }
}

#[test]
fn a_service_that_does_not_run_is_ended_by_the_deadline_of_its_call() {
    let stand = Stand::start();
    let session = stand.connect("frozen");
    let f = session.function("misbehave").unwrap();
    let echo = session.function("echo").unwrap();
    let pid = stand.grants()[0].pid.expect("it runs");
    let call = f.submit(&[6, 200, 0, 0, 0]).unwrap();
    stand.until("busy", |_| call.state() == CellState::Busy);
    freeze(pid);
    match call.wait() {
        Err(Error::Deadline) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(f.call(&[0, 7]).unwrap(), [7]);
    assert_ne!(stand.grants()[0].pid, Some(pid));
    assert_eq!(echo.call(b"untouched").unwrap(), b"untouched");
    assert!(stand.log().contains("did not end it"), "{}", stand.log());
}

#[test]
fn a_call_that_a_service_never_began_is_served_by_the_next_one() {
    let stand = Stand::start();
    let session = stand.connect("asleep");
    let f = session.function("misbehave").unwrap();
    assert_eq!(f.call(&[0, 1]).unwrap(), [1]);
    let pid = stand.grants()[0].pid.expect("it runs");
    freeze(pid);
    assert_eq!(f.call(&[0, 7]).unwrap(), [7]);
    assert_ne!(stand.grants()[0].pid, Some(pid));
}

#[test]
fn an_activation_does_not_wait_for_a_service_that_does_not_run() {
    let stand = Stand::start();
    let session = stand.connect("second");
    let f = session.function("misbehave").unwrap();
    freeze(stand.grants()[0].pid.expect("it runs"));
    let g = session.function("misbehave").unwrap();
    assert_eq!(g.call(&[0, 7]).unwrap(), [7]);
    assert_eq!(f.call(&[0, 8]).unwrap(), [8]);
    assert!(stand.log().contains("no sign of life"), "{}", stand.log());
}

/// Longer than an app waits for an answer: it is told what is going on, and where
/// to look, and finds it done when it asks again.
#[test]
fn a_driver_that_loads_slowly_is_said_to_and_may_be_asked_for_again() {
    let stand = Stand::start();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("slow.c");
    let driver = vfun_tests_local::repo().join("services/template/c/driver.c");
    let slow = format!(
        "#include \"{}\"\n#include <unistd.h>\n__attribute__((constructor)) static void slow(void) {{ sleep(12); }}\n",
        driver.display()
    );
    std::fs::write(&source, slow).unwrap();
    let library = dir.path().join("libslow.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-I"])
        .arg(vfun_tests_local::repo().join("services/sdk/include"))
        .arg("-o")
        .arg(&library)
        .arg(&source)
        .status();
    assert!(compiled.unwrap().success());
    let manifest = format!(
        "name = \"mytotal\"\nversion = \"1.0\"\nlibrary = \"{}\"\nmax_args = 8\nmax_result = 8\n",
        library.display()
    );
    stand.ask(&Ask::AddFunction { manifest, file: "slow.toml".into() });
    let session = stand.connect("patient");
    match session.function("mytotal") {
        Err(Error::Refused(n)) => {
            assert_eq!(n.code, NackCode::Starting, "{n}");
            assert!(n.sentence.contains("service/host/mytotal.log"), "{n}");
        }
        other => panic!("{:?}", other.map(drop)),
    }
    let log = std::fs::read_to_string(stand.root().join("service/host/mytotal.log")).unwrap();
    assert!(log.contains("loads its driver"), "{log}");
    let f = session.function("mytotal").unwrap();
    assert_eq!(number(&f.call(&5u64.to_le_bytes()).unwrap()), 5);
}
