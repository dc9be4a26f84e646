//! The state machine by itself: what an app asks, what a service does, and
//! what is left when they go, in every order.

use super::breakers::{CRASHES_MAX, OPEN_MS};
use super::catalog::{Client, ClientKind, Function, Hardware};
use super::services::LINGER_MS;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use vfun_supervise::{Driver, EXIT_DEADLINE};
use vfun_wire::limits::*;
use vfun_wire::message::*;
use vfun_wire::status::BreakReason;
use vfun_wire::version::{Features, FunctionVersion};
use vfun_wire::{Nack, NackCode, Status, names};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

mod policy;

const MIB: u64 = 1 << 20;

fn function(id: u32, name: &str) -> Function {
    Function {
        id,
        name: name.into(),
        version: FunctionVersion::new(1, 2),
        summary: String::new(),
        software: Some(Driver::Native { library: "/lib/f.so".into() }),
        hardware: None,
        deadline_ms: 1000,
        max_args: 100,
        max_result: 100,
        settings: BTreeMap::new(),
        reads: vec![],
        makes_code: false,
        signature: None,
    }
}

fn client(id: u32, name: &str) -> Client {
    Client {
        id,
        name: name.into(),
        kind: ClientKind::Vm,
        window_bytes: MIB,
        functions: vec!["*".into()],
        max_grants: 4,
        hardware: true,
        spin: false,
        doorbell: true,
        tcp: crate::core::catalog::OverTcp::Nobody,
        credential_sha256: None,
        uids: vec![],
    }
}

fn catalog() -> Catalog {
    let mut c = Catalog::default();
    for f in [function(1, "add"), function(2, "mul")] {
        c.functions.insert(f.name.clone(), f);
    }
    let mut fast = function(3, "fast");
    fast.hardware = Some(Hardware {
        location: Location::FpgaSimulated,
        driver: Driver::Native { library: "/lib/hw.so".into() },
        instances: 1,
    });
    c.functions.insert("fast".into(), fast);
    c.clients.insert(1, client(1, "vm1"));
    let mut vm2 = client(2, "vm2");
    vm2.functions = vec!["add".into()];
    vm2.credential_sha256 = Some(
        // sha256("secret")
        *b"\x2b\xb8\x0d\x53\x7b\x1d\xa3\xe3\x8b\xd3\x03\x61\xaa\x85\x56\x86\xbd\xe0\xea\xcd\x71\x62\xfe\xf6\xa2\x5f\xe9\x7b\xf5\x27\xa2\x5b",
    );
    c.clients.insert(2, vm2);
    c
}

/// The machine with a clock and a hand to feed it.
struct Bed {
    core: Core,
    now: u64,
    seq: u32,
    log: Vec<Action>,
    /// What the keeper has.
    notes: BTreeMap<String, String>,
}

impl Bed {
    fn new() -> Self {
        let mut b = Bed {
            core: Core::new(7, catalog()),
            now: 0,
            seq: 0,
            log: vec![],
            notes: BTreeMap::new(),
        };
        for (window, client) in [(1, 1), (2, 2)] {
            b.feed(Event::WindowUp {
                window,
                client,
                bytes: MIB,
                doorbell: false,
                death_seen: false,
            });
        }
        b
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        let mut out = vec![];
        self.core.handle(self.now, event, &mut out);
        for c in self.core.changes() {
            match c.note {
                Some(note) => drop(self.notes.insert(c.name, note)),
                None => drop(self.notes.remove(&c.name)),
            }
        }
        self.log.extend(out.iter().cloned());
        out
    }

    /// The manager is killed; another one has only the notes, and learns of the
    /// services which of them live and what they serve.
    fn take_over(&mut self, alive: impl Fn(ServiceId) -> bool) {
        let notes = self.notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        let restored = Core::restore(self.now, 8, catalog(), notes).expect("it can be read");
        let told = |c: &Core| {
            let mut places: Vec<_> = c.grants().map(|(h, g)| format!("{h} {g:?}")).collect();
            places.extend(c.sessions.iter().map(|(h, s)| format!("{h} {s:?}")));
            places.push(format!("{:?}", c.totals()));
            places
        };
        assert_eq!(told(&restored), told(&self.core), "nothing is lost or made up");
        self.core = restored;
        let alive: Vec<_> = self.core.services.keys().copied().filter(|id| alive(*id)).collect();
        self.feed(Event::Resume { alive: alive.clone() });
        for service in alive {
            let channels = self
                .core
                .grants()
                .filter(|(_, g)| g.service == Some(service) && g.state == GrantState::Active)
                .map(|(h, _)| h)
                .collect();
            self.feed(Event::Serving { service, channels });
        }
    }

    /// The manager is killed; another one has read these notes and no more.
    fn restore_from(&mut self, notes: &BTreeMap<String, String>) {
        let notes = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        self.core = Core::restore(self.now, 8, catalog(), notes).expect("it can be read");
    }

    fn ask(&mut self, window: u32, kind: Kind, session: u64, body: &[u8]) -> Vec<Action> {
        self.seq += 1;
        self.feed(Event::Request(ControlRequest {
            to: ReplyTo { window, cell: 0, seq: self.seq },
            kind: kind.to_wire(),
            session,
            body: body.to_vec(),
        }))
    }

    fn hello(&mut self, window: u32, credential: &[u8]) -> Result<HelloAck, Nack> {
        let mut h = Hello {
            version_min: U16::new(1),
            version_max: U16::new(9),
            pid: U32::new(1),
            features: U64::new(u64::MAX),
            app: names::encode("app").unwrap(),
            credential_len: U16::new(credential.len() as u16),
            reserved: [0; 6],
            credential: [0; CREDENTIAL_BYTES],
        };
        h.credential[..credential.len()].copy_from_slice(credential);
        let out = self.ask(window, Kind::Hello, 0, h.as_bytes());
        answer(&out).map(|b| HelloAck::read_from_bytes(&b).unwrap())
    }

