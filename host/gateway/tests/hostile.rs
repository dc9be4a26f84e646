//! Peers that do not keep to the protocol, before anything of the host is theirs.

use crate::peer;

use peer::{Peer, attach, frame, gateway, hello};
use std::path::Path;
use std::time::{Duration, Instant};
use vfun_gateway::limits::{GREETING, GREETINGS_MAX};
use vfun_wire::NackCode;
use vfun_wire::frame::{ATTACH, CALL};
use vfun_wire::message::Kind;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U64};

const NOBODY: &str = "/nowhere/host.sock";

#[test]
fn whoever_does_not_attach_first_is_refused_and_closed() {
    let at = gateway(Path::new(NOBODY));
    for kind in [CALL, Kind::Hello.to_wire(), 0, 0xffff] {
        let mut p = Peer::connect(at);
        assert_eq!(p.ask(kind, &[1, 2, 3]).nack().code, NackCode::WrongState);
        assert!(p.is_closed());
    }
    let mut magic = attach("x");
    magic.magic = U64::new(7);
    let mut reserved = attach("x");
    reserved.reserved[4] = 1;
    let mut name = attach("x");
    name.client[1] = b'/';
    let mut credential = attach("x");
    credential.credential_len = U16::new(65);
    let short = &attach("x").as_bytes()[..100].to_vec();
    for body in
        [magic.as_bytes(), reserved.as_bytes(), name.as_bytes(), credential.as_bytes(), &[], short]
    {
        let mut p = Peer::connect(at);
        assert_eq!(p.ask(ATTACH, body).nack().code, NackCode::Malformed);
        assert!(p.is_closed());
    }
}

#[test]
fn wild_heads_close_the_connection() {
    let at = gateway(Path::new(NOBODY));
    let mut wild = frame(ATTACH, 1, &[]);
    wild[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut long = frame(ATTACH, 1, &[]);
    long[..4].copy_from_slice(&4097u32.to_le_bytes());
    let mut reserved = frame(ATTACH, 1, &[]);
    reserved[6] = 1;
    for head in [wild, long, reserved] {
        let mut p = Peer::connect(at);
        p.say(&head);
        assert!(p.is_closed());
    }
}

#[test]
fn a_hello_says_what_is_wrong_with_it() {
    let at = gateway(Path::new(NOBODY));
    let refused = |change: &dyn Fn(&mut vfun_wire::message::Hello)| {
        let mut p = Peer::connect(at);
        p.ask(ATTACH, attach("x").as_bytes()).ack();
        let mut h = hello();
        change(&mut h);
        let nack = p.ask(Kind::Hello.to_wire(), h.as_bytes()).nack();
        assert!(p.is_closed());
        nack
    };
    assert_eq!(refused(&|h| h.version_min = U16::new(9)).code, NackCode::WrongProtocol);
    let older = refused(&|h| (h.version_min, h.version_max) = (U16::new(1), U16::new(1)));
    assert_eq!(older.code, NackCode::WrongProtocol);
    assert!(older.sentence.ends_with("update the app's VirtFun"), "{older}");
    assert_eq!(refused(&|h| h.reserved[0] = 1).code, NackCode::Malformed);
    assert_eq!(refused(&|h| h.app = peer::NO_NAME).code, NackCode::Malformed);
    assert_eq!(refused(&|h| h.credential_len = U16::new(3)).code, NackCode::BadCredential);
    assert_eq!(refused(&|h| h.credential_len = U16::new(999)).code, NackCode::BadCredential);
    let nobody = refused(&|_| {});
    assert_eq!(nobody.code, NackCode::ServiceFailed);
    assert!(nobody.sentence.contains(NOBODY), "{nobody}");
}

#[test]
fn silence_and_dribble_have_an_end() {
    let at = gateway(Path::new(NOBODY));
    let start = Instant::now();
    let mut silent = Peer::connect(at);
    let mut dribble = Peer::connect(at);
    let bytes = frame(ATTACH, 1, attach("x").as_bytes());
    let mut sent = 0;
    while start.elapsed() < GREETING + Duration::from_secs(2) {
        use std::io::Write;
        if dribble.0.write_all(&bytes[sent..=sent]).is_err() {
            break;
        }
        sent += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(silent.is_closed() && dribble.is_closed());
    assert!(start.elapsed() < GREETING + Duration::from_secs(30));
}

#[test]
fn those_that_say_nothing_keep_nobody_out() {
    let at = gateway(Path::new(NOBODY));
    let silent: Vec<Peer> = (0..2 * GREETINGS_MAX).map(|_| Peer::connect(at)).collect();
    for _ in 0..3 {
        let mut p = Peer::connect(at);
        assert!(p.ask(ATTACH, attach("x").as_bytes()).ack().is_empty());
    }
    drop(silent);
}
