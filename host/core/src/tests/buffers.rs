//! Buffers: who has them, how they end, and what they count for.

use super::policy::why;
use super::*;
use crate::limits::{BUFFER_WAIT_MS, BUFFERS_MAX, BUFFERS_PER_CLIENT};
use crate::memory::HOLD_MS;
use crate::policy::parse;
use crate::services::{CLOSE_GRACE_MS, OVERDUE_MS, START_MS};
use std::path::Path;
use vfun_wire::range::Access;

fn get(grant: u64, bytes: u64, align: u64, flags: u32) -> BufferGet {
    let (grant, bytes, align) = (U64::new(grant), U64::new(bytes), U64::new(align));
    BufferGet { grant, bytes, align, flags: U32::new(flags), reserved: U32::ZERO }
}

fn ask(b: &mut Bed, session: u64, want: BufferGet) -> Vec<Action> {
    b.ask(1, Kind::BufferGet, session, want.as_bytes())
}

fn read(ack: &[u8]) -> (Handle, u64, u64) {
    let ack = BufferAck::read_from_bytes(ack).unwrap();
    assert_eq!(ack.range.access, Access::Both.to_wire());
    (Handle(ack.buffer.get()), ack.range.offset.get(), ack.range.bytes.get())
}

/// A buffer of a session that no service serves: it is given at once.
#[track_caller]
fn given(b: &mut Bed, session: u64, want: BufferGet) -> (Handle, u64, u64) {
    let out = ask(b, session, want);
    let zeroed = out.iter().position(|a| matches!(a, Action::ZeroBuffer { .. }));
    let told = out.iter().position(|a| matches!(a, Action::Answer { .. }));
    assert!(zeroed.is_some() && zeroed < told, "zeros before its app has it: {out:?}");
    read(&answer(&out).unwrap())
}

#[track_caller]
fn refused(b: &mut Bed, session: u64, want: BufferGet, code: NackCode, says: &[&str]) {
    let n = answer(&ask(b, session, want)).unwrap_err();
    assert_eq!(n.code, code, "{n}");
    says.iter().for_each(|s| assert!(n.sentence.contains(s), "{n} should say {s}"));
}

fn put(b: &mut Bed, session: u64, buffer: Handle) -> (Result<Vec<u8>, Nack>, Vec<Action>) {
    let out = b.ask(1, Kind::BufferPut, session, buffer.0.as_bytes());
    (answer(&out), out)
}

fn session(b: &mut Bed) -> u64 {
    b.hello(1, b"").unwrap().session.get()
}

/// Which services are given, or lose, which buffers.
fn told(out: &[Action]) -> Vec<(bool, ServiceId, Handle)> {
    let told = out.iter().filter_map(|a| match a {
        Action::BufferCame { service, buffer, .. } => Some((true, *service, *buffer)),
        Action::BufferGone { service, buffer } => Some((false, *service, *buffer)),
        _ => None,
    });
    told.collect()
}

fn memory(b: &mut Bed, index: u16, bytes: u64, page: u64) {
    b.feed(Event::MemoryUp { window: 1, index, bytes, page });
}

fn free(b: &Bed) -> u64 {
    b.core.windows[&1].control.heap.free_bytes()
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut b = Bed::new();
    let s = session(&mut b);
    use NackCode::{BadHandle, BeyondLimit, Malformed, NoCapacity};
    refused(&mut b, s, get(0, 0, 0, 0), BeyondLimit, &["a buffer of 0 bytes"]);
    refused(&mut b, s, get(0, u64::MAX, 0, 0), BeyondLimit, &["not possible"]);
    refused(&mut b, s, get(0, 1, 2048, 0), BeyondLimit, &["2048", "4096 to 2097152"]);
    refused(&mut b, s, get(0, 1, 12288, 0), BeyondLimit, &["power of two"]);
    refused(&mut b, s, get(0, 1, 4 << 20, 0), BeyondLimit, &["4194304"]);
    refused(&mut b, s, get(0, 1, 0, 4), Malformed, &["flags 0x4"]);
    let reserved = BufferGet { reserved: U32::new(1), ..get(0, 1, 0, 0) };
    refused(&mut b, s, reserved, Malformed, &["reserved"]);
    refused(&mut b, s, get(5, 1, 0, 0), BadHandle, &["no grant"]);
    refused(&mut b, s, get(0, 2 * MIB, 0, 0), NoCapacity, &["2097152", "larger window"]);
    // More than a page of the window's memory is never contiguous there.
    let why = &["8192 contiguous bytes", "which has 4096", "huge pages"];
    refused(&mut b, s, get(0, 4097, 0, BUFFER_CONTIGUOUS), BeyondLimit, why);
    given(&mut b, s, get(0, 4096, 0, BUFFER_CONTIGUOUS));
    // A session that did not ask for the feature has none.
    let mut h = Hello::read_from_bytes(&[0; 152]).unwrap();
    (h.app, h.version_max) = (names::encode("x").unwrap(), U16::new(9));
    (h.version_min, h.features) = (U16::new(2), U64::new(!Features::BUFFERS.0));
    let out = b.ask(1, Kind::Hello, 0, h.as_bytes());
    let old = HelloAck::read_from_bytes(&answer(&out).unwrap()).unwrap().session.get();
    refused(&mut b, old, get(0, 1, 0, 0), NackCode::Unsupported, &["feature"]);
}

