//! Channels of queues: a program and a function that lay out queues in shared memory, how
//! they sleep and are woken, and what is left when one of them goes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfun::queue::End;
use vfun::{
    BreakReason, ChannelKind, ConnectOptions, Endpoint, Error, Features, FunctionRequest, NackCode,
    Queues, QueuesWaiter, WaitPolicy,
};
use vfun_admin::GrantRow;
use vfun_mirror::PairRequest;
use vfun_tests_local::queues::{MirrorPair, Mirrored, pair, queues};
use vfun_tests_local::raw::{Raw, negotiate};
use vfun_tests_local::{Stand, Stop};
use vfun_wire::limits::QUEUES_PAGES_MAX;
use vfun_wire::message::{Kind, NegotiateAck};
use vfun_wire::place::ChannelPlace;
use vfun_wire::queues::{QueuesShape, host_head, program_head};
use vfun_wire::{PAGE, channel::in_header};
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

/// Pages of each side: four pairs of 64 entries.
const PAGES: u32 = 32;

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).expect("a pid"), Signal::KILL).expect("it is there");
}

/// The process that serves a client's `mirror`.
fn service(stand: &Stand, client: &str) -> u32 {
    let row = stand.grants().into_iter().find(|g| g.function == "mirror" && g.client == client);
    row.and_then(|g| g.pid).expect("it is served")
}

fn word(queues: &Queues, at: usize) -> u64 {
    queues.host().load(at, Ordering::Acquire)
}

/// How many ranges of windows a process has mapped.
fn mapped(pid: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    maps.lines().filter(|l| l.contains("/memfd:")).count()
}

/// Waits until the service has said that it sleeps.
fn asleep(stand: &Stand, queues: &Queues) {
    stand.until("a sleeping service", |_| word(queues, host_head::SLEEPS) == 1);
}

#[test]
fn entries_go_there_and_back_and_both_sides_sleep() {
    let stand = Stand::start();
    let session = stand.options("sleeps").wait(WaitPolicy::sleep()).connect().unwrap();
    let m = Mirrored::open(&session, PAGES).unwrap();
    let mut pair = m.pair(64).unwrap();
    let rung = || word(&m.queues, host_head::RANG);
    // Both asleep: the first wakes the service, the second the program.
    asleep(&stand, &m.queues);
    // On a busy machine an answer may come before this side has looked, again and again.
    let until_rung_after = |before: u64, pair: &mut MirrorPair| {
        for _ in 0..100 {
            pair.one_by_one(&m.queues, 100).unwrap();
            if rung() > before {
                return rung();
            }
        }
        panic!("this side sleeps, and was never rung");
    };
    let once = until_rung_after(0, &mut pair);
    // More than the queues hold, so that each end waits for the other.
    pair.there_and_back(&m.queues, 100_000).unwrap();
    assert_eq!(pair.there.produced(), pair.back.consumed());
    assert!(pair.back.consumed() >= 100_100);
    asleep(&stand, &m.queues);
    until_rung_after(once, &mut pair);
    assert_eq!(m.queues.stats().unwrap().rang, rung(), "the manager sees it");
    let (calls, errors) = (m.queues.stats().unwrap().calls, m.queues.stats().unwrap().errors);
    assert_eq!((calls, errors), (0, 0), "there are none");
    let row = stand.grants().into_iter().find(|g| g.depth == 0).expect("one without cells");
    assert_eq!((row.function.as_str(), row.state.as_str(), row.in_flight), ("mirror", "active", 0));
    m.queues.release().unwrap();
    m.calls.release().unwrap();
    stand.until("the service has let go of all", |s| s.totals().2 == 0);
}

#[test]
fn a_program_that_spins_and_threads_of_one_channel_are_served_too() {
    let stand = Stand::start();
    let session = stand.connect("threads");
    let m = Mirrored::open(&session, 4 * PAGES).unwrap();
    let mut pairs: Vec<_> = (0..4).map(|_| m.pair(16).unwrap()).collect();
    std::thread::scope(|scope| {
        for pair in &mut pairs {
            scope.spawn(|| pair.there_and_back(&m.queues, 5_000).unwrap());
        }
    });
    let spins = stand.options("spins").wait(WaitPolicy::spin()).connect().unwrap();
    let m = Mirrored::open(&spins, PAGES).unwrap();
    m.pair(8).unwrap().there_and_back(&m.queues, 2_000).unwrap();
    // Sides of different lengths, and what is asked for is what is there.
    let request = FunctionRequest::new("mirror").queues(3, 9);
    let queues = session.negotiate(&request).unwrap().activate_queues().unwrap();
    assert_eq!((queues.info().program_pages, queues.info().host_pages), (3, 9));
    assert_eq!((queues.program().len(), queues.host().len()), (3 * PAGE, 9 * PAGE));
    assert!(queues.memory(0..3 * PAGE, 0..9 * PAGE).is_ok());
    assert!(queues.memory(0..3 * PAGE + 1, 0..PAGE).is_err());
    assert!(queues.memory(0..PAGE, 8 * PAGE..9 * PAGE + 1).is_err());
    // All of it begins with zeros, but for the token and the signs of life.
    for page in 1..9 {
        let mut bytes = [1; PAGE];
        queues.host().read(page * PAGE, &mut bytes).unwrap();
        assert!(bytes.iter().all(|b| *b == 0), "page {page}");
    }
}