    fn negotiate(
        &mut self,
        window: u32,
        session: u64,
        want: Negotiate,
    ) -> Result<NegotiateAck, Nack> {
        let out = self.ask(window, Kind::Negotiate, session, want.as_bytes());
        answer(&out).map(|b| NegotiateAck::read_from_bytes(&b).unwrap())
    }

    /// Negotiates and activates, playing the service.
    fn active(&mut self, window: u32, session: u64, name: &str) -> (Handle, ServiceId) {
        let g = self.negotiate(window, session, want(name)).unwrap();
        let out = self.ask(window, Kind::Activate, session, g.grant.as_bytes());
        let started = out.iter().find_map(|a| match a {
            Action::StartService { service, .. } => Some(*service),
            _ => None,
        });
        let opens = match started {
            Some(service) => self.feed(Event::ServiceReady { service }),
            None => out,
        };
        let (service, channel) = opened(&opens).expect("a channel is opened");
        let out = self.feed(Event::ChannelOpened { service, channel });
        let ack = ActivateAck::read_from_bytes(&answer(&out).unwrap()).unwrap();
        ack.geometry.check(vfun_wire::header::HEAP_OFF as u64, MIB).unwrap();
        assert_eq!(ack.channel.get(), g.grant.get());
        (channel, service)
    }
}

fn want(name: &str) -> Negotiate {
    Negotiate {
        function: names::encode(name).unwrap(),
        version: U32::new(0),
        preference: 0,
        wait: 0,
        kind: U16::new(1),
        depth: U16::new(16),
        reserved2: U16::new(0),
        cell_bytes: U32::new(1024),
        deadline_ms: U32::new(0),
        reserved3: U32::new(0),
        signature: U64::new(0),
    }
}