#[test]
fn a_buffer_is_of_whole_pages_at_its_alignment_and_comes_back() {
    let mut b = Bed::new();
    let (s, all) = (session(&mut b), free(&b));
    let mut seen = vec![];
    for (bytes, align) in [(1, 0), (4097, 4096), (4096, 64 << 10), (8192, 256 << 10)] {
        let (buffer, off, len) = given(&mut b, s, get(0, bytes, align, 0));
        assert!(off % align.max(4096) == 0 && len == bytes.next_multiple_of(4096), "{off} {len}");
        seen.push(buffer);
    }
    assert_eq!(b.core.totals().buffers, 4);
    for buffer in seen {
        put(&mut b, s, buffer).0.unwrap();
        assert_eq!(put(&mut b, s, buffer).0.unwrap_err().code, NackCode::Stale, "once");
    }
    assert_eq!((free(&b), b.core.totals().buffers), (all, 0));
    assert!(!b.core.needs_tick());
}

#[test]
fn a_buffer_of_two_mebibytes_lies_in_a_huge_page_and_ends_with_its_memory() {
    let mut b = Bed::new();
    let s = session(&mut b);
    memory(&mut b, 3, 16 * MIB, 2 * MIB);
    let out = ask(&mut b, s, get(0, 2 * MIB, 2 * MIB, BUFFER_CONTIGUOUS));
    let ack = BufferAck::read_from_bytes(&answer(&out).unwrap()).unwrap();
    assert_eq!((ack.range.window.get(), ack.range.offset.get() % (2 * MIB)), (3, 0));
    let n = answer(&ask(&mut b, s, get(0, 2 * MIB + 1, 0, BUFFER_CONTIGUOUS))).unwrap_err();
    assert!(n.sentence.contains("which has 2097152"), "{n}");
    // What may lie anywhere leaves the control window to channels.
    let all = free(&b);
    for _ in 0..3 {
        let ack = answer(&ask(&mut b, s, get(0, 4096, 0, 0))).unwrap();
        assert_eq!(BufferAck::read_from_bytes(&ack).unwrap().range.window.get(), 3);
    }
    assert_eq!(free(&b), all);
    b.take_over(|_| true);
    // Told again by the next manager's rim it is what it was.
    memory(&mut b, 3, 16 * MIB, 2 * MIB);
    assert_eq!(b.core.totals().buffers, 4);
    b.feed(Event::MemoryDown { window: 1, index: 3 });
    assert_eq!((b.core.totals().buffers, b.core.totals().bytes), (0, 0));
    let ack = answer(&ask(&mut b, s, get(0, 4096, 0, 0))).unwrap();
    assert_eq!(BufferAck::read_from_bytes(&ack).unwrap().range.window.get(), 0);
    // A memory that cannot be is not used.
    memory(&mut b, 4, 4096, 4096);
    memory(&mut b, 5, 16 * MIB, 3000);
    assert!(b.core.windows[&1].data.is_empty());
}

#[test]
fn services_of_the_session_have_it_before_its_app_and_let_go_before_others() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (_, add) = b.active(1, s, "add");
    let (_, mul) = b.active(1, s, "mul");
    let all = free(&b);
    let out = ask(&mut b, s, get(0, 4096, 0, 0));
    assert!(!out.iter().any(|a| matches!(a, Action::Answer { .. })), "not yet: {out:?}");
    let buffer = told(&out)[0].2;
    assert_eq!(told(&out), [(true, add, buffer), (true, mul, buffer)]);
    assert!(b.feed(Event::BufferHere { service: add, buffer }).is_empty());
    let out = b.feed(Event::BufferHere { service: mul, buffer });
    assert_eq!(read(&answer(&out).unwrap()).0, buffer);
    assert!(b.feed(Event::BufferHere { service: mul, buffer }).is_empty(), "answered once");
    // The app is answered at once; the pages are nobody's until both have let go.
    let (done, out) = put(&mut b, s, buffer);
    done.unwrap();
    assert_eq!(told(&out), [(false, add, buffer), (false, mul, buffer)]);
    b.feed(Event::BufferLeft { service: add, buffer });
    assert_eq!(free(&b), all - 4096);
    b.feed(Event::BufferLeft { service: 99, buffer });
    assert_eq!(free(&b), all - 4096);
    b.feed(Event::BufferLeft { service: mul, buffer });
    assert_eq!((free(&b), b.core.totals().buffers), (all, 0));
}

