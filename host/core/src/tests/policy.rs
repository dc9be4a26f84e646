//! Each rule where it is enforced, tokens, and what a change takes away.

use super::*;
use crate::catalog::Token;
use crate::policy::parse;
use sha2::{Digest, Sha256};
use std::path::Path;
use vfun_jail::Device;

/// The catalog under a policy.
fn under(policy: &str) -> Catalog {
    Catalog { policy: parse(Path::new("policy.toml"), policy).unwrap(), ..catalog() }
}

fn bed(policy: &str) -> Bed {
    let mut b = Bed::new();
    b.feed(Event::Catalog(under(policy)));
    b
}

fn token(id: u64, secret: &[u8], app: &str, expires_ms: Option<u64>) -> Token {
    Token { id, sha256: Sha256::digest(secret).into(), app: app.into(), expires_ms }
}

#[track_caller]
fn refused(b: &mut Bed, session: u64, want: Negotiate, code: NackCode, says: &[&str]) {
    b.log.clear();
    let n = b.negotiate(1, session, want).unwrap_err();
    assert_eq!(n.code, code, "{n}");
    for s in says {
        assert!(n.sentence.contains(s), "{n} should say {s}");
    }
    let noted = b.log.iter().find_map(|a| match a {
        Action::Refused(r) => Some((r.client.clone(), r.app.clone(), r.nack.clone())),
        _ => None,
    });
    assert_eq!(noted, Some(("vm1".into(), "app".into(), n)), "it is noted");
}

#[test]
fn each_rule_is_enforced_and_named() {
    let cases: [(&str, Negotiate, NackCode, &[&str]); 7] = [
        (
            "[default]\nfunctions = [\"mul\"]",
            want("add"),
            NackCode::Denied,
            &["vm1", "'add'", "functions in [default]", "operator"],
        ),
        (
            "[client.vm1.function.fast]\nhardware = false",
            Negotiate { preference: Preference::Hardware.to_wire(), ..want("fast") },
            NackCode::Denied,
            &["hardware in [client.vm1.function.fast]"],
        ),
        (
            "[client.vm1]\nbytes = \"40 KiB\"",
            want("add"),
            NackCode::OverQuota,
            &["40960 that client vm1 has left of 40960", "bytes in [client.vm1]"],
        ),
        (
            "[client.vm1]\nin_flight = 15",
            want("add"),
            NackCode::OverQuota,
            &["16 calls at once", "15 that client vm1", "in_flight in [client.vm1]"],
        ),
        (
            "[default]\ndeadline_ms = 700",
            Negotiate { deadline_ms: U32::new(701), ..want("add") },
            NackCode::BeyondLimit,
            &["701 ms", "700 ms of client vm1", "deadline_ms in [default]"],
        ),
        (
            "[client.vm1.function.add]\nin_flight = 15",
            want("add"),
            NackCode::OverQuota,
            &["client vm1 with 'add'", "in_flight in [client.vm1.function.add]"],
        ),
        (
            "[client.vm1.function.add]\nbytes = \"1 KiB\"",
            want("add"),
            NackCode::OverQuota,
            &["bytes in [client.vm1.function.add]"],
        ),
    ];
    for (policy, wanted, code, says) in cases {
        let mut b = bed(policy);
        let s = b.hello(1, b"").unwrap().session.get();
        refused(&mut b, s, wanted, code, says);
        // Another client, or another function, is not meant.
        let s2 = b.hello(2, b"secret").unwrap().session.get();
        let other = match policy.starts_with("[default]") {
            true => b.negotiate(1, s, want("mul")),
            false => b.negotiate(2, s2, want("add")),
        };
        assert!(other.is_ok(), "{policy}: {other:?}");
    }
}