fn answer(out: &[Action]) -> Result<Vec<u8>, Nack> {
    let found: Vec<_> = out
        .iter()
        .filter_map(|a| match a {
            Action::Answer { result, .. } => Some(result.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(found.len(), 1, "one answer: {out:?}");
    found[0].clone()
}

fn opened(out: &[Action]) -> Option<(ServiceId, Handle)> {
    out.iter().find_map(|a| match a {
        Action::OpenChannel { service, channel, .. } => Some((*service, *channel)),
        _ => None,
    })
}

#[test]
fn a_grant_from_negotiation_to_release_gives_everything_back() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap();
    assert_eq!(
        (s.version.get(), s.client_id.get(), s.heartbeat_ms.get()),
        (1, 1, HEARTBEAT_MS as u32)
    );
    let session = s.session.get();
    let (grant, service) = b.active(1, session, "add");
    assert!(b.core.totals().bytes > 0);
    let out = b.ask(1, Kind::Release, session, grant.0.to_le_bytes().as_slice());
    assert!(matches!(out[0], Action::AnswerStats { .. }));
    assert!(out.iter().any(|a| matches!(a, Action::CloseChannel { .. })));
    assert!(b.core.totals().bytes > 0, "the service still has it");
    b.feed(Event::ChannelClosed { service, channel: grant });
    assert_eq!((b.core.totals().bytes, b.core.totals().grants), (0, 0));
    b.now += LINGER_MS;
    assert!(b.feed(Event::Tick).iter().any(|a| matches!(a, Action::StopService { .. })));
    b.feed(Event::ServiceExited { service, exit: Exit::Code(0) });
    assert_eq!(b.core.totals().services, 0);
    assert!(!b.core.needs_tick());
    let out = b.ask(1, Kind::Stats, session, grant.0.to_le_bytes().as_slice());
    assert_eq!(answer(&out).unwrap_err().code, NackCode::Stale);
}

#[test]
fn every_refusal_has_its_code() {
    let mut b = Bed::new();
    assert_eq!(b.hello(2, b"").unwrap_err().code, NackCode::BadCredential);
    assert_eq!(b.hello(2, b"wrong").unwrap_err().code, NackCode::BadCredential);
    let s2 = b.hello(2, b"secret").unwrap().session.get();
    let s = b.hello(1, b"").unwrap().session.get();

    let mut case = |w: Negotiate, window: u32, session: u64, code: NackCode| {
        let n = b.negotiate(window, session, w).unwrap_err();
        assert_eq!(n.code, code, "{n}");
        assert!(n.sentence.len() > 10);
    };
    case(want("nothing"), 1, s, NackCode::UnknownFunction);
    case(want("mul"), 2, s2, NackCode::Denied);
    case(Negotiate { version: U32::new(2 << 16), ..want("add") }, 1, s, NackCode::WrongVersion);
    case(Negotiate { version: U32::new(1 << 16 | 3), ..want("add") }, 1, s, NackCode::WrongVersion);
    case(Negotiate { wait: 9, ..want("add") }, 1, s, NackCode::Malformed);
    case(Negotiate { preference: 9, ..want("add") }, 1, s, NackCode::Malformed);
    case(Negotiate { kind: U16::new(77), ..want("add") }, 1, s, NackCode::Malformed);
    case(Negotiate { kind: U16::new(2), ..want("add") }, 1, s, NackCode::Unsupported);
    case(Negotiate { depth: U16::new(3), ..want("add") }, 1, s, NackCode::BeyondLimit);
    case(
        Negotiate { cell_bytes: U32::new(u32::MAX - 1), ..want("add") },
        1,
        s,
        NackCode::BeyondLimit,
    );
    case(Negotiate { cell_bytes: U32::new(1 << 20), ..want("add") }, 1, s, NackCode::NoCapacity);
    case(Negotiate { deadline_ms: U32::new(1001), ..want("add") }, 1, s, NackCode::BeyondLimit);
    case(Negotiate { preference: 1, ..want("add") }, 1, s, NackCode::NoHardware);
    let mut slash = want("add");
    slash.function[0] = b'/';
    case(slash, 1, s, NackCode::Malformed);
    case(want("add"), 1, 6 << 32, NackCode::Stale);
    case(want("add"), 1, 0, NackCode::BadHandle);
    case(want("add"), 2, s, NackCode::BadHandle);

    let short = b.ask(1, Kind::Negotiate, s, &[1, 2, 3]);
    assert_eq!(answer(&short).unwrap_err().code, NackCode::Malformed);
    let buffers = b.ask(1, Kind::BufferGet, s, &[0; 32]);
    assert_eq!(answer(&buffers).unwrap_err().code, NackCode::Unsupported);
    for _ in 0..4 {
        b.negotiate(1, s, want("add")).unwrap();
    }
    assert_eq!(b.negotiate(1, s, want("add")).unwrap_err().code, NackCode::OverQuota);
    b.negotiate(2, s2, want("add")).expect("one client's quota is not another's");
    b.feed(Event::Drain);
    assert_eq!(b.negotiate(2, s2, want("add")).unwrap_err().code, NackCode::Draining);
}

#[test]
fn a_protocol_from_the_future_is_refused_or_agreed_down() {
    let mut b = Bed::new();
    let mut h = Hello::read_from_bytes(&[0; 152]).unwrap();
    h.app = names::encode("x").unwrap();
    (h.version_min, h.version_max) = (U16::new(5), U16::new(6));
    let out = b.ask(1, Kind::Hello, 0, h.as_bytes());
    assert_eq!(answer(&out).unwrap_err().code, NackCode::WrongProtocol);
    let ack = b.hello(1, b"").unwrap();
    assert!(!Features(ack.features.get()).has(Features::DOORBELL), "this window has none");
}

#[test]
fn signatures_are_told_compared_and_serve_only_those_who_ask_later() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (_, untyped) = b.active(1, s, "add");
    let mut typed = catalog();
    let add = typed.functions.get_mut("add").unwrap();
    add.signature = Some("(a: u64, b: u64) -> [u8; 96]".parse().unwrap());
    let fingerprint = add.fingerprint();
    b.feed(Event::Catalog(typed));

    let describe = |b: &mut Bed, name: &str| {
        let out = b.ask(
            1,
            Kind::Describe,
            s,
            Describe { function: names::encode(name).unwrap() }.as_bytes(),
        );
        answer(&out)
    };
    let told = describe(&mut b, "add").unwrap();
    let (head, text) = DescribeAck::read_from_prefix(&told).unwrap();
    assert_eq!((head.signature.get(), text), (fingerprint, &b"(a: u64, b: u64) -> [u8; 96]"[..]));
    assert_eq!(describe(&mut b, "mul").unwrap().len(), size_of::<DescribeAck>());
    assert_eq!(describe(&mut b, "nothing").unwrap_err().code, NackCode::UnknownFunction);

    let with = |signature| Negotiate { signature: U64::new(signature), ..want("add") };
    let wrong = b.negotiate(1, s, with(7)).unwrap_err();
    assert_eq!(wrong.code, NackCode::WrongSignature);
    assert!(wrong.sentence.contains("(a: u64, b: u64) -> [u8; 96]"), "{wrong}");
    let small = Negotiate { cell_bytes: U32::new(64), ..with(fingerprint) };
    assert_eq!(b.negotiate(1, s, small).unwrap_err().code, NackCode::BeyondLimit);
    b.negotiate(1, s, with(fingerprint)).unwrap();
    // The service of before knows nothing of the signature: it gets no more channels.
    assert_ne!(b.active(1, s, "add").1, untyped);
}

#[test]
fn one_hardware_instance_serves_one_and_the_next_is_asked_about_software() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let hw = Negotiate { preference: 1, ..want("fast") };
    let g = b.negotiate(1, s, hw).unwrap();
    assert_eq!(g.location, Location::FpgaSimulated.to_wire());
    let busy = b.negotiate(1, s, hw).unwrap_err();
    assert_eq!((busy.code, busy.software_instead), (NackCode::DeviceBusy, true));
    assert_eq!(b.negotiate(1, s, want("fast")).unwrap().location, Location::Software.to_wire());
    b.ask(1, Kind::Release, s, g.grant.as_bytes());
    assert_eq!(b.negotiate(1, s, hw).unwrap().location, Location::FpgaSimulated.to_wire());
}

#[test]
fn a_crash_fails_the_current_call_and_the_service_comes_back() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    assert!(
        out.iter().any(|a| matches!(a, Action::FailCurrent { status: Status::DriverCrashed, .. }))
    );
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })));
    assert!(!out.iter().any(|a| matches!(a, Action::Zero { .. })), "calls in flight stay");
    let out = b.feed(Event::ServiceReady { service });
    assert_eq!(opened(&out), Some((service, grant)));
    b.feed(Event::ChannelOpened { service, channel: grant });
    assert_eq!(b.core.grants().next().unwrap().1.restarts, 1);
}

#[test]
fn a_deadline_blames_the_call_that_overran_and_no_other() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (slow, service) = b.active(1, s, "add");
    let (_other, same) = b.active(1, s, "add");
    assert_eq!(service, same, "one service for a client and function");
    b.feed(Event::CallOverran { service, channel: slow });
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Code(EXIT_DEADLINE) });
    let statuses: Vec<_> = out
        .iter()
        .filter_map(|a| match a {
            Action::FailCurrent { status, .. } => Some(*status),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, [Status::Deadline, Status::ServiceLost]);
}

