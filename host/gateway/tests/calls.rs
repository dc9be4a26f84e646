//! Callers over TCP, with a real manager and real services.

use crate::peer;

use peer::{Peer, call, frame, gateway};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Error, FunctionRequest, NackCode, TransportKind};
use vfun_admin::{Ask, Reply};
use vfun_gateway::limits::CONNECTIONS_MAX;
use vfun_tests_local::{Stand, args, capabilities, number};
use vfun_wire::frame::{ATTACH, CALL};
use vfun_wire::message::{Kind, OfGrant};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// A manager with a client that may be used over TCP, and a gateway to it.
fn stand() -> (Stand, SocketAddr) {
    let stand = Stand::start();
    stand
        .add_client("name = \"far\"\nkind = \"host\"\nwindow = \"64 MiB\"\ntcp = \"open\"\n")
        .unwrap();
    let at = gateway(&stand.root().join("host.sock"));
    (stand, at)
}

fn options(at: SocketAddr) -> ConnectOptions {
    ConnectOptions::new("far-app").endpoint(Endpoint::Tcp(at.to_string())).client("far")
}

fn sleep(ms: u32) -> Vec<u8> {
    [&[6u8][..], &ms.to_le_bytes()].concat()
}

#[test]
fn the_library_calls_over_tcp() {
    let (stand, at) = stand();
    let session = options(at).connect().unwrap();
    assert_eq!(session.info().transport, TransportKind::Tcp);
    assert_eq!(session.info().client, "far");
    assert!(session.list().unwrap().iter().any(|f| f.name == "factorial" && f.max_args == 16));
    assert!(session.ping().unwrap() < Duration::from_secs(5));
    let fewer = (-3, "fewer than two numbers of 8 bytes".to_owned());
    assert_eq!(session.function_codes("factorial").unwrap(), [fewer]);
    let e = session.function_codes("factoriel").unwrap_err();
    assert!(matches!(&e, Error::Refused(n) if n.code == NackCode::UnknownFunction), "{e}");

    let factorial = session.function("factorial").unwrap();
    assert_eq!(number(&factorial.call(&args(20, 1)).unwrap()), 2_432_902_008_176_640_000);
    let echo = session
        .negotiate(&FunctionRequest::new("echo").cell_bytes(1 << 20).depth(8))
        .unwrap()
        .activate()
        .unwrap();
    let large: Vec<u8> = (0..1 << 20).map(|i| (i % 253) as u8).collect();
    assert!(echo.call(&large).unwrap() == large);
    assert_eq!(echo.call(b"").unwrap(), b"");
    assert!(matches!(echo.call(&vec![0; (1 << 20) + 1]), Err(Error::ArgumentsTooLong { .. })));

    // Many threads, one connection.
    std::thread::scope(|s| {
        for thread in 0..4u64 {
            let echo = &echo;
            s.spawn(move || {
                for i in 0..300u64 {
                    let bytes =
                        [thread, i].map(u64::to_le_bytes).concat().repeat(1 + (i % 9) as usize);
                    assert_eq!(echo.call(&bytes).unwrap(), bytes);
                }
            });
        }
    });
    let stats = echo.release().unwrap();
    assert_eq!((stats.calls, stats.errors), (1202, 0));
    stand.until("the release", |s| s.grants().len() == 1);
    session.close().unwrap();
    stand.until("the session's end", |s| s.totals() == (0, 0, 0, 0));
}

#[test]
fn a_drivers_errors_come_with_their_words() {
    let (_stand, at) = stand();
    let session = options(at).connect().unwrap();
    let f = session.function("misbehave").unwrap();
    assert!(
        matches!(f.call(&[3, 42, 0, 0, 0]), Err(Error::Driver { code: 42, sentence }) if sentence.contains("told to fail"))
    );
    assert!(matches!(f.call(&[1]), Err(Error::DriverCrashed)));
    assert_eq!(f.call(&[0, 7]).unwrap(), [7], "the service came back");
    assert_eq!(number(&f.call(&[7]).unwrap()), 2);
    f.rst().unwrap();
    assert_eq!(number(&f.call(&[7]).unwrap()), 1);
    assert!(matches!(f.call(&[2]), Err(Error::Deadline)));
    let refused = session.function("nothing-like-that").unwrap_err();
    assert!(matches!(refused, Error::Refused(n) if n.code == NackCode::UnknownFunction));
    let beyond =
        session.negotiate(&FunctionRequest::new("echo").cell_bytes(65 << 20)).err().unwrap();
    assert!(matches!(beyond, Error::Refused(n) if n.code == NackCode::BeyondLimit));
}

