//! Notes of another manager: those that none can have written are refused.

use super::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vfun_wire::header::HEAP_OFF;
use vfun_wire::kind::CallsShape;
use vfun_wire::range::Access;

fn refused(notes: &BTreeMap<String, String>) -> String {
    let notes = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
    Core::restore(1000, 8, catalog(), notes).map(drop).expect_err("it is refused")
}

/// A bed with a grant that is active, and one whose pages are held back.
fn full() -> Bed {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    b.active(1, s, "add");
    let (taken, service) = b.active(1, s, "mul");
    b.feed(Event::Revoke { grant: taken });
    b.feed(Event::ChannelClosed { service, channel: taken });
    assert!(!b.core.windows[&1].control.held.is_empty(), "something is held back");
    b
}

#[test]
fn a_number_that_no_manager_wrote_is_refused_with_the_name_of_its_note() {
    let b = full();
    b.core.grants().for_each(|(_, g)| assert_eq!(g.state(), GrantState::Active));
    let grant = |field: &str| ["core/grant/0".to_owned(), format!("/thing/{field}")];
    let in_channel = |field: &str| grant(&format!("place/{field}"));
    let window = |field: &str| ["core/window/1".to_owned(), format!("/{field}")];
    let session = |field: &str| ["core/session/0".to_owned(), format!("/thing/{field}")];
    let heap = HEAP_OFF as u64;
    let cases = [
        // A window smaller than what comes before its heap, and other sizes.
        (window("bytes"), json!(5)),
        (window("bytes"), json!(0)),
        (window("bytes"), json!(HEAP_OFF)),
        (window("bytes"), json!(MIB + 4096)),
        (window("bytes"), json!(1u64 << 37)),
        (window("bytes"), json!(u64::MAX)),
        // Ranges that are held back.
        (window("held/0/1"), json!(0)),
        (window("held/0/1"), json!(heap + 8)),
        (window("held/0/1"), json!(u64::MAX - 4095)),
        (window("held/0/2"), json!(0)),
        (window("held/0/2"), json!(4097)),
        (window("held/0/2"), json!(MIB)),
        // Channels.
        (in_channel("ranges/0/2"), json!(heap - 4096)),
        (in_channel("ranges/1/2"), json!(heap + 64)),
        (in_channel("ranges/1/2"), json!(MIB)),
        (in_channel("ranges/1/2"), json!(u64::MAX - 4095)),
        (in_channel("ranges/0/3"), json!(4096)),
        (in_channel("ranges/0/1"), json!(2)),
        (in_channel("ranges/1/1"), json!(9)),
        (in_channel("ranges/1/0"), json!(1)),
        (in_channel("vectors/1"), json!(VECTORS)),
        (in_channel("kind"), json!(2)),
        (in_channel("shape/0"), json!(8)),
        (grant("shape/0"), json!(3)),
        (grant("shape/7"), json!(255)),
        (grant("place"), Value::Null),
        (grant("state"), json!("Released")),
        (grant("kind"), json!(77)),
        (grant("wait"), json!(77)),
        (grant("location"), json!(77)),
        (grant("asked/1"), json!(CONTROL_CELLS)),
        (grant("client"), json!("../..")),
        (grant("app"), json!("")),
        (["core/grant/0".to_owned(), "/generation".to_owned()], json!(0)),
        (session("line"), json!(SESSIONS)),
        (session("app"), json!("a/b")),
        (session("asked/1"), json!(1u64 << 40)),
        (["core/service/1".to_owned(), "/location".to_owned()], json!(77)),
        (["core/service/1".to_owned(), "/function".to_owned()], json!("/etc")),
        (["core/self".to_owned(), "/next_service".to_owned()], json!(u32::MAX)),
    ];
    for ([name, field], wrong) in cases {
        let mut notes = b.notes.clone();
        let mut note: Value = serde_json::from_str(&notes[&name]).unwrap();
        let place = note.pointer_mut(&field).unwrap_or_else(|| panic!("{name} has {field}"));
        assert_ne!(*place, wrong);
        *place = wrong.clone();
        notes.insert(name.clone(), note.to_string());
        let said = refused(&notes);
        // What shows only when all is put together names what it is about.
        let named = [name.as_str(), "grant 0:", "grant 0.", "services", "range"];
        assert!(named.iter().any(|n| said.contains(n)), "{name}{field} {wrong}: {said}");
    }
}