#[test]
fn a_crash_loop_breaks_the_channel_and_release_still_works() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    for i in 0..=CRASHES_MAX {
        b.now += 3000;
        b.feed(Event::Tick);
        b.feed(Event::ServiceReady { service });
        b.feed(Event::ChannelOpened { service, channel: grant });
        let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(6) });
        let broken = out
            .iter()
            .any(|a| matches!(a, Action::BreakChannel { reason: BreakReason::CrashLoop, .. }));
        assert_eq!(broken, i == CRASHES_MAX, "after {i} crashes");
    }
    let out = b.ask(1, Kind::Release, s, grant.0.to_le_bytes().as_slice());
    assert!(matches!(out[0], Action::AnswerStats { .. }));
    assert_eq!(b.core.totals(), Totals { windows: 2, sessions: 1, ..Totals::default() });
}

#[test]
fn a_driver_that_cannot_load_is_a_nack_with_its_reason_and_costs_nothing() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let g = b.negotiate(1, s, want("add")).unwrap();
    let out = b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })));
    let out = b.feed(Event::ServiceFailed { service: 1, reason: "symbol missing".into() });
    let nack = answer(&out).unwrap_err();
    assert_eq!((nack.code, nack.sentence.as_str()), (NackCode::ServiceFailed, "symbol missing"));
    assert_eq!((b.core.totals().bytes, b.core.totals().services), (0, 0));
    let again = b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    assert!(
        again.iter().any(|a| matches!(a, Action::StartService { .. })),
        "it may be tried again"
    );
}

#[test]
fn an_app_whose_heartbeat_stops_is_cleaned_up_and_a_living_one_is_not() {
    let mut b = Bed::new();
    let dead = b.hello(1, b"").unwrap();
    let alive = b.hello(1, b"").unwrap();
    let (grant, service) = b.active(1, dead.session.get(), "add");
    for i in 0..40u64 {
        b.now += 1000;
        let values = vec![(dead.session_line.get(), 5), (alive.session_line.get(), i), (999, 1)];
        b.feed(Event::Heartbeats { window: 1, values });
    }
    assert_eq!(b.core.totals().sessions, 1);
    b.feed(Event::ChannelClosed { service, channel: grant });
    assert_eq!(b.core.totals().grants, 0);
    let n = b.negotiate(1, dead.session.get(), want("add")).unwrap_err();
    assert_eq!(n.code, NackCode::Stale);
    b.negotiate(1, alive.session.get(), want("add")).unwrap();
}

#[test]
fn a_window_holds_so_many_apps_and_another_window_does_not_care() {
    let mut b = Bed::new();
    for _ in 0..SESSIONS {
        b.hello(1, b"").unwrap();
    }
    assert_eq!(b.hello(1, b"").unwrap_err().code, NackCode::NoCapacity);
    b.hello(2, b"secret").unwrap();
    b.feed(Event::WindowDown { window: 1 });
    assert_eq!(b.core.totals().sessions, 1);
}

#[test]
fn a_full_window_is_a_nack_and_release_makes_room() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let big = Negotiate { depth: U16::new(1), cell_bytes: U32::new(300 << 10), ..want("add") };
    let first = b.negotiate(1, s, big).unwrap();
    b.ask(1, Kind::Activate, s, first.grant.as_bytes());
    let second = b.negotiate(1, s, big).unwrap();
    let out = b.ask(1, Kind::Activate, s, second.grant.as_bytes());
    let nack = answer(&out).unwrap_err();
    assert_eq!(nack.code, NackCode::NoCapacity);
    assert!(nack.sentence.contains("no room"), "{nack}");
    b.ask(1, Kind::Release, s, first.grant.as_bytes());
    let out = b.ask(1, Kind::Activate, s, second.grant.as_bytes());
    assert!(!out.iter().any(|a| matches!(a, Action::Answer { .. })), "it has room: {out:?}");
    let ready = b.feed(Event::ServiceReady { service: 1 });
    let zeroed = ready.iter().position(|a| matches!(a, Action::Zero { .. }));
    let told = ready.iter().position(|a| matches!(a, Action::OpenChannel { .. }));
    assert!(zeroed.is_some() && zeroed < told, "zeros before anybody has it: {ready:?}");
}

/// Killed before it had set a channel's pages to zero, and before it had
/// started the service: the next manager does both.
#[test]
fn a_channel_begins_with_zeros_whichever_manager_opens_it() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let g = b.negotiate(1, s, want("add")).unwrap();
    b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    b.restore_from(&b.notes.clone());
    let out = b.feed(Event::Resume { alive: vec![] });
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })), "{out:?}");
    let out = b.feed(Event::ServiceReady { service: 1 });
    assert!(out.iter().any(|a| matches!(a, Action::Zero { .. })), "{out:?}");
}

