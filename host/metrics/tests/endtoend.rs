//! A real manager with `--metrics`, asked as Prometheus asks. Needs the
//! programs beside this test, as `cargo build --workspace` puts them.

mod strict;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use strict::Exposition;
use vfun_admin::{Ask, Reply, VmName};
use vfun_nicd::ask as nics;
use vfun_nics::declared::{Hypervisor, Pool, Source, Vm};
use vfun_tests_local::{Stand, capabilities};

/// A manager that shows its metrics, and where.
fn stand() -> (Stand, SocketAddr) {
    // A free port; another process may take it first, which fails loudly.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (Stand::with(&["--metrics", &address.to_string()]), address)
}

fn raw(address: SocketAddr, request: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(request)?;
    let mut text = vec![];
    // One that is hung up on may see a reset after the answer.
    let _ = stream.read_to_end(&mut text);
    Ok(String::from_utf8(text).unwrap())
}

fn get(stand: &Stand, address: SocketAddr) -> Exposition {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let text = raw(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap_or_default();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
            assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"));
            return strict::parse(body).unwrap_or_else(|e| panic!("{e}\n{body}"));
        }
        assert!(Instant::now() < until, "no metrics:\n{}", stand.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_calls_do_is_shown_and_only_rises() {
    let (stand, address) = stand();
    let of = [("client", "host"), ("app", "scraped"), ("function", "echo")];
    assert_eq!(get(&stand, address).value("virtfun_calls_total", &of), None);
    stand.add_client("name = \"vm1\"\nwindow = \"1 MiB\"\n").unwrap();
    let session = stand.connect("scraped");
    let echo = session.function("echo").unwrap();
    (0..7).for_each(|_| drop(echo.call(b"abc").unwrap()));
    let seen = get(&stand, address);
    assert_eq!(seen.value("virtfun_up", &[]), Some(1.0));
    assert_eq!(seen.value("virtfun_calls_total", &of), Some(7.0));
    assert_eq!(seen.value("virtfun_arguments_bytes_total", &of), Some(21.0));
    assert_eq!(seen.value("virtfun_grants", &of), Some(1.0));
    assert_eq!(seen.value("virtfun_sessions", &[]), Some(1.0));
    assert_eq!(
        seen.value("virtfun_client_connected", &[("client", "vm1"), ("vm", "vm1")]),
        Some(0.0)
    );
    // The same as the manager's own rows.
    assert_eq!(stand.grants()[0].counters.calls, 7);
    let count = seen
        .value("virtfun_service_time_seconds_count", &[("client", "host"), ("function", "echo")]);
    assert_eq!(count, Some(stand.grants()[0].counters.times.samples() as f64));

    drop(echo);
    drop(session);
    stand.until("the grant's end", |s| s.totals().2 == 0);
    let seen = get(&stand, address);
    assert_eq!(seen.value("virtfun_calls_total", &of), Some(7.0), "what is gone still counts");
    assert_eq!(seen.value("virtfun_grants", &of), Some(0.0));
}

#[test]
fn network_vfs_are_shown_while_they_are_lent() {
    let (stand, address) = stand();
    let seen = get(&stand, address);
    assert_eq!(seen.value("virtfun_nics_up", &[]), None, "it lends none");
    drop(stand);

    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stand = Stand::with(&["--nics", "--metrics", &address.to_string()]);
    let socket = vfun_nicd::ask::socket(stand.root());
    stand.until("vfun-nics listens", |_| socket.exists());
    let tell = |ask: &nics::Ask| match vfun_admin::line::ask(&socket, ask) {
        Ok(nics::Answer::Done { .. }) => {}
        other => panic!("{other:?}\n{}", stand.log()),
    };
    let source = Source::Emulated { vfs: 2, model: "igb".into() };
    tell(&nics::Ask::AddPool { name: "p".into(), pool: Pool::new(source) });
    let vm = Vm::new(
        "p",
        Hypervisor::Qmp { socket: stand.root().join("no.qmp") },
        "02:00:00:00:00:01",
        "no-bridge",
        "no-tap",
    );
    tell(&nics::Ask::AddVm { name: VmName::new("web", "one"), vm });
    let of = [("client", "web"), ("vm", "one"), ("pool", "p")];
    // What is shown may be of the moment between the pool and the VM.
    stand.until("the VFs and the VM are shown", |s| {
        let seen = get(s, address);
        seen.value("virtfun_nics_vfs", &[("pool", "p")]) == Some(2.0)
            && seen.value("virtfun_nics_vm_holds_vf", &of).is_some()
    });
    let seen = get(&stand, address);
    assert_eq!(seen.value("virtfun_nics_up", &[]), Some(1.0));
    for name in ["holds_vf", "packet_rate", "agent", "moves_total", "failed_moves_total"] {
        assert_eq!(seen.value(&format!("virtfun_nics_vm_{name}"), &of), Some(0.0), "{name}");
    }
}

#[test]
fn nonsense_is_answered_and_strangers_are_bounded() {
    let (stand, address) = stand();
    get(&stand, address);
    let status = |request: &[u8]| {
        let text = raw(address, request).unwrap();
        text.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), "200");
    assert_eq!(status(b"GET /metrics?x=1 HTTP/1.1\r\n\r\n"), "200");
    assert_eq!(status(b"GET /etc/passwd HTTP/1.1\r\n\r\n"), "404");
    assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), "405");
    assert_eq!(status(b"\x00\x01\x02 nonsense\r\n\r\n"), "400");
    let long = [b"GET / HTTP/1.1\r\nA: ".as_slice(), &[b'x'; 9000]].concat();
    assert_eq!(status(&long), "431");
    let many = [b"GET / HTTP/1.1\r\n".as_slice(), &b"A: b\r\n".repeat(100), b"\r\n"].concat();
    assert_eq!(status(&many), "431");
    let head = raw(address, b"HEAD /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(head.ends_with("\r\n\r\n") && head.contains("Content-Length: "), "{head}");

    // Silent ones take all places; one more is hung up on; when they leave,
    // everything is as before.
    let silent: Vec<TcpStream> = (0..vfun_metrics::limits::CONNECTIONS_MAX)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    stand.until("a full house", |_| {
        raw(address, b"GET / HTTP/1.1\r\n\r\n").is_ok_and(|t| t.is_empty())
    });
    drop(silent);
    stand.until("room again", |_| {
        raw(address, b"GET / HTTP/1.1\r\n\r\n").is_ok_and(|t| t.contains("200 OK"))
    });
}