#[test]
fn channels_are_counted_over_all_windows_of_a_client_and_for_each_function() {
    let mut b = bed("[client.vm1]\nchannels = 2\n[client.vm1.function.add]\nchannels = 1");
    b.feed(Event::WindowUp {
        window: 3,
        client: 1,
        vm: Some("b".into()),
        bytes: MIB,
        doorbell: true,
        death_seen: true,
        proven: false,
    });
    let s = b.hello(1, b"").unwrap().session.get();
    let s3 = b.hello(3, b"").unwrap().session.get();
    let add = b.negotiate(3, s3, want("add")).unwrap();
    let says = &["client vm1 with 'add' holds 1 channels of 1", "[client.vm1.function.add]"];
    refused(&mut b, s, want("add"), NackCode::OverQuota, says);
    b.negotiate(1, s, want("mul")).unwrap();
    let says = &["client vm1 holds 2 channels of 2", "channels in [client.vm1]"];
    refused(&mut b, s, want("mul"), NackCode::OverQuota, says);
    b.ask(3, Kind::Release, s3, add.grant.as_bytes());
    b.negotiate(1, s, want("mul")).unwrap();
    b.feed(Event::WindowDown { window: 1 });
    assert_eq!(b.core.charges(1, None), Charges::default());
    // The manifest's own bound holds beside it.
    let mut b = bed("[client.vm1]\nchannels = 200");
    let s = b.hello(1, b"").unwrap().session.get();
    for _ in 0..4 {
        b.negotiate(1, s, want("add")).unwrap();
    }
    refused(&mut b, s, want("add"), NackCode::OverQuota, &["holds 4 grants", "max_grants"]);
}

#[test]
fn deadlines_and_hardware_are_narrowed_where_nobody_asked_for_more() {
    let mut b = bed("[default]\nhardware = false\n[client.vm1]\ndeadline_ms = 70");
    let s = b.hello(1, b"").unwrap().session.get();
    let g = b.negotiate(1, s, want("fast")).unwrap();
    assert_eq!((g.deadline_ms.get(), g.location), (70, Location::Software.to_wire()));
    // Longer than the function's own is not lengthened.
    b.feed(Event::Catalog(under("[client.vm1]\ndeadline_ms = 5000")));
    assert_eq!(b.negotiate(1, s, want("fast")).unwrap().deadline_ms.get(), 1000);
}

/// A call that is past its deadline ends the service of all programs of its client.
#[test]
fn where_a_deadline_is_fixed_no_app_asks_for_a_shorter_one() {
    let under = |policy: &str| {
        let mut catalog = under(policy);
        catalog.functions.get_mut("add").unwrap().fixed_deadline = true;
        catalog
    };
    let mut b = Bed::new();
    b.feed(Event::Catalog(under("")));
    let s = b.hello(1, b"").unwrap().session.get();
    let for_ms = |name, ms| Negotiate { deadline_ms: U32::new(ms), ..want(name) };
    for short in [1, 999] {
        let says = ["too short", "'add' have 1000 ms", "client vm1"];
        refused(&mut b, s, for_ms("add", short), NackCode::BeyondLimit, &says);
    }
    assert_eq!(b.negotiate(1, s, for_ms("add", 1000)).unwrap().deadline_ms.get(), 1000);
    assert_eq!(b.negotiate(1, s, for_ms("mul", 1)).unwrap().deadline_ms.get(), 1);
    // Policy may make it shorter, for all of a client's apps alike.
    b.feed(Event::Catalog(under("[client.vm1]\ndeadline_ms = 70")));
    refused(&mut b, s, for_ms("add", 69), NackCode::BeyondLimit, &["have 70 ms"]);
    assert_eq!(b.negotiate(1, s, for_ms("add", 70)).unwrap().deadline_ms.get(), 70);
    assert_eq!(b.negotiate(1, s, for_ms("add", 0)).unwrap().deadline_ms.get(), 70);
}

#[test]
fn what_policy_does_not_list_is_not_shown() {
    let mut b = bed("[client.vm1]\nfunctions = [\"mul\"]");
    let s = b.hello(1, b"").unwrap().session.get();
    let l = List { start: U32::new(0), reserved: U32::new(0) };
    let body = answer(&b.ask(1, Kind::List, s, l.as_bytes())).unwrap();
    assert_eq!(ListAck::read_from_prefix(&body).unwrap().0.total.get(), 1);
    let d = Describe { function: names::encode("add").unwrap() };
    let n = answer(&b.ask(1, Kind::Describe, s, d.as_bytes())).unwrap_err();
    assert_eq!(n.code, NackCode::Denied);
}