/// What a random run may do.
#[derive(Clone, Debug)]
enum Step {
    Hello(u32),
    Negotiate(u32, usize, usize, u16, u32),
    OnGrant(u32, usize, u8),
    Goodbye(u32, usize),
    Garbage(u32, u16, u64, Vec<u8>),
    ServiceReady(usize),
    ServiceFailed(usize),
    ServiceExits(usize, u8),
    Channels(u8),
    WindowBounces(u32),
    TakeOver(u32),
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let w = 1u32..=2;
    prop_oneof![
        2 => w.clone().prop_map(Step::Hello),
        6 => (w.clone(), any::<usize>(), any::<usize>(), 0u16..70, 0u32..80_000)
            .prop_map(|(w, s, f, d, c)| Step::Negotiate(w, s, f, d, c)),
        8 => (w.clone(), any::<usize>(), 0u8..3).prop_map(|(w, g, k)| Step::OnGrant(w, g, k)),
        1 => (w.clone(), any::<usize>()).prop_map(|(w, s)| Step::Goodbye(w, s)),
        2 => (w.clone(), 0u16..20, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..160))
            .prop_map(|(w, k, s, b)| Step::Garbage(w, k, s, b)),
        6 => any::<usize>().prop_map(Step::ServiceReady),
        1 => any::<usize>().prop_map(Step::ServiceFailed),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(s, e)| Step::ServiceExits(s, e)),
        8 => any::<u8>().prop_map(Step::Channels),
        1 => w.prop_map(Step::WindowBounces),
        2 => any::<u32>().prop_map(Step::TakeOver),
        3 => (1u64..5000).prop_map(Step::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever apps, services and time do, and whenever the manager is killed: no two live channels share a page,
    /// each request is answered exactly once, no grant lacks an owner, and when
    /// all have gone nothing is left.
    #[test]
    fn invariants_hold(steps in proptest::collection::vec(step(), 1..150)) {
        let mut b = Bed::new();
        let mut sessions: Vec<(u32, u64)> = vec![];
        let mut asked = BTreeSet::new();
        let mut answered: Vec<(u32, u32)> = vec![];
        // Window numbers are never used again: which one each client has now.
        let mut ids = [1u32, 2];
        for step in steps {
            let names = ["add", "mul", "fast", "none"];
            match step {
                Step::Hello(c) => {
                    let w = ids[c as usize - 1];
                    if let Ok(a) = b.hello(w, if c == 2 { b"secret" } else { b"" }) {
                        sessions.push((w, a.session.get()));
                    }
                    asked.insert((w, b.seq));
                }
                Step::Negotiate(w, s, f, depth, cell) => {
                    let w = ids[w as usize - 1];
                    let Some(&(_, s)) = sessions.get(s % sessions.len().max(1)) else { continue };
                    let n = Negotiate { depth: U16::new(depth), cell_bytes: U32::new(cell), ..want(names[f % 4]) };
                    b.ask(w, Kind::Negotiate, s, n.as_bytes());
                    asked.insert((w, b.seq));
                }
                Step::OnGrant(w, g, k) => {
                    let w = ids[w as usize - 1];
                    let all: Vec<_> = b.core.grants().map(|(h, g)| (h, g.session)).collect();
                    let Some((h, s)) = all.get(g % all.len().max(1)).copied() else { continue };
                    let kind = [Kind::Activate, Kind::Release, Kind::Stats][k as usize];
                    b.ask(w, kind, s.0, h.0.to_le_bytes().as_slice());
                    asked.insert((w, b.seq));
                }
                Step::Goodbye(w, s) => {
                    let w = ids[w as usize - 1];
                    let Some(&(_, s)) = sessions.get(s % sessions.len().max(1)) else { continue };
                    b.ask(w, Kind::Goodbye, s, &[0; 8]);
                    asked.insert((w, b.seq));
                }
                Step::Garbage(w, kind, session, body) => {
                    let w = ids[w as usize - 1];
                    b.seq += 1;
                    let to = ReplyTo { window: w, cell: 0, seq: b.seq };
                    b.feed(Event::Request(ControlRequest { to, kind, session, body }));
                    asked.insert((w, b.seq));
                }
                Step::ServiceReady(s) => {
                    let ids: Vec<_> = b.core.services.keys().copied().collect();
                    let Some(&service) = ids.get(s % ids.len().max(1)) else { continue };
                    b.feed(Event::ServiceReady { service });
                }
                Step::ServiceFailed(s) => {
                    let ids: Vec<_> = b.core.services.keys().copied().collect();
                    let Some(&service) = ids.get(s % ids.len().max(1)) else { continue };
                    b.feed(Event::ServiceFailed { service, reason: "x".into() });
                }
                Step::ServiceExits(s, e) => {
                    let ids: Vec<_> = b.core.services.keys().copied().collect();
                    let Some(&service) = ids.get(s % ids.len().max(1)) else { continue };
                    let exit = match e % 3 { 0 => Exit::Signal(9), 1 => Exit::Code(EXIT_DEADLINE), _ => Exit::Code(0) };
                    b.feed(Event::ServiceExited { service, exit });
                }
                Step::Channels(k) => {
                    let all: Vec<_> = b.core.grants()
                        .filter_map(|(h, g)| Some((g.service?, h, g.state))).collect();
                    for (service, channel, state) in all {
                        let event = match (k % 4, state) {
                            (0, GrantState::Closing) | (1, _) => Event::ChannelClosed { service, channel },
                            (2, GrantState::Active) => Event::ChannelBroken { service, channel, reason: "y".into() },
                            (3, GrantState::Activating) => Event::ChannelOpenFailed { service, channel, reason: "z".into() },
                            _ => Event::ChannelOpened { service, channel },
                        };
                        b.feed(event);
                    }
                }
                Step::WindowBounces(c) => {
                    let w = ids[c as usize - 1];
                    let waiting: Vec<_> = asked.iter().filter(|(aw, _)| *aw == w).copied().collect();
                    b.feed(Event::WindowDown { window: w });
                    for (_, seq) in waiting { asked.remove(&(w, seq)); }
                    let window = ids[0].max(ids[1]) + 1;
                    ids[c as usize - 1] = window;
                    b.feed(Event::WindowUp { window, client: c, bytes: MIB, doorbell: true, death_seen: false });
                }
                Step::TakeOver(bits) => b.take_over(|id| bits >> (id % 32) & 1 == 1),
                Step::Time(ms) => {
                    b.now += ms;
                    b.feed(Event::Tick);
                }
            }
            // Answers are counted, and are answers to something asked.
            for a in std::mem::take(&mut b.log) {
                match a {
                    Action::Answer { to, .. } | Action::AnswerStats { to, .. } => answered.push((to.window, to.seq)),
                    _ => {}
                }
            }
            let mut once = BTreeSet::new();
            for a in &answered { prop_assert!(once.insert(*a), "answered twice: {a:?}"); }
            // Ranges of live channels are disjoint and accounted for.
            let mut ranges: Vec<(u32, u64, u64)> = vec![];
            for (_, grant) in b.core.grants() {
                prop_assert!(b.core.sessions.get(grant.session).is_ok() || grant.state == GrantState::Closing, "no owner");
                if let Some(g) = grant.geometry {
                    for off in [g.dataout_off.get(), g.datain_off.get()] {
                        for (w, o, l) in &ranges {
                            prop_assert!(*w != grant.window || off >= o + l || off + g.side_bytes.get() <= *o, "shared page");
                        }
                        ranges.push((grant.window, off, g.side_bytes.get()));
                    }
                }
            }
            let live: u64 = ranges.iter().filter(|(w, ..)| b.core.windows.contains_key(w)).map(|r| r.2).sum();
            let stray: u64 = b.core.grants().filter(|(_, g)| !b.core.windows.contains_key(&g.window)).count() as u64;
            prop_assert!(stray == 0 || live <= b.core.totals().bytes + 1);
            if stray == 0 { prop_assert!(b.core.totals().bytes <= live, "bytes leaked: {} > {live}", b.core.totals().bytes); }
        }
        // Everybody goes.
        for window in ids { b.feed(Event::WindowDown { window }); }
        for _ in 0..8 {
            b.now += 10_000;
            b.feed(Event::Tick);
            let ids: Vec<_> = b.core.services.keys().copied().collect();
            for service in ids { b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) }); }
        }
        prop_assert_eq!(b.core.totals(), Totals::default());
    }
}

