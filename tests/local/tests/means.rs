//! Where the host has too few descriptors, too little room for those on their way, or
//! too few processes: docs/failure.md, "The host's means".

use crate::starting::hang_up;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vfun::{CellState, Error, NackCode};
use vfun_admin::{Ask, Reply};
use vfun_tests_local::Stand;
use vfun_window::fdpass;

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