#[test]
fn a_policy_that_nobody_can_read_grants_nothing_and_starts_nothing() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    b.feed(Event::Catalog(Catalog { policy_unreadable: true, ..catalog() }));
    refused(&mut b, s, want("add"), NackCode::Denied, &["vfun policy check"]);
    assert_eq!(b.core.grants.get(grant).unwrap().state(), GrantState::Active, "calls go on");
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(!out.iter().any(|a| matches!(a, Action::StartService { .. })), "{out:?}");
    assert_eq!(b.core.grants.get(grant).unwrap().state(), GrantState::Broken);
}

#[test]
fn a_change_takes_back_what_is_no_longer_allowed_and_nothing_else() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let s2 = b.hello(2, b"secret").unwrap().session.get();
    let (add, _) = b.active(1, s, "add");
    let (mul, mul_service) = b.active(1, s, "mul");
    let (other, _) = b.active(2, s2, "add");
    let fast = Handle(b.negotiate(1, s, want("fast")).unwrap().grant.get());
    let new = under(
        "[client.vm1]\nfunctions = [\"mul\", \"fast\"]\nhardware = false\nchannels = 1\n\
         [client.vm1.function.mul]\ncalls_per_s = 50",
    );
    let told = b.core.effects(&new);
    assert_eq!(told.grants.iter().map(|(h, _)| *h).collect::<Vec<_>>(), [add, fast]);
    assert_eq!(told.rates, [(mul, 50)]);
    let out = b.feed(Event::Catalog(new));
    let state = |b: &Bed, h| b.core.grants.get(h).map(|g| g.state());
    assert_eq!(state(&b, add), Ok(GrantState::Closing));
    assert!(state(&b, fast).is_err(), "it had no channel");
    assert_eq!(state(&b, mul), Ok(GrantState::Active), "over its quota, but held already");
    assert_eq!(state(&b, other), Ok(GrantState::Active), "another client's");
    let why = out.iter().find_map(|a| match a {
        Action::Record(r) if r.grant == add => r.why.clone(),
        _ => None,
    });
    assert!(why.unwrap().contains("functions in [client.vm1]"));
    let rate = out.iter().find_map(|a| match a {
        Action::SetRate { service, channel, calls_per_s } => {
            Some((*service, *channel, *calls_per_s))
        }
        _ => None,
    });
    assert_eq!(rate, Some((mul_service, mul, 50)));
}

fn device(path: &str, requests: &[&str]) -> Device {
    let ioctls = requests.iter().map(|r| r.parse().unwrap()).collect();
    Device { path: path.into(), ioctls }
}

/// The catalog under a policy; the driver of `add` opens this device.
fn with_device(policy: &str, requests: &[&str]) -> Catalog {
    let mut c = under(policy);
    c.functions.get_mut("add").unwrap().devices = vec![device("/dev/vfun0", requests)];
    c
}

/// Why this grant was taken away, if it was.
pub(super) fn why(out: &[Action], grant: Handle) -> Option<String> {
    out.iter().find_map(|a| match a {
        Action::Record(r) if r.grant == grant => r.why.clone(),
        _ => None,
    })
}

#[test]
fn a_device_that_policy_takes_away_ends_the_services_that_hold_it() {
    let mut b = Bed::new();
    b.feed(Event::Catalog(with_device("", &["0x64/*"])));
    let s = b.hello(1, b"").unwrap().session.get();
    let s2 = b.hello(2, b"secret").unwrap().session.get();
    let (add, service) = b.active(1, s, "add");
    let (mul, _) = b.active(1, s, "mul");
    let (other, _) = b.active(2, s2, "add");
    let idle = Handle(b.negotiate(1, s, want("add")).unwrap().grant.get());
    let new = with_device("[client.vm1]\ndevices = [\"/dev/dri/*\"]", &["0x64/*"]);
    let told: Vec<_> = b.core.effects(&new).grants.into_iter().map(|(h, _)| h).collect();
    assert_eq!(told, [add, idle]);
    let out = b.feed(Event::Catalog(new));
    let said = why(&out, add).expect("it is recorded");
    assert!(said.contains("/dev/vfun0") && said.contains("devices in [client.vm1]"), "{said}");
    let state = |b: &Bed, h| b.core.grants.get(h).map(|g| g.state());
    assert_eq!(state(&b, add), Ok(GrantState::Closing));
    assert!(state(&b, idle).is_err(), "it had no channel");
    assert_eq!(state(&b, mul), Ok(GrantState::Active), "it has no device");
    assert_eq!(state(&b, other), Ok(GrantState::Active), "another client's");
    // Nothing new comes to the service, which ends; one that does not is killed.
    let says = ["client vm1 may not open /dev/vfun0", "'add'", "devices in [client.vm1]"];
    refused(&mut b, s, want("add"), NackCode::Denied, &says);
    b.now += crate::services::CLOSE_GRACE_MS + 1;
    let out = b.feed(Event::Tick);
    let killed = |a: &Action| matches!(a, Action::KillService { service: id } if *id == service);
    assert!(out.iter().any(killed), "{out:?}");
}