#[test]
fn no_wait_in_a_note_is_for_ever() {
    let mut b = full();
    let mut notes = b.notes.clone();
    let set = |notes: &mut BTreeMap<String, String>, name: &str, field: &str, to: Value| {
        let mut note: Value = serde_json::from_str(&notes[name]).unwrap();
        *note.pointer_mut(field).unwrap() = to;
        notes.insert(name.to_owned(), note.to_string());
    };
    set(&mut notes, "core/window/1", "/held/0/0", json!(u64::MAX));
    set(&mut notes, "core/window/1", "/shut", json!(u64::MAX));
    set(&mut notes, "core/service/1", "/state", json!({"Backoff": u64::MAX}));
    set(&mut notes, "core/grant/0", "/thing/restarts", json!(u32::MAX));
    set(&mut notes, "core/grant/0", "/thing/state", json!("Recovering"));
    let software = Location::Software.to_wire();
    let breaker = json!({"client": 1, "function": "add", "location": software, "breaker":
        {"crashes": vec![u64::MAX; 9], "open_until": u64::MAX, "opened": u32::MAX, "trial": null}});
    notes.insert(format!("core/breaker/1/{software}/add"), breaker.to_string());
    b.restore_from(&notes);
    b.feed(Event::Resume { alive: vec![] });
    // Past what holds pages back, and the longest that a breaker is open.
    b.now += super::breakers::OPEN_MOST_MS + 2000;
    let mut started = b.feed(Event::Tick);
    assert!(!b.core.windows[&1].holds_back());
    b.now += super::breakers::OPEN_MOST_MS + 2000;
    started.extend(b.feed(Event::Tick));
    let service = started.iter().find_map(|a| match a {
        Action::StartService { service, function, .. } if function == "add" => Some(*service),
        _ => None,
    });
    let service = service.expect("it is started again");
    b.feed(Event::ServiceReady { service });
    b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    assert!(b.core.grants().all(|(_, g)| g.restarts == u32::MAX));
}

#[test]
fn no_number_of_a_service_is_used_twice_where_the_last_note_is_missing() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let before = b.notes["core/self"].clone();
    let (_, first) = b.active(1, s, "add");
    let mut notes = b.notes.clone();
    assert_ne!(before, notes.insert("core/self".into(), before.clone()).unwrap());
    b.restore_from(&notes);
    b.feed(Event::Resume { alive: vec![first] });
    let channels = b.core.grants().map(|(h, _)| h).collect();
    b.feed(Event::Serving { service: first, channels });
    let (_, second) = b.active(1, s, "mul");
    assert_ne!(first, second);
}

/// What a request ended is gone when it is read again: that it was acted upon
/// is noted with the window.
#[test]
fn an_end_that_was_asked_for_is_answered_by_the_next_manager() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (active, service) = b.active(1, s, "add");
    let idle = b.negotiate(1, s, want("add")).unwrap().grant.get();
    for (grant, gone) in [(active.0, false), (active.0, true), (idle, true)] {
        if gone && grant == active.0 {
            b.feed(Event::ChannelClosed { service, channel: active });
        } else {
            b.ask(1, Kind::Release, s, &grant.to_le_bytes());
        }
        b.restore_from(&b.notes.clone());
        b.seq -= 1;
        let out = b.ask(1, Kind::Release, s, &grant.to_le_bytes());
        assert!(matches!(out[..], [Action::AnswerStats { channel: None, .. }]), "{out:?}");
    }
    // Another request with that name is told what it always was.
    let out = b.ask(1, Kind::Release, s, &idle.to_le_bytes());
    assert_eq!(answer(&out).unwrap_err().code, NackCode::Stale);

    b.ask(1, Kind::Goodbye, s, &[0; 8]);
    b.restore_from(&b.notes.clone());
    b.seq -= 1;
    answer(&b.ask(1, Kind::Goodbye, s, &[0; 8])).expect("it is gone, as it asked");
    assert_eq!(answer(&b.ask(1, Kind::Goodbye, s, &[0; 8])).unwrap_err().code, NackCode::Stale);
}

/// An upgrade outdates nothing: the text that a function is known by among managers is
/// that of managers which knew of no meanings of codes.
#[test]
fn a_function_is_noted_as_earlier_managers_noted_it() {
    let fast = "Some(Function { id: 3, name: \"fast\", version: FunctionVersion(65538), \
        summary: \"\", software: Some(Native { library: \"/lib/f.so\" }), \
        hardware: Some(Hardware { location: FpgaSimulated, driver: Native { library: \
        \"/lib/hw.so\" }, device: \"fast\", instances: 1, leased: false, usual_gain_ns: 0 }), \
        deadline_ms: 1000, max_args: 100, max_result: 100, settings: {\"a\": \"b\"}, \
        reads: [\"/data\"], makes_code: false, devices: [Device { path: \"/dev/vfun0\", \
        ioctls: [Requests { mask: 65280, value: 25600 }] }], signature: None })";
    let mut c = catalog();
    let f = c.functions.get_mut("fast").unwrap();
    f.settings.insert("a".into(), "b".into());
    f.reads.push("/data".into());
    let ioctls = vec!["0x64/*".parse().unwrap()];
    f.devices.push(vfun_jail::Device { path: "/dev/vfun0".into(), ioctls });
    let is = |c: &Catalog, name: &str, text: &str| {
        let hash = Sha256::digest(text.as_bytes());
        let print = u64::from_le_bytes(hash[..8].try_into().unwrap());
        assert_eq!(crate::notes::print(c, Owner::Client(1), name), print, "{text}");
    };
    is(&c, "fast", fast);
    is(&c, "nothing", "None");
    c.functions.get_mut("fast").unwrap().codes.insert(1, "it is too cold".into());
    is(&c, "fast", fast);
}