#[test]
fn a_thread_waits_by_the_head_page_or_by_a_descriptor() {
    let stand = Stand::start();
    let session = stand.options("waits").wait(WaitPolicy::sleep()).connect().unwrap();
    let m = Mirrored::open(&session, PAGES).unwrap();
    let mut pair = m.pair(16).unwrap();
    let sleepers = || m.queues.program().load(program_head::SLEEPERS, Ordering::SeqCst);
    let nothing = m.queues.wait(Some(Duration::from_millis(20)), || false);
    assert!(matches!(nothing, Ok(false)), "{nothing:?}");
    assert_eq!(sleepers(), 0, "it took its declaration back");
    let entry = [vfun::queue::Entry::default()];
    for _ in 0..50 {
        asleep(&stand, &m.queues);
        pair.there.produce(&entry).unwrap();
        assert!(m.queues.ring_sleeper(), "it said that it sleeps");
        assert!(m.queues.wait(None, || pair.back.ready(false).unwrap()).unwrap());
        assert_eq!(pair.back.consume(&mut [Default::default(); 2]), Ok(1));
    }
    // The same by a descriptor, which no other thread's looks make unreadable.
    let (waiter, beside) = (m.queues.waiter().unwrap(), m.queues.waiter().unwrap());
    let readable = |w: &QueuesWaiter, ms: i64| {
        let limit = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
        poll(&mut [PollFd::new(w, PollFlags::IN)], Some(&limit)).unwrap() == 1
    };
    for _ in 0..20 {
        asleep(&stand, &m.queues);
        waiter.drain();
        m.queues.declare_sleep();
        pair.there.produce(&entry).unwrap();
        m.queues.ring();
        assert!(readable(&waiter, 60_000), "the service rings");
        assert!(readable(&waiter, 0), "until it is drained");
        assert!(waiter.drain());
        m.queues.declare_awake();
        assert!(m.queues.wait(None, || pair.back.ready(false).unwrap()).unwrap());
        assert_eq!(pair.back.consume(&mut [Default::default(); 2]), Ok(1));
    }
    assert!(readable(&beside, 0), "each waiter sees the rings");
}

#[test]
fn a_service_that_is_killed_takes_its_queues_with_it_and_nothing_else() {
    let stand = Stand::start();
    stand.add_client("name = \"other\"\nkind = \"host\"\nwindow = \"4 MiB\"\n").unwrap();
    let session = stand.options("a").wait(WaitPolicy::sleep()).connect().unwrap();
    let elsewhere = stand.options("b").client("other").connect().unwrap();
    let (m, safe) = (Mirrored::open(&session, PAGES).unwrap(), Mirrored::open(&elsewhere, PAGES));
    let (safe, echo) = (safe.unwrap(), session.function("echo").unwrap());
    let (mut mine, mut theirs) = (m.pair(16).unwrap(), safe.pair(16).unwrap());
    mine.there_and_back(&m.queues, 100).unwrap();
    m.queues.check().unwrap();
    let is_lost = |e: Error| {
        assert!(matches!(e, Error::Broken(BreakReason::ServiceLost)), "{e}");
        assert!(e.to_string().contains("its service died"), "{e}");
    };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| m.queues.wait(None, || false));
        stand.until("a sleeping thread", |_| {
            m.queues.program().load(program_head::SLEEPERS, Ordering::SeqCst) == 1
        });
        kill(service(&stand, "host"));
        is_lost(waits.join().unwrap().unwrap_err());
    });
    is_lost(m.queues.check().unwrap_err());
    is_lost(mine.there_and_back(&m.queues, 1).unwrap_err());
    is_lost(m.queues.wait(Some(Duration::ZERO), || false).unwrap_err());
    theirs.there_and_back(&safe.queues, 1_000).unwrap();
    safe.queues.check().unwrap();
    assert_eq!(echo.call(b"hello").unwrap(), b"hello");
    let row = stand.grants().into_iter().find(|g| g.state == "broken").expect("one is broken");
    assert_eq!((row.depth, row.client.as_str()), (0, "host"));
    // Calls of the same function go on with the next service, and so do new queues.
    let again = queues(&session, PAGES).unwrap();
    pair(&m.calls, &again, 16).unwrap().there_and_back(&again, 100).unwrap();
    m.queues.release().unwrap();
    assert!(stand.grants().iter().all(|g| g.state == "active"));
}

