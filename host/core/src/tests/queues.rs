//! Channels of queues: which functions have them, how large they are, and how they end.

use super::*;
use crate::policy::parse;
use crate::services::{LIFE_MS, QUEUES_STILL_MS};
use crate::watch::Progress;
use std::path::Path;
use vfun_wire::kind::ChannelKind;
use vfun_wire::queues::{Queues, QueuesShape};
use vfun_wire::range::Access;

/// The catalog with the function `mirror`, which serves calls and queues.
fn with_mirror() -> Catalog {
    let mut mirror = function(9, "mirror");
    mirror.software = Some(Driver::Mirror);
    let mut catalog = catalog();
    catalog.functions.insert("mirror".into(), mirror);
    catalog
}

fn bed() -> Bed {
    let mut b = Bed::new();
    b.feed(Event::Catalog(with_mirror()));
    b
}

/// The manager is killed; another one has the notes and the same catalog.
fn take_over(b: &mut Bed) {
    let notes = b.notes.clone();
    let notes = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
    b.core = Core::restore(b.now, 8, with_mirror(), notes).expect("it can be read");
}

fn want_queues(name: &str, program: u32, host: u32) -> Negotiate {
    let kind = U16::new(ChannelKind::Queues.to_wire());
    Negotiate { kind, shape: QueuesShape::new(program, host).shape(), ..want(name) }
}

/// A session, and an active channel of queues of it.
fn active(b: &mut Bed, session: u64) -> (Handle, ServiceId, Queues) {
    let g = b.negotiate(1, session, want_queues("mirror", 3, 5)).unwrap();
    let out = b.ask(1, Kind::Activate, session, g.grant.as_bytes());
    let out = match out.iter().find_map(started) {
        Some(service) => b.feed(Event::ServiceReady { service }),
        None => out,
    };
    let (service, channel) = opened(&out).expect("a channel is opened");
    let out = b.feed(Event::ChannelOpened { service, channel });
    let (_, place) = ChannelPlace::read(&answer(&out).unwrap()).unwrap();
    place.check(&[Heap { window: 0, from: HEAP_OFF as u64, to: MIB }]).unwrap();
    (channel, service, Queues::of(&place).expect("of queues"))
}

fn started(action: &Action) -> Option<ServiceId> {
    match action {
        Action::StartService { service, .. } => Some(*service),
        _ => None,
    }
}

fn broken(out: &[Action]) -> Vec<BreakReason> {
    let reason = |a: &Action| match a {
        Action::BreakChannel { reason, .. } => Some(*reason),
        _ => None,
    };
    out.iter().filter_map(reason).collect()
}

#[test]
fn a_function_has_the_kinds_that_its_driver_serves() {
    let mut b = bed();
    let s = b.hello(1, b"").unwrap().session.get();
    let why = |b: &mut Bed, n| b.negotiate(1, s, n).unwrap_err();
    let n = why(&mut b, want_queues("add", 2, 2));
    assert_eq!(n.code, NackCode::Unsupported);
    assert!(n.sentence.contains("'add' has channels of kind calls, not queues"), "{n}");
    let floor = Negotiate { kind: U16::new(2), ..want("mirror") };
    let n = why(&mut b, floor);
    assert!(n.sentence.contains("'mirror' has channels of kind calls and queues"), "{n}");
    let packets = Negotiate { kind: U16::new(3), ..want("mirror") };
    assert_eq!(why(&mut b, packets).code, NackCode::Malformed);
    // Both, in one service.
    let (_, of_calls) = b.active(1, s, "mirror");
    let (_, of_queues, at) = active(&mut b, s);
    assert_eq!(of_calls, of_queues);
    assert_eq!((at.program_bytes, at.host_bytes), (3 << 12, 5 << 12));
    let grant = b.core.grants().find(|(_, g)| g.subject.shape.kind == ChannelKind::Queues);
    let place = grant.unwrap().1.channel().unwrap();
    let writers: Vec<_> = place.ranges().iter().map(|r| Access::from_wire(r.access)).collect();
    assert_eq!(writers, [Some(Access::AppWrites), Some(Access::HostWrites)]);
}

#[test]
fn an_app_that_does_not_know_queues_is_refused() {
    let mut b = bed();
    let hello = Hello {
        version_min: U16::new(2),
        version_max: U16::new(2),
        pid: U32::new(1),
        features: U64::new(!Features::QUEUES.0),
        app: names::encode("old").unwrap(),
        credential_len: U16::ZERO,
        reserved: [0; 6],
        credential: [0; CREDENTIAL_BYTES],
    };
    let out = b.ask(1, Kind::Hello, 0, hello.as_bytes());
    let s = HelloAck::read_from_bytes(&answer(&out).unwrap()).unwrap().session.get();
    let n = b.negotiate(1, s, want_queues("mirror", 2, 2)).unwrap_err();
    assert_eq!(n.code, NackCode::Unsupported);
    assert!(n.sentence.contains("the app's side does not offer"), "{n}");
    assert!(b.negotiate(1, s, want("mirror")).is_ok(), "calls it knows");
}

