//! What fails on the host has a name and an end: disks, databases, windows'
//! files. docs/failure.md is the table; these are its rows, and so are those in
//! `means.rs`, `starting.rs`, `takeover.rs` and `trouble.rs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun::{CellState, Error, FunctionRequest, NackCode};
use vfun_admin::DrainOf;
use vfun_admin::{Ask, Reply};
use vfun_tests_local::raw::{Raw, negotiate};
use vfun_tests_local::{Stand, programs};
use vfun_wire::header::{HEAP_OFF, WindowHeader};
use vfun_wire::message::Kind;
use zerocopy::IntoBytes;

const MIB: u64 = 1 << 20;

pub fn has_trouble(stand: &Stand, words: &str) -> bool {
    stand.status().troubles.iter().any(|t| t.contains(words))
}

fn plain(stand: &Stand, name: &str) -> PathBuf {
    let text = format!(
        "name = \"{name}\"\nkind = \"vm\"\nwindow = \"2 MiB\"\ntransport = \"ivshmem-plain\"\n"
    );
    stand.add_client(&text).unwrap();
    let file = stand.root().join(format!("virtfun-{name}"));
    assert!(file.is_file());
    file
}

/// What tells one laying-out of a window from another.
fn header(raw: &Raw) -> Vec<u64> {
    (0..size_of::<WindowHeader>() / 8).map(|i| raw.window.load(i, Ordering::Acquire)).collect()
}

fn truncate(file: &Path, bytes: u64) {
    std::fs::File::options().write(true).open(file).unwrap().set_len(bytes).unwrap();
}

/// At each moment of a window's life, to each kind of length.
#[test]
fn a_truncated_window_is_taken_down_by_name_and_laid_out_anew() {
    let stand = Stand::start();
    let witness = stand.connect("witness");
    let echo = witness.function("echo").unwrap();
    let file = plain(&stand, "vm1");
    let moments: &[(&str, u64)] = &[
        ("nobody is there", 0),
        ("an app said hello", 4096),
        ("it was granted something", HEAP_OFF as u64),
        ("it has a channel", 0),
        ("its channel goes, the header stays", MIB),
    ];
    for (moment, (what, bytes)) in moments.iter().enumerate() {
        let mut raw = Raw::of_file(&file);
        let before = header(&raw);
        if moment >= 1 {
            let session = raw.hello();
            if moment >= 2 {
                let grant = raw.ask(Kind::Negotiate, session, negotiate("echo").as_bytes());
                if moment >= 3 {
                    raw.ask(Kind::Activate, session, &grant.unwrap()[..8]).unwrap();
                }
            }
        }
        truncate(&file, *bytes);
        stand.until(what, |s| s.log().matches("window truncated").count() == moment + 1);
        assert_eq!(echo.call(b"untouched").unwrap(), b"untouched");
        stand.until("its grants are gone", |s| s.grants().iter().all(|g| g.client != "vm1"));
        if *bytes != 0 {
            // A file of another size may be somebody's: it is left alone, and said to be.
            stand.until("the trouble is told", |s| {
                has_trouble(s, "the window of client vm1 is down")
            });
            truncate(&file, 0);
        }
        stand.until("it is laid out again", |s| {
            std::fs::metadata(&file).unwrap().len() == 2 * MIB && s.totals().0 == 2
        });
        let mut raw = Raw::of_file(&file);
        assert_ne!(header(&raw), before, "it is another generation");
        let session = raw.hello();
        raw.ask(Kind::Goodbye, session, &[0; 8]).unwrap();
    }
    assert!(stand.status().troubles.is_empty(), "{:?}", stand.status().troubles);
    // Its services touched pages that were gone.
    let log = stand.log();
    assert!(!log.contains(" died: ") && !log.contains(" is broken: "), "{log}");
}

