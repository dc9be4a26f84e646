//! What fails on the host has a name and an end: disks, databases, windows'
//! files, descriptors, processes. docs/failure.md is the table; these are its rows.

use crate::raw::{Raw, negotiate};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun::{CellState, Error, FunctionRequest, NackCode};
use vfun_admin::DrainOf;
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, placed, programs};
use vfun_window::fdpass;
use vfun_wire::header::{HEAP_OFF, WindowHeader};
use vfun_wire::message::Kind;
use zerocopy::IntoBytes;

const MIB: u64 = 1 << 20;

fn has_trouble(stand: &Stand, words: &str) -> bool {
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
        stand.until("it is laid out anew", |s| {
            std::fs::metadata(&file).unwrap().len() == 2 * MIB && s.totals().0 == 2
        });
        let mut raw = Raw::of_file(&file);
        assert_ne!(header(&raw), before, "it is another generation");
        let session = raw.hello();
        raw.ask(Kind::Goodbye, session, &[0; 8]).unwrap();
    }
    assert!(stand.status().troubles.is_empty(), "{:?}", stand.status().troubles);
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
        stand.until("it is laid out anew", |s| s.status().troubles.is_empty());
        let mut raw = Raw::of_file(&file);
        let after = header(&raw);
        assert_eq!((after[0], after[3] > before[3]), (before[0], true), "{what}");
        assert!(stand.grants().iter().all(|g| g.client != "vm1"));
        let session = raw.hello();
        raw.ask(Kind::Goodbye, session, &[0; 8]).unwrap();
        assert_eq!(echo.call(b"untouched").unwrap(), b"untouched");
    }
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
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, bytes: u64) -> Option<Self> {
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "vfun-test"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        done.is_ok_and(|s| s.success()).then(|| Disk(at.to_owned()))
    }
    /// Takes all the room there is.
    fn fill(&self) -> PathBuf {
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
        disk = Disk::mount(root, 4 * MIB);
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
        assert!(has_trouble(&stand, "history begins anew"), "{:?}", stand.status().troubles);
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
    assert!(has_trouble(&stand, "begin anew"), "{:?}", stand.status().troubles);
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
    let db = rusqlite_lock(&stand.root().join("admin/virtfun.db"));
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
fn rusqlite_lock(database: &Path) -> Option<std::process::Child> {
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

fn limit_descriptors(pid: u32, limit: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let pid = Pid::from_raw(pid as i32);
    let new = Rlimit { current: limit, maximum: Some(4096) };
    prlimit(pid, Resource::Nofile, new).unwrap();
}

/// Without descriptors nothing new is begun, each time by name, and what is
/// there goes on; with some, everything is as before.
#[test]
fn a_manager_out_of_descriptors_says_so_and_goes_on() {
    let stand = Stand::start();
    let session = stand.connect("has-some");
    let echo = session.function("echo").unwrap();
    // Two that are free: too few for a window or a service, enough to ask.
    let used: std::collections::BTreeSet<u64> =
        std::fs::read_dir(format!("/proc/{}/fd", stand.pid()))
            .unwrap()
            .map(|e| e.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
    let second = (0..).filter(|fd| !used.contains(fd)).nth(1).unwrap();
    limit_descriptors(stand.pid(), Some(second + 1));
    match stand.options("wants-some").connect() {
        Err(e) => assert!(!e.to_string().is_empty()),
        Ok(_) => panic!("a window takes more descriptors than there are"),
    }
    match session.function("sha256") {
        Err(Error::Refused(n)) => assert_eq!(n.code, NackCode::NoCapacity, "{n}"),
        other => panic!("{:?}", other.map(drop)),
    }
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    session.ping().unwrap();
    limit_descriptors(stand.pid(), Some(4096));
    session.function("sha256").unwrap().call(b"again").unwrap();
    stand.connect("gets-some").ping().unwrap();
    assert!(stand.status().held_up.open_breakers == 0, "no driver is to blame");
}

/// Descriptors that this program has on its way in sockets, which count for its user.
fn on_their_way(number: usize) -> Vec<(UnixStream, UnixStream)> {
    const EACH: usize = 16 * fdpass::FDS_MAX;
    let some = std::fs::File::open("/dev/null").unwrap();
    let fds = [some.as_fd(); fdpass::FDS_MAX];
    let pair = |_| {
        let pair = UnixStream::pair().unwrap();
        for _ in 0..EACH / fds.len() {
            fdpass::send(&pair.0, b"x", &fds).unwrap();
        }
        pair
    };
    (0..number.div_ceil(EACH)).map(pair).collect()
}

/// Fewer than [`on_their_way`] sends, and enough for a manager with a few windows.
const FEW: u64 = 600;

/// A manager that may not exceed what a user may have on the way, with its keeper.
fn bounded() -> Stand {
    Stand::start().lacking("-sys_admin,-sys_resource")
}

/// Of this user's descriptors as many may be on their way as a process may have open:
/// the tests that use that up go one after the other, and this process has room.
fn flooding() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let guard = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    guard
}

fn wait_for_room(stand: &Stand) {
    let said = "services and the keeper are told later: too many descriptors";
    stand.until("the manager waits for room", |s| s.log().contains(said));
}

/// Another program of the manager's user sends descriptors that nobody receives. The
/// manager may not send any then, nor may what it starts: services are made all the
/// same, and what goes with descriptors goes when there is room.
#[test]
fn descriptors_on_their_way_delay_services_and_fail_none() {
    let _one = flooding();
    let mut stand = bounded();
    let session = stand.connect("early");
    let echo = session.function("echo").unwrap();
    limit_descriptors(stand.pid(), Some(FEW));
    let flood = on_their_way(700);
    match stand.options("late").connect() {
        Err(e) => assert!(e.to_string().contains("on their way in UNIX sockets"), "{e}"),
        Ok(_) => panic!("the kernel does not count them for this manager"),
    }
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    session.ping().unwrap();
    let of_sha256 = |s: &Stand| match s.ask(&Ask::Services) {
        Reply::Services { services } => services.iter().any(|s| s.function == "sha256"),
        other => panic!("{other:?}"),
    };
    let sha256 = std::thread::scope(|scope| {
        let asked = scope.spawn(|| session.function("sha256"));
        stand.until("its service is made", |s| asked.is_finished() || of_sha256(s));
        wait_for_room(&stand);
        drop(flood);
        asked.join().unwrap().unwrap()
    });
    let digest = sha256.call(b"again").unwrap();
    assert!(stand.log().contains("on their way in UNIX sockets"), "{}", stand.log());
    // The keeper was given the service as well, once there was room.
    let pids = |s: &Stand| s.grants().iter().map(|g| g.pid).collect::<Vec<_>>();
    let before = pids(&stand);
    stand.kill_vfund();
    stand.start_vfund();
    assert_eq!(sha256.call(b"again").unwrap(), digest);
    assert_eq!(pids(&stand), before);
}

/// SIGHUP while the keeper has not got a service: the manager waits until it has.
#[test]
fn a_manager_that_the_keeper_has_not_all_of_does_not_start_anew() {
    let _one = flooding();
    let stand = bounded();
    let session = stand.connect("early");
    let generation = stand.status().generation;
    limit_descriptors(stand.pid(), Some(FEW));
    let flood = on_their_way(700);
    let pid = |s: &Stand| match s.ask(&Ask::Services) {
        Reply::Services { services } => services.iter().map(|s| s.pid).next(),
        other => panic!("{other:?}"),
    };
    let (sha256, before) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| session.function("sha256"));
        stand.until("its service is made", |s| asked.is_finished() || pid(s).is_some());
        wait_for_room(&stand);
        let before = pid(&stand);
        hang_up(&stand);
        let waits = "and waits until the keeper has";
        let now = |s: &Stand| match s.try_ask(&Ask::Status) {
            Ok(Reply::Status(status)) => status.generation,
            _ => generation,
        };
        stand.until("it waits", |s| s.log().contains(waits) || now(s) > generation);
        assert!(stand.log().contains(waits), "it started anew: {}", stand.log());
        drop(flood);
        stand.until("it starts anew", |s| now(s) > generation);
        (asked.join().unwrap().unwrap(), before)
    });
    sha256.call(b"goes on").unwrap();
    assert_eq!(pid(&stand), before, "its service was kept");
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