/// It serves queues alone, so that no call tells the manager that it does not run.
#[test]
fn a_service_that_stands_still_is_ended_and_a_program_that_waits_hears_so() {
    let stand = Stand::start();
    let session = stand.options("waits").wait(WaitPolicy::sleep()).connect().unwrap();
    let queues = queues(&session, PAGES).unwrap();
    let pid = Pid::from_raw(service(&stand, "host") as i32).expect("a pid");
    kill_process(pid, Signal::STOP).expect("it is there");
    let waited = queues.wait(None, || false);
    assert!(matches!(waited, Err(Error::Broken(BreakReason::ServiceLost))), "{waited:?}");
    assert!(stand.log().contains("no sign of life"), "{}", stand.log());
}

#[test]
fn what_is_released_reaches_nobody_any_more() {
    let stand = Stand::start();
    let session = stand.connect("releases");
    let m = Mirrored::open(&session, PAGES).unwrap();
    let mut pair = m.pair(16).unwrap();
    pair.there_and_back(&m.queues, 10).unwrap();
    let (program, host) = (m.queues.program().clone(), m.queues.host().clone());
    m.queues.release().unwrap();
    program.store(600, 7, Ordering::Relaxed);
    let released = u64::from(BreakReason::Released.to_wire());
    assert_eq!(host.load(in_header::BROKEN, Ordering::Relaxed), released);
    // The next channel has the same pages, and finds nothing in them.
    let next = queues(&session, PAGES).unwrap();
    assert_eq!(next.program().load(600, Ordering::Relaxed), 0);
    program.store(600, 8, Ordering::Relaxed);
    assert_eq!(next.program().load(600, Ordering::Relaxed), 0);
    // The session's end is the end of it.
    session.close().unwrap();
    assert!(matches!(next.check(), Err(Error::Released)));
    assert!(matches!(next.wait(None, || false), Err(Error::Released)));
    stand.until("everything given back", |s| s.totals().2 == 0);
}

/// Not a test by itself: the program that another test kills.
#[test]
fn child_program() {
    let Some(socket) = std::env::var_os("VFUN_TEST_QUEUES") else { return };
    let session = ConnectOptions::new("goes")
        .endpoint(Endpoint::Host(Some(socket.into())))
        .connect()
        .unwrap();
    let m = Mirrored::open(&session, PAGES).unwrap();
    let mut pair = m.pair(16).unwrap();
    loop {
        pair.there_and_back(&m.queues, 10).unwrap();
    }
}

#[test]
fn a_program_that_is_killed_while_it_uses_queues_is_cleaned_up() {
    let stand = Stand::start();
    let session = stand.connect("stays");
    let m = Mirrored::open(&session, PAGES).unwrap();
    let mut pair = m.pair(16).unwrap();
    let pid = service(&stand, "host");
    let before = mapped(pid);
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "queues::child_program", "--nocapture"])
            .env("VFUN_TEST_QUEUES", stand.root().join("host.sock"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let sends = |s: &Stand| {
            let all = s.grants();
            let of = |g: &&GrantRow| g.app == "goes" && g.state == "active";
            all.iter().filter(of).count() == 2
        };
        stand.until("its two channels", sends);
        assert!(mapped(pid) > before);
        child.kill().unwrap();
        child.wait().unwrap();
        // The service has let go of its pages too.
        stand.until("its channels' end", |s| s.grants().len() == 2 && mapped(pid) == before);
        pair.there_and_back(&m.queues, 100).unwrap();
    }
    assert_eq!(service(&stand, "host"), pid, "the service is the same");
}

