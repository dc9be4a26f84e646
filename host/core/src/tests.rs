//! The state machine by itself: what an app asks, what a service does, and
//! what is left when they go, in every order.

use super::breakers::{CRASHES_MAX, OPEN_MS};
use super::catalog::{Client, ClientKind, Function, Hardware, Vm};
use super::services::LINGER_MS;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use vfun_supervise::{Driver, EXIT_DEADLINE};
use vfun_wire::header::HEAP_OFF;
use vfun_wire::kind::{CallsShape, Shape};
use vfun_wire::limits::*;
use vfun_wire::message::*;
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::Heap;
use vfun_wire::status::BreakReason;
use vfun_wire::version::{Features, FunctionVersion};
use vfun_wire::{Nack, NackCode, Status, names};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

mod bond;
mod buffers;
mod crashes;
mod further;
mod holding;
mod invariants;
mod leases;
mod notes;
mod page_tables;
mod policy;
mod ports;
mod queues;
mod takeover;
mod vms;
mod watch;

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
        fixed_deadline: false,
        max_args: 100,
        max_result: 100,
        settings: BTreeMap::new(),
        reads: vec![],
        writes: vec![],
        environment: Default::default(),
        makes_code: false,
        devices: vec![],
        codes: BTreeMap::new(),
        signature: None,
    }
}

fn client(id: u32, name: &str) -> Client {
    Client {
        id,
        name: name.into(),
        kind: ClientKind::Vm,
        window_bytes: MIB,
        vms: vec![vm(name), vm("b")],
        functions: vec!["*".into()],
        max_grants: 4,
        hardware: true,
        spin: false,
        tcp: crate::catalog::OverTcp::Nobody,
        credential_sha256: None,
        uids: vec![],
        nics: Default::default(),
        addresses: Default::default(),
        shared_memory: Default::default(),
        vmms: Default::default(),
        rdma: Default::default(),
        ports: Default::default(),
        links: Default::default(),
    }
}

fn vm(name: &str) -> Vm {
    Vm { name: name.into(), transport: vfun_admin::Transport::IvshmemDoorbell, window_bytes: MIB }
}

fn catalog() -> Catalog {
    let mut c = Catalog::default();
    for f in [function(1, "add"), function(2, "mul")] {
        c.functions.insert(f.name.clone(), f);
    }
    let mut fast = function(3, "fast");
    fast.hardware = Some(Hardware {
        device: "fast".into(),
        location: Location::FpgaSimulated,
        driver: Driver::Native { library: "/lib/hw.so".into() },
        instances: 1,
        leased: false,
        usual_gain_ns: 0,
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
                vm: None,
                bytes: MIB,
                doorbell: false,
                death_seen: false,
                proven: false,
            });
        }
        b
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        let mut out = vec![];
        self.core.handle(self.now, event, &mut out);
        self.core.check();
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
            let buffer = |(h, b): (Handle, &Buffer)| {
                let b = Buffer { owing: BTreeMap::new(), told: None, since_ms: 0, ..b.clone() };
                format!("{h} {b:?}")
            };
            places.extend(c.buffers().map(buffer));
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
                .filter(|(_, g)| g.service() == Some(service) && g.state() == GrantState::Active)
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
            version_min: U16::new(2),
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
            Some(service) => {
                self.feed(Event::TakesBuffers { service });
                self.feed(Event::ServiceReady { service })
            }
            None => out,
        };
        let (service, channel) = opened(&opens).expect("a channel is opened");
        let out = self.feed(Event::ChannelOpened { service, channel });
        let (handle, place) = ChannelPlace::read(&answer(&out).unwrap()).unwrap();
        place.check(&[Heap { window: 0, from: HEAP_OFF as u64, to: MIB }]).unwrap();
        assert_eq!(handle, g.grant.get());
        (channel, service)
    }
}

/// The shape of a channel of calls.
fn cells(depth: u16, cell_bytes: u32) -> Shape {
    CallsShape::new(depth, cell_bytes).shape()
}