#[test]
fn a_device_that_is_taken_ends_a_service_that_starts_with_it() {
    let none = with_device("[client.vm1]\ndevices = []", &["0x64/*"]);
    for (new, left) in [(none.clone(), false), (with_device("", &[]), false), (none, true)] {
        let mut b = Bed::new();
        b.feed(Event::Catalog(with_device("", &["0x64/*"])));
        let s = b.hello(1, b"").unwrap().session.get();
        let g = b.negotiate(1, s, want("add")).unwrap().grant.get();
        b.ask(1, Kind::Activate, s, &g.to_le_bytes());
        let service = b.core.grants.get(Handle(g)).unwrap().service().unwrap();
        if left {
            b.ask(1, Kind::Release, s, &g.to_le_bytes());
        }
        assert!(b.core.awaits_ready(service), "it goes on where it may have its device");
        let out = b.feed(Event::Catalog(new));
        let killed =
            |a: &Action| matches!(a, Action::KillService { service: id } if *id == service);
        assert!(out.iter().any(killed), "{out:?}");
        assert!(!b.core.knows_service(service));
        if !left {
            let n = answer(&out).unwrap_err();
            assert!(n.sentence.contains("/dev/vfun0"), "{n}");
        }
    }
}

/// A service that crashes is started again as what its function is by then.
#[test]
fn no_service_starts_again_with_a_device_that_policy_denies() {
    let mut b = bed("[default]\ndevices = []");
    let s = b.hello(1, b"").unwrap().session.get();
    let (add, service) = b.active(1, s, "add");
    b.feed(Event::Catalog(with_device("[default]\ndevices = []", &["0x64/*"])));
    assert_eq!(b.core.grants.get(add).unwrap().state(), GrantState::Active, "it has no device");
    b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    b.now += 1000;
    b.feed(Event::Tick);
    let starts = |a: &&Action| matches!(a, Action::StartService { .. });
    assert_eq!(b.log.iter().filter(starts).count(), 1, "{:?}", b.log);
    assert_eq!(b.core.grants.get(add).unwrap().state(), GrantState::Broken);
}

#[test]
fn a_device_that_a_manifest_takes_away_ends_the_services_that_hold_it() {
    let all = ["0x64/*", "0x80045200"];
    let ends = |change: &dyn Fn(&mut Catalog)| {
        let mut b = Bed::new();
        b.feed(Event::Catalog(with_device("", &all)));
        let s = b.hello(1, b"").unwrap().session.get();
        let (add, _) = b.active(1, s, "add");
        let mut new = with_device("", &all);
        change(&mut new);
        let out = b.feed(Event::Catalog(new));
        let goes_on = b.core.grants.get(add).is_ok_and(|g| g.state() == GrantState::Active);
        assert_eq!(goes_on, why(&out, add).is_none());
        why(&out, add)
    };
    let devices = |to: Vec<Device>| {
        move |c: &mut Catalog| c.functions.get_mut("add").unwrap().devices = to.clone()
    };
    for to in [vec![], vec![device("/dev/vfun1", &all)], vec![device("/dev/vfun0", &["0x64/*"])]] {
        let said = ends(&devices(to.clone())).unwrap_or_else(|| panic!("{to:?}"));
        assert!(said.contains("manifest does not name /dev/vfun0"), "{said}");
    }
    let more = vec![device("/dev/vfun0", &["0x80045200", "0x64/*", "0x65/*"])];
    assert_eq!(ends(&devices(more)), None, "one more is not one less");
    assert_eq!(ends(&|c| drop(c.functions.remove("add"))), None, "it is kept until released");
    assert_eq!(ends(&|c| c.functions.get_mut("add").unwrap().deadline_ms = 77), None);
}