#[test]
fn policy_decides_who_may_come_from_elsewhere() {
    let (stand, at) = stand();
    let code = |o: ConnectOptions| match o.connect() {
        Err(Error::Refused(n)) => n.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        code(ConnectOptions::new("a").endpoint(Endpoint::Tcp(at.to_string()))),
        NackCode::Denied
    );
    assert_eq!(code(options(at).client("nobody")), NackCode::Denied);
    // Neither credential nor token: nobody can be told from anybody.
    stand.add_client("name = \"bare\"\nkind = \"host\"\ntcp = true\n").unwrap();
    match options(at).client("bare").credential("x").connect() {
        Err(Error::Refused(n)) if n.code == NackCode::Denied => {
            assert!(n.sentence.contains("vfun token add bare"), "{n}");
        }
        other => panic!("{other:?}"),
    }
    let token = match stand.ask(&Ask::AddToken {
        client: "bare".into(),
        app: "*".into(),
        lives_ms: None,
    }) {
        Reply::TokenMade(fresh) => fresh.secret,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(options(at).client("bare")), NackCode::BadCredential);
    assert_eq!(code(options(at).client("bare").credential("x")), NackCode::BadCredential);
    // Who cannot show it takes no windows from those who can.
    for _ in 0..100 {
        assert_eq!(code(options(at).client("bare").credential("x")), NackCode::BadCredential);
    }
    options(at).client("bare").credential(token).connect().unwrap();
    // A token of some apps is for these only.
    let of_web = match stand.ask(&Ask::AddToken {
        client: "bare".into(),
        app: "web-*".into(),
        lives_ms: None,
    }) {
        Reply::TokenMade(fresh) => fresh.secret,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(options(at).client("bare").credential(&of_web)), NackCode::BadCredential);
    ConnectOptions::new("web-1")
        .endpoint(Endpoint::Tcp(at.to_string()))
        .client("bare")
        .credential(&of_web)
        .connect()
        .unwrap();
    // "secret"
    let sha = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    stand
        .add_client(&format!(
            "name = \"locked\"\nkind = \"host\"\ntcp = true\ncredential_sha256 = \"{sha}\"\n"
        ))
        .unwrap();
    assert_eq!(code(options(at).client("locked")), NackCode::BadCredential);
    assert_eq!(code(options(at).client("locked").credential("guess")), NackCode::BadCredential);
    let session = options(at).client("locked").credential("secret").connect().unwrap();
    assert_eq!(session.info().client, "locked");
}

#[test]
fn frames_are_answered_in_any_order_and_number() {
    let (_stand, at) = stand();
    let mut p = Peer::greeted(at, "far");
    let grant = p.activate("echo");
    for round in 0..20u64 {
        let ids: Vec<u64> = (0..64).map(|i| round * 64 + i + 1000).collect();
        let frames: Vec<u8> =
            ids.iter().flat_map(|id| call(*id, grant, 1, &id.to_le_bytes())).collect();
        // In pieces that cut frames anywhere.
        for piece in frames.chunks(113) {
            p.say(piece);
        }
        let mut waiting: BTreeSet<u64> = ids.into_iter().collect();
        while !waiting.is_empty() {
            let a = p.hear();
            assert!(waiting.remove(&a.id));
            assert_eq!(a.call(), (0, 0, &a.id.to_le_bytes()[..]));
        }
    }
}

#[test]
fn a_long_call_holds_up_no_other() {
    let (_stand, at) = stand();
    let mut p = Peer::greeted(at, "far");
    let (slow, quick) = (p.activate("misbehave"), p.activate("echo"));
    // Where the machine stands still the long call may be over first: one of five
    // that is not is enough.
    let held_up = (0..5).all(|_| {
        p.say(&call(1, slow, 1, &sleep(300)));
        for id in 2..40 {
            p.say(&call(id, quick, 1, b"quick"));
            let a = p.hear();
            if a.id == 1 {
                assert_eq!(p.hear().id, id);
                return true;
            }
            assert_eq!((a.id, a.call()), (id, (0, 0, &b"quick"[..])));
        }
        // Control requests are answered meanwhile too.
        p.say(&frame(Kind::Stats.to_wire(), 99, OfGrant { grant: U64::new(quick) }.as_bytes()));
        let a = p.hear();
        if a.id == 1 {
            assert_eq!(p.hear().id, 99);
            return true;
        }
        assert_eq!((a.id, a.ack().len()), (99, 80));
        let a = p.hear();
        assert_eq!((a.id, a.call()), (1, (0, 0, &b""[..])));
        false
    });
    assert!(!held_up, "what is short took longer than a long call, five times");
}

