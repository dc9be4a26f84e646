//! Callers by TLS, with a real manager and real services.

use crate::peer;

use peer::{Peer, attach, served};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Error, FunctionRequest, TlsFiles, TransportKind};
use vfun_gateway::limits::{GREETING, GREETINGS_MAX};
use vfun_gateway::{Certificates, Gateway, TlsFiles as ServerFiles};
use vfun_tests_local::{Issuer, Pair, Stand, args, number};
use vfun_wire::NackCode;
use vfun_wire::frame::ATTACH;
use zerocopy::IntoBytes;

struct Place {
    _stand: Stand,
    dir: tempfile::TempDir,
    issuer: Issuer,
    at: SocketAddr,
    socket: std::path::PathBuf,
}

fn gateway(socket: &std::path::Path, shown: &Pair, client_ca: Option<&Issuer>) -> SocketAddr {
    let files = ServerFiles {
        cert: shown.cert.clone(),
        key: shown.key.clone(),
        client_ca: client_ca.map(|c| c.file.clone()),
    };
    served(Gateway::new(socket.to_owned()).with_tls(Certificates::new(files).unwrap()))
}

fn place() -> Place {
    let stand = Stand::start();
    stand
        .add_client("name = \"far\"\nkind = \"host\"\nwindow = \"64 MiB\"\ntcp = \"open\"\n")
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(dir.path(), "issuer");
    let shown = issuer.issue(dir.path(), "gateway", &["127.0.0.1", "gate.example"]);
    let socket = stand.root().join("host.sock");
    let at = gateway(&socket, &shown, None);
    Place { _stand: stand, dir, issuer, at, socket }
}

impl Place {
    fn files(&self) -> TlsFiles {
        TlsFiles { ca: Some(self.issuer.file.clone()), ..TlsFiles::default() }
    }

    fn options(&self, at: SocketAddr) -> ConnectOptions {
        let endpoint = Endpoint::Tls(at.to_string());
        ConnectOptions::new("far-app").endpoint(endpoint).client("far").tls(self.files())
    }
}

/// What a caller is told who gets no session.
fn why(options: ConnectOptions) -> String {
    match options.connect() {
        Err(e @ Error::Tls { .. }) => e.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_library_calls_by_tls() {
    let p = place();
    let session = p.options(p.at).connect().unwrap();
    assert_eq!(session.info().transport, TransportKind::Tcp);
    assert!(session.describe().contains(", TLS)"), "{}", session.describe());
    let factorial = session.function("factorial").unwrap();
    assert_eq!(number(&factorial.call(&args(20, 1)).unwrap()), 2_432_902_008_176_640_000);
    let echo = session
        .negotiate(&FunctionRequest::new("echo").cell_bytes(1 << 20).depth(8))
        .unwrap()
        .activate()
        .unwrap();
    let large: Vec<u8> = (0..1 << 20).map(|i| (i % 253) as u8).collect();
    for len in [0, 1, 16 << 10, (16 << 10) + 1, 64 << 10, 300_000, 1 << 20] {
        assert!(echo.call(&large[..len]).unwrap() == large[..len], "{len} bytes");
    }
    // Both directions full: each side must read while it cannot write.
    let all: Vec<_> = (0..8).map(|_| echo.submit(&large).unwrap()).collect();
    for pending in all {
        assert!(pending.wait().unwrap() == large);
    }
    // Many threads, one connection.
    std::thread::scope(|s| {
        for thread in 0..4u64 {
            let echo = &echo;
            s.spawn(move || {
                for i in 0..300u64 {
                    let bytes =
                        [thread, i].map(u64::to_le_bytes).concat().repeat(1 + (i % 900) as usize);
                    assert_eq!(echo.call(&bytes).unwrap(), bytes);
                }
            });
        }
    });
    // A call that takes long is answered by another thread of the gateway.
    let misbehave = session.function("misbehave").unwrap();
    misbehave.call(&[&[6u8][..], &20u32.to_le_bytes()].concat()).unwrap();
}

#[test]
fn a_gateway_that_cannot_prove_itself_is_not_talked_to() {
    let p = place();
    let stranger = Issuer::new(p.dir.path(), "stranger");
    let files = TlsFiles { ca: Some(stranger.file.clone()), ..TlsFiles::default() };
    let text = why(p.options(p.at).tls(files));
    assert!(text.contains("VFUN_TLS_CA"), "{text}");

    let named = TlsFiles { name: Some("gate.example".into()), ..p.files() };
    p.options(p.at).tls(named).connect().unwrap();
    let misnamed = TlsFiles { name: Some("another.example".into()), ..p.files() };
    let text = why(p.options(p.at).tls(misnamed));
    assert!(text.contains("VFUN_TLS_NAME") && text.contains("gate.example"), "{text}");

    let old = p.issuer.issue_expired(p.dir.path(), "old", &["127.0.0.1"]);
    let text = why(p.options(gateway(&p.socket, &old, None)));
    assert!(text.contains("expired"), "{text}");

    let nobody = ConnectOptions::new("a").endpoint(Endpoint::Tls(p.at.to_string()));
    let text = why(nobody);
    assert!(text.contains("VFUN_TLS_CA"), "nobody is believed without being named: {text}");
    let half = TlsFiles { cert: Some("x".into()), ..p.files() };
    assert!(why(p.options(p.at).tls(half)).contains("go together"));
}

#[test]
fn a_caller_must_show_a_certificate_where_it_is_asked_for() {
    let p = place();
    let callers = Issuer::new(p.dir.path(), "callers");
    let shown = p.issuer.issue(p.dir.path(), "strict", &["127.0.0.1"]);
    let at = gateway(&p.socket, &shown, Some(&callers));
    let with = |pair: &Pair| TlsFiles {
        cert: Some(pair.cert.clone()),
        key: Some(pair.key.clone()),
        ..p.files()
    };
    let text = why(p.options(at));
    assert!(text.contains("VFUN_TLS_CERT"), "{text}");
    let foreign = p.issuer.issue(p.dir.path(), "foreign", &["app"]);
    let text = why(p.options(at).tls(with(&foreign)));
    assert!(text.contains("VFUN_TLS_CERT"), "{text}");
    let own = callers.issue(p.dir.path(), "app", &["app"]);
    let session = p.options(at).tls(with(&own)).connect().unwrap();
    assert_eq!(session.info().client, "far");
}

#[test]
fn each_end_says_so_when_the_other_does_not_speak_tls() {
    let p = place();
    let plain = Endpoint::Tcp(p.at.to_string());
    match ConnectOptions::new("a").client("far").endpoint(plain).connect() {
        Err(Error::Refused(n)) if n.code == NackCode::Unsupported => {
            assert!(n.sentence.contains("tls:HOST:PORT"), "{n}");
        }
        other => panic!("{other:?}"),
    }
    let text = why(p.options(peer::gateway(&p.socket)));
    assert!(text.contains("tcp:HOST:PORT"), "{text}");
}

#[test]
fn handshakes_that_never_end_keep_nobody_out_and_have_an_end() {
    let p = place();
    // As a caller begins, and then nothing.
    let half = || {
        let mut stream = TcpStream::connect(p.at).unwrap();
        stream.write_all(&[0x16, 3, 1, 1, 0, 1]).unwrap();
        stream
    };
    let flood: Vec<TcpStream> = (0..2 * GREETINGS_MAX).map(|_| half()).collect();
    let session = p.options(p.at).connect().unwrap();
    assert!(session.ping().is_ok());
    drop(flood);
    let (start, mut late) = (Instant::now(), half());
    late.set_read_timeout(Some(GREETING * 4)).unwrap();
    let mut rest = vec![];
    match late.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset),
    }
    assert!(start.elapsed() > GREETING / 2, "it had its time");
}