#[test]
fn another_meaning_of_a_code_outdates_no_service() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap().session.get();
    let (_, first) = b.active(1, s, "add");
    let mut c = catalog();
    c.functions.get_mut("add").unwrap().codes.insert(1, "it is too cold".into());
    b.feed(Event::Catalog(c.clone()));
    assert!(!b.core.services[&first].outdated);
    let notes = b.notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
    b.core = Core::restore(b.now, 8, catalog(), notes).unwrap();
    assert!(!b.core.services[&first].outdated);
    c.functions.get_mut("add").unwrap().max_args = 99;
    b.feed(Event::Catalog(c));
    assert!(b.core.services[&first].outdated);
}

/// A manager goes on with the notes of an earlier one of its layout: these are the names
/// of their fields.
#[test]
fn notes_of_this_layout_are_read_as_they_stand() {
    let mut b = Bed::new();
    b.hello(1, b"").unwrap();
    let service = json!({"client": 1, "function": "add", "location": Location::Software.to_wire(), "state": "Ready",
        "ever_ready": true, "delayed": null, "overran": null, "devices": [], "outdated": false,
        "of": null});
    b.notes.insert("core/service/1".into(), service.to_string());
    let heap = HEAP_OFF as u64;
    let shape = CallsShape::new(4, 64).shape();
    let place = |n: u64| {
        let out = (0, Access::AppWrites.to_wire(), heap + n * 32768, 12288);
        let back = (0, Access::HostWrites.to_wire(), heap + n * 32768 + 16384, 12288);
        json!({"kind": 1, "shape": shape, "vectors": [1, 1], "ranges": [out, back]})
    };
    let grant = |state: &str, place: Value, service: Value, more: &[(&str, Value)]| {
        let mut g = json!({"session": 7u64 << 32, "window": 1, "client_id": 1, "client": "vm1",
            "app_id": 1, "app": "app", "function": "add", "location": Location::Software.to_wire(), "kind": 1, "shape": shape,
            "deadline_ms": 1000, "calls_per_s": 5, "wait": WaitMode::Hybrid.to_wire(), "state": state,
            "place": place, "service": service, "waiting": null, "since_ms": 3,
            "closing_ms": 0, "restarts": 2, "asked": [1, 0, 9], "activated": null,
            "hold_back": false, "device": "", "leased": false, "vf": null, "moving": null,
            "also": null, "switches": 0, "of": null, "left": null, "over": null});
        for (field, value) in more {
            g[*field] = value.clone();
        }
        json!({"generation": 7, "thing": g}).to_string()
    };
    let leased = [
        ("device", json!("fast")),
        ("leased", json!(true)),
        ("vf", json!(1)),
        ("moving", json!([Location::FpgaSimulated.to_wire(), 1, "leaving"])),
        ("switches", json!(4)),
    ];
    let closing = [("closing_ms", json!(8)), ("hold_back", json!(true))];
    let broken = [("closing_ms", json!(8)), ("over", json!(BreakReason::NoService.to_wire()))];
    for (i, note) in [
        grant("Granted", Value::Null, Value::Null, &[]),
        grant("Activating", place(0), json!(1), &[("waiting", json!([1, 2, 3]))]),
        grant("Active", place(1), json!(1), &leased),
        grant("Recovering", place(2), json!(1), &[]),
        grant("Broken", place(3), Value::Null, &broken),
        grant("Closing", place(4), json!(1), &closing),
    ]
    .into_iter()
    .enumerate()
    {
        b.notes.insert(format!("core/grant/{i}"), note);
    }
    b.restore_from(&b.notes.clone());
    b.core.check();
    let all: Vec<&Grant> = b.core.grants().map(|(_, g)| g).collect();
    let states: Vec<_> = all.iter().map(|g| g.state().text()).collect();
    assert_eq!(states, ["granted", "activating", "active", "recovering", "broken", "closing"]);
    assert!(all.iter().all(|g| g.restarts == 2 && g.terms.calls_per_s == 5));
    let to = ReplyTo { window: 1, cell: 2, seq: 3 };
    assert!(
        matches!(all[1].stage, Stage::Activating { service: 1, waiting: Some(w), .. } if w == to)
    );
    let lease = all[2].lease.as_ref().unwrap();
    assert_eq!((lease.device.as_str(), lease.vf, lease.switches), ("fast", Some(1), 4));
    assert_eq!(lease.moving.map(|m| m.phase), Some(crate::switch::Phase::Leaving));
    assert!(all.iter().filter(|g| g.lease.is_some()).count() == 1);
    assert!(matches!(all[4].stage, Stage::Broken { over: Some(BreakReason::NoService), .. }));
    assert!(matches!(all[5].stage, Stage::Closing { since_ms: 8, hold_back: true, .. }));
}