#[test]
fn sizes_are_bounded_by_the_protocol_the_window_and_the_policy() {
    let mut b = bed();
    let s = b.hello(1, b"").unwrap().session.get();
    let mut why =
        |program, host| b.negotiate(1, s, want_queues("mirror", program, host)).unwrap_err();
    for (program, host) in [(0, 2), (2, 1), (2, QUEUES_PAGES_MAX + 1)] {
        let n = why(program, host);
        assert_eq!(n.code, NackCode::BeyondLimit);
        assert!(n.sentence.contains("a side has 2 to 16384 pages"), "{n}");
        assert!(n.sentence.contains(&format!("{program} pages for the program")), "{n}");
    }
    let n = why(200, 100);
    assert_eq!(n.code, NackCode::NoCapacity);
    assert!(n.sentence.contains("ask for fewer pages"), "{n}");
    let mut shape = want_queues("mirror", 2, 2);
    shape.shape[15] = 1;
    assert_eq!(b.negotiate(1, s, shape).unwrap_err().code, NackCode::Malformed);
    // Its bytes count as those of calls do, and it has no calls in flight.
    let policy = "[default]\nbytes = \"40K\"\nin_flight = 1\n";
    let policy = parse(Path::new("policy.toml"), policy).unwrap();
    b.feed(Event::Catalog(Catalog { policy, ..with_mirror() }));
    let n = b.negotiate(1, s, want_queues("mirror", 6, 6)).unwrap_err();
    assert_eq!(n.code, NackCode::OverQuota);
    assert!(n.sentence.contains("a channel of 49152 bytes"), "{n}");
    assert!(b.negotiate(1, s, want_queues("mirror", 5, 5)).is_ok());
}

#[test]
fn a_service_that_dies_takes_its_queues_with_it_and_no_calls() {
    let mut b = bed();
    let s = b.hello(1, b"").unwrap().session.get();
    let (calls, service) = b.active(1, s, "mirror");
    let (queues, _, _) = active(&mut b, s);
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert_eq!(broken(&out), [BreakReason::ServiceLost]);
    let state = |b: &Bed, h| b.core.grants().find(|(g, _)| *g == h).unwrap().1.state();
    assert_eq!(state(&b, queues), GrantState::Broken);
    assert_eq!(state(&b, calls), GrantState::Recovering);
    let out = b.feed(Event::ServiceReady { service });
    assert_eq!(opened(&out), Some((service, calls)), "the calls go on");
    let opens = out.iter().filter(|a| matches!(a, Action::OpenChannel { .. })).count();
    assert_eq!(opens, 1, "the queues do not");
    b.feed(Event::ChannelOpened { service, channel: calls });
    // It can only be released, and another one can be had.
    let (other, _, _) = active(&mut b, s);
    assert_ne!(other, queues);
    b.ask(1, Kind::Release, s, queues.0.to_le_bytes().as_slice());
    assert!(b.core.grants().all(|(h, _)| h != queues), "no service had it");
}

#[test]
fn queues_that_a_service_lets_go_of_unasked_are_lost() {
    let mut b = bed();
    let s = b.hello(1, b"").unwrap().session.get();
    let (calls, service) = b.active(1, s, "mirror");
    let (queues, _, _) = active(&mut b, s);
    // Of calls this says nothing: it may be the late end of an earlier move.
    assert_eq!(broken(&b.feed(Event::ChannelClosed { service, channel: calls })), []);
    let other = service + 1;
    assert_eq!(broken(&b.feed(Event::ChannelClosed { service: other, channel: queues })), []);
    let out = b.feed(Event::ChannelClosed { service, channel: queues });
    assert_eq!(broken(&out), [BreakReason::ServiceLost]);
    let state = |b: &Bed, h| b.core.grants().find(|(g, _)| *g == h).unwrap().1.state();
    assert_eq!(state(&b, queues), GrantState::Broken);
    assert_eq!(state(&b, calls), GrantState::Active);
    assert_eq!(broken(&b.feed(Event::ChannelClosed { service, channel: queues })), []);
    b.ask(1, Kind::Release, s, queues.0.to_le_bytes().as_slice());
    assert!(b.core.grants().all(|(h, _)| h != queues), "no service has it");
}

