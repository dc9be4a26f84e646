//! Further windows: memory only while the host names them and the guest has them.

use super::*;
use crate::further::Further;

const KEY: [u64; 2] = [11, 12];

fn named(key: [u64; 2]) -> Event {
    named_as(1, 1, key, false)
}

fn named_as(window: u32, index: u16, key: [u64; 2], link: bool) -> Event {
    let named = Further { index, key, bytes: 4 * MIB, page: 2 * MIB, link, here: true };
    Event::WindowNamed { window, named }
}

fn here(b: &mut Bed, key: [u64; 2], here: u16) -> Result<Vec<u8>, Nack> {
    here_in(b, 1, key, here)
}

fn here_in(b: &mut Bed, window: u32, key: [u64; 2], here: u16) -> Result<Vec<u8>, Nack> {
    let key = key.map(U64::new);
    let said = WindowHere { key, here: U16::new(here), reserved: [0; 6] };
    answer(&b.ask(window, Kind::Window, 0, said.as_bytes()))
}

fn get(b: &mut Bed, session: u64, flags: u32) -> Vec<Action> {
    let (grant, bytes, align) = (U64::ZERO, U64::new(8192), U64::ZERO);
    let get = BufferGet { grant, bytes, align, flags: U32::new(flags), reserved: U32::ZERO };
    b.ask(1, Kind::BufferGet, session, get.as_bytes())
}

/// The buffer that an answer gives, and the number of the window that it lies in.
fn got(out: &[Action]) -> (Handle, u16) {
    let ack = BufferAck::read_from_bytes(&answer(out).unwrap()).unwrap();
    (Handle(ack.buffer.get()), ack.range.window.get())
}

#[test]
fn a_window_is_memory_once_the_guest_has_it_and_until_it_has_not() {
    let mut b = Bed::new();
    let session = b.hello(1, b"").unwrap().session.get();
    b.feed(named(KEY));
    // Of another one the guest never says that it is there.
    let other =
        Further { index: 2, key: [31, 32], bytes: 4 * MIB, page: 2 * MIB, link: false, here: true };
    b.feed(Event::WindowNamed { window: 1, named: other });
    assert_eq!(got(&get(&mut b, session, 0)).1, 0, "the guest has not said that it is there");
    here(&mut b, KEY, 1).unwrap();
    let (buffer, window) = got(&get(&mut b, session, 0));
    assert_eq!(window, 1);
    let data = &b.core.windows.get(&1).unwrap().data;
    assert!(data.keys().eq([&1]), "and no other: {data:?}");
    // Contiguous for a device, as far as its pages go.
    assert_eq!(got(&get(&mut b, session, BUFFER_CONTIGUOUS)).1, 1);
    // Said twice it changes nothing.
    here(&mut b, KEY, 1).unwrap();
    assert!(b.core.buffers().any(|(h, b)| h == buffer && !b.is_over()));
    here(&mut b, KEY, 0).unwrap();
    assert!(b.core.buffers().all(|(_, b)| b.memory == 0), "what lay there is over");
    assert_eq!(got(&get(&mut b, session, 0)).1, 0);
    here(&mut b, KEY, 1).unwrap();
    assert_eq!(got(&get(&mut b, session, 0)).1, 1);
    // A module that starts anew has nothing until it says so.
    let out = b.ask(1, Kind::Reset, 0, &[0; 8]);
    answer(&out).unwrap();
    let session = b.hello(1, b"").unwrap().session.get();
    assert_eq!(got(&get(&mut b, session, 0)).1, 0);
    b.feed(Event::WindowUnnamed { window: 1, index: 1 });
    assert_eq!(here(&mut b, KEY, 1).unwrap_err().code, NackCode::Stale);
}

#[test]
fn what_is_said_of_a_window_is_checked_and_is_about_that_very_one() {
    let mut b = Bed::new();
    b.feed(named(KEY));
    for (key, said, code) in [
        ([11, 13], 1, NackCode::Stale),
        ([0, 0], 1, NackCode::Stale),
        (KEY, 2, NackCode::Malformed),
    ] {
        assert_eq!(here(&mut b, key, said).unwrap_err().code, code);
    }
    let body = [[0xff; 16].as_slice(), &[1, 0], &[1; 6]].concat();
    assert_eq!(answer(&b.ask(1, Kind::Window, 0, &body)).unwrap_err().code, NackCode::Malformed);
    // Another client's window knows nothing of it.
    let said = WindowHere { key: KEY.map(U64::new), here: U16::new(1), reserved: [0; 6] };
    let out = b.ask(2, Kind::Window, 0, said.as_bytes());
    assert_eq!(answer(&out).unwrap_err().code, NackCode::Stale);
    // Laid out anew it is another one.
    here(&mut b, KEY, 1).unwrap();
    b.feed(named([21, 22]));
    let session = b.hello(1, b"").unwrap().session.get();
    assert_eq!(got(&get(&mut b, session, 0)).1, 0);
    assert_eq!(here(&mut b, KEY, 1).unwrap_err().code, NackCode::Stale);
}

