//! Tables of pages of a VM's memory: who has one, and when it is back.

use super::*;
use vfun_wire::message::BUFFER_PAGES;

const MODULE_AND_PAGES: Features =
    Features(Features::MODULE.0 | Features::PAGES.0 | Features::BUFFERS.0);

/// With a window that is a VM's.
fn in_a_vm() -> Bed {
    let mut b = Bed::new();
    let name = catalog().clients[&1].name.clone();
    b.core.windows.get_mut(&1).unwrap().vm = Some(name);
    b
}

/// A VM whose memory the manifest names.
fn bed() -> Bed {
    let mut b = in_a_vm();
    let mut catalog = catalog();
    let client = catalog.clients.get_mut(&1).unwrap();
    let name = client.name.clone();
    client.shared_memory.insert(name, crate::catalog::SharedMemory::File("/dev/shm/a".into()));
    catalog.functions.get_mut("add").unwrap().software = Some(Driver::Verbs);
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
    // A program outside of VMs is not believed to be a module.
    let mut b = Bed::new();
    let s = session(&mut b, MODULE_AND_PAGES);
    assert_eq!(refused(&mut b, s, 0, BUFFER_PAGES).0, NackCode::Denied);
    let mut b = in_a_vm();
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

/// It is to be asked for again.
#[track_caller]
fn is_still_there(out: &[Action]) {
    assert_eq!(answer(out).unwrap_err().code, NackCode::Starting, "a service has it");
}

#[test]
fn who_gives_it_back_asks_until_no_service_has_it() {
    let mut b = bed();
    let (s, service, buffer) = given(&mut b);
    is_still_there(&put(&mut b, s, buffer));
    is_still_there(&put(&mut b, s, buffer));
    b.feed(Event::BufferLeft { service, buffer });
    let nack = answer(&put(&mut b, s, buffer)).unwrap_err();
    assert_eq!(nack.code, NackCode::Stale, "nobody has it");
    // One that no service ever had is over at once.
    let alone = session(&mut b, MODULE_AND_PAGES);
    let ack = answer(&ask(&mut b, alone, 0, BUFFER_PAGES)).unwrap();
    let buffer = Handle(BufferAck::read_from_bytes(&ack).unwrap().buffer.get());
    answer(&put(&mut b, alone, buffer)).unwrap();
}

#[test]
fn it_can_be_given_back_when_its_session_is_over() {
    let mut b = bed();
    let (s, service, buffer) = given(&mut b);
    b.ask(1, Kind::Goodbye, s, &[0; 8]);
    is_still_there(&put(&mut b, s, buffer));
    b.take_over(|_| true);
    is_still_there(&put(&mut b, s, buffer));
    b.feed(Event::BufferLeft { service, buffer });
    let nack = answer(&put(&mut b, s, buffer)).unwrap_err();
    assert!(matches!(nack.code, NackCode::Stale | NackCode::BadHandle), "{nack}");
}

#[test]
fn nobody_else_gives_it_back() {
    let mut b = bed();
    let (_, service, buffer) = given(&mut b);
    let other = session(&mut b, MODULE_AND_PAGES);
    let nack = answer(&put(&mut b, other, buffer)).unwrap_err();
    assert_eq!(nack.code, NackCode::BadHandle);
    assert!(b.feed(Event::BufferLeft { service, buffer }).is_empty());
    assert_eq!(b.core.totals().buffers, 1);
}

#[test]
fn a_service_that_is_no_nic_never_gets_it() {
    let mut b = bed();
    let s = session(&mut b, MODULE_AND_PAGES);
    let (_, nic) = b.active(1, s, "add");
    let (_, other) = b.active(1, s, "mul");
    let out = ask(&mut b, s, 0, BUFFER_PAGES);
    let gets = |id: ServiceId| {
        out.iter().any(|a| matches!(a, Action::BufferCame { service, .. } if *service == id))
    };
    assert!(gets(nic) && !gets(other), "{out:?}");
}

#[test]
fn the_end_of_a_service_lets_go_of_it() {
    let mut b = bed();
    let (s, _, buffer) = given(&mut b);
    is_still_there(&put(&mut b, s, buffer));
    b.take_over(|_| false);
    assert_eq!(b.core.totals().buffers, 0);
}