#[test]
fn what_a_clients_manifest_takes_away_is_taken() {
    type Change = fn(&mut Client);
    let cases: [(Change, &str); 2] = [
        (|c| c.functions = vec!["mul".into()], "does not list its function"),
        (|c| c.hardware = false, "does not allow hardware"),
    ];
    for (change, says) in cases {
        let mut b = Bed::new();
        let s = b.hello(1, b"").unwrap().session.get();
        let (mul, _) = b.active(1, s, "mul");
        let fast = Handle(b.negotiate(1, s, want("fast")).unwrap().grant.get());
        let mut new = catalog();
        change(new.clients.get_mut(&1).unwrap());
        let out = b.feed(Event::Catalog(new));
        let said = why(&out, fast).unwrap_or_default();
        assert!(said.contains("manifest") && said.contains(says), "{said}");
        assert_eq!(why(&out, mul), None);
    }
}

#[test]
fn a_device_that_was_taken_while_no_manager_was_there_ends_its_services() {
    let policy = "[default]\ndevices = []";
    // Nobody knows any more what the manifest said: the note of the service does.
    let mut removed = under(policy);
    removed.functions.remove("add");
    let changes = [
        (with_device(policy, &["0x64/*"]), true),
        (with_device(policy, &["0x64/*"]), false),
        (with_device("", &[]), true),
        (removed, true),
    ];
    for (catalog, noted) in changes {
        let mut b = Bed::new();
        b.feed(Event::Catalog(with_device("", &["0x64/*"])));
        let s = b.hello(1, b"").unwrap().session.get();
        let (add, service) = b.active(1, s, "add");
        if !noted {
            b.forget_devices(service);
        }
        let out = b.next_manager(catalog, service);
        let said = why(&out, add).unwrap_or_default();
        assert!(said.contains("/dev/vfun0"), "{said}");
        assert_eq!(b.core.grants.get(add).unwrap().state(), GrantState::Closing);
    }
}

impl Bed {
    /// A manager that knew of no devices had no such field in the notes of services.
    fn forget_devices(&mut self, service: ServiceId) {
        let note = self.notes.get_mut(&format!("core/service/{service}")).unwrap();
        let mut fields: serde_json::Map<_, _> = serde_json::from_str(note).unwrap();
        fields.remove("devices").unwrap();
        *note = serde_json::Value::Object(fields).to_string();
    }

    /// The manager is killed; the next one has this catalog, and this service lives.
    fn next_manager(&mut self, catalog: Catalog, service: ServiceId) -> Vec<Action> {
        let notes = self.notes.clone();
        let notes = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        self.core = Core::restore(self.now, 8, catalog, notes).unwrap();
        self.feed(Event::Resume { alive: vec![service] })
    }
}

/// What a service has that was started by a manager which did not note it is known only
/// while its function is the same.
#[test]
fn devices_that_nobody_noted_are_lost_where_policy_limits_them() {
    let all = ["0x64/*"];
    let other = |policy: &str, devices: Vec<Device>| {
        let mut c = with_device(policy, &all);
        c.functions.get_mut("add").unwrap().devices = devices;
        c
    };
    let removed = |policy: &str| {
        let mut c = under(policy);
        c.functions.remove("add");
        c
    };
    let (some, every) =
        ("[default]\ndevices = [\"/dev/vfun1\"]", "[default]\ndevices = [\"/dev/*\"]");
    let cases = [
        (with_device("", &all), None),
        (with_device(every, &all), None),
        // There were managers whose services had no devices at all.
        (other("", vec![]), None),
        (other(every, vec![]), None),
        (other(some, vec![]), Some("devices in [default]")),
        (other(some, vec![device("/dev/vfun1", &all)]), Some("devices in [default]")),
        (removed(""), None),
        (removed(every), None),
        (removed(some), Some("devices in [default]")),
    ];
    for (i, (catalog, ends)) in cases.into_iter().enumerate() {
        let mut b = Bed::new();
        b.feed(Event::Catalog(with_device("", &all)));
        let s = b.hello(1, b"").unwrap().session.get();
        let (add, service) = b.active(1, s, "add");
        b.forget_devices(service);
        let out = b.next_manager(catalog.clone(), service);
        let said = why(&out, add);
        assert_eq!(said.is_some(), ends.is_some(), "{i}: {said:?}");
        assert!(said.unwrap_or_default().contains(ends.unwrap_or_default()), "{i}");
        // The next one knows as much.
        let out = b.next_manager(catalog, service);
        assert_eq!(why(&out, add), None, "{i}");
        let state = b.core.grants.get(add).unwrap().state();
        assert_eq!(state == GrantState::Active, ends.is_none(), "{i}: {state:?}");
    }
}