/// A request that was acted upon but not answered is read again by the next
/// manager: it gets the same answer, and nothing is given twice.
#[test]
fn what_is_read_again_is_answered_the_same() {
    let mut b = Bed::new();
    let hello = b.hello(1, b"").unwrap();
    let session = hello.session.get();
    let out = b.ask(1, Kind::Negotiate, session, want("add").as_bytes());
    let first = answer(&out).unwrap();
    b.take_over(|_| true);
    b.seq -= 1;
    let out = b.ask(1, Kind::Negotiate, session, want("add").as_bytes());
    assert_eq!(answer(&out).unwrap(), first);
    assert_eq!(b.core.totals().grants, 1);
    let grant = NegotiateAck::read_from_bytes(&first).unwrap().grant.get();
    let activate = |b: &mut Bed| b.ask(1, Kind::Activate, session, &grant.to_le_bytes());
    activate(&mut b);
    // Killed before the service was started: the next one starts it.
    b.take_over(|_| false);
    b.seq -= 1;
    let silent = activate(&mut b).iter().all(|a| !matches!(a, Action::Answer { .. }));
    assert!(silent, "the answer is due when its service is ready");
    let (service, _) = b.core.services.iter().next().map(|(id, s)| (*id, s.state)).unwrap();
    let out = b.feed(Event::ServiceReady { service });
    let (_, channel) = opened(&out).unwrap();
    let out = b.feed(Event::ChannelOpened { service, channel });
    let ack = answer(&out).unwrap();
    b.take_over(|_| true);
    b.seq -= 1;
    assert_eq!(answer(&activate(&mut b)).unwrap(), ack);
}

/// What a service is told after it was asked is not in its report: it is told
/// when that has come, and of each channel once.
#[test]
fn channels_are_opened_once_whenever_the_report_comes() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (first, service) = b.active(1, session, "add");
    let second = b.negotiate(1, session, want("add")).unwrap().grant;
    b.restore_from(&b.notes.clone());
    b.feed(Event::Resume { alive: vec![service] });
    assert!(b.core.awaits_report(service));
    let out = b.ask(1, Kind::Activate, session, second.as_bytes());
    assert!(opened(&out).is_none(), "not before it has said what it serves: {out:?}");
    let out = b.feed(Event::Serving { service, channels: vec![first] });
    let opens = out.iter().filter(|a| matches!(a, Action::OpenChannel { .. })).count();
    assert_eq!((opens, opened(&out)), (1, Some((service, Handle(second.get())))));
    let out = b.feed(Event::Serving { service, channels: vec![] });
    assert!(out.is_empty(), "nobody asked: {out:?}");
    answer(&b.feed(Event::ChannelOpened { service, channel: Handle(second.get()) })).unwrap();

    // One that was about to be ready is asked as well.
    let third = b.negotiate(1, session, want("mul")).unwrap().grant;
    let out = b.ask(1, Kind::Activate, session, third.as_bytes());
    let starts = |a: &Action| match a {
        Action::StartService { service, .. } => Some(*service),
        _ => None,
    };
    let new = out.iter().find_map(starts).expect("another function's service");
    b.restore_from(&b.notes.clone());
    b.feed(Event::Resume { alive: vec![service, new] });
    assert!(opened(&b.feed(Event::ServiceReady { service: new })).is_none());
    let out = b.feed(Event::Serving { service: new, channels: vec![] });
    assert_eq!(opened(&out), Some((new, Handle(third.get()))));
}