#[test]
fn another_app_or_client_has_no_part_in_it() {
    let mut b = Bed::new();
    let (s, other) = (session(&mut b), session(&mut b));
    let theirs = b.hello(2, b"secret").unwrap().session.get();
    let (_, service) = b.active(1, other, "add");
    b.active(2, theirs, "add");
    let (buffer, ..) = given(&mut b, s, get(0, 4096, 0, 0));
    assert!(told(&b.log).is_empty(), "no service serves its app");
    assert_eq!(put(&mut b, other, buffer).0.unwrap_err().code, NackCode::BadHandle);
    let out = b.ask(2, Kind::BufferPut, theirs, buffer.0.as_bytes());
    assert_eq!(answer(&out).unwrap_err().code, NackCode::BadHandle);
    let (grant, _) = b.active(1, s, "add");
    assert_eq!(told(&b.log), [(true, service, buffer)], "one that serves it is given it");
    // Nor does it belong to another app's grant.
    let stolen = ask(&mut b, other, get(grant.0, 4096, 0, 0));
    assert_eq!(answer(&stolen).unwrap_err().code, NackCode::BadHandle);
}

#[test]
fn a_service_has_it_before_its_first_call_whenever_it_starts() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (buffer, ..) = given(&mut b, s, get(0, 4096, 0, 0));
    let (grant, service) = b.active(1, s, "add");
    let came = b.log.iter().position(|a| matches!(a, Action::BufferCame { .. }));
    let open = b.log.iter().position(|a| matches!(a, Action::OpenChannel { .. }));
    assert!(came.is_some() && came < open);
    // It crashes: the next one has nothing, and is given it again.
    b.log.clear();
    b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    assert!(b.core.buffers().all(|(_, b)| b.at.is_empty()));
    b.feed(Event::ServiceReady { service });
    assert_eq!(told(&b.log), [(true, service, buffer)]);
    b.feed(Event::ChannelOpened { service, channel: grant });
    // One that dies while it is to map a buffer keeps nobody from it.
    let out = ask(&mut b, s, get(0, 4096, 0, 0));
    assert!(!out.iter().any(|a| matches!(a, Action::Answer { .. })));
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(11) });
    answer(&out).unwrap();
}

#[test]
fn a_service_that_knows_no_buffers_is_told_of_none() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (_, service) = b.active(1, s, "add");
    b.core.services.get_mut(&service).unwrap().takes_buffers = false;
    let (buffer, ..) = given(&mut b, s, get(0, 4096, 0, 0));
    // Its report tells a manager that takes over what it knows.
    let out = b.feed(Event::TakesBuffers { service });
    assert_eq!(told(&out), [(true, service, buffer)]);
    assert!(b.feed(Event::TakesBuffers { service }).is_empty());
}

#[test]
fn it_ends_with_its_grant_and_with_its_session() {
    let mut b = Bed::new();
    let (s, all) = (session(&mut b), free(&b));
    let (grant, service) = b.active(1, s, "add");
    let out = ask(&mut b, s, get(grant.0, 4096, 0, 0));
    let (of_grant, out) = (told(&out)[0].2, ask(&mut b, s, get(0, 4096, 0, 0)));
    let own = told(&out)[0].2;
    for buffer in [of_grant, own] {
        b.feed(Event::BufferHere { service, buffer });
    }
    assert_eq!(b.core.buffers_of(Handle(s), grant), (1, 4096));
    assert_eq!(b.core.buffers_of(Handle(s), Handle::NONE), (1, 4096));
    let out = b.ask(1, Kind::Release, s, grant.0.as_bytes());
    assert_eq!(told(&out), [(false, service, of_grant)]);
    b.feed(Event::BufferLeft { service, buffer: of_grant });
    // Of one that is being closed nobody gets another.
    let closing = ask(&mut b, s, get(grant.0, 4096, 0, 0));
    assert_eq!(answer(&closing).unwrap_err().code, NackCode::BadHandle);
    b.feed(Event::ChannelClosed { service, channel: grant });
    let out = b.ask(1, Kind::Goodbye, s, &[0; 8]);
    assert_eq!(told(&out), [(false, service, own)]);
    assert_eq!(free(&b), all - 4096, "its service has it still");
    b.feed(Event::BufferLeft { service, buffer: own });
    assert_eq!((free(&b), b.core.totals().buffers), (all, 0));
    // Who waits for one is told, if it ends meanwhile.
    let s = session(&mut b);
    let (grant, service) = b.active(1, s, "add");
    let waits = ask(&mut b, s, get(grant.0, 4096, 0, 0));
    let buffer = told(&waits)[0].2;
    let out = b.feed(Event::Revoke { grant });
    let n = answer(&out).unwrap_err();
    assert!(n.sentence.contains("revoked"), "{n}");
    b.feed(Event::BufferLeft { service, buffer });
    b.feed(Event::ChannelClosed { service, channel: grant });
    b.feed(Event::WindowDown { window: 1 });
    assert_eq!(b.core.totals().buffers, 0);
}