/// Whoever asks what a function is like is told the same as who asks for it.
#[test]
fn a_denial_has_one_name_and_a_typo_another() {
    let mut b = bed("[default]\nfunctions = [\"mul\"]");
    let s = b.hello(1, b"").unwrap().session.get();
    let mut describe = |name: &str| {
        let d = Describe { function: names::encode(name).unwrap() };
        answer(&b.ask(1, Kind::Describe, s, d.as_bytes())).unwrap_err()
    };
    let (denied, typo, other) = (describe("add"), describe("mull"), describe("fourier"));
    assert_eq!(denied.code, NackCode::Denied);
    assert!(typo.sentence.contains("(is 'mul' meant?)"), "{typo}");
    assert_eq!((typo.code, other.code), (NackCode::UnknownFunction, NackCode::UnknownFunction));
    assert!(!other.sentence.contains("meant"), "{other}");
    assert!(!describe("ad").sentence.contains("add"), "only what it is offered is suggested");
    assert_eq!(b.negotiate(1, s, want("add")).unwrap_err(), denied);
    assert_eq!(b.negotiate(1, s, want("mull")).unwrap_err(), typo);
}

#[test]
fn a_rate_is_told_when_a_channel_opens_and_outlives_the_manager() {
    let mut b = bed("[default]\ncalls_per_s = 70");
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, service) = b.active(1, s, "add");
    let told = |log: &[Action]| {
        log.iter().find_map(|a| match a {
            Action::OpenChannel { calls_per_s, .. } => Some(*calls_per_s),
            _ => None,
        })
    };
    assert_eq!(told(&b.log), Some(70));
    // The policy was edited while no manager was there.
    let notes = b.notes.clone();
    let notes = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
    b.core = Core::restore(b.now, 8, under("[default]\ncalls_per_s = 80"), notes).unwrap();
    assert_eq!(b.core.grants.get(grant).unwrap().terms.calls_per_s, 70);
    let out = b.feed(Event::Resume { alive: vec![service] });
    assert!(out.iter().any(|a| matches!(a, Action::SetRate { calls_per_s: 80, .. })), "{out:?}");
}

#[test]
fn notes_of_a_manager_without_policy_are_read() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (grant, _) = b.active(1, s, "add");
    let old: BTreeMap<_, _> = b
        .notes
        .iter()
        .map(|(name, note)| {
            let mut note: serde_json::Value = serde_json::from_str(note).unwrap();
            if let Some(thing) = note.get_mut("thing").and_then(|t| t.as_object_mut()) {
                let had = thing.remove("calls_per_s").is_some() || thing.remove("token").is_some();
                assert!(had, "{name}");
            }
            (name.clone(), note.to_string())
        })
        .collect();
    b.restore_from(&old);
    assert_eq!(b.core.grants.get(grant).unwrap().terms.calls_per_s, 0);
    assert_eq!(b.core.charges(1, None).channels, 1, "its charge is there");
}