/// The notes of one event may take several packets, and the manager be killed
/// between two of them.
#[test]
fn grants_whose_end_was_noted_by_half_end() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, session, "add");
    b.negotiate(1, session, want("add")).unwrap();
    let before = b.notes.clone();
    b.feed(Event::WindowDown { window: 1 });
    let after = b.notes.clone();
    // Grants are noted last; sessions before them, after windows.
    for late in [&["core/grant"][..], &["core/session", "core/grant"]] {
        let mut half = after.clone();
        let is_late = |k: &String| late.iter().any(|l| k.starts_with(l));
        half.extend(before.clone().into_iter().filter(|(k, _)| is_late(k)));
        b.restore_from(&half);
        assert_eq!(b.core.totals().grants, 2);
        b.feed(Event::Resume { alive: vec![service] });
        let out = b.feed(Event::Serving { service, channels: vec![grant] });
        let told =
            |a: &Action| matches!(a, Action::CloseChannel { channel, .. } if *channel == grant);
        assert!(out.iter().any(told), "{out:?}");
        b.feed(Event::ChannelClosed { service, channel: grant });
        assert_eq!((b.core.totals().grants, b.core.totals().sessions), (0, 0));
    }
}

/// Its app may not have been told: the manager was killed before it could.
#[test]
fn a_broken_channel_is_broken_again_for_the_next_manager() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (channel, service) = b.active(1, session, "add");
    b.feed(Event::ChannelBroken { service, channel, reason: "x".into() });
    b.restore_from(&b.notes.clone());
    let out = b.feed(Event::Resume { alive: vec![service] });
    assert!(out.iter().any(|a| matches!(a, Action::BreakChannel { .. })), "{out:?}");
}

/// A service can name any number: none of them may reach the notes, from which
/// the next manager would make a table of as many places.
#[test]
fn handles_that_a_service_makes_up_are_not_noted() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (_, service) = b.active(1, session, "add");
    let before = b.notes.clone();
    let channel = Handle::new(u32::MAX, 7);
    b.feed(Event::ChannelOpened { service, channel });
    b.feed(Event::ChannelOpenFailed { service, channel, reason: "x".into() });
    b.feed(Event::ChannelClosed { service, channel });
    b.feed(Event::ChannelBroken { service, channel, reason: "x".into() });
    assert_eq!(b.notes, before);
}

/// A function that was declared anew while no manager was there is served by a
/// new service, as if one had been there.
#[test]
fn a_service_of_what_a_function_was_before_gets_no_more_channels() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    let (channel, service) = b.active(1, session, "add");
    for (deadline_ms, same) in [(1000, true), (500, false)] {
        let mut anew = catalog();
        anew.functions.get_mut("add").unwrap().deadline_ms = deadline_ms;
        let notes = b.notes.clone();
        let notes = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        b.core = Core::restore(b.now, 8, anew, notes).unwrap();
        b.feed(Event::Resume { alive: vec![service] });
        b.feed(Event::Serving { service, channels: vec![channel] });
        assert_eq!(b.active(1, session, "add").1 == service, same);
    }
}

/// Crashes `service` as often as it is started again, at once each time.
fn crash_until_open(b: &mut Bed, service: ServiceId) {
    for _ in 0..=CRASHES_MAX {
        b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
        for _ in 0..200 {
            b.now += 20;
            b.feed(Event::Tick);
        }
        b.feed(Event::ServiceReady { service });
    }
}

#[test]
fn crashes_are_counted_whoever_releases_what_meanwhile() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    for _ in 0..=CRASHES_MAX {
        let (grant, service) = b.active(1, s, "add");
        b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
        // Everything is given back while it waits for its next start, which
        // comes to nothing.
        b.ask(1, Kind::Release, s, grant.0.as_bytes());
        b.feed(Event::ServiceFailed { service, reason: "nobody wants it".into() });
        b.now += 3_000;
        b.feed(Event::Tick);
    }
    assert_eq!(b.core.grants().count(), 0);
    let refused = b.negotiate(1, s, want("add")).unwrap_err();
    assert_eq!(refused.code, NackCode::ServiceFailed);
    assert!(refused.sentence.contains("tried again in"), "{refused}");
    b.active(1, s, "mul");
    let s2 = b.hello(2, b"secret").unwrap().session.get();
    b.active(2, s2, "add");
    // Another manager does not forget it either.
    b.take_over(|_| true);
    assert!(b.negotiate(1, s, want("add")).is_err());
    b.now += OPEN_MS;
    let (_, service) = b.active(1, s, "add");
    b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    let refused = b.negotiate(1, s, want("add")).unwrap_err();
    assert!(refused.sentence.contains(&format!("in {} ms", 2 * OPEN_MS)), "{refused}");
}

#[test]
fn a_crash_loop_opens_the_breaker_and_a_trial_that_lives_closes_it() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    crash_until_open(&mut b, service);
    assert_eq!(b.core.grants().next().unwrap().1.state, GrantState::Broken);
    assert_eq!(b.core.breakers(b.now).count(), 1);
    b.ask(1, Kind::Release, s, grant.0.as_bytes());
    b.now += 2 * OPEN_MS;
    let (_, service) = b.active(1, s, "add");
    b.now += super::breakers::CRASH_WINDOW_MS;
    b.feed(Event::Tick);
    assert_eq!(b.core.breakers(b.now).count(), 0);
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })), "{out:?}");
}