#[test]
fn what_is_refused_leaves_the_connection_whole() {
    let (stand, at) = stand();
    let mut p = Peer::greeted(at, "far");
    let mut other = Peer::greeted(at, "far");
    let (grant, theirs) = (p.activate("echo"), other.activate("echo"));
    let code = |p: &mut Peer, bytes: &[u8]| {
        p.say(bytes);
        p.hear().nack().code
    };
    assert_eq!(code(&mut p, &call(5, 0xdead_beef, 1, b"")), NackCode::BadHandle);
    assert_eq!(
        code(&mut p, &call(5, theirs, 1, b"")),
        NackCode::BadHandle,
        "a grant is of its connection"
    );
    assert_eq!(code(&mut p, &frame(CALL, 5, b"short")), NackCode::Malformed);
    let mut reserved = call(5, grant, 1, b"");
    reserved[16 + 15] = 1;
    assert_eq!(code(&mut p, &reserved), NackCode::Malformed);
    assert_eq!(code(&mut p, &frame(0x55, 5, b"")), NackCode::Unsupported);
    assert_eq!(code(&mut p, &frame(16, 5, &[0; 32])), NackCode::Unsupported);
    assert_eq!(
        code(&mut p, &frame(Kind::Hello.to_wire(), 5, peer::hello().as_bytes())),
        NackCode::WrongState
    );
    assert_eq!(code(&mut p, &frame(Kind::Negotiate.to_wire(), 5, &[0; 3])), NackCode::Malformed);
    let mut floor = peer::negotiate("floor");
    floor.kind = 2.into();
    assert_eq!(
        p.ask(Kind::Negotiate.to_wire(), floor.as_bytes()).nack().code,
        NackCode::Unsupported
    );
    assert_eq!(p.of_grant(Kind::Activate, grant).nack().code, NackCode::WrongState);
    assert_eq!(p.of_grant(Kind::Release, 77).nack().code, NackCode::BadHandle);
    p.say(&call(6, grant, 2, b""));
    assert_eq!(p.hear().call().0, 1, "a command that no service knows");
    p.say(&call(7, grant, 1, &[9; 5000]));
    assert_eq!(p.hear().call().0, 2, "more than the cell takes");
    for peer in [(&mut p, grant), (&mut other, theirs)] {
        peer.0.say(&call(8, peer.1, 1, b"still here"));
        assert_eq!(peer.0.hear().call(), (0, 0, &b"still here"[..]));
    }
    // A frame beyond what any active function takes ends this connection only.
    let mut wild = call(9, grant, 1, b"");
    wild[..4].copy_from_slice(&(8u32 << 20).to_le_bytes());
    p.say(&wild);
    assert!(p.is_closed());
    other.say(&frame(ATTACH, 1, peer::attach("far").as_bytes()));
    assert!(other.is_closed());
    stand.until("grants of ended connections being released", |s| s.totals() == (0, 0, 0, 0));
}

#[test]
fn grants_end_with_their_connection_whatever_is_under_way() {
    let (stand, at) = stand();
    let mut p = Peer::greeted(at, "far");
    let grant = p.activate("misbehave");
    p.say(&call(1, grant, 1, &sleep(300)));
    p.say(&call(2, grant, 1, &sleep(10)));
    stand.until("the grant", |s| s.grants().len() == 1);
    drop(p);
    stand.until("its release", |s| s.totals() == (0, 0, 0, 0));

    // A release ends what is under way.
    let mut p = Peer::greeted(at, "far");
    let grant = p.activate("misbehave");
    p.say(&call(1, grant, 1, &sleep(400)));
    std::thread::sleep(Duration::from_millis(50));
    p.say(&frame(Kind::Release.to_wire(), 2, &grant.to_le_bytes()));
    let answers = [p.hear(), p.hear()];
    assert_eq!(answers.iter().map(|a| a.id).collect::<BTreeSet<_>>(), BTreeSet::from([1, 2]));
    p.say(&call(3, grant, 1, b""));
    let last = p.hear();
    assert!(last.kind == vfun_wire::frame::NACK || last.call().0 == 10, "{last:?}");
    // Goodbye is answered, then the connection ends.
    assert_eq!(p.ask(Kind::Goodbye.to_wire(), &[0; 8]).ack(), [0; 8]);
    assert!(p.is_closed());
    stand.until("its release", |s| s.totals() == (0, 0, 0, 0));
}

#[test]
fn it_ends_with_the_one_who_started_it() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vfun-gateway"))
        .args(["--listen", "127.0.0.1:0", "--socket", "/nowhere", "--until-stdin-closes"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    let until = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it lives on");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn it_keeps_no_right_of_roots() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vfun-gateway"))
        .args(["--listen", "127.0.0.1:0", "--socket", "/nowhere"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    capabilities::until_none(child.id());
    assert!(child.try_wait().unwrap().is_none(), "it serves");
    child.kill().and_then(|()| child.wait()).unwrap();
}

#[test]
fn connections_have_a_limit_and_it_is_said() {
    let (stand, at) = stand();
    let held: Vec<Peer> = (0..CONNECTIONS_MAX).map(|_| Peer::greeted(at, "far")).collect();
    let full = options(at).connect().err().unwrap();
    assert!(
        matches!(&full, Error::Refused(n) if n.code == NackCode::NoCapacity
            && n.sentence.contains(&CONNECTIONS_MAX.to_string())),
        "{full}"
    );
    drop(held);
    stand.until("the sessions' end", |s| s.totals() == (0, 0, 0, 0));
    options(at).connect().unwrap();
}