#[test]
fn tokens_open_sessions_for_their_apps_and_time_and_their_end_closes_them() {
    let mut b = Bed::new();
    let with = |tokens: Vec<Token>| Catalog {
        tokens: BTreeMap::from([(1, tokens)]),
        ..under("[client.vm1]\ntokens = true")
    };
    let (old, new) = (token(5, b"old", "*", Some(1000)), token(6, b"new", "ap*", None));
    let other = token(7, b"other", "web-*", None);
    b.hello(1, b"").unwrap();
    // Without a token, when tokens are asked for: the session ends.
    b.feed(Event::Catalog(with(vec![old.clone(), new.clone(), other.clone()])));
    assert_eq!(b.core.totals().sessions, 0);
    for (secret, says) in [
        (&b""[..], "vfun token add vm1"),
        (b"guess", "is no token of client vm1"),
        (b"secret", "is no token of client vm1"),
        (b"other", "for apps named 'web-*'"),
    ] {
        let n = b.hello(1, secret).unwrap_err();
        assert_eq!(n.code, NackCode::BadCredential);
        assert!(n.sentence.contains(says), "{n}");
    }
    // Both are valid, so that nobody is lost while apps change over.
    let a = b.hello(1, b"old").unwrap().session.get();
    let c = b.hello(1, b"new").unwrap().session.get();
    b.negotiate(1, a, want("add")).unwrap();
    b.negotiate(1, c, want("add")).unwrap();
    b.now = 1000;
    let n = b.hello(1, b"old").unwrap_err();
    assert!(n.sentence.contains("has expired"), "{n}");
    b.negotiate(1, a, want("add")).expect("who is in stays in");
    // Another manager knows who came in by which.
    b.take_over_with(with(vec![old, new.clone(), other.clone()]));
    assert_eq!(b.core.totals().sessions, 2);
    // Revoked.
    b.feed(Event::Catalog(with(vec![new, other])));
    assert_eq!(b.core.totals().sessions, 1);
    assert_eq!(b.negotiate(1, a, want("add")).unwrap_err().code, NackCode::Stale);
    b.negotiate(1, c, want("add")).unwrap();
    assert_eq!(b.core.charges(1, None).channels, 2);
}

#[test]
fn who_had_to_prove_itself_for_a_window_does_so_for_each_session() {
    let mut b = Bed::new();
    let with = |tokens| Catalog { tokens: BTreeMap::from([(1, tokens)]), ..catalog() };
    b.feed(Event::Catalog(with(vec![
        token(5, b"web", "web-*", None),
        token(6, b"ours", "app", None),
    ])));
    // On this host nobody asks apps of this client for anything.
    b.hello(1, b"web").unwrap();
    b.feed(Event::WindowDown { window: 1 });
    b.feed(Event::WindowUp {
        window: 1,
        client: 1,
        vm: None,
        bytes: MIB,
        doorbell: true,
        death_seen: true,
        proven: true,
    });
    for round in 0..2 {
        let n = b.hello(1, b"web").unwrap_err();
        assert!(n.sentence.contains("for apps named 'web-*'"), "{n}");
        assert_eq!(b.hello(1, b"").unwrap_err().code, NackCode::BadCredential);
        b.hello(1, b"ours").unwrap();
        assert_eq!(b.core.totals().sessions, round + 1);
        // It is known to the next manager, too.
        b.take_over_with(with(vec![
            token(5, b"web", "web-*", None),
            token(6, b"ours", "app", None),
        ]));
    }
    b.feed(Event::Catalog(with(vec![token(5, b"web", "web-*", None)])));
    assert_eq!(b.core.totals().sessions, 0, "its token was revoked");
}

#[test]
fn tokens_and_the_manifests_credential_both_open_where_tokens_are_not_required() {
    let mut b = Bed::new();
    let tokens = BTreeMap::from([(2, vec![token(1, b"mine", "*", None)])]);
    b.feed(Event::Catalog(Catalog { tokens, ..catalog() }));
    b.hello(2, b"secret").unwrap();
    b.hello(2, b"mine").unwrap();
    assert_eq!(b.hello(2, b"other").unwrap_err().code, NackCode::BadCredential);
    // Tokens are of one client.
    b.feed(Event::Catalog(Catalog {
        tokens: BTreeMap::from([(1, vec![token(1, b"mine", "*", None)])]),
        ..under("[default]\ntokens = true")
    }));
    assert_eq!(b.hello(2, b"mine").unwrap_err().code, NackCode::BadCredential);
    assert_eq!(b.hello(2, b"secret").unwrap_err().code, NackCode::BadCredential);
    b.hello(1, b"mine").unwrap();
}