#[test]
fn a_program_that_writes_all_over_its_side_harms_its_own_queues_alone() {
    let stand = Stand::start();
    let (bad, good) = (stand.connect("bad"), stand.connect("good"));
    let (bad, good) = (Mirrored::open(&bad, PAGES).unwrap(), Mirrored::open(&good, PAGES).unwrap());
    let mut beside = good.pair(16).unwrap();
    bad.pair(16).unwrap().there_and_back(&bad.queues, 100).unwrap();
    let pid = service(&stand, "host");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (program, mut value) = (bad.queues.program(), 1u64);
            while !over.load(Ordering::Relaxed) {
                // The head page too: who sleeps, and the token.
                for word in 0..PAGES as usize * PAGE / 8 {
                    value = value.wrapping_mul(6364136223846793005).wrapping_add(1);
                    program.store(word, value >> (word % 4 * 20), Ordering::Relaxed);
                }
                bad.queues.ring();
            }
        });
        let _stop = Stop(&over);
        // More pairs are asked for while it writes: by a token that it may just change.
        for _ in 0..50 {
            let _ = bad.pair(2);
            beside.there_and_back(&good.queues, 200).unwrap();
        }
    });
    assert!(matches!(bad.pair(2), Err(Error::Driver { .. })), "its token is another one");
    assert_eq!(service(&stand, "host"), pid, "the service is the same");
    // The channel goes on, and so does who made a new one.
    bad.queues.check().unwrap();
    let next = queues(&stand.connect("next"), PAGES);
    assert!(next.is_ok(), "{:?}", next.err());
    bad.queues.release().unwrap();
    beside.there_and_back(&good.queues, 100).unwrap();
}

#[test]
fn a_channel_of_another_program_cannot_be_named() {
    let stand = Stand::start();
    let (mine, theirs) = (stand.connect("mine"), stand.connect("theirs"));
    let (m, t) = (Mirrored::open(&mine, PAGES).unwrap(), Mirrored::open(&theirs, PAGES).unwrap());
    let ask = |channel: &Queues, token: [u64; 2]| {
        let request = PairRequest { channel: channel.handle(), token, depth: 4 };
        m.calls.call(&request.to_bytes()).map(drop)
    };
    let [low, high] = t.queues.token();
    assert_ne!([low, high], m.queues.token());
    let tokens = [m.queues.token(), [0, 0], [low, high ^ 1], [low ^ 1, high], [high, low]];
    for token in tokens {
        assert!(matches!(ask(&t.queues, token), Err(Error::Driver { .. })), "{token:?}");
    }
    // One that the other program told it: both then use the same queues, as it wanted.
    ask(&t.queues, t.queues.token()).unwrap();
    // A channel that is gone.
    let (handle, token) = (t.queues.handle(), t.queues.token());
    t.queues.release().unwrap();
    let request = PairRequest { channel: handle, token, depth: 4 };
    stand.until("the service has let go of it", |_| {
        matches!(m.calls.call(&request.to_bytes()), Err(Error::Driver { .. }))
    });
}

/// What no library sends.
#[test]
fn shapes_that_cannot_be_are_refused_and_the_manager_goes_on() {
    let stand = Stand::start();
    let mut raw = Raw::attach(&stand);
    let of = |kind: u16, shape: QueuesShape| {
        let mut n = negotiate("mirror");
        (n.kind, n.shape) = (U16::new(kind), shape.shape());
        n
    };
    let queues = ChannelKind::Queues.to_wire();
    // An app that does not say that it knows queues gets none.
    let old = raw.hello();
    let n = of(queues, QueuesShape::new(2, 2));
    let refused = raw.ask(Kind::Negotiate, old, n.as_bytes()).unwrap_err();
    assert_eq!(refused.code, NackCode::Unsupported, "{refused}");
    let session = raw.hello_with(Features::QUEUES);
    let most = QUEUES_PAGES_MAX;
    let sizes = [(0, 0), (0, 2), (2, 1), (most + 1, 2), (2, u32::MAX), (u32::MAX, u32::MAX)];
    for (program, host) in sizes {
        let n = of(queues, QueuesShape::new(program, host));
        let refused = raw.ask(Kind::Negotiate, session, n.as_bytes()).unwrap_err();
        assert_eq!(refused.code, NackCode::BeyondLimit, "{program} {host}: {refused}");
    }
    for at in 8..16 {
        let mut n = of(queues, QueuesShape::new(2, 2));
        n.shape[at] = 1;
        let refused = raw.ask(Kind::Negotiate, session, n.as_bytes()).unwrap_err();
        assert_eq!(refused.code, NackCode::Malformed, "byte {at}: {refused}");
    }
    for kind in [0, 5, 6, u16::MAX] {
        let n = of(kind, QueuesShape::new(2, 2));
        let refused = raw.ask(Kind::Negotiate, session, n.as_bytes()).unwrap_err();
        assert_eq!(refused.code, NackCode::Malformed, "kind {kind}: {refused}");
    }
    // One that there is, and that this function does not have.
    let n = of(ChannelKind::Packets.to_wire(), QueuesShape::new(4096, 0));
    let refused = raw.ask(Kind::Negotiate, session, n.as_bytes()).unwrap_err();
    assert_eq!(refused.code, NackCode::Unsupported, "{refused}");
    // One that can be, which is used with no token in it.
    let n = of(queues, QueuesShape::new(2, 2));
    let grant = raw.ask(Kind::Negotiate, session, n.as_bytes()).unwrap();
    let grant = NegotiateAck::read_from_bytes(&grant).unwrap().grant;
    let ack = raw.ask(Kind::Activate, session, grant.as_bytes()).unwrap();
    let (channel, place) = ChannelPlace::read(&ack).unwrap();
    assert_eq!(place.ranges().len(), 2);
    let calls = stand.connect("asks").function("mirror").unwrap();
    let request = PairRequest { channel, token: [0; 2], depth: 2 };
    assert!(matches!(calls.call(&request.to_bytes()), Err(Error::Driver { .. })));
    assert_eq!(stand.grants().len(), 2);
    drop(raw);
    stand.until("the raw program's end", |s| s.grants().len() == 1);
}