/// Whatever its guest writes over what the host says at its start, with grants in it
/// and without.
#[test]
fn a_window_whose_header_was_overwritten_is_laid_out_anew() {
    let stand = Stand::start();
    let witness = stand.connect("witness");
    let echo = witness.function("echo").unwrap();
    let file = plain(&stand, "vm1");
    for (word, what) in [(0, "the magic"), (3, "the generation"), (8, "the client's name")] {
        let mut raw = Raw::of_file(&file);
        let before = header(&raw);
        let session = raw.hello();
        let grant = raw.ask(Kind::Negotiate, session, negotiate("echo").as_bytes());
        raw.ask(Kind::Activate, session, &grant.unwrap()[..8]).unwrap();
        raw.window.store(word, 0x5a5a_5a5a, Ordering::Release);
        stand.until("it is said", |s| has_trouble(s, "its guest overwrote its header"));
        stand.until("it is laid out again", |s| s.status().troubles.is_empty());
        let mut raw = Raw::of_file(&file);
        let after = header(&raw);
        assert_eq!((after[0], after[3] > before[3]), (before[0], true), "{what}");
        assert!(stand.grants().iter().all(|g| g.client != "vm1"));
        let session = raw.hello();
        raw.ask(Kind::Goodbye, session, &[0; 8]).unwrap();
        assert_eq!(echo.call(b"untouched").unwrap(), b"untouched");
    }
}

/// Others can write to the folder of windows. What they put there in a window's place is
/// not opened for good, and holds nobody up.
#[test]
fn what_is_no_file_is_no_window() {
    let folder = tempfile::Builder::new().prefix("vfun-w").tempdir_in("/dev/shm").unwrap();
    let stand = Stand::with(&["--window-dir", folder.path().to_str().unwrap()]);
    let at = folder.path().join("virtfun-vm1");
    let manifest =
        "name = \"vm1\"\nkind = \"vm\"\nwindow = \"2 MiB\"\ntransport = \"ivshmem-plain\"\n";
    let mkfifo = std::process::Command::new("mkfifo").arg(&at).status().unwrap();
    assert!(mkfifo.success());
    let why = stand.add_client(manifest).unwrap_err().to_string();
    assert!(why.contains(&format!("{} is not a file: remove it", at.display())), "{why}");
    std::fs::remove_file(&at).unwrap();
    stand.add_client(manifest).unwrap();
}

/// What a manager says in the file beside a plain window, and the keeper holds on to.
#[test]
fn two_managers_with_one_window_folder_share_no_window() {
    let folder = tempfile::Builder::new().prefix("vfun-w").tempdir_in("/dev/shm").unwrap();
    let at = folder.path().to_str().unwrap();
    let mut a = Stand::with(&["--window-dir", at]);
    let mut b = Stand::with(&["--window-dir", at]);
    let manifest =
        "name = \"vm1\"\nkind = \"vm\"\nwindow = \"2 MiB\"\ntransport = \"ivshmem-plain\"\n";
    a.add_client(manifest).unwrap();
    let file = folder.path().join("virtfun-vm1");
    let mut raw = Raw::of_file(&file);
    let before = header(&raw);
    let session = raw.hello();
    let root_of_a = a.root().display().to_string();
    let refused = |b: &Stand| {
        let why = b.add_client(manifest).unwrap_err().to_string();
        assert!(why.contains(&root_of_a) && why.contains("--window-dir"), "{why}");
    };
    refused(&b);
    // Its keeper holds on to it while it is started anew.
    a.kill_vfund();
    refused(&b);
    a.start_vfund();
    refused(&b);
    raw.ask(Kind::KeepAlive, session, &[0; 8]).expect("it is the first one's as before");
    assert_eq!(header(&raw), before);
    // One that has declared the client already says so, and touches nothing.
    b.kill_vfund();
    std::fs::write(b.root().join("admin/clients/vm1.toml"), manifest).unwrap();
    b.start_vfund();
    assert!(has_trouble(&b, &root_of_a), "{:?}", b.status().troubles);
    b.ask(&Ask::RemoveClient { name: "vm1".into() });
    assert!(file.is_file(), "the other one's window is not removed");
    raw.ask(Kind::KeepAlive, session, &[0; 8]).expect("it is the first one's as before");
    // When the first one has none of it any more, it is the second one's.
    a.ask(&Ask::RemoveClient { name: "vm1".into() });
    b.add_client(manifest).unwrap();
    assert_eq!(Raw::of_file(&file).window.load(0, Ordering::Acquire), before[0]);
}

