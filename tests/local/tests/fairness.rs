//! Whoever asks, rings or logs without end is held up, by the manager and by
//! name, and nobody else is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfun::NackCode;
use vfun_admin::{Ask, Reply};
use vfun_core::limits::{ATTACHES, LINES, RECORDS};
use vfun_core::policy::Rules;
use vfun_tests_local::raw::{Raw, negotiate};
use vfun_tests_local::{Stand, Stop};
use vfun_wire::control::{self, Posted, WORD_ANSWERED, WORD_POSTED, WORD_SESSION};
use vfun_wire::limits::CONTROL_CELLS;
use vfun_wire::message::Kind;
use zerocopy::IntoBytes;

/// All control cells full at all times: those beyond the rate are left unread,
/// those of another window are served.
#[test]
fn a_flood_of_requests_waits_in_its_own_window() {
    let stand = Stand::start();
    let witness = stand.connect("witness");
    let echo = witness.function("echo").unwrap();
    let mut raw = Raw::attach(&stand);
    let session = raw.hello();
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let answered = std::thread::scope(|s| {
        let flood = s.spawn(|| {
            let mut seq = [0u32; CONTROL_CELLS];
            seq[0] = raw.seq;
            let mut answered = 0u64;
            while !stop.load(Ordering::Relaxed) {
                for (cell, seq) in seq.iter_mut().enumerate() {
                    let answer = control::answer_off(cell) / 8;
                    let word = raw.window.load(answer + WORD_ANSWERED, Ordering::Acquire);
                    if Posted::unpack(word).seq != *seq {
                        continue;
                    }
                    answered += 1;
                    *seq += 1;
                    let at = control::request_off(cell) / 8;
                    let posted = Posted { seq: *seq, kind: Kind::KeepAlive.to_wire(), len: 8 };
                    raw.window.store(at + WORD_SESSION, session, Ordering::Relaxed);
                    raw.window.store(at + WORD_POSTED, posted.pack(), Ordering::Release);
                    raw.ring();
                }
            }
            answered
        });
        let end = Stop(&stop);
        let mut asked = 0;
        stand.until("the flood is held up", |s| {
            witness.ping().expect("the witness is answered");
            asked += 1;
            asked >= 200 && s.status().held_up.requests > 20
        });
        echo.call(b"and its calls are served").unwrap();
        drop(end);
        flood.join().unwrap()
    });
    let rules = Rules::default();
    let passed = began.elapsed().as_millis() as u64;
    // The first answer of each cell is to nothing.
    let may = u64::from(rules.requests_burst)
        + passed * u64::from(rules.requests_per_s) / 1000
        + 2 * CONTROL_CELLS as u64;
    assert!(answered <= may, "{answered} requests were served in {passed} ms, {may} may be");
    assert!(stand.log().contains("asks faster than it may"), "{}", stand.log());
    // What waited is answered in the end.
    raw.seq = {
        let at = control::answer_off(0) / 8;
        let posted = control::request_off(0) / 8;
        let last = Posted::unpack(raw.window.load(posted + WORD_POSTED, Ordering::Acquire)).seq;
        stand.until("the last answer", |_| {
            Posted::unpack(raw.window.load(at + WORD_ANSWERED, Ordering::Acquire)).seq == last
        });
        last
    };
    raw.ask(Kind::KeepAlive, session, &[0; 8]).unwrap();
}

#[test]
fn a_bell_that_rings_for_nothing_is_not_listened_to_and_requests_are_seen_all_the_same() {
    let stand = Stand::start();
    let mut raw = Raw::attach(&stand);
    let session = raw.hello();
    let stop = AtomicBool::new(false);
    let bell = raw.bell.clone().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                bell.ring();
            }
        });
        let _end = Stop(&stop);
        stand.until("the bell is not listened to", |s| s.status().held_up.bells > 2);
        for _ in 0..20 {
            raw.ask(Kind::KeepAlive, session, &[0; 8]).unwrap();
        }
        // One that says that it posted, and did not, is no better.
        let before = stand.status().held_up.bells;
        stand.until("the lie is not listened to", |s| {
            for _ in 0..200 {
                raw.ring();
            }
            s.status().held_up.bells > before
        });
        stand.connect("witness").ping().unwrap();
    });
    let said = stand.log().matches("rings its control bell with nothing to say").count();
    assert_eq!(said, 1, "once, not each time");
    // A system in which nobody rings is asleep again.
    std::thread::sleep(Duration::from_millis(100));
    let before = cpu_ms(stand.pid());
    std::thread::sleep(Duration::from_secs(1));
    let used = cpu_ms(stand.pid()) - before;
    assert!(used < 500, "the manager used {used} ms of a second in which nothing happened");
}

/// Processor time of a process so far, ms, by ticks of 10.
fn cpu_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

#[test]
fn lines_that_somebody_causes_are_counted_beyond_a_rate() {
    let stand = Stand::start();
    let began = Instant::now();
    let mut asked = 0u64;
    while asked < 400 {
        let refused = stand.options("x").client("nobody-by-that-name").connect();
        assert!(refused.is_err());
        asked += 1;
    }
    let said = stand.log().matches("attach refused").count() as u64;
    let may = u64::from(LINES.burst)
        + began.elapsed().as_millis() as u64 * u64::from(LINES.per_s) / 1000
        + 1;
    assert!(said <= may, "{said} lines, {may} may be");
    let left_out = stand.status().held_up.lines;
    assert!(left_out > 0 && said + left_out >= asked, "{said} said, {left_out} left out");
    // Somebody else is heard.
    let echo = stand.connect("witness").function("echo").unwrap();
    assert!(stand.log().contains("witness"), "{}", stand.log());
    drop(echo);
}