#[test]
fn a_host_without_means_to_start_a_service_says_so_and_tries_again() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let reason = || "there is no process to be had".to_owned();
    // One that waits for its activation is told.
    let g = b.negotiate(1, s, want("add")).unwrap();
    let out = b.ask(1, Kind::Activate, s, g.grant.as_bytes());
    assert!(out.iter().any(|a| matches!(a, Action::StartService { service: 1, .. })));
    let out = b.feed(Event::ServiceDelayed { service: 1, reason: reason() });
    let nack = answer(&out).unwrap_err();
    assert_eq!(nack.code, NackCode::NoCapacity);
    assert!(nack.sentence.contains("no process"), "{nack}");
    assert_eq!((b.core.totals().services, b.core.totals().bytes), (0, 0));
    b.ask(1, Kind::Release, s, g.grant.as_bytes());
    // One that had a service waits for the next.
    let (grant, service) = b.active(1, s, "add");
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(out.iter().any(|a| matches!(a, Action::StartService { .. })));
    let mut tries = 0;
    let began = b.now;
    while b.core.totals().services > 0 && tries < 1000 {
        let mut started = false;
        b.feed(Event::ServiceDelayed { service, reason: reason() });
        while !started && b.core.totals().services > 0 && b.now < began + 200_000 {
            b.now += 20;
            let out = b.feed(Event::Tick);
            started = out.iter().any(|a| matches!(a, Action::StartService { .. }));
        }
        tries += 1;
        if b.now - began > 5_000 && tries < 100 {
            // There is one again: it goes on as if nothing had been.
            let out = b.feed(Event::ServiceReady { service });
            assert_eq!(opened(&out), Some((service, grant)));
            b.feed(Event::ChannelOpened { service, channel: grant });
            break;
        }
    }
    assert!((5..50).contains(&tries), "{tries} tries in 5 s");
    assert_eq!(b.core.grants().next().unwrap().1.state, GrantState::Active);
    assert_eq!(b.core.breakers(b.now).count(), 0, "no driver crashed");
}

#[test]
fn services_of_one_client_start_at_a_bounded_rate() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let starts =
        |out: &[Action]| out.iter().filter(|a| matches!(a, Action::StartService { .. })).count();
    let began = b.now;
    let mut started = 0;
    // One that asks again each time its service could not load.
    for _ in 0..500 {
        let Ok(g) = b.negotiate(1, s, want("add")) else { break };
        let out = b.ask(1, Kind::Activate, s, g.grant.as_bytes());
        started += starts(&out);
        let service = b.core.services.keys().next().copied().unwrap_or(0);
        b.feed(Event::ServiceFailed { service, reason: "no".into() });
        b.ask(1, Kind::Release, s, g.grant.as_bytes());
        b.now += 1;
    }
    let may = u64::from(crate::limits::STARTS.burst) + (b.now - began) / 100 + 1;
    assert!(started as u64 <= may, "{started} starts where {may} are allowed");
    // Another client is not kept waiting, and this one is served in its time.
    let s2 = b.hello(2, b"secret").unwrap().session.get();
    b.active(2, s2, "add");
    let g = b.negotiate(1, s, want("mul")).unwrap();
    let mut started = starts(&b.ask(1, Kind::Activate, s, g.grant.as_bytes()));
    for _ in 0..20 {
        b.now += 20;
        started += starts(&b.feed(Event::Tick));
    }
    assert_eq!(started, 1);
}

#[test]
fn pages_that_the_host_takes_away_are_held_back_a_moment() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let place = |b: &Bed, h: Handle| {
        b.core.grants().find(|(g, _)| *g == h).unwrap().1.geometry.unwrap().dataout_off.get()
    };
    let (kept, service) = b.active(1, s, "add");
    let (grant, _) = b.active(1, s, "add");
    let taken = place(&b, grant);
    b.feed(Event::Revoke { grant });
    b.feed(Event::ChannelClosed { service, channel: grant });
    assert_eq!(b.core.grants().count(), 1);
    let bytes = b.core.totals().bytes;
    let (next, _) = b.active(1, s, "add");
    assert_ne!(place(&b, next), taken);
    assert_eq!(b.core.totals().bytes, 2 * bytes, "what is held back is nobody's");
    // Also by a manager that takes over.
    b.take_over(|_| true);
    assert!(b.core.needs_tick());
    b.now += 1_000;
    b.feed(Event::Tick);
    let (later, _) = b.active(1, s, "add");
    assert_eq!(place(&b, later), taken);
    // What an app gives back itself it gets at once.
    let own = place(&b, next);
    b.ask(1, Kind::Release, s, next.0.as_bytes());
    b.feed(Event::ChannelClosed { service, channel: next });
    let (again, _) = b.active(1, s, "add");
    assert_eq!(place(&b, again), own);
    let _ = kept;
}

#[test]
fn a_client_or_a_function_is_drained_by_itself_and_again_granted() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let s2 = b.hello(2, b"secret").unwrap().session.get();
    let (held, _) = b.active(1, s, "add");
    let code = |r: Result<NegotiateAck, Nack>| r.map(drop).map_err(|n| n.code);
    b.feed(Event::DrainOf { of: DrainOf::Function("add".into()), on: true });
    assert_eq!(code(b.negotiate(1, s, want("add"))), Err(NackCode::Draining));
    assert_eq!(code(b.negotiate(2, s2, want("add"))), Err(NackCode::Draining));
    assert_eq!(code(b.negotiate(1, s, want("mul"))), Ok(()));
    assert_eq!(b.core.grants_of(&DrainOf::Function("add".into())).next().unwrap().0, held);
    let name = b.core.catalog().clients[&1].name.clone();
    b.feed(Event::DrainOf { of: DrainOf::Client(name.clone()), on: true });
    b.feed(Event::DrainOf { of: DrainOf::Function("add".into()), on: false });
    b.take_over(|_| true);
    assert_eq!(code(b.negotiate(1, s, want("mul"))), Err(NackCode::Draining));
    assert_eq!(code(b.negotiate(2, s2, want("add"))), Ok(()));
    assert!(!b.core.draining() && b.core.drained().0.contains(&name));
    b.feed(Event::DrainOf { of: DrainOf::All, on: false });
    assert_eq!(code(b.negotiate(1, s, want("mul"))), Ok(()));
}