#[test]
fn a_windows_file_that_was_replaced_is_said_to_be_and_changes_nothing() {
    let stand = Stand::start();
    let file = plain(&stand, "vm1");
    let mut raw = Raw::of_file(&file);
    let session = raw.hello();
    let other = stand.root().join("other");
    std::fs::write(&other, vec![0xff; 2 * MIB as usize]).unwrap();
    std::fs::rename(&other, &file).unwrap();
    stand.until("it is noticed", |s| has_trouble(s, "is not the one its VM has mapped"));
    raw.ask(Kind::KeepAlive, session, &[0; 8]).expect("the VM that runs goes on");
    assert_eq!(stand.log().matches("was replaced by another").count(), 1);
}

/// A tmpfs, taken away with its guard.
pub struct Disk(PathBuf);

impl Disk {
    /// None where this user may not mount anything. `options` are those of tmpfs.
    pub fn mount(at: &Path, options: &str) -> Option<Self> {
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "vfun-test"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        done.is_ok_and(|s| s.success()).then(|| Disk(at.to_owned()))
    }
    /// Takes all the room there is.
    pub fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.0.join("filler");
        let mut f = std::fs::File::create(&path).unwrap();
        for size in [1 << 16, 4096, 1] {
            while f.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Database, tree, logs and manifests are on one full disk.
#[test]
fn a_full_disk_stops_records_and_nothing_else() {
    let mut disk = None;
    let stand = Stand::prepared(&["--window-dir", "/dev/shm"], |root| {
        disk = Disk::mount(root, &format!("size={}", 4 * MIB));
    });
    let Some(disk) = disk else {
        eprintln!("SKIPPED: a tmpfs cannot be mounted here (it takes root)");
        return;
    };
    let session = stand.connect("before");
    let echo = session.function("echo").unwrap();
    let filler = disk.fill();
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    let others: Vec<_> = (0..20)
        .map(|i| {
            let session = stand.connect(&format!("during{i}"));
            let f = session.function("sha256").unwrap();
            f.call(b"new grants, services and logs").unwrap();
            // A driver that dies has nowhere to say so, and comes back.
            (session, f)
        })
        .collect();
    let wrong = session.function("misbehave").unwrap();
    assert!(matches!(wrong.call(&[1]), Err(Error::DriverCrashed)));
    assert_eq!(wrong.call(&[0, 9]).unwrap(), [9]);
    assert!(has_trouble(&stand, "goes on from memory"), "{:?}", stand.status().troubles);
    let refused = stand.add_client("name = \"new\"\nkind = \"host\"\nwindow = \"1 MiB\"\n");
    assert!(refused.is_err(), "what must be kept is refused: {refused:?}");
    drop(others);
    std::fs::remove_file(filler).unwrap();
    stand.until("records are taken again", |s| s.status().troubles.is_empty());
    let grants = stand.grants();
    for g in &grants {
        let dir = stand.root().join(format!("vmcli/host/{}-{}", g.app, g.function));
        assert!(dir.join(format!("{}.json", g.grant)).is_file(), "{g:?} is shown");
    }
    stand.add_client("name = \"new\"\nkind = \"host\"\nwindow = \"1 MiB\"\n").unwrap();
    match stand.ask(&Ask::History { limit: 1000 }) {
        Reply::History { rows } => {
            assert!(grants.iter().all(|g| rows.iter().any(|r| r.grant == g.grant)), "{rows:?}")
        }
        other => panic!("{other:?}"),
    }
    drop((echo, wrong, session));
    drop(stand);
    drop(disk);
}

/// The manager is killed, its database spoiled; the next one goes on with the
/// same windows, since ids and generations are kept beside it.
#[test]
fn a_broken_or_missing_database_costs_its_history_only() {
    let mut stand = Stand::start();
    let session = stand.connect("lives");
    let echo = session.function("echo").unwrap();
    let database = stand.root().join("admin/virtfun.db");
    let mut generation = stand.status().generation;
    for how in ["broken", "missing"] {
        stand.kill_vfund();
        for end in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", database.display()));
        }
        match how {
            "broken" => std::fs::write(&database, vec![0x5a; 64 << 10]).unwrap(),
            _ => std::fs::remove_file(&database).unwrap(),
        }
        stand.start_vfund();
        assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
        session.ping().unwrap();
        assert!(has_trouble(&stand, "history begins again"), "{:?}", stand.status().troubles);
        let now = stand.status().generation;
        assert!(now > generation + 1000, "no stale handle can come again: {generation}, {now}");
        generation = now;
    }
    let aside = std::fs::read_dir(stand.root().join("admin")).unwrap().flatten();
    assert_eq!(aside.filter(|f| f.file_name().to_string_lossy().contains("db.broken-")).count(), 1);
}

/// The numbers are gone as well: what is kept cannot be told apart, so it ends,
/// by name, services too.
#[test]
fn a_root_that_lost_its_numbers_begins_anew() {
    let mut stand = Stand::start();
    let session = stand.connect("lost");
    let echo = session.function("echo").unwrap();
    echo.call(b"x").unwrap();
    let service = stand.grants()[0].pid.unwrap();
    stand.kill_vfund();
    for file in ["virtfun.db", "virtfun.db-wal", "virtfun.db-shm", "numbers.json"] {
        let _ = std::fs::remove_file(stand.root().join("admin").join(file));
    }
    stand.start_vfund();
    assert!(has_trouble(&stand, "begin again"), "{:?}", stand.status().troubles);
    stand.until("the service is ended", |_| {
        // A zombie of nobody's is gone as well.
        std::fs::read_to_string(format!("/proc/{service}/stat"))
            .map_or(true, |s| s.contains(") Z "))
    });
    assert!(session.ping().is_err());
    assert!(stand.status().generation > 50_000_000);
    let anew = stand.connect("anew");
    assert_eq!(anew.function("echo").unwrap().call(b"y").unwrap(), b"y");
}

/// Somebody else holds the database's lock: the manager waits for nobody.
#[test]
fn a_locked_database_holds_nobody_up() {
    let stand = Stand::start();
    let session = stand.connect("busy");
    let db = lock_database(&stand.root().join("admin/virtfun.db"));
    let Some(mut lock) = db else {
        eprintln!("SKIPPED: there is no python3 with sqlite3 here");
        return;
    };
    let functions: Vec<_> = (0..10).map(|_| session.function("echo").unwrap()).collect();
    assert!(functions.iter().all(|f| f.call(b"x").unwrap() == b"x"));
    stand.until("the trouble is told", |s| has_trouble(s, "locked"));
    drop(lock.stdin.take());
    let _ = lock.wait();
    stand.until("records are taken again", |s| s.status().troubles.is_empty());
}

/// Another process that has the database locked until its input closes.
pub fn lock_database(database: &Path) -> Option<std::process::Child> {
    let program = format!(
        "import sqlite3,sys\nc=sqlite3.connect('{}',isolation_level=None)\nc.execute('BEGIN EXCLUSIVE')\nprint('locked',flush=True)\nsys.stdin.read()\nc.execute('ROLLBACK')",
        database.display()
    );
    let mut child = Command::new("python3")
        .args(["-c", &program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut word = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut()?, &mut word).ok()?;
    Some(child)
}

#[test]
fn drains_finish_what_is_in_flight_and_can_be_undone() {
    let stand = Stand::start();
    let session = stand.connect("drained");
    let f = session.function("misbehave").unwrap();
    let call = f.submit(&[6, 44, 1, 0, 0]).unwrap();
    stand.until("busy", |_| call.state() == CellState::Busy);
    let function = || DrainOf::Function("misbehave".into());
    stand.ask(&Ask::DrainOf { of: function(), on: true });
    let left = |of: DrainOf| match stand.ask(&Ask::Draining { of }) {
        Reply::Draining(p) => p,
        other => panic!("{other:?}"),
    };
    let p = left(function());
    assert_eq!((p.grants, p.calls, p.draining), (1, 1, false));
    assert!(p.functions.contains("misbehave"));
    assert_eq!(left(DrainOf::Client("nobody".into())).grants, 0);
    let request = FunctionRequest::new("misbehave");
    match session.negotiate(&request) {
        Err(Error::Refused(n)) => assert_eq!(n.code, NackCode::Draining),
        other => panic!("{:?}", other.map(drop)),
    }
    session.function("echo").unwrap().call(b"is not drained").unwrap();
    assert!(call.wait().is_ok(), "what is in flight is finished");
    assert_eq!(left(function()).calls, 0);
    // `vfun drain --wait` ends when the last grant is given back.
    let vfun = |args: &[&str]| {
        let mut c = Command::new(programs().join("vfun"));
        c.args(args).arg("--root").arg(stand.root()).stdout(Stdio::piped());
        c
    };
    let wait = ["drain", "--function", "misbehave", "--wait"];
    let late = vfun(&[&wait[..], &["--timeout", "1"]].concat()).status().unwrap();
    assert_eq!(late.code(), Some(1), "one grant is left");
    let waits = vfun(&wait).spawn().unwrap();
    f.release().unwrap();
    let out = waits.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    assert!(vfun(&["drain", "--undo", "--function", "misbehave"]).status().unwrap().success());
    session.negotiate(&request).unwrap();
    assert!(!vfun(&["drain", "--client", "nobody"]).status().unwrap().success());
}

/// `vfun stop --drain`: programs finish by themselves, then the manager ends.
#[test]
fn a_stop_that_drains_waits_for_the_last_grant() {
    let mut stand = Stand::start();
    let session = stand.connect("last");
    let echo = session.function("echo").unwrap();
    let stop = Command::new(programs().join("vfun"))
        .args(["stop", "--drain", "--root"])
        .arg(stand.root())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    stand.until("it drains", |s| s.status().draining);
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    echo.release().unwrap();
    assert!(stop.wait_with_output().unwrap().status.success());
    let until = Instant::now() + Duration::from_secs(20);
    while stand.try_ask(&Ask::Status).is_ok() {
        assert!(Instant::now() < until, "the manager did not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    stand.kill_vfund();
}

pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Arguments of a call that takes so long.
fn takes(ms: u32) -> Vec<u8> {
    [&[6][..], &ms.to_le_bytes()].concat()
}

/// Manager and keeper are killed at once. A service that computes goes on; once
/// it dies as well nobody is left who would end its calls, and they say so.
#[test]
fn calls_of_a_service_that_dies_after_manager_and_keeper_end_and_say_why() {
    let mut stand = Stand::start();
    let session = stand.connect("orphan");
    let f = session.function("misbehave").unwrap();
    assert_eq!(f.call(&[0, 1]).unwrap(), [1]);
    let (service, keeper) = (stand.grants()[0].pid.unwrap(), stand.keeper());
    // One after the other, longer than an app waits for a sign of life.
    let slow: Vec<_> = (0..3).map(|_| f.submit(&takes(1_700)).unwrap()).collect();
    stand.until("busy", |_| slow[0].state() == CellState::Busy);
    stand.kill_vfund();
    kill(keeper);
    for call in slow.into_iter().rev() {
        call.wait().expect("a service without a manager goes on");
    }
    assert_eq!(f.call(&[0, 2]).unwrap(), [2], "and serves on");
    let lost = f.submit(&takes(1_900)).unwrap();
    stand.until("busy", |_| lost.state() == CellState::Busy);
    kill(service);
    let gone = |e: Error| match e {
        Error::HostGone(_) => assert!(e.ends_session() && e.to_string().contains("sign of life")),
        other => panic!("{other}"),
    };
    gone(lost.wait().unwrap_err());
    // And each call after it, one that waits for a cell too.
    gone(f.call(&[0, 3]).unwrap_err());
    let rest: Vec<_> = std::iter::from_fn(|| f.submit(&[0, 4]).ok()).collect();
    gone(f.call(&[0, 5]).unwrap_err());
    drop(rest);
}

/// The next manager, which knows nothing of them, ends the services of the last one.
#[test]
fn calls_that_a_manager_without_notes_ends_do_not_wait_for_their_deadline() {
    let mut stand = Stand::start();
    let session = stand.connect("before");
    let echo = session.function("echo").unwrap();
    assert_eq!(echo.call(b"x").unwrap(), b"x");
    let (service, keeper) = (stand.grants()[0].pid.unwrap(), stand.keeper());
    stand.kill_vfund();
    kill(keeper);
    stand.start_vfund();
    stand.until("the service is ended", |_| {
        let stat = std::fs::read_to_string(format!("/proc/{service}/stat"));
        stat.map_or(true, |s| s.contains(") Z "))
    });
    assert!(matches!(echo.call(b"y"), Err(Error::HostGone(_))));
    let anew = stand.connect("after");
    assert_eq!(anew.function("echo").unwrap().call(b"y").unwrap(), b"y");
}