/// An app that takes and gives back without end costs a bounded number of rows.
#[test]
fn grants_that_come_and_go_fill_no_history() {
    let stand = Stand::start();
    let mut raw = Raw::attach(&stand);
    let session = raw.hello();
    let began = Instant::now();
    let mut states = 0u64;
    while states < 2 * u64::from(RECORDS.burst) {
        let grant = raw.ask(Kind::Negotiate, session, negotiate("echo").as_bytes()).unwrap();
        raw.ask(Kind::Release, session, &grant[..8]).unwrap();
        states += 3;
    }
    let kept = raw.ask(Kind::Negotiate, session, negotiate("echo").as_bytes()).unwrap();
    let rows = match stand.ask(&Ask::History { limit: 10_000 }) {
        Reply::History { rows } => rows,
        other => panic!("{other:?}"),
    };
    let s = began.elapsed().as_secs() + 1;
    // One grant may be there each time that what was put off is put on record.
    let may = u64::from(RECORDS.burst) + s * (u64::from(RECORDS.per_s) + 50);
    assert!(rows.len() as u64 <= may, "{} rows, {may} may be", rows.len());
    assert!(rows.iter().any(|r| r.state == "left out"), "and says what it leaves out");
    let newest = vfun_wire::Handle(u64::from_le_bytes(kept[..8].try_into().unwrap())).to_string();
    stand.until("what is there now is on record", |s| match s.ask(&Ask::History { limit: 50 }) {
        Reply::History { rows } => rows.iter().any(|r| r.grant == newest),
        _ => false,
    });
    let shown = stand.root().join("vmcli/host/raw-echo").join(format!("{newest}.json"));
    assert!(shown.is_file(), "{}", shown.display());
}

/// Callers over the network get so many windows a second, each client's for itself.
#[test]
fn windows_come_at_a_rate() {
    let stand = Stand::start();
    for name in ["far", "wide"] {
        let text =
            format!("name = \"{name}\"\nkind = \"host\"\nwindow = \"1 MiB\"\ntcp = \"open\"\n");
        stand.add_client(&text).unwrap();
    }
    let began = Instant::now();
    let mut given = 0u64;
    let refused = loop {
        match Raw::attach_as(&stand, "far", 1) {
            Ok(_) => given += 1,
            Err(nack) => break nack,
        }
        let ms = began.elapsed().as_millis() as u64;
        let may = u64::from(ATTACHES.burst) + ms * u64::from(ATTACHES.per_s) / 1000 + 1;
        assert!(given <= may, "{given} windows, {may} may be");
    };
    assert_eq!(refused.code, NackCode::NoCapacity, "{refused}");
    assert!(given >= 1, "{refused}");
    Raw::attach_as(&stand, "wide", 1).map(drop).expect("another client's callers are served");
    stand.connect("root").ping().unwrap();
    assert!(stand.status().held_up.connections > 0);
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Those who come all at once, root's too, wait until who has a window is answered:
/// seen by the order of the manager's own lines.
#[test]
fn requests_in_windows_come_before_those_who_want_one() {
    use rustix::process::Signal;
    use std::io::Write;
    use vfun_wire::attach::{ATTACH_MAGIC, Attach};
    use zerocopy::FromBytes;
    let stand = Stand::start();
    let mut raw = Raw::attach(&stand);
    let session = raw.hello();
    let mut ask = Attach::read_from_bytes(&[0; size_of::<Attach>()]).unwrap();
    ask.magic.set(ATTACH_MAGIC);
    ask.client = vfun_wire::names::encode("nobody").unwrap();
    let connect =
        || std::os::unix::net::UnixStream::connect(stand.root().join("host.sock")).unwrap();
    let newcomers: Vec<_> = (0..30).map(|_| connect()).collect();
    // Each answer is a turn or more: they are all taken by then, and have said nothing.
    for _ in 0..50 {
        stand.status();
    }
    signal(stand.pid(), Signal::STOP);
    // A signal is on its way for a while.
    let state = format!("/proc/{}/stat", stand.pid());
    while !std::fs::read_to_string(&state).unwrap().contains(") T ") {
        std::thread::yield_now();
    }
    newcomers.iter().for_each(|mut c| c.write_all(ask.as_bytes()).unwrap());
    let word = vfun_wire::header::POSTED_OFF / 8;
    let window = raw.window.clone();
    let before = window.load(word, Ordering::SeqCst);
    std::thread::scope(|s| {
        s.spawn(|| raw.ask(Kind::Negotiate, session, negotiate("echo").as_bytes()).unwrap());
        while window.load(word, Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
        // It rings after that word.
        std::thread::sleep(Duration::from_millis(100));
        signal(stand.pid(), Signal::CONT);
    });
    stand.until("all newcomers are answered", |s| s.log().matches("attach refused").count() == 30);
    let log = stand.log();
    let granted = log.find("granted").expect("the request was granted");
    let sooner = log[..granted].matches("attach refused").count();
    assert_eq!(sooner, 0, "{log}");
}