/// Connections to a UNIX socket that its owner has not closed.
fn connections(socket: &Path) -> usize {
    let all = std::fs::read_to_string("/proc/net/unix").unwrap();
    let name = socket.to_str().unwrap();
    // Number, users, protocol, flags, type, state, inode, path; 03: connected.
    let connected = |line: &&str| {
        let mut words = line.split_whitespace().skip(5);
        words.next() == Some("03") && words.nth(1) == Some(name)
    };
    all.lines().filter(connected).count()
}

/// The same while a manager starts anew: the keeper waits for room.
#[test]
fn descriptors_on_their_way_do_not_part_a_manager_from_its_keeper() {
    let _one = flooding();
    let mut stand = bounded();
    let session = stand.connect("kept");
    let echo = session.function("echo").unwrap();
    let socket = stand.root().join("admin/keeper.sock");
    assert_eq!(connections(&socket), 1, "the manager's");
    limit_descriptors(stand.keeper(), Some(FEW));
    let flood = on_their_way(700);
    stand.kill_vfund();
    stand.until("the keeper is alone", |_| connections(&socket) == 0);
    let log = stand.root().join("vfund.log");
    std::thread::scope(|scope| {
        let stand = &mut stand;
        let started = scope.spawn(|| stand.start_vfund());
        let until = Instant::now() + Duration::from_secs(60);
        let waits = || {
            let log = std::fs::read_to_string(&log).unwrap();
            log.contains("vfun-keeper: waits for room")
        };
        while !waits() && !started.is_finished() {
            assert!(Instant::now() < until, "the keeper does not wait for room");
            std::thread::yield_now();
        }
        assert!(waits(), "a manager came up before there was room");
        drop(flood);
        started.join().unwrap();
    });
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    session.ping().expect("its window was kept");
}