#[test]
fn a_service_that_shows_no_sign_of_life_is_ended() {
    let mut b = bed();
    let s = b.hello(1, b"").unwrap().session.get();
    let (channel, service, _) = active(&mut b, s);
    assert_eq!(b.core.watched().count(), 1);
    let look = |b: &mut Bed, ms: u64, calls: u64| {
        b.now += ms;
        b.feed(Event::Progress {
            values: vec![(channel, Progress { calls, waits: true, begun: false })],
        })
    };
    // It moves, however seldom.
    for life in 0..5 {
        assert!(look(&mut b, QUEUES_STILL_MS - 1, life).is_empty(), "{life}");
    }
    assert!(look(&mut b, QUEUES_STILL_MS - 1, 4).is_empty());
    let out = look(&mut b, 1, 4);
    assert!(matches!(out[..], [Action::AskLife { service: to }] if to == service), "{out:?}");
    assert!(look(&mut b, LIFE_MS - 1, 4).is_empty());
    let out = look(&mut b, 1, 4);
    let says =
        |a: &Action| matches!(a, Action::LogOf { text, .. } if text.contains("no sign of life"));
    assert!(out.iter().any(says), "{out:?}");
    assert!(out.iter().any(|a| matches!(a, Action::KillService { service: s } if *s == service)));
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert_eq!(broken(&out), [BreakReason::ServiceLost]);
}

/// A guest that can write the host's pages keeps the word where it is: the service lives, and
/// loses that channel alone.
#[test]
fn a_sign_of_life_that_is_overwritten_costs_its_channel_alone() {
    let mut b = bed();
    let s = b.hello(1, b"").unwrap().session.get();
    let (channel, service, _) = active(&mut b, s);
    let (other, same, _) = active(&mut b, s);
    assert_eq!(service, same);
    let mut asked = 0;
    let mut out = vec![];
    for second in 0..30 {
        b.now += 1000;
        let at = |channel, calls| (channel, Progress { calls, waits: true, begun: false });
        let values = [at(channel, 4), at(other, second)];
        let watched: Vec<_> = b.core.watched().map(|(h, _)| h).collect();
        let values = values.into_iter().filter(|(h, _)| watched.contains(h)).collect();
        let looks = b.feed(Event::Progress { values });
        if looks.iter().any(|a| matches!(a, Action::AskLife { .. })) {
            asked += 1;
            b.feed(Event::ServiceAlive { service });
        }
        out.extend(looks);
    }
    assert_eq!((asked, broken(&out)), (1, vec![BreakReason::BadSequence]));
    assert!(!out.iter().any(|a| matches!(a, Action::KillService { .. })), "{out:?}");
    let closes = |a: &Action| matches!(a, Action::CloseChannel { channel: c, .. } if *c == channel);
    assert!(out.iter().any(closes));
    let state = |h| b.core.grants().find(|(g, _)| *g == h).unwrap().1.state();
    assert_eq!((state(channel), state(other)), (GrantState::Broken, GrantState::Active));
}

#[test]
fn a_manager_that_takes_over_breaks_queues_that_nobody_serves_any_more() {
    for alive in [true, false] {
        let mut b = bed();
        let s = b.hello(1, b"").unwrap().session.get();
        let (queues, service, _) = active(&mut b, s);
        take_over(&mut b);
        let services = if alive { vec![service] } else { vec![] };
        let mut out = b.feed(Event::Resume { alive: services });
        if alive {
            // It lives and has let go of the channel, and told nobody.
            out.extend(b.feed(Event::Serving { service, channels: vec![] }));
        }
        // Another reason may follow: the window keeps the first.
        assert_eq!(broken(&out)[0], BreakReason::ServiceLost, "alive: {alive}");
        assert!(opened(&out).is_none());
        let (_, g) = b.core.grants().find(|(h, _)| *h == queues).unwrap();
        assert_eq!(g.state(), GrantState::Broken);
    }
    // One that is served goes on.
    let mut b = bed();
    let s = b.hello(1, b"").unwrap().session.get();
    let (queues, service, _) = active(&mut b, s);
    take_over(&mut b);
    let mut out = b.feed(Event::Resume { alive: vec![service] });
    out.extend(b.feed(Event::Serving { service, channels: vec![queues] }));
    assert_eq!(broken(&out), []);
    assert_eq!(b.core.grants().next().unwrap().1.state(), GrantState::Active);
}

#[test]
fn queues_of_a_leased_function_stay_where_they_are() {
    let mut b = Bed::new();
    let mut leased = function(9, "leased");
    leased.software = Some(Driver::Mirror);
    leased.hardware = Some(Hardware {
        device: "d".into(),
        location: Location::FpgaSimulated,
        driver: Driver::Mirror,
        instances: 1,
        leased: true,
        usual_gain_ns: 0,
    });
    let mut catalog = catalog();
    catalog.functions.insert("leased".into(), leased);
    b.feed(Event::Catalog(catalog));
    let s = b.hello(1, b"").unwrap().session.get();
    b.negotiate(1, s, want_queues("leased", 2, 2)).unwrap();
    b.negotiate(1, s, want("leased")).unwrap();
    let movable =
        |kind| b.core.grants().find(|(_, g)| g.subject.shape.kind == kind).unwrap().1.movable();
    assert_eq!([ChannelKind::Queues, ChannelKind::Calls].map(movable), [false, true]);
}
