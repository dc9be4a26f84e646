//! kill -9 of each process at each step of each phase: how it ends for the
//! caller is what the table says, all is given back, and the next session works.

use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use vfun::{CellState, ConnectOptions, Endpoint, Error, Function, FunctionRequest};
use vfun_admin::Ask;
use vfun_tests_hostile::chaos::name;
use vfun_tests_hostile::matrix::{DONE, Row, Who, rows, table};
use vfun_tests_hostile::steps::STEPS;
use vfun_tests_hostile::watch::{Before, processes};
use vfun_tests_hostile::witness::{Witness, manifest};
use vfun_tests_local::built::{build, full};
use vfun_tests_local::{Stand, programs, repo};

/// The programs with points at which they die, built once.
fn faulty() -> &'static [PathBuf; 2] {
    static BUILT: OnceLock<[PathBuf; 2]> = OnceLock::new();
    BUILT.get_or_init(|| {
        let features = "vfun-manager/fault-points,vfun-native/fault-points";
        let bins = ["--bin", "vfund-faulty", "--bin", "vfun-service-faulty"];
        build(&[&["--workspace", "--features", features][..], &bins].concat());
        ["vfund-faulty", "vfun-service-faulty"].map(|p| programs().join(p))
    })
}

fn faulty_stand(point: &str) -> Stand {
    let [manager, service] = faulty();
    let service = service.to_str().expect("utf-8");
    Stand::of(manager, &["--service-program", service], &[("VFUN_DIE_AT", point)])
}

fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a pid");
    kill_process(pid, signal).expect("it is there");
}

/// How a step failed, in the words of the table.
fn ends(step: &'static str) -> impl Fn(Error) -> String {
    move |e| format!("{step} ends with {}", name(&e))
}

/// A whole session, each step by the library.
fn session(options: ConnectOptions) -> Result<(), String> {
    let session = options.connect().map_err(ends("connect"))?;
    let grant = session.negotiate(&FunctionRequest::new("echo")).map_err(ends("negotiate"))?;
    let echo = grant.activate().map_err(ends("activate"))?;
    for i in 0..10u64 {
        let got = echo.call(&i.to_le_bytes()).map_err(ends("call"))?;
        assert_eq!(got, i.to_le_bytes());
    }
    echo.release().map_err(ends("release"))?;
    session.close().map_err(ends("goodbye"))
}

fn in_words(ended: Result<(), String>) -> String {
    ended.err().unwrap_or_else(|| DONE.into())
}

/// All is given back, and the next session works.
fn after(stand: &Stand, row: &Row) {
    stand.until(&format!("{row:?}: nothing left"), |s| {
        let (windows, sessions, grants, _) = s.totals();
        (windows, sessions, grants) == (0, 0, 0)
    });
    assert_eq!(in_words(session(stand.options("next"))), DONE, "{row:?}: the next session");
}