#[test]
fn an_app_that_cannot_map_further_windows_gets_buffers_of_the_first_one() {
    let mut b = Bed::new();
    b.feed(named(KEY));
    here(&mut b, KEY, 1).unwrap();
    let session = b.hello(1, b"").unwrap().session.get();
    let index = Handle(session);
    b.core.sessions.get_mut(index).unwrap().features.0 &= !Features::WINDOWS.0;
    assert_eq!(got(&get(&mut b, session, 0)).1, 0);
}

#[test]
fn memory_that_comes_again_waits_for_services_that_may_write_to_it() {
    let mut b = Bed::new();
    b.feed(named(KEY));
    here(&mut b, KEY, 1).unwrap();
    let session = b.hello(1, b"").unwrap().session.get();
    let (_, service) = b.active(1, session, "add");
    b.feed(Event::TakesBuffers { service });
    get(&mut b, session, 0);
    let (buffer, _) = b.core.buffers().next().map(|(h, b)| (h, b.memory)).unwrap();
    b.feed(Event::BufferHere { service, buffer });
    here(&mut b, KEY, 0).unwrap();
    here(&mut b, KEY, 1).unwrap();
    assert!(b.core.is_touched(1, 1));
    let lies = |b: &Bed| b.core.windows.get(&1).unwrap().data.contains_key(&1);
    assert!(!lies(&b), "its service may write there still");
    b.feed(Event::BufferLeft { service, buffer });
    assert!(lies(&b) && !b.core.is_touched(1, 1));
}

#[test]
fn another_manager_goes_on_with_what_was_named_and_there() {
    let mut b = Bed::new();
    b.feed(named(KEY));
    here(&mut b, KEY, 1).unwrap();
    let session = b.hello(1, b"").unwrap().session.get();
    let (buffer, _) = got(&get(&mut b, session, 0));
    b.take_over(|_| true);
    // The rim names what it took up.
    b.feed(named(KEY));
    assert!(b.core.further(1, 1).unwrap().here);
    assert!(b.core.buffers().any(|(h, x)| h == buffer && x.memory == 1 && !x.is_over()));
    assert_eq!(got(&get(&mut b, session, 0)).1, 1);
}

#[test]
fn a_link_is_here_for_each_of_its_vms_and_nothing_is_laid_out_in_it() {
    let mut b = Bed::new();
    // In two control windows by one key, with another number in each.
    b.feed(named_as(1, 1, KEY, true));
    b.feed(named_as(2, 5, KEY, true));
    let is_here = |b: &Bed| [(1, 1), (2, 5)].map(|(w, i)| b.core.further(w, i).unwrap().here);
    assert_eq!(is_here(&b), [false, false]);
    here(&mut b, KEY, 1).unwrap();
    assert_eq!(is_here(&b), [true, false]);
    here_in(&mut b, 2, KEY, 1).unwrap();
    assert_eq!(is_here(&b), [true, true]);
    let session = b.hello(1, b"").unwrap().session.get();
    assert_eq!(got(&get(&mut b, session, 0)).1, 0, "a buffer lies in a link");
    // It is no memory for a driver's contiguous buffers, either.
    let refused = answer(&get(&mut b, session, BUFFER_CONTIGUOUS)).unwrap_err();
    assert_eq!(refused.code, NackCode::BeyondLimit);
    b.take_over(|_| true);
    // The rim names what it took up.
    b.feed(named_as(1, 1, KEY, true));
    b.feed(named_as(2, 5, KEY, true));
    assert_eq!(is_here(&b), [true, true]);
    // A data window beside it is memory.
    b.feed(named_as(1, 2, [21, 22], false));
    here(&mut b, [21, 22], 1).unwrap();
    assert_eq!(got(&get(&mut b, session, 0)).1, 2);
    // A module that starts anew says again what it has; the other VM's has said it.
    answer(&b.ask(1, Kind::Reset, 0, &[0; 8])).unwrap();
    assert_eq!(is_here(&b), [false, true]);
    here(&mut b, KEY, 1).unwrap();
    here_in(&mut b, 2, KEY, 0).unwrap();
    assert_eq!(is_here(&b), [true, false]);
    b.feed(Event::WindowUnnamed { window: 1, index: 1 });
    assert_eq!(here(&mut b, KEY, 0).unwrap_err().code, NackCode::Stale);
    here_in(&mut b, 2, KEY, 1).unwrap();
}