#[test]
fn pages_that_the_host_takes_are_held_back_and_an_apps_own_are_not() {
    let mut b = Bed::new();
    let s = b.hello(1, b"").unwrap();
    let (first, at, _) = given(&mut b, s.session.get(), get(0, 4096, 0, 0));
    put(&mut b, s.session.get(), first).0.unwrap();
    assert_eq!(given(&mut b, s.session.get(), get(0, 4096, 0, 0)).1, at, "at once");
    for i in 0..40 {
        b.now += 1_000;
        b.feed(Event::Heartbeats { window: 1, values: vec![(s.session_line.get(), 7)] });
        let dead = b.core.totals().sessions == 0;
        assert!(i < 39 || dead);
    }
    let s = session(&mut b);
    assert_ne!(given(&mut b, s, get(0, 4096, 0, 0)).1, at, "its program may not know yet");
    b.take_over(|_| true);
    b.now += HOLD_MS;
    b.feed(Event::Tick);
    assert_eq!(given(&mut b, s, get(0, 4096, 0, 0)).1, at);
}

#[test]
fn pages_of_a_taken_grants_buffers_wait_until_its_guest_is_told() {
    let mut b = Bed::new();
    let (s, all) = (session(&mut b), free(&b));
    let (grant, service) = b.active(1, s, "add");
    let busy = free(&b);
    let out = ask(&mut b, s, get(grant.0, 4096, 0, 0));
    let buffer = told(&out)[0].2;
    b.feed(Event::BufferHere { service, buffer });
    // A long call keeps the channel, and another thread of the service let go of the buffer.
    let out = b.feed(Event::Revoke { grant });
    assert_eq!(told(&out), [(false, service, buffer)]);
    b.feed(Event::BufferLeft { service, buffer });
    b.now += 2 * HOLD_MS;
    b.feed(Event::Tick);
    assert_eq!((free(&b), b.core.totals().buffers), (busy - 4096, 1), "they are nobody's yet");
    let out = b.feed(Event::ChannelClosed { service, channel: grant });
    let told = out.iter().any(|a| matches!(a, Action::BreakChannel { .. }));
    assert!(told, "its guest is told: {out:?}");
    assert_eq!(b.core.totals().buffers, 0);
    b.now += HOLD_MS - 1;
    b.feed(Event::Tick);
    assert_eq!(free(&b), busy - 4096, "held back from then on");
    b.now += 1;
    b.feed(Event::Tick);
    assert_eq!(free(&b), all);
}

#[test]
fn buffers_count_for_their_client_until_the_last_has_let_go() {
    let mut b = Bed::new();
    let policy = parse(Path::new("p.toml"), "[client.vm1]\nbuffer_bytes = \"40 KiB\"").unwrap();
    b.feed(Event::Catalog(Catalog { policy, ..catalog() }));
    let (s, other) = (session(&mut b), session(&mut b));
    let (_, service) = b.active(1, other, "add");
    given(&mut b, s, get(0, 32 << 10, 0, 0));
    let says = &[
        "12288 bytes is more than the 8192",
        "1 buffers of it have 32768 bytes",
        "buffer_bytes in [client.vm1]",
        "operator",
    ];
    refused(&mut b, s, get(0, 12 << 10, 0, 0), NackCode::OverQuota, says);
    let out = ask(&mut b, other, get(0, 8192, 0, 0));
    let buffer = told(&out)[0].2;
    b.feed(Event::BufferHere { service, buffer });
    let held = b.core.charges(1, None);
    assert_eq!((held.buffers, held.buffer_bytes), (2, 40 << 10));
    assert_eq!(b.core.charges(1, Some("add")).buffer_bytes, 0);
    put(&mut b, other, buffer).0.unwrap();
    let says = &["8192 of them are being given back: try again"];
    refused(&mut b, s, get(0, 4096, 0, 0), NackCode::OverQuota, says);
    b.feed(Event::BufferLeft { service, buffer });
    for _ in 0..2 {
        given(&mut b, s, get(0, 4096, 0, 0));
    }
    // Another client's are its own.
    let theirs = b.hello(2, b"secret").unwrap().session.get();
    let out = b.ask(2, Kind::BufferGet, theirs, get(0, 64 << 10, 0, 0).as_bytes());
    answer(&out).unwrap();
}

