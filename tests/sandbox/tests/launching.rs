//! Services that are being made, and what is left of them when it goes wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vfun_admin::Ask;
use vfun_tests_local::{Stand, placed, programs};
use vfun_tests_sandbox::{Attacker, root};

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Children of a process: name, state.
fn children(pid: u32) -> Vec<(String, char)> {
    let text = |file: String| std::fs::read_to_string(file).unwrap_or_default();
    let pids = text(format!("/proc/{pid}/task/{pid}/children"));
    let of = |p: &str| {
        let stat = text(format!("/proc/{p}/stat"));
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        Some((name.to_owned(), rest.trim().chars().next()?))
    };
    pids.split_whitespace().filter_map(of).collect()
}

/// A manager's programs in a place of their own, with another launcher.
fn with_launcher(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(programs()).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for program in ["vfund", "vfun-service", "vfun-keeper"] {
        std::fs::hard_link(programs().join(program), dir.path().join(program)).unwrap();
    }
    placed::script(&dir.path().join("vfun-jail"), script);
    dir
}

#[test]
fn a_launcher_that_hangs_holds_up_nobody_and_leaves_nothing() {
    let dir = with_launcher("#!/bin/sh\nexec /bin/sleep 1000\n");
    let drivers = programs();
    let extra = ["--drivers", drivers.to_str().unwrap()];
    let stand = Stand::of(&dir.path().join("vfund"), &extra, &[]);
    let hang = |c: &(String, char)| c.0 == "sleep" && c.1 != 'Z';
    let ask = |app: &str| {
        let session = stand.connect(app);
        std::thread::spawn(move || session.function("echo").map(|_| ()))
    };
    let first = ask("first");
    stand.until("a launcher that hangs", |s| children(s.pid()).iter().any(hang));
    let before = stand.status().generation;
    // It serves others meanwhile, and starts anew in place.
    let pid = rustix::process::Pid::from_raw(stand.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    until("it starts anew", || {
        matches!(stand.try_ask(&Ask::Status),
            Ok(vfun_admin::Reply::Status(s)) if s.generation > before)
    });
    // Neither the launcher of before nor its remains: only what the program that
    // is there now has started itself.
    until("nothing is left", || {
        let all = children(stand.pid());
        all.iter().all(|c| c.1 != 'Z') && all.iter().filter(|c| hang(c)).count() <= 1
    });
    // The one that the new program started is given up in time, by name.
    let refused = first.join().unwrap();
    assert!(refused.is_err(), "a launcher that hangs made a service");
    until("that one is gone, too", || !children(stand.pid()).iter().any(|c| c.0 == "sleep"));
}

#[test]
fn a_launcher_that_fails_leaves_no_zombie() {
    let dir = with_launcher("#!/bin/sh\nexit 1\n");
    let drivers = programs();
    let stand =
        Stand::of(&dir.path().join("vfund"), &["--drivers", drivers.to_str().unwrap()], &[]);
    let Err(e) = stand.connect("app").function("echo").map(|_| ()) else { panic!("it started") };
    assert!(e.to_string().contains("sandbox could not be made"), "{e}");
    stand.until("no zombie", |s| children(s.pid()).iter().all(|c| c.1 != 'Z'));
}

#[test]
fn no_service_runs_as_root_of_the_host() {
    if !root() {
        return;
    }
    // Root, without the right to become somebody else.
    let dir = tempfile::tempdir_in(programs()).unwrap();
    let weak = dir.path().join("weak");
    let vfund = programs().join("vfund");
    let script = format!(
        "#!/bin/sh\nexec setpriv --bounding-set=-setuid,-setgid --inh-caps=-all {} \"$@\"\n",
        vfund.display()
    );
    placed::script(&weak, &script);
    {
        let stand = Stand::of(&weak, &[], &[]);
        let Err(e) = stand.connect("app").function("echo").map(|_| ()) else {
            panic!("it started")
        };
        let e = e.to_string();
        assert!(e.contains("root of this host") && e.contains("--without-layer own-user"), "{e}");
        assert_eq!(stand.totals().3, 0);
    }
    let stand = Stand::of(&weak, &["--without-layer", "own-user"], &[]);
    let echo = stand.connect("app").function("echo").unwrap();
    assert_eq!(echo.call(b"x").unwrap(), b"x", "whoever says so gets it");
}

/// The directory of a service's group of this controller, v1 or v2.
fn group(pid: u32, controller: &str) -> Option<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|l| {
        let mut f = l.splitn(3, ':').skip(1);
        let (names, path) = (f.next()?, f.next()?);
        let ours = names.is_empty() || names.split(',').any(|n| n == controller);
        if !ours || !path.contains("/virtfun/") {
            return None;
        }
        [
            "/sys/fs/cgroup",
            &format!("/sys/fs/cgroup/{names}"),
            &format!("/sys/fs/cgroup/{controller}"),
        ]
        .iter()
        .map(|m| PathBuf::from(format!("{m}{path}")))
        .find(|d| d.is_dir())
    })
}

#[test]
fn groups_that_were_in_use_at_a_start_are_removed_later() {
    let mut attacker = Attacker::jailed();
    let Some(own) = group(attacker.service().pid, "pids") else {
        eprintln!("not tested: this host gives no control group");
        return;
    };
    let left = own.parent().unwrap().join("left-by-another");
    std::fs::create_dir(&left).unwrap();
    let mut sleep = std::process::Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    std::fs::write(left.join("cgroup.procs"), sleep.id().to_string()).unwrap();
    attacker.stand.kill_vfund();
    attacker.stand.start_vfund();
    assert!(left.is_dir(), "somebody is in it");
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    until("it is removed", || !left.exists());
    assert!(own.is_dir(), "those in use stay");
}

#[test]
fn a_services_bound_grows_with_the_bytes_it_shares() {
    let attacker = Attacker::jailed();
    let Some(dir) = group(attacker.service().pid, "memory") else {
        eprintln!("not tested: this host gives no control group");
        return;
    };
    let bound = || -> u64 {
        ["memory.max", "memory.limit_in_bytes"]
            .iter()
            .find_map(|f| std::fs::read_to_string(dir.join(f)).ok()?.trim().parse().ok())
            .unwrap()
    };
    let one = bound();
    // The same client's other app: another window, the same service.
    let second = attacker.stand.connect("second");
    let pid = attacker.service().pid;
    let _function = second.function("attack").unwrap();
    assert_eq!(attacker.service().pid, pid);
    let two = bound();
    assert!(two > one, "{one} {two}");
}