fn want(name: &str) -> Negotiate {
    Negotiate {
        function: names::encode(name).unwrap(),
        version: U32::new(0),
        preference: 0,
        wait: 0,
        kind: U16::new(1),
        deadline_ms: U32::new(0),
        reserved0: U32::ZERO,
        signature: U64::new(0),
        shape: cells(16, 1024),
        reserved1: [U64::ZERO; 3],
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
        (2, 1, HEARTBEAT_MS as u32)
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
fn after_a_goodbye_it_is_said_to_be_the_cause() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    answer(&b.ask(1, Kind::Goodbye, s, &[0; 8])).unwrap();
    let why =
        |b: &mut Bed, window| answer(&b.ask(window, Kind::KeepAlive, s, &[0; 8])).unwrap_err();
    let n = why(&mut b, 1);
    assert_eq!(n.code, NackCode::Stale);
    assert!(n.sentence.contains("the app said goodbye"), "{n}");
    let n = why(&mut b, 2);
    assert!(!n.sentence.contains("goodbye"), "another client is not told: {n}");
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
    case(Negotiate { shape: cells(3, 1024), ..want("add") }, 1, s, NackCode::BeyondLimit);
    case(Negotiate { shape: cells(16, u32::MAX - 1), ..want("add") }, 1, s, NackCode::BeyondLimit);
    case(Negotiate { shape: cells(16, 1 << 20), ..want("add") }, 1, s, NackCode::NoCapacity);
    case(Negotiate { deadline_ms: U32::new(1001), ..want("add") }, 1, s, NackCode::BeyondLimit);
    case(Negotiate { preference: 1, ..want("add") }, 1, s, NackCode::NoHardware);
    let mut slash = want("add");
    slash.function[0] = b'/';
    case(slash, 1, s, NackCode::Malformed);
    case(want("add"), 1, 6 << 32, NackCode::Stale);
    case(want("add"), 1, 0, NackCode::BadHandle);
    // Never a handle: beyond every place, and of no manager before this one.
    case(want("add"), 1, 0x7fff_ffff_0000_0001, NackCode::BadHandle);
    case(want("add"), 2, s, NackCode::BadHandle);

    let short = b.ask(1, Kind::Negotiate, s, &[1, 2, 3]);
    assert_eq!(answer(&short).unwrap_err().code, NackCode::Malformed);
    let buffers = b.ask(1, Kind::BufferGet, s, &[0; 32]);
    assert_eq!(answer(&buffers).unwrap_err().code, NackCode::BeyondLimit);
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
    for (range, said) in
        [((1, 1), "update the app's VirtFun"), ((5, 6), "update VirtFun on the host")]
    {
        (h.version_min, h.version_max) = (U16::new(range.0), U16::new(range.1));
        let nack = answer(&b.ask(1, Kind::Hello, 0, h.as_bytes())).unwrap_err();
        assert_eq!(nack.code, NackCode::WrongProtocol);
        assert!(nack.sentence.ends_with(said), "{nack}");
    }
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
    let small = Negotiate { shape: cells(16, 64), ..with(fingerprint) };
    assert_eq!(b.negotiate(1, s, small).unwrap_err().code, NackCode::BeyondLimit);
    b.negotiate(1, s, with(fingerprint)).unwrap();
    // The service of before knows nothing of the signature: it gets no more channels.
    assert_ne!(b.active(1, s, "add").1, untyped);
}

#[test]
fn a_service_of_a_client_that_is_gone_serves_none_of_its_name() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (_, service) = b.active(1, s, "add");
    b.feed(Event::WindowDown { window: 1 });
    // Removed, and added again while the service has not ended.
    let mut without = catalog();
    without.clients.remove(&1);
    b.feed(Event::Catalog(without));
    b.feed(Event::Catalog(catalog()));
    b.feed(Event::WindowUp {
        window: 3,
        client: 1,
        vm: None,
        bytes: MIB,
        doorbell: false,
        death_seen: false,
        proven: false,
    });
    let s = b.hello(3, b"").unwrap().session.get();
    assert_ne!(b.active(3, s, "add").1, service);
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
    let big = Negotiate { shape: cells(1, 300 << 10), ..want("add") };
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

#[test]
fn pages_that_the_host_takes_away_are_held_back_a_moment() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let place = |b: &Bed, h: Handle| {
        b.core.grants().find(|(g, _)| *g == h).unwrap().1.channel().unwrap().ranges()[0]
            .offset
            .get()
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