#[test]
fn a_session_has_so_many_and_not_one_more() {
    let mut b = Bed::new();
    b.feed(Event::MemoryUp { window: 1, index: 1, bytes: 16 * MIB, page: 4096 });
    let s = session(&mut b);
    for _ in 0..BUFFERS {
        answer(&ask(&mut b, s, get(0, 1, 0, 0))).unwrap();
    }
    refused(&mut b, s, get(0, 1, 0, 0), NackCode::OverQuota, &["256 buffers", "give one back"]);
    let other = session(&mut b);
    answer(&ask(&mut b, other, get(0, 1, 0, 0))).unwrap();
}

#[test]
fn a_client_has_so_many_over_all_its_sessions() {
    let mut b = Bed::new();
    b.feed(Event::MemoryUp { window: 1, index: 1, bytes: 16 * MIB, page: 4096 });
    let all: Vec<u64> = (0..5).map(|_| session(&mut b)).collect();
    let (_, service) = b.active(1, all[4], "add");
    let (last, four) = (all[4], &all[..4]);
    for s in four {
        for _ in 0..BUFFERS {
            answer(&ask(&mut b, *s, get(0, 1, 0, 0))).unwrap();
        }
    }
    let says = &["client vm1 has 1024 buffers", "may have 1024", "give one back"];
    refused(&mut b, last, get(0, 1, 0, 0), NackCode::OverQuota, says);
    // One that its service has not let go of is one still.
    let first = b.core.buffers().next().unwrap().0;
    put(&mut b, all[0], first).0.unwrap();
    let out = ask(&mut b, last, get(0, 1, 0, 0));
    let buffer = told(&out)[0].2;
    b.feed(Event::BufferHere { service, buffer });
    put(&mut b, last, buffer).0.unwrap();
    refused(&mut b, last, get(0, 1, 0, 0), NackCode::OverQuota, says);
    b.feed(Event::BufferLeft { service, buffer });
    let out = ask(&mut b, last, get(0, 1, 0, 0));
    assert_eq!(told(&out).len(), 1, "there is room for one: {out:?}");
    // Another client has its own.
    let theirs = b.hello(2, b"secret").unwrap().session.get();
    let out = b.ask(2, Kind::BufferGet, theirs, get(0, 1, 0, 0).as_bytes());
    answer(&out).unwrap();
}

#[test]
fn all_clients_together_have_so_many() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (first, ..) = given(&mut b, s, get(0, 1, 0, 0));
    let like = b.core.buffers.get(first).unwrap().clone();
    // Others' take what there is, so many each.
    for i in 1..BUFFERS_MAX as u32 {
        let mut other = like.clone();
        other.holder.session = Handle::new(i, 99);
        other.holder.client_id = 100 + i / BUFFERS_PER_CLIENT;
        b.core.buffers.insert(other);
    }
    // Not by the bed: what it checks is not true of these.
    let (to, mut out) = (ReplyTo { window: 1, cell: 0, seq: b.seq + 1 }, vec![]);
    let (kind, body) = (Kind::BufferGet.to_wire(), get(0, 1, 0, 0).as_bytes().to_vec());
    let request = ControlRequest { to, kind, session: s, body };
    b.core.handle(b.now, Event::Request(request), &mut out);
    let n = answer(&out).unwrap_err();
    assert_eq!(n.code, NackCode::OverQuota);
    assert!(n.sentence.contains("65536 buffers of all clients, and may be 65536"), "{n}");
}

