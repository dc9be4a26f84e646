//! A manager's start, and its start anew by SIGHUP: what is in the way is named, and
//! a manager that serves stays.

use crate::failure::{has_trouble, kill, lock_database};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, placed, programs};

/// A start that would fail is not begun: who serves goes on and says why.
#[test]
fn a_manager_that_could_not_start_anew_stays() {
    let stand = Stand::start();
    let session = stand.connect("stays");
    let echo = session.function("echo").unwrap();
    let Some(mut lock) = lock_database(&stand.root().join("admin/virtfun.db")) else {
        eprintln!("SKIPPED: there is no python3 with sqlite3 here");
        return;
    };
    let generation = stand.status().generation;
    hang_up(&stand);
    stand.until("it says why", |s| has_trouble(s, "SIGHUP did not restart the manager"));
    assert!(has_trouble(&stand, "locked"), "{:?}", stand.status().troubles);
    assert_eq!(stand.status().generation, generation);
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    session.ping().unwrap();
    drop(lock.stdin.take());
    let _ = lock.wait();
    hang_up(&stand);
    stand.until("it starts anew", |s| {
        s.try_ask(&Ask::Status)
            .is_ok_and(|r| matches!(r, Reply::Status(s) if s.generation > generation))
    });
    assert!(!has_trouble(&stand, "SIGHUP"), "{:?}", stand.status().troubles);
    assert_eq!(echo.call(b"as before").unwrap(), b"as before");
}

pub fn hang_up(stand: &Stand) {
    let pid = rustix::process::Pid::from_raw(stand.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
}

/// A folder with all programs, of which one may be replaced.
fn replaceable(program: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(programs()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let at = folder.path().join(&name);
        if entry.path().is_file() && (name.starts_with("vfun") || name.ends_with(".so")) {
            match name == program || name == "vfund" {
                true => placed::copy(&entry.path(), &at),
                false => std::os::unix::fs::symlink(entry.path(), at).unwrap(),
            }
        }
    }
    // Services look for their libraries as a user of their own.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    folder
}

/// Another file in a program's place; one that runs keeps its own.
fn replace(program: &Path, by: impl FnOnce(&Path)) {
    let new = program.with_extension("new");
    by(&new);
    std::fs::rename(new, program).unwrap();
}

/// A program that replaced the one that runs, and does not run itself.
#[test]
fn a_manager_is_not_replaced_by_a_program_that_does_not_start() {
    let folder = replaceable("vfund");
    let vfund = folder.path().join("vfund");
    let stand = Stand::of(&vfund, &[], &[]);
    let session = stand.connect("stays");
    replace(&vfund, |new| std::fs::write(new, "not a program").unwrap());
    hang_up(&stand);
    stand.until("it says why", |s| has_trouble(s, "SIGHUP did not restart the manager"));
    session.ping().unwrap();
    replace(&vfund, |new| placed::copy(&programs().join("vfund"), new));
}

/// The next manager would find nothing.
#[test]
fn a_manager_whose_keeper_does_not_start_stays() {
    let folder = replaceable("vfun-keeper");
    let keeper = folder.path().join("vfun-keeper");
    let stand = Stand::of(&folder.path().join("vfund"), &[], &[]);
    let session = stand.connect("stays");
    let f = session.function("echo").unwrap();
    // One that runs and ends: the trial looks only whether there is a program.
    replace(&keeper, |new| placed::script(new, "#!/bin/sh\nexit 1\n"));
    kill(stand.keeper());
    stand.until("it has none", |s| s.log().contains("there is no keeper"));
    hang_up(&stand);
    stand.until("it says why", |s| has_trouble(s, "SIGHUP did not restart the manager"));
    assert!(stand.log().contains("stays as it is: there is no keeper"), "{}", stand.log());
    assert_eq!(f.call(b"on").unwrap(), b"on");
    replace(&keeper, |new| placed::copy(&programs().join("vfun-keeper"), new));
    stand.until("a keeper", |s| s.log().contains("started again"));
    hang_up(&stand);
    stand.until("the next manager", |s| s.log().contains("goes on where another manager was"));
    assert_eq!(f.call(b"again").unwrap(), b"again");
}

/// What the command line names is looked at before the manager says that it is ready.
#[test]
fn a_manager_that_cannot_work_does_not_say_that_it_is_ready() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    for (args, words) in [
        (["--functions", "/nonexistent"], "--functions /nonexistent"),
        (["--drivers", "/nonexistent"], "--drivers /nonexistent: No such file"),
        (["--window-dir", "/nonexistent"], "--window-dir /nonexistent"),
        (["--tcp", "nonsense"], "--tcp nonsense"),
        (["--tcp", &taken], "--tcp 127.0.0.1"),
        (["--metrics", &taken], "--metrics 127.0.0.1"),
        (["--root", "/proc/nowhere"], "/proc/nowhere"),
    ] {
        let mut vfund = Command::new(programs().join("vfund"));
        if args[0] != "--root" {
            vfund.arg("--root").arg(dir.path());
        }
        // A file: the keeper of one that does start would keep a pipe open.
        let log = dir.path().join("log");
        let to = std::fs::File::create(&log).unwrap();
        let mut child = vfund.args(args).stderr(to).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let status = child.wait().unwrap();
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(said.contains(words) && !said.contains("ready root"), "{args:?}: {said}");
        let code = if args[0] == "--root" { 1 } else { 2 };
        assert_eq!(status.code(), Some(code), "{args:?}: {said}");
    }
}