/// Goes through the rows of one (a third of those in which all is done, where tests
/// run short); prints each, and fails at the end if any is wrong.
fn each(who: Who, mut end_of: impl FnMut(&Row) -> String) {
    let mut wrong = vec![];
    for row in rows(who).enumerate().filter(|(n, r)| full() || n % 3 == 0 || r.end != DONE) {
        let row = row.1;
        let end = end_of(row);
        println!("{:?} | {} | {end}", row.who, row.step);
        if end != row.end {
            wrong.push(format!("{:?} at '{}': '{end}', not '{}'", row.who, row.step, row.end));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_manager_may_die_at_each_step() {
    each(Who::Manager, |row| {
        if let Some(end) = in_a_call(row, |stand, _| {
            stand.kill_vfund();
            stand.start_vfund();
        }) {
            return end;
        }
        let mut stand = faulty_stand(&row.step.replace(' ', ":"));
        let options = stand.options("caller");
        let ended = std::thread::scope(|scope| {
            let app = scope.spawn(|| session(options));
            let until = Instant::now() + Duration::from_secs(20);
            while !stand.vfund_died() {
                assert!(Instant::now() < until, "{row:?} was never reached");
                std::thread::sleep(Duration::from_micros(200));
            }
            stand.start_vfund();
            app.join().expect("no panic")
        });
        after(&stand, row);
        in_words(ended)
    });
}

/// Whether each thread of a process stands still.
fn stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it is there");
    threads.flatten().all(|t| {
        let stat = std::fs::read_to_string(t.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// A call at the step that the row names, if that is a step of a call: what the
/// killer does then, and how it ends.
fn in_a_call(row: &Row, kill: impl FnOnce(&mut Stand, u32)) -> Option<String> {
    if !["call posted", "call computing", "result written"].contains(&row.step) {
        return None;
    }
    let mut stand = Stand::start();
    let session = stand.connect("caller");
    let f = session.function("misbehave").unwrap();
    assert_eq!(f.call(&[0, 1]).unwrap(), [1]);
    let service = stand.grants()[0].pid.expect("it runs");
    let slow = row.step == "call computing";
    if row.step == "call posted" {
        send(service, Signal::STOP);
        stand.until("it stands still", |_| stopped(service));
    }
    let call = f.submit(if slow { &[6, 150, 0, 0, 0] } else { &[0, 7] }).unwrap();
    match row.step {
        "call computing" => stand.until("computing", |_| call.state() == CellState::Busy),
        "result written" => stand.until("written", |_| call.state() == CellState::Done),
        _ => {}
    }
    kill(&mut stand, service);
    if row.step == "call posted" {
        // Gone, if it was the one that was killed.
        let _ = kill_process(Pid::from_raw(service as i32).unwrap(), Signal::CONT);
    }
    let ended = call.wait().map_err(ends("call"));
    if let Ok(result) = &ended
        && !slow
    {
        assert_eq!(result, &[7]);
    }
    assert_eq!(f.call(&[0, 2]).unwrap(), [2], "{row:?}: the next call");
    f.release().unwrap();
    session.close().unwrap();
    after(&stand, row);
    Some(in_words(ended.map(|_| ())))
}

#[test]
fn a_service_may_die_at_each_step() {
    each(Who::Service, |row| {
        if let Some(end) = in_a_call(row, |_, service| send(service, Signal::KILL)) {
            return end;
        }
        let stand = faulty_stand("nowhere:at-all");
        if let Some(point) = row.step.strip_prefix("call ") {
            let session = stand.connect("caller");
            let echo = session.function("echo").unwrap();
            let args = format!("DIE:{point}").into_bytes();
            let ended = echo.call(&args).map_err(ends("call"));
            if let Ok(result) = &ended {
                assert_eq!(result, &args);
            }
            assert_eq!(echo.call(b"next").unwrap(), b"next", "{row:?}");
            stand.until(&format!("{row:?}: it died"), |s| s.grants()[0].restarts == 1);
            echo.release().unwrap();
            session.close().unwrap();
            after(&stand, row);
            return in_words(ended.map(|_| ()));
        }
        let manifest = std::fs::read_to_string(repo().join("services/testdriver/function.toml"));
        let manifest = format!("{}\n[settings]\ndie_at = \"{}\"\n", manifest.unwrap(), row.step);
        stand.ask(&Ask::AddFunction { manifest, file: "faulty.toml".into() });
        let ended = (|| {
            let session = stand.connect("caller");
            let grant =
                session.negotiate(&FunctionRequest::new("misbehave")).map_err(ends("negotiate"))?;
            let f = grant.activate().map_err(ends("activate"))?;
            assert_eq!(f.call(&[0, 1]).map_err(ends("call"))?, [1]);
            f.release().map_err(ends("release"))?;
            session.close().map_err(ends("goodbye"))
        })();
        after(&stand, row);
        in_words(ended)
    });
}

/// A session that stops before each step until it is told to go on, and says
/// when it is about to take it.
fn session_by_steps(
    options: ConnectOptions,
    said: &Sender<()>,
    go: &Receiver<()>,
) -> Result<(), String> {
    let step = || {
        let _ = said.send(());
        let _ = go.recv();
    };
    step();
    let session = options.connect().map_err(ends("connect"))?;
    step();
    let grant = session.negotiate(&FunctionRequest::new("echo")).map_err(ends("negotiate"))?;
    step();
    let echo: Function = grant.activate().map_err(ends("activate"))?;
    step();
    for i in 0..10u64 {
        assert_eq!(echo.call(&i.to_le_bytes()).map_err(ends("call"))?, i.to_le_bytes());
    }
    echo.release().map_err(ends("release"))?;
    step();
    session.close().map_err(ends("goodbye"))
}

fn keeper(stand: &Stand) -> u32 {
    processes(stand.root()).get("vfun-keeper").expect("a manager has a keeper").pid
}

#[test]
fn the_keeper_may_die_at_each_step() {
    each(Who::Keeper, |row| {
        let killed = |stand: &Stand| {
            let pid = keeper(stand);
            send(pid, Signal::KILL);
            pid
        };
        let replaced = |stand: &Stand, old: u32| {
            // It has everything when the manager says so.
            stand.until("another keeper", |s| {
                let now = processes(s.root()).get("vfun-keeper").map(|k| k.pid);
                s.log().contains("started again") && now.is_some_and(|pid| pid != old)
            });
        };
        if let Some(end) = in_a_call(row, |stand, _| {
            let old = killed(stand);
            replaced(stand, old);
            // And the one that took its place knows everything.
            stand.kill_vfund();
            stand.start_vfund();
        }) {
            return end;
        }
        let stops = [
            "hello posted",
            "negotiate posted",
            "activate posted",
            "release posted",
            "goodbye posted",
        ];
        let at = stops.iter().position(|s| *s == row.step).expect("a step of the session");
        let stand = Stand::start();
        let manager = processes(stand.root())["vfund"].pid;
        let (said, hear) = channel();
        let (tell, go) = channel();
        let options = stand.options("caller");
        let ended = std::thread::scope(|scope| {
            let app = scope.spawn(move || session_by_steps(options, &said, &go));
            for stop in 0..stops.len() {
                hear.recv_timeout(Duration::from_secs(20)).expect("it goes on");
                if stop == at {
                    // What is asked now is posted, and not taken, when the keeper dies.
                    send(manager, Signal::STOP);
                    tell.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                    let old = killed(&stand);
                    send(manager, Signal::CONT);
                    replaced(&stand, old);
                } else {
                    tell.send(()).unwrap();
                }
            }
            app.join().expect("no panic")
        });
        after(&stand, row);
        in_words(ended)
    });
}

#[test]
fn the_gateway_may_die_at_each_step() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let stand = Stand::with(&["--tcp", &address]);
    stand.add_client(&manifest("remote")).unwrap();
    let options =
        || ConnectOptions::new("caller").client("remote").endpoint(Endpoint::Tcp(address.clone()));
    let gateway = |stand: &Stand| processes(stand.root()).get("vfun-gateway").map(|g| g.pid);
    each(Who::Gateway, |row| {
        let mut last = None;
        stand.until("a gateway that serves", |s| {
            last = gateway(s);
            last.is_some() && options().connect().is_ok()
        });
        let kill = || send(last.expect("it runs"), Signal::KILL);
        let ended = (|| {
            let session = options().connect().map_err(ends("connect"))?;
            if row.step == "session open" {
                kill();
            }
            let request = FunctionRequest::new("misbehave");
            let grant = session.negotiate(&request).map_err(ends("negotiate"))?;
            if row.step == "granted" {
                kill();
            }
            let f = grant.activate().map_err(ends("activate"))?;
            if row.step == "active" {
                kill();
            }
            let call = f.submit(&[6, 100, 0, 0, 0]).map_err(ends("call"))?;
            if row.step == "call computing" {
                stand.until("computing", |s| !s.grants().is_empty());
                std::thread::sleep(Duration::from_millis(30));
                kill();
            }
            call.wait().map_err(ends("call"))?;
            f.release().map_err(ends("release"))?;
            if row.step == "released" {
                kill();
            }
            session.close().map_err(ends("goodbye"))
        })();
        stand.until("nothing left", |s| (s.totals().1, s.totals().2) == (0, 0));
        in_words(ended)
    });
}

#[test]
fn an_app_may_die_at_each_step() {
    let stand = Stand::start();
    stand.add_client(&manifest("neighbour")).unwrap();
    stand.add_client(&manifest("mortal")).unwrap();
    let witness = Witness::start(stand.options("neighbour").client("neighbour"));
    stand.until("the neighbour", |_| witness.requests() > 0);
    for step in STEPS {
        let before = Before::look(stand.root(), "neighbour").unwrap();
        let status = Command::new(env!("CARGO_BIN_EXE_vfun-hostile"))
            .args(["--step", step.name(), "--client", "mortal", "--socket"])
            .arg(stand.root().join("host.sock"))
            .status()
            .unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(status.signal(), Some(9), "{}: {status}", step.name());
        before.compare().unwrap_or_else(|e| panic!("{}: {e}", step.name()));
        assert_eq!(witness.wrong(), None, "{}", step.name());
        println!("App | {} | given back", step.name());
    }
    witness.end().unwrap();
}

#[test]
fn the_page_shows_this_table() {
    let page = std::fs::read_to_string(repo().join("docs/reliability.md")).unwrap();
    assert!(page.contains(&table()), "docs/reliability.md lacks this table:\n{}", table());
}