impl Bed {
    fn take_over_with(&mut self, catalog: Catalog) {
        let notes = self.notes.clone();
        let notes = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        self.core = Core::restore(self.now, 8, catalog, notes).unwrap();
        self.feed(Event::Resume { alive: vec![] });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is granted, released, crashed, changed and taken over: no
    /// client is ever beyond its policy by what was granted under it, charges
    /// are what the grants add up to, and nobody is charged when all have gone.
    #[test]
    fn charges_go_with_their_owners(steps in proptest::collection::vec((0u8..9, any::<u16>()), 1..120)) {
        let policy = "[default]\nchannels = 3\nin_flight = 40\nbytes = \"200 KiB\"";
        let mut b = bed(policy);
        let mut ids = [1u32, 2];
        let mut sessions: Vec<(u32, u64)> = vec![];
        for (what, x) in steps {
            let c = usize::from(x % 2);
            let window = ids[c];
            let grants: Vec<_> = b.core.grants().map(|(h, g)| (h, g.holder.window, g.holder.session, g.service())).collect();
            let some = grants.get(usize::from(x / 2) % grants.len().max(1)).copied();
            let services: Vec<_> = b.core.services.keys().copied().collect();
            let service = services.get(usize::from(x / 2) % services.len().max(1)).copied();
            match (what, some, service) {
                (0, ..) => if let Ok(a) = b.hello(window, if c == 1 { b"secret" } else { b"" }) {
                    sessions.push((window, a.session.get()));
                },
                (1 | 2, ..) => if let Some(&(w, s)) = sessions.get(usize::from(x / 8) % sessions.len().max(1)) {
                    let n = Negotiate { shape: cells(1 << (x / 2 % 6), u32::from(x)), ..want("add") };
                    let _ = b.negotiate(w, s, n);
                },
                (3, Some((h, w, s, _)), _) => drop(b.ask(w, Kind::Activate, s.0, &h.0.to_le_bytes())),
                (4, Some((h, w, s, _)), _) => drop(b.ask(w, Kind::Release, s.0, &h.0.to_le_bytes())),
                (5, Some((h, _, _, Some(service))), _) => drop(b.feed(match x % 3 {
                    0 => Event::ChannelOpened { service, channel: h },
                    1 => Event::ChannelClosed { service, channel: h },
                    _ => Event::ChannelOpenFailed { service, channel: h, reason: "no".into() },
                })),
                (6, _, Some(service)) => drop(b.feed(match x % 2 {
                    0 => Event::ServiceReady { service },
                    _ => Event::ServiceExited { service, exit: Exit::Signal(11) },
                })),
                (7, ..) => {
                    b.feed(Event::WindowDown { window });
                    let window = ids[0].max(ids[1]) + 1;
                    ids[c] = window;
                    b.feed(Event::WindowUp { window, client: c as u32 + 1, vm: None, bytes: MIB, doorbell: true, death_seen: true, proven: false });
                }
                (8, ..) => b.take_over_with(under(policy)),
                _ => {}
            }
            for client in [1, 2] {
                let held = b.core.charges(client, None);
                let mine = b.core.grants().filter(|(_, g)| g.holder.client_id == client);
                prop_assert_eq!(held.channels as usize, mine.count());
                prop_assert!(held.channels <= 3 && held.in_flight <= 40 && held.bytes <= 200 << 10, "{:?}", held);
            }
            let laid_out = b.core.charges(1, None).bytes + b.core.charges(2, None).bytes;
            prop_assert!(b.core.totals().bytes <= laid_out, "bytes that nobody is charged for");
        }
        for window in ids { b.feed(Event::WindowDown { window }); }
        for _ in 0..8 {
            b.now += 10_000;
            b.feed(Event::Tick);
            let ids: Vec<_> = b.core.services.keys().copied().collect();
            for service in ids { b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) }); }
        }
        for client in [1, 2] {
            prop_assert_eq!(b.core.charges(client, None), Charges::default());
        }
    }
}