/// The helper's process: the child of this test's manager that runs it.
fn helper(stand: &Stand, name: &str) -> Option<u32> {
    let Reply::Status(status) = stand.ask(&Ask::Status) else { panic!() };
    let children = format!("/proc/{0}/task/{0}/children", status.pid);
    let list = std::fs::read_to_string(children).ok()?;
    list.split_whitespace().filter_map(|p| p.parse().ok()).find(|pid: &u32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.trim() == name
    })
}

fn kill(pid: u32) {
    assert!(
        std::process::Command::new("kill")
            .arg("-9")
            .arg(pid.to_string())
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn helpers_that_die_come_back() {
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (metrics, tcp) = (free(), free());
    let stand = Stand::with(&["--metrics", &metrics.to_string(), "--tcp", &tcp.to_string()]);
    stand.add_client("name = \"far\"\nkind = \"host\"\ntcp = \"open\"\n").unwrap();
    let call = || {
        vfun::ConnectOptions::new("far-app")
            .endpoint(vfun::Endpoint::Tcp(tcp.to_string()))
            .client("far")
            .connect()
            .and_then(|s| s.function("echo")?.call(b"x").map(|_| ()))
    };
    for round in 0..2 {
        for name in ["vfun-metrics", "vfun-gateway"] {
            stand.until("the helper", |s| helper(s, name).is_some());
            let first = helper(&stand, name).unwrap();
            kill(first);
            stand.until("another one", |s| helper(s, name).is_some_and(|pid| pid != first));
        }
        get(&stand, metrics);
        stand.until("calls over the new gateway", |_| call().is_ok());
        let log = stand.log();
        let pause = 100 << round;
        assert!(
            log.contains(&format!("it is started again in {pause} ms")),
            "the pause doubles:\n{log}"
        );
    }
    // An orderly end leaves neither.
    let (a, b) = (helper(&stand, "vfun-metrics").unwrap(), helper(&stand, "vfun-gateway").unwrap());
    drop(stand);
    for pid in [a, b] {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn without_a_manager_it_says_so() {
    let (mut stand, address) = stand();
    get(&stand, address);
    // The helper ends with a manager that was killed; one started by hand does not.
    let pid = helper(&stand, "vfun-metrics").unwrap();
    stand.kill_vfund();
    let until = Instant::now() + Duration::from_secs(20);
    while std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|c| c.starts_with("vfun-metrics"))
    {
        assert!(Instant::now() < until, "it outlived its manager");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut own = std::process::Command::new(vfun_tests_local::programs().join("vfun-metrics"))
        .args(["--listen", &address.to_string(), "--socket"])
        .arg(stand.manager().socket())
        .spawn()
        .unwrap();
    let seen = get(&stand, address);
    assert_eq!(seen.value("virtfun_up", &[]), Some(0.0));
    assert_eq!(seen.value("virtfun_sessions", &[]), None);
    own.kill().unwrap();
    own.wait().unwrap();
}

#[test]
fn it_keeps_no_right_of_roots() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_vfun-metrics"))
        .args(["--listen", "127.0.0.1:0", "--socket", "/nowhere"])
        .stdin(std::process::Stdio::null())
        .spawn()
        .unwrap();
    capabilities::until_none(child.id());
    assert!(child.try_wait().unwrap().is_none(), "it serves");
    child.kill().and_then(|()| child.wait()).unwrap();
}