#[test]
fn another_manager_goes_on_with_them_and_asks_again() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (_, service) = b.active(1, s, "add");
    let out = ask(&mut b, s, get(0, 8192, 0, 0));
    let kept = told(&out)[0].2;
    let ack = answer(&b.feed(Event::BufferHere { service, buffer: kept })).unwrap();
    // Its answer was not written: read again it is the same, and there is one buffer.
    b.take_over(|_| true);
    b.seq -= 1;
    let out = ask(&mut b, s, get(0, 8192, 0, 0));
    let zeroed = |out: &[Action]| out.iter().any(|a| matches!(a, Action::ZeroBuffer { .. }));
    assert!(zeroed(&out), "the one before may not have done it: {out:?}");
    let again = answer(&out).unwrap();
    assert_eq!((again, b.core.totals().buffers), (ack, 1));
    // Killed while a service was to map one: the service is asked again.
    let out = ask(&mut b, s, get(0, 4096, 0, 0));
    let buffer = told(&out)[0].2;
    b.log.clear();
    b.take_over(|_| true);
    assert!(told(&b.log).contains(&(true, service, buffer)), "{:?}", b.log);
    assert!(zeroed(&b.log));
    b.seq -= 1;
    let silent = ask(&mut b, s, get(0, 4096, 0, 0));
    assert!(!silent.iter().any(|a| matches!(a, Action::Answer { .. })), "it is due: {silent:?}");
    answer(&b.feed(Event::BufferHere { service, buffer })).unwrap();
    // Killed before the answer to a put, and before the service had let go.
    put(&mut b, s, buffer).0.unwrap();
    b.log.clear();
    b.take_over(|_| true);
    assert!(told(&b.log).contains(&(false, service, buffer)));
    b.seq -= 1;
    put(&mut b, s, buffer).0.expect("as before");
    // The service is gone with the manager: so is its hold.
    b.take_over(|_| false);
    assert_eq!(b.core.totals().buffers, 1);
}

#[test]
fn a_manager_that_takes_over_takes_each_buffer_away_once() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (_, service) = b.active(1, s, "add");
    let of_session = told(&ask(&mut b, s, get(0, 4096, 0, 0)))[0].2;
    b.feed(Event::BufferHere { service, buffer: of_session });
    let put_back = told(&ask(&mut b, s, get(0, 4096, 0, 0)))[0].2;
    b.feed(Event::BufferHere { service, buffer: put_back });
    put(&mut b, s, put_back).0.unwrap();
    // Killed as it noted the session's end, and of its buffers nothing yet.
    b.notes.retain(|name, _| !name.starts_with("core/session/"));
    b.log.clear();
    let notes = b.notes.clone();
    b.restore_from(&notes);
    b.feed(Event::Resume { alive: vec![service] });
    let mut gone = told(&b.log);
    gone.sort();
    assert_eq!(gone, [(false, service, of_session), (false, service, put_back)]);
}

/// Time in which all services that are asked for a sign of life give it, and say nothing else.
fn wait(b: &mut Bed, ms: u64) -> Vec<Action> {
    let mut all = vec![];
    for _ in 0..ms / 20 {
        b.now += 20;
        let out = b.feed(Event::Tick);
        for a in &out {
            if let Action::AskLife { service } = a {
                b.feed(Event::ServiceAlive { service: *service });
            }
        }
        all.extend(out);
    }
    all
}

fn killed(out: &[Action]) -> Vec<ServiceId> {
    let killed = out.iter().filter_map(|a| match a {
        Action::KillService { service } => Some(*service),
        _ => None,
    });
    killed.collect()
}

fn logged(out: &[Action], words: &str) -> bool {
    let says = |a: &Action| matches!(a, Action::LogOf { text, .. } if text.contains(words));
    out.iter().any(says)
}

/// What is killed where nothing is.
const NOBODY: [ServiceId; 0] = [];

/// How long a service that lives may owe a word about a buffer, where calls last a second.
const KEEPS: u64 = START_MS + CLOSE_GRACE_MS + OVERDUE_MS;

#[test]
fn an_app_is_told_in_time_that_a_service_does_not_take_its_buffer() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (_, add) = b.active(1, s, "add");
    let (_, mul) = b.active(1, s, "mul");
    let all = free(&b);
    let buffer = told(&ask(&mut b, s, get(0, 4096, 0, 0)))[0].2;
    b.feed(Event::BufferHere { service: add, buffer });
    let out = wait(&mut b, BUFFER_WAIT_MS - 20);
    assert!(!out.iter().any(|a| matches!(a, Action::Answer { .. })), "not yet: {out:?}");
    let out = wait(&mut b, 20);
    let n = answer(&out).unwrap_err();
    assert_eq!(n.code, NackCode::Starting, "it may be asked for again: {n}");
    for says in ["'mul' has not taken", "8000 ms", "ask again", "service/vm1/mul.log"] {
        assert!(n.sentence.contains(says), "{n} should say {says}");
    }
    // It is over, and nobody's until both have let go.
    assert_eq!(told(&out), [(false, add, buffer), (false, mul, buffer)]);
    assert!(b.feed(Event::BufferHere { service: mul, buffer }).is_empty(), "answered once");
    b.feed(Event::BufferLeft { service: mul, buffer });
    assert_eq!(free(&b), all - 4096);
    b.feed(Event::BufferLeft { service: add, buffer });
    assert_eq!((free(&b), b.core.totals().buffers), (all, 0));
    // A manager that takes over counts anew.
    let buffer = told(&ask(&mut b, s, get(0, 4096, 0, 0)))[0].2;
    b.feed(Event::BufferHere { service: add, buffer });
    wait(&mut b, BUFFER_WAIT_MS - 20);
    b.take_over(|_| true);
    b.feed(Event::BufferHere { service: add, buffer });
    let out = wait(&mut b, BUFFER_WAIT_MS - 20);
    assert!(!out.iter().any(|a| matches!(a, Action::Answer { .. })), "not yet: {out:?}");
    answer(&wait(&mut b, 20)).unwrap_err();
}