fn vfund(args: &[&str]) -> (Option<i32>, String) {
    let out = Command::new(programs().join("vfund")).args(args).env_remove("VFUN_ROOT").output();
    let out = out.unwrap();
    let said = [out.stdout, out.stderr].concat();
    (out.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Asked before it is started: what would be wrong, all of it at once.
#[test]
fn what_would_be_wrong_is_said_without_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let root = root.to_str().unwrap();
    let (code, said) = vfund(&["--check", "--root", root]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ok     programs") && said.contains("of 14 layers"), "{said}");
    assert!(!dir.path().join("root").exists(), "it leaves nothing behind");

    // Windows in the root, as the first five minutes of the README have them.
    let (code, said) = vfund(&["--check", "--root", root, "--window-dir", root]);
    assert!(code == Some(0) && !dir.path().join("root").exists(), "{said}");

    let functions = dir.path().join("functions");
    std::fs::create_dir(&functions).unwrap();
    std::fs::write(functions.join("f.toml"), "name = \"f\"\nvershion = \"1\"\n").unwrap();
    let functions = functions.to_str().unwrap();
    let (code, said) = vfund(&["--check", "--root", root, "--functions", functions]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("LACKS") && said.contains("f.toml:2"), "{said}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let folders = ["--functions", "/nonexistent", "--window-dir", "/gone", "--drivers", "/none"];
    let wrong = [&folders[..], &["--tcp", &taken]].concat();
    let (code, said) = vfund(&[&["--check", "--root", root], &wrong[..]].concat());
    assert_eq!(code, Some(2), "{said}");
    for words in [
        "WRONG  --functions /nonexistent",
        "WRONG  --window-dir /gone",
        "WRONG  --drivers /none: No such file",
        "WRONG  --tcp 127.",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }

    // One that serves is no fault.
    let stand = Stand::start();
    let (code, said) = vfund(&["--check", "--root", stand.root().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("a manager serves it now"), "{said}");
}

/// Options from a file; those of the command line win, and what is wrong has its line.
#[test]
fn a_manager_takes_its_options_from_a_file_and_reads_it_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("vfund.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "# mine\nroots = \"/x\"\n").unwrap();
    let (code, said) = vfund(&["--config", path]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("vfund.toml:2: unknown key `roots`"), "{said}");
    let (code, said) = vfund(&["--config", "/nonexistent"]);
    assert!(code == Some(2) && said.contains("--config /nonexistent: No such file"), "{said}");

    std::fs::write(&file, "window_dir = \"/gone\"\nfunctions = []\n").unwrap();
    let (code, said) = vfund(&["--config", path, "--check", "--root", "/tmp/none"]);
    assert!(code == Some(2) && said.contains("WRONG  --window-dir /gone"), "{said}");
    // The stand names root and window folder itself.
    let stand = Stand::with(&["--config", path]);
    let session = stand.connect("stays");

    // Read anew at SIGHUP; what is wrong then keeps no one from serving.
    std::fs::write(&file, "metrics = 7\nx = 1").unwrap();
    hang_up(&stand);
    stand.until("it says why", |s| has_trouble(s, "vfund.toml:2: unknown key `x`"));
    session.ping().unwrap();
    let generation = stand.status().generation;
    std::fs::write(&file, "lease_interval_ms = 777\n").unwrap();
    hang_up(&stand);
    stand.until("the next manager", |s| {
        s.try_ask(&Ask::Status)
            .is_ok_and(|r| matches!(r, Reply::Status(s) if s.generation > generation))
    });
    session.ping().unwrap();
}

/// A keeper that is there, and answers too late: nothing of it can be gone on with, and
/// what the command line names need not all be there for that.
#[test]
fn a_keeper_that_answers_too_late_is_named_and_keeps_no_manager_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let mut stand = Stand::with(&["--functions", folder.path().to_str().unwrap()]);
    let keeper = rustix::process::Pid::from_raw(stand.keeper() as i32).unwrap();
    // Only then: the kernel ends a stopped process whose parent ends.
    stand.kill_vfund();
    rustix::process::kill_process(keeper, rustix::process::Signal::STOP).unwrap();
    drop(folder);
    stand.start_vfund();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    assert!(stand.log().contains("the keeper that is there does not answer"), "{}", stand.log());
    stand.connect("anew").function("echo").unwrap().call(b"x").unwrap();
}