#[test]
fn bytes_that_are_no_handshake_end_their_connection_only() {
    let p = place();
    for bytes in [&[0x16u8; 4000][..], &[0x16, 3, 3, 0xff, 0xff, 0, 0], &[0x16, 3, 3, 0, 0]] {
        let mut stream = TcpStream::connect(p.at).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(GREETING * 4)).unwrap();
        let mut rest = vec![];
        let ended = stream.read_to_end(&mut rest);
        assert!(
            !matches!(&ended, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock),
            "{ended:?}"
        );
    }
    let mut plain = Peer::connect(p.at);
    assert_eq!(plain.ask(ATTACH, attach("far").as_bytes()).nack().code, NackCode::Unsupported);
    assert!(plain.is_closed());
    p.options(p.at).connect().unwrap();
}

#[test]
fn a_renewed_certificate_is_taken_up_and_a_wrong_one_is_not() {
    let p = place();
    let shown = p.issuer.issue(p.dir.path(), "renewed", &["127.0.0.1"]);
    let at = gateway(&p.socket, &shown, None);
    std::fs::write(&shown.cert, "no certificate").unwrap();
    p.options(at).connect().unwrap();
    let other = Issuer::new(p.dir.path(), "other");
    // Another length or another time: the files were written anew.
    std::thread::sleep(Duration::from_millis(20));
    other.issue(p.dir.path(), "renewed", &["127.0.0.1"]);
    assert!(why(p.options(at)).contains("VFUN_TLS_CA"));
    let files = TlsFiles { ca: Some(other.file.clone()), ..TlsFiles::default() };
    p.options(at).tls(files).connect().unwrap();
}

#[test]
fn files_that_will_not_do_are_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(dir.path(), "issuer");
    let (a, b) = (issuer.issue(dir.path(), "a", &["a"]), issuer.issue(dir.path(), "b", &["b"]));
    let with = |cert: &std::path::Path, key: &std::path::Path| {
        let files = ServerFiles { cert: cert.into(), key: key.into(), client_ca: None };
        Certificates::new(files).err().unwrap().to_string()
    };
    assert!(with(&a.cert, &b.key).contains("belong together"));
    assert!(with(&a.key, &a.key).contains("holds no certificate"));
    assert!(with(&a.cert, &a.cert).contains("every user may read"));
    assert!(with(&dir.path().join("none"), &a.key).contains("cannot be read"));
    std::fs::set_permissions(&a.key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    assert!(with(&a.cert, &a.key).contains("chmod 600"));
}
