//! A shell in a jail, made by the real launcher.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vfun_jail::probe::try_out;
use vfun_jail::standing::Meant;
use vfun_jail::{Launch, Launched, Layer, Limits, Plan, Progress, Standing};

fn launcher() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_vfun-jail"))
}

fn plan(script: &str, without: &[Layer]) -> Plan {
    Plan {
        program: Path::new("/bin/sh").canonicalize().unwrap(),
        arguments: vec!["-c".into(), script.into()],
        reads: vec![PathBuf::from("/bin/sleep").canonicalize().unwrap()],
        writes: vec![],
        environment: Default::default(),
        devices: vec![],
        groups: vec![],
        scratch_bytes: 0,
        user: None,
        limits: Limits::default(),
        without: BTreeSet::from_iter(without.iter().copied()),
        tasks: vec![],
        group: None,
        memory_grouped: false,
    }
}

fn wait(launch: &mut Launch) -> Progress {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match launch.hear() {
            Progress::Waiting => assert!(Instant::now() < until, "the launcher does not answer"),
            other => return other,
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs the script; its standard error goes to `log`. It lives as long as its
/// standard input, which is given back.
fn launch(plan: &Plan, log: &Path) -> Launched {
    let (_, theirs) = vfun_supervise::pair().unwrap();
    let mut launch = Launch::start(launcher(), plan, theirs, File::create(log).unwrap()).unwrap();
    match wait(&mut launch) {
        Progress::Done(done) => {
            assert!(launch.remains().wait(Duration::from_secs(20)), "the launcher does not end");
            done
        }
        other => panic!("{other:?}"),
    }
}

/// Children of this test's thread, zombies too.
fn children() -> String {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    std::fs::read_to_string(format!("/proc/self/task/{thread}/children")).unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(done: &Launched) {
    use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
    pidfd_send_signal(&done.pidfd, Signal::KILL).unwrap();
    let status = waitid(WaitId::PidFd(done.pidfd.as_fd()), WaitIdOptions::EXITED).unwrap().unwrap();
    assert_eq!(status.terminating_signal(), Some(9), "it is this process's own child");
}

/// Processes in the same process namespace.
fn beside(pid: i32) -> Vec<i32> {
    let of = |p: i32| std::fs::read_link(format!("/proc/{p}/ns/pid")).ok();
    let own = of(pid);
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|p| own.is_some() && of(*p) == own)
        .collect()
}

#[test]
fn what_it_started_dies_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    // Not in the background: for that a shell opens /dev/null, and there is none.
    let script = "echo it is $$ >&2; sleep 1000 | sleep 1000; echo over >&2";
    let done = launch(&plan(script, &[]), &log);
    let pid_layer =
        Standing::of(done.pid, done.pidfd.as_fd(), &Meant::default()).layers.contains(&Layer::Pid);
    if !pid_layer {
        eprintln!("not tested: this host gives no process namespace: {:?}", done.missing);
        return end(&done);
    }
    until("it says who it is", || std::fs::read_to_string(&log).unwrap().contains("it is 1"));
    until("it has started two", || beside(done.pid).len() == 3);
    let all = beside(done.pid);
    end(&done);
    until("they are gone", || all.iter().all(|p| !Path::new(&format!("/proc/{p}/root/")).exists()));
}

#[test]
fn each_layer_can_be_had_by_itself_and_left_out_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let of = |without: &[Layer]| {
        let done = launch(&plan("sleep 1000", without), &log);
        let meant = Meant { landlock: done.landlock, ..Meant::default() };
        let standing = Standing::of(done.pid, done.pidfd.as_fd(), &meant);
        end(&done);
        standing.layers
    };
    let whole = of(&[]);
    assert!(whole.contains(&Layer::NoNewPrivileges) && whole.contains(&Layer::Rlimits));
    for layer in [Layer::Pid, Layer::Mount, Layer::Network, Layer::Ipc, Layer::Rlimits] {
        let but = of(&[layer]);
        assert!(!but.contains(&layer), "{layer}");
        let rest: BTreeSet<_> = whole.iter().copied().filter(|l| *l != layer).collect();
        assert_eq!(but, rest, "without {layer}");
    }
    // Alone each of these needs nobody.
    let but =
        |keep: Layer| -> Vec<Layer> { Layer::ALL.into_iter().filter(|l| *l != keep).collect() };
    for layer in [Layer::NoNewPrivileges, Layer::Rlimits] {
        assert_eq!(of(&but(layer)), BTreeSet::from([layer]));
    }
    assert_eq!(of(&Layer::ALL), BTreeSet::new());
}