/// A group in which no process more can be made.
struct Group(PathBuf);

impl Group {
    fn of(pid: u32) -> Option<Self> {
        let at = PathBuf::from(format!("/sys/fs/cgroup/pids/vfun-test-{pid}"));
        std::fs::create_dir(&at).ok()?;
        let group = Group(at);
        std::fs::write(group.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(group)
    }
    fn max(&self, max: &str) {
        std::fs::write(self.0.join("pids.max"), max).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever is left goes where it came from.
        let procs = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in procs.lines() {
            let _ = std::fs::write("/sys/fs/cgroup/pids/cgroup.procs", pid);
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_host_out_of_processes_delays_services_and_blames_no_driver() {
    let stand = Stand::start();
    let session = stand.connect("waits");
    let wrong = session.function("misbehave").unwrap();
    let Some(group) = Group::of(stand.pid()) else {
        eprintln!(
            "SKIPPED: no group for processes can be made here (it takes root and cgroup v1 pids)"
        );
        return;
    };
    group.max("1");
    match session.function("sha256") {
        Err(Error::Refused(n)) => {
            assert_eq!(n.code, NackCode::NoCapacity, "{n}");
            assert!(n.sentence.contains("cannot be started"), "{n}");
        }
        other => panic!("{:?}", other.map(drop)),
    }
    // One whose service dies meanwhile waits for the next.
    let call = wrong.submit(&[6, 100, 0, 0, 0]).unwrap();
    stand.until("busy", |_| call.state() == CellState::Busy);
    let pid = stand.grants()[0].pid.unwrap();
    let service = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(service, rustix::process::Signal::KILL).unwrap();
    assert!(matches!(call.wait(), Err(Error::DriverCrashed)));
    let next = wrong.submit(&[0, 7]).unwrap();
    stand.until("it is tried more than once", |s| s.log().matches("waits:").count() >= 3);
    group.max("max");
    assert_eq!(next.wait().unwrap(), [7], "posted while there was no service, served once");
    session.function("sha256").unwrap().call(b"again").unwrap();
    assert_eq!(stand.status().held_up.open_breakers, 0);
    drop((wrong, session));
    drop(stand);
    drop(group);
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

/// A start that would fail is not begun: who serves goes on and says why.
#[test]
fn a_manager_that_could_not_start_anew_stays() {
    let stand = Stand::start();
    let session = stand.connect("stays");
    let echo = session.function("echo").unwrap();
    let Some(mut lock) = rusqlite_lock(&stand.root().join("admin/virtfun.db")) else {
        eprintln!("SKIPPED: there is no python3 with sqlite3 here");
        return;
    };
    let generation = stand.status().generation;
    hang_up(&stand);
    stand.until("it says why", |s| has_trouble(s, "SIGHUP did not start the manager anew"));
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

fn hang_up(stand: &Stand) {
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
    stand.until("it says why", |s| has_trouble(s, "SIGHUP did not start the manager anew"));
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
    stand.until("it says why", |s| has_trouble(s, "SIGHUP did not start the manager anew"));
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
        let mut child = vfund.args(args).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let out = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(words) && !said.contains("ready root"), "{args:?}: {said}");
        let code = if args[0] == "--root" { 1 } else { 2 };
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
    }
}

fn kill(pid: u32) {
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