#[test]
fn queues_go_on_without_a_manager_and_with_the_next_one() {
    let mut stand = Stand::start();
    let session = stand.connect("goes-on");
    let m = Mirrored::open(&session, PAGES).unwrap();
    let mut first = m.pair(16).unwrap();
    first.there_and_back(&m.queues, 10).unwrap();
    let pid = service(&stand, "host");
    stand.kill_vfund();
    first.there_and_back(&m.queues, 100).unwrap();
    m.queues.check().unwrap();
    stand.start_vfund();
    first.there_and_back(&m.queues, 100).unwrap();
    assert_eq!(service(&stand, "host"), pid, "the service is the same");
    let mut second = m.pair(16).unwrap();
    second.there_and_back(&m.queues, 100).unwrap();
    m.queues.check().unwrap();
    m.queues.release().unwrap();
    m.calls.release().unwrap();
    stand.until("everything given back", |s| s.totals().2 == 0);
}

#[test]
fn who_has_no_queues_is_told_so() {
    let stand = Stand::start();
    let session = stand.connect("asks");
    let ask = |name: &str| FunctionRequest::new(name).queues(PAGES, PAGES);
    match session.negotiate(&ask("echo")) {
        Err(Error::Refused(n)) => {
            assert_eq!(n.code, NackCode::Unsupported);
            assert!(n.sentence.contains("kind calls, not queues"), "{n}");
        }
        other => panic!("{:?}", other.err()),
    }
    let calls = session.negotiate(&FunctionRequest::new("echo")).unwrap();
    assert!(matches!(calls.activate_queues(), Err(Error::Unsupported(_))));
    let queues = session.negotiate(&ask("mirror")).unwrap();
    assert!(matches!(queues.activate(), Err(Error::Unsupported(_))));
    stand.add_client("name = \"small\"\nkind = \"host\"\nwindow = \"4 MiB\"\n").unwrap();
    let small = stand.options("asks").client("small").connect().unwrap();
    let large = FunctionRequest::new("mirror").queues(1 << 10, 1 << 10);
    match small.negotiate(&large) {
        Err(Error::Refused(n)) => assert!(n.sentence.contains("ask for fewer pages"), "{n}"),
        other => panic!("{:?}", other.err()),
    }
    stand.until("nothing is kept", |s| s.totals().2 == 0);
}

#[test]
fn over_tcp_there_are_no_queues() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let stand = Stand::with(&["--tcp", &address]);
    stand
        .add_client("name = \"remote\"\nkind = \"host\"\nwindow = \"4 MiB\"\ntcp = \"open\"\n")
        .unwrap();
    stand.until("the gateway listens", |_| std::net::TcpStream::connect(&address).is_ok());
    let session = ConnectOptions::new("far")
        .client("remote")
        .endpoint(Endpoint::Tcp(address))
        .connect()
        .unwrap();
    match session.negotiate(&FunctionRequest::new("mirror").queues(PAGES, PAGES)) {
        Err(Error::Unsupported(why)) => assert!(why.contains("over TCP"), "{why}"),
        other => panic!("{:?}", other.err()),
    }
}