#[test]
fn an_app_is_told_that_the_host_could_not_tell_a_service_of_its_buffer() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (_, service) = b.active(1, s, "add");
    ask(&mut b, s, get(0, 4096, 0, 0));
    b.core.words_wait(b.now, service, true);
    let out = wait(&mut b, BUFFER_WAIT_MS);
    let n = answer(&out).unwrap_err();
    assert_eq!(n.code, NackCode::Starting, "{n}");
    assert!(n.sentence.contains("'add' could not be told") && n.sentence.contains("descriptors"));
    // Nor does it owe anything: what it was not told counts from when it is.
    assert_eq!(killed(&wait(&mut b, 2 * KEEPS)), NOBODY);
    b.core.words_wait(b.now, service, false);
    assert_eq!(killed(&wait(&mut b, KEEPS)), NOBODY);
    assert_eq!(killed(&wait(&mut b, 20)), [service]);
}

#[test]
fn a_service_that_does_not_take_a_buffer_is_ended() {
    let mut b = Bed::new();
    let s = session(&mut b);
    given(&mut b, s, get(0, 4096, 0, 0));
    // It is told of this one as it opens a channel, and its app waits for nothing.
    let (_, service) = b.active(1, s, "add");
    assert!(b.core.needs_tick());
    assert_eq!(killed(&wait(&mut b, KEEPS)), NOBODY, "it lives");
    let out = wait(&mut b, 20);
    assert_eq!(killed(&out), [service]);
    assert!(logged(&out, "it has not taken a buffer of app 'app' for 13020 ms"), "{out:?}");
    // Nor does it gain time by a buffer that ends before it has said a word.
    b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    b.feed(Event::ServiceReady { service });
    let handles: Vec<Handle> = b.core.buffers().map(|(h, _)| h).collect();
    wait(&mut b, KEEPS);
    put(&mut b, s, handles[0]).0.unwrap();
    assert_eq!(killed(&wait(&mut b, 20)), [service]);
}

#[test]
fn a_service_that_does_not_let_go_of_a_buffer_is_ended_though_it_serves_others() {
    let mut b = Bed::new();
    let (s, other) = (session(&mut b), session(&mut b));
    let (on, service) = b.active(1, other, "add");
    let (grant, _) = b.active(1, s, "add");
    let all = free(&b);
    let buffer = told(&ask(&mut b, s, get(0, 4096, 0, 0)))[0].2;
    b.feed(Event::BufferHere { service, buffer });
    assert_eq!(killed(&wait(&mut b, 2 * KEEPS)), NOBODY, "it owes nothing");
    // It has no channel of that session any more: no call uses the buffer.
    b.ask(1, Kind::Release, s, grant.0.as_bytes());
    b.feed(Event::ChannelClosed { service, channel: grant });
    let idle = free(&b);
    assert!(idle > all - 4096);
    put(&mut b, s, buffer).0.unwrap();
    assert_eq!(killed(&wait(&mut b, KEEPS)), NOBODY);
    // Another manager says it again, and counts anew from its first look.
    b.take_over(|_| true);
    assert_eq!(killed(&wait(&mut b, 20 + KEEPS)), NOBODY);
    let out = wait(&mut b, 20);
    assert_eq!(killed(&out), [service]);
    assert!(logged(&out, "it has not let go of a buffer of app 'app' for 13020 ms"), "{out:?}");
    assert_eq!(killed(&wait(&mut b, 20)), NOBODY, "once is enough");
    assert_eq!(free(&b), idle, "it may write there still");
    // What others are told, and the record, says why; it counts as a crash.
    let out = b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(why(&out, on).unwrap().contains("it has not let go of a buffer"), "{out:?}");
    assert!(b.notes.keys().any(|n| n.starts_with("core/breaker/")), "{:?}", b.notes.keys());
    assert_eq!((free(&b), b.core.totals().buffers), (idle + 4096, 0));
}