#[test]
fn what_cannot_be_run_fails_with_a_sentence_and_leaves_nothing() {
    let (_, theirs) = vfun_supervise::pair().unwrap();
    let mut plan = plan("", &[]);
    plan.program = "/nowhere/at-all".into();
    let log = File::options().write(true).open("/dev/null").unwrap();
    let mut launch = Launch::start(launcher(), &plan, theirs, log).unwrap();
    match wait(&mut launch) {
        Progress::Failed(f) => {
            assert!(f.reason.contains("/nowhere/at-all"), "{}", f.reason);
            assert_eq!(f.errno, Some(2), "the error is told as a number, too");
        }
        other => panic!("{other:?}"),
    }
    assert!(launch.remains().wait(Duration::from_secs(20)));
    assert_eq!(children().trim(), "");
}

/// A launcher of another kind: a script.
fn odd_launcher(dir: &Path, script: &str) -> PathBuf {
    let file = dir.join("launcher");
    // By another process: a child of another test's thread would hold it open, and the
    // kernel would not start it.
    let written = std::process::Command::new("/bin/sh")
        .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#, "sh"])
        .arg(&file)
        .arg(script)
        .status()
        .unwrap();
    assert!(written.success(), "{written}");
    file
}

#[test]
fn a_launcher_that_does_not_end_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    // It closes what it reports to, and stays, with a child.
    let program = odd_launcher(dir.path(), "exec 1>&-; /bin/sleep 1000 & exec /bin/sleep 1000");
    let (_, theirs) = vfun_supervise::pair().unwrap();
    let log = File::options().write(true).open("/dev/null").unwrap();
    let mut launch = Launch::start(&program, &plan("", &[]), theirs, log).unwrap();
    match wait(&mut launch) {
        // What it was told lies in the socket, unread.
        Progress::Failed(f) => assert_eq!(f.errno, Some(104), "{}", f.reason),
        other => panic!("{other:?}"),
    }
    assert!(launch.remains().wait(Duration::from_secs(20)));
    assert_eq!(children().trim(), "");
}

#[test]
fn one_that_was_stopped_is_ended_too() {
    let dir = tempfile::tempdir().unwrap();
    let program = odd_launcher(dir.path(), "kill -STOP $$");
    let (_, theirs) = vfun_supervise::pair().unwrap();
    let log = File::options().write(true).open("/dev/null").unwrap();
    let mut launch = Launch::start(&program, &plan("", &[]), theirs, log).unwrap();
    let pid: i32 = children().trim().parse().unwrap();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    until("it stops", || stat().contains(") T "));
    assert!(matches!(launch.hear(), Progress::Waiting));
    assert!(launch.abandon().wait(Duration::from_secs(20)));
    assert_eq!(children().trim(), "");
}

#[test]
fn one_that_is_abandoned_leaves_nothing() {
    let (_, theirs) = vfun_supervise::pair().unwrap();
    let log = File::options().write(true).open("/dev/null").unwrap();
    let launch = Launch::start(launcher(), &plan("sleep 1000", &[]), theirs, log).unwrap();
    // At any moment: here most likely before the process is there.
    assert!(launch.abandon().wait(Duration::from_secs(20)));
    assert_eq!(children().trim(), "");
}

#[test]
fn the_trial_finds_what_a_service_would_get() {
    let standing = try_out(launcher()).unwrap();
    assert!(standing.layers.contains(&Layer::Rlimits), "{standing:?}");
    assert_eq!(standing.layers.len() + standing.missing.len(), Layer::ALL.len());
    if rustix::process::geteuid().is_root() {
        assert!(standing.layers.contains(&Layer::OwnUser), "{standing:?}");
    }
    assert!(standing.missing.iter().all(|m| !m.why.is_empty()));
}
