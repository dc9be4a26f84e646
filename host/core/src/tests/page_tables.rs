//! Tables of pages of a VM's memory: who has one, and when it is back.

use super::*;
use vfun_wire::message::BUFFER_PAGES;

const MODULE_AND_PAGES: Features =
    Features(Features::MODULE.0 | Features::PAGES.0 | Features::BUFFERS.0);

/// A VM whose memory the manifest names.
fn bed() -> Bed {
    let mut b = Bed::new();
    let mut catalog = catalog();
    let client = catalog.clients.get_mut(&1).unwrap();
    let name = client.name.clone();
    client.shared_memory.insert(name, crate::catalog::SharedMemory::File("/dev/shm/a".into()));
    b.feed(Event::Catalog(catalog));
    b
}

fn session(b: &mut Bed, features: Features) -> u64 {
    let mut h = Hello::read_from_bytes(&[0; 152]).unwrap();
    (h.app, h.version_max) = (names::encode("x").unwrap(), U16::new(9));
    (h.version_min, h.features) = (U16::new(2), U64::new(features.0));
    let out = b.ask(1, Kind::Hello, 0, h.as_bytes());
    HelloAck::read_from_bytes(&answer(&out).unwrap()).unwrap().session.get()
}

fn ask(b: &mut Bed, session: u64, grant: u64, flags: u32) -> Vec<Action> {
    let (grant, bytes, flags) = (U64::new(grant), U64::new(8192), U32::new(flags));
    let get = BufferGet { grant, bytes, align: U64::ZERO, flags, reserved: U32::ZERO };
    b.ask(1, Kind::BufferGet, session, get.as_bytes())
}

fn put(b: &mut Bed, session: u64, table: Handle) -> Vec<Action> {
    b.ask(1, Kind::BufferPut, session, table.0.as_bytes())
}

fn table(out: &[Action]) -> Handle {
    let came = out.iter().find_map(|a| match a {
        Action::BufferCame { buffer, pages, .. } => Some((*buffer, *pages)),
        _ => None,
    });
    let (table, pages) = came.expect("a service is told");
    assert!(pages, "that it is a table: {out:?}");
    table
}

fn is_answered(out: &[Action]) -> bool {
    out.iter().any(|a| matches!(a, Action::Answer { .. }))
}

/// A table that a service has.
fn given(b: &mut Bed) -> (u64, ServiceId, Handle) {
    let s = session(b, MODULE_AND_PAGES);
    let (_, service) = b.active(1, s, "add");
    let buffer = table(&ask(b, s, 0, BUFFER_PAGES));
    answer(&b.feed(Event::BufferHere { service, buffer })).unwrap();
    (s, service, buffer)
}

#[test]
fn only_a_module_has_one_and_only_where_the_manifest_names_the_memory() {
    let refused = |b: &mut Bed, s: u64, grant: u64, flags: u32| {
        let nack = answer(&ask(b, s, grant, flags)).unwrap_err();
        (nack.code, nack.sentence)
    };
    let mut b = Bed::new();
    let s = session(&mut b, MODULE_AND_PAGES);
    let (code, why) = refused(&mut b, s, 0, BUFFER_PAGES);
    assert_eq!(code, NackCode::Denied);
    assert!(why.contains("names no memory of VM"), "{why}");
    let mut b = bed();
    let without = session(&mut b, Features(MODULE_AND_PAGES.0 & !Features::PAGES.0));
    let (code, why) = refused(&mut b, without, 0, BUFFER_PAGES);
    assert_eq!(code, NackCode::Denied);
    assert!(why.contains("kernel module"), "{why}");
    let s = session(&mut b, MODULE_AND_PAGES);
    let (grant, _) = b.active(1, s, "add");
    assert_eq!(refused(&mut b, s, grant.0, BUFFER_PAGES).0, NackCode::Malformed);
    assert_eq!(refused(&mut b, s, 0, BUFFER_PAGES | 1).0, NackCode::Malformed);
    assert_eq!(refused(&mut b, s, 0, 4).0, NackCode::Malformed);
}

#[test]
fn who_gives_it_back_is_answered_when_no_service_has_it() {
    let mut b = bed();
    let (s, service, buffer) = given(&mut b);
    assert!(!is_answered(&put(&mut b, s, buffer)), "a service has it");
    let out = b.feed(Event::BufferLeft { service, buffer });
    answer(&out).unwrap();
    // Again: there is none.
    assert!(answer(&put(&mut b, s, buffer)).is_err());
}

#[test]
fn it_can_be_given_back_when_its_session_is_over() {
    let mut b = bed();
    let (s, service, buffer) = given(&mut b);
    b.ask(1, Kind::Goodbye, s, &[0; 8]);
    assert!(!is_answered(&put(&mut b, s, buffer)), "a service has it");
    assert!(!is_answered(&put(&mut b, s, buffer)), "asked again, and still");
    answer(&b.feed(Event::BufferLeft { service, buffer })).unwrap();
    assert!(answer(&put(&mut b, s, buffer)).is_err(), "of a session that is over");
}

#[test]
fn nobody_else_gives_it_back() {
    let mut b = bed();
    let (_, service, buffer) = given(&mut b);
    let other = session(&mut b, MODULE_AND_PAGES);
    assert!(answer(&put(&mut b, other, buffer)).is_err());
    assert!(b.feed(Event::BufferLeft { service, buffer }).is_empty());
    assert_eq!(b.core.totals().buffers, 1);
}

#[test]
fn a_manager_that_takes_over_answers() {
    let mut b = bed();
    let (s, service, buffer) = given(&mut b);
    put(&mut b, s, buffer);
    b.take_over(|_| true);
    let out = b.feed(Event::BufferLeft { service, buffer });
    assert!(is_answered(&out), "{out:?}");
}

#[test]
fn the_end_of_a_service_lets_go_of_it() {
    let mut b = bed();
    let (s, _, buffer) = given(&mut b);
    put(&mut b, s, buffer);
    b.log.clear();
    b.take_over(|_| false);
    assert!(is_answered(&b.log) || b.core.totals().buffers == 0, "{:?}", b.log);
}