/// A call that waits for an event has no deadline, and may use a buffer that is over.
#[test]
fn a_service_may_keep_a_buffer_while_it_has_a_channel_of_its_app() {
    let mut b = Bed::new();
    let mut c = catalog();
    c.functions.get_mut("add").unwrap().deadline_ms = 60_000;
    b.feed(Event::Catalog(c));
    let (s, other) = (session(&mut b), session(&mut b));
    let (grant, service) = b.active(1, s, "add");
    b.active(1, other, "add");
    let buffer = told(&ask(&mut b, s, get(0, 4096, 0, 0)))[0].2;
    b.feed(Event::BufferHere { service, buffer });
    put(&mut b, s, buffer).0.unwrap();
    let call = 60_000 + CLOSE_GRACE_MS + OVERDUE_MS;
    assert_eq!(killed(&wait(&mut b, 2 * call)), NOBODY);
    // From its channel's end on it has as long as a call of it may take.
    b.ask(1, Kind::Release, s, grant.0.as_bytes());
    assert_eq!(killed(&wait(&mut b, 1000)), NOBODY, "a call may be under way");
    b.feed(Event::ChannelClosed { service, channel: grant });
    assert_eq!(killed(&wait(&mut b, call)), NOBODY);
    assert_eq!(killed(&wait(&mut b, 20)), [service]);
}

#[test]
fn get_and_put_ten_thousand_times_leaves_nothing() {
    let mut b = Bed::new();
    let (s, all) = (session(&mut b), free(&b));
    let (grant, service) = b.active(1, s, "add");
    let busy = free(&b);
    for i in 0..10_000u64 {
        let out = ask(&mut b, s, get(0, 1 + i % 9000, 4096 << (i % 4), 0));
        let buffer = told(&out)[0].2;
        b.feed(Event::BufferHere { service, buffer });
        put(&mut b, s, buffer).0.unwrap();
        b.feed(Event::BufferLeft { service, buffer });
        b.log.clear();
    }
    assert_eq!((free(&b), b.core.totals().buffers), (busy, 0));
    let notes = b.notes.keys().filter(|n| n.starts_with("core/buffer/")).count();
    assert_eq!(notes, 1, "a place is used again");
    b.ask(1, Kind::Release, s, grant.0.as_bytes());
    b.feed(Event::ChannelClosed { service, channel: grant });
    assert_eq!(free(&b), all);
}

#[test]
fn notes_of_buffers_that_cannot_be_are_refused() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (_, at, _) = given(&mut b, s, get(0, 4096, 0, 0));
    given(&mut b, s, get(0, 4096, 0, 0));
    let name = "core/buffer/1".to_owned();
    let good: serde_json::Value = serde_json::from_str(&b.notes[&name]).unwrap();
    let wrong = |key: &str, value: u64| {
        let mut note = good.clone();
        note["thing"][key] = value.into();
        let mut notes = b.notes.clone();
        notes.insert(name.clone(), note.to_string());
        let notes = notes.iter().map(|(n, t)| (n.as_str(), t.as_str()));
        Core::restore(0, 8, catalog(), notes).expect_err("it cannot be")
    };
    assert!(wrong("offset", at).contains("another one has"));
    assert!(wrong("offset", 1).contains("no buffer has"));
    assert!(wrong("bytes", 0).contains("no buffer has"));
    assert!(wrong("bytes", 1 << 40).contains("another one has"));
}

#[test]
fn a_buffer_whose_memory_notes_do_not_tell_of_ends_and_all_else_goes_on() {
    let mut b = Bed::new();
    let s = session(&mut b);
    let (_, service) = b.active(1, s, "add");
    memory(&mut b, 3, 16 * MIB, 4096);
    let in_it = told(&ask(&mut b, s, get(0, 4096, 0, 0)))[0].2;
    b.feed(Event::BufferHere { service, buffer: in_it });
    let awaited = told(&ask(&mut b, s, get(0, 4096, 0, 0)))[0].2;
    // Killed as it noted that the memory is gone, and of its buffers nothing yet.
    let note = b.notes.get_mut("core/window/1").unwrap();
    let mut window: serde_json::Value = serde_json::from_str(note).unwrap();
    assert_eq!(window["data"][0]["index"], 3);
    window["data"] = serde_json::json!([]);
    *note = window.to_string();
    let notes = b.notes.clone();
    b.log.clear();
    b.restore_from(&notes);
    assert_eq!((b.core.totals().sessions, b.core.totals().buffers), (1, 2));
    let out = b.feed(Event::Resume { alive: vec![service] });
    let n = answer(&out).unwrap_err();
    assert!(n.sentence.contains("its memory was taken from the VM"), "{n}");
    assert_eq!(told(&out), [(false, service, in_it), (false, service, awaited)]);
    assert!(b.core.is_touched(1, 3), "the service may write there until it has let go");
    for buffer in [in_it, awaited] {
        b.feed(Event::BufferLeft { service, buffer });
    }
    assert!(!b.core.is_touched(1, 3));
    assert_eq!((b.core.totals().grants, b.core.totals().buffers), (1, 0));
}
