//! A service and the buffers of its apps: told of them, found by their own calls alone,
//! and let go of when no call uses them.

use crate::common;

use common::{App, Service, Shape};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use vfun_supervise::{BufferCame, FromService, ToService, send};
use vfun_testdriver::Mode;
use vfun_testdriver::buffer::{Op, args};
use vfun_window::{Access, Mapping};
use vfun_wire::Status;
use vfun_wire::header::HEAP_OFF;

/// A page in the app's window in which no channel lies.
fn give(s: &mut Service, app: &App, buffer: u64, session: u64) {
    let (offset, bytes) = (HEAP_OFF as u64, 4096);
    give_in(
        s,
        &app.window,
        BufferCame { buffer, session, origin: 0, offset, bytes, sealed: true, pages: false },
    );
}

fn give_in(s: &mut Service, memory: &OwnedFd, came: BufferCame) {
    let buffer = came.buffer;
    send(s.socket(), &ToService::BufferCame(came), &[memory.as_fd()]).unwrap();
    assert_eq!(s.hear(), FromService::BufferHere { buffer });
}

fn sum(app: &App, buffer: u64) -> Option<u64> {
    let (status, bytes) = app.call(&args(Op::Sum, 0, buffer, 0, 4096));
    assert!(matches!(status, Status::Ok | Status::DriverError), "{status:?}");
    (status == Status::Ok).then(|| u64::from_le_bytes(bytes.try_into().unwrap()))
}

#[test]
fn calls_of_one_session_find_its_buffers_and_others_do_not() {
    let mut s = Service::misbehaving();
    let one = s.open(1, Shape { session: 11, ..Shape::default() });
    let two = s.open(2, Shape { session: 12, ..Shape::default() });
    let nobody = s.open(3, Shape::default());
    give(&mut s, &one, 7, 11);
    give(&mut s, &nobody, 8, 0);
    assert_eq!((sum(&one, 7), sum(&two, 7), sum(&nobody, 7)), (Some(0), None, None));
    assert_eq!(sum(&nobody, 8), None, "whose session is not known has none");
    assert_eq!(one.call(&args(Op::Fill, 2, 7, 96, 4000)).0, Status::Ok);
    assert_eq!(sum(&one, 7), Some(8000));
    assert_eq!(one.call(&args(Op::Fill, 2, 7, 97, 4000)).0, Status::DriverError);
    // Told again it is the same; a descriptor that is missing ends nothing.
    give(&mut s, &one, 7, 11);
    let came = BufferCame {
        buffer: 9,
        session: 11,
        origin: 0,
        offset: 0,
        bytes: 4096,
        sealed: true,
        pages: false,
    };
    s.tell(ToService::BufferCame(came));
    assert_eq!(s.hear(), FromService::BufferHere { buffer: 9 });
    assert_eq!((sum(&one, 9), sum(&one, 7)), (None, Some(8000)));
    for buffer in [7, 99] {
        s.tell(ToService::BufferGone { buffer });
        assert_eq!(s.hear(), FromService::BufferLeft { buffer });
    }
    assert_eq!(sum(&one, 7), None);
    s.stop();
}

#[test]
fn a_channel_that_is_closed_keeps_no_buffer_though_its_driver_has_a_call() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { session: 11, ..Shape::default() });
    give(&mut s, &app, 7, 11);
    // A thread of the driver has its handle for longer than this test runs.
    let _open = app.post(&[&[Mode::Later as u8][..], &3_600_000u32.to_le_bytes()].concat());
    assert_eq!(sum(&app, 7), Some(0));
    s.close(1);
    s.tell(ToService::BufferGone { buffer: 7 });
    assert_eq!(s.hear(), FromService::BufferLeft { buffer: 7 });
    s.stop();
}

#[test]
fn a_buffer_is_left_when_its_call_has_ended() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { session: 11, ..Shape::default() });
    give(&mut s, &app, 7, 11);
    let slow = app.post(&args(Op::SlowFill, 30, 7, 0, 4096));
    // Its driver has the buffer once it has written there.
    let at = Mapping::new(&app.window, HEAP_OFF as u64, 4096, Access::Read).unwrap().read();
    while at.load(0, Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    // A manager that starts anew says it again: the call uses it no less.
    for _ in 0..2 {
        s.tell(ToService::BufferGone { buffer: 7 });
    }
    assert_eq!(s.hear(), FromService::BufferLeft { buffer: 7 });
    let ended = app.answer_within(&slow, std::time::Duration::ZERO);
    assert_eq!(ended.expect("the call has ended").0, Status::Ok);
    s.stop();
}

#[test]
fn a_file_that_is_truncated_under_a_call_with_a_buffer_ends_no_service() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { session: 11, ..Shape::default() });
    give(&mut s, &app, 7, 11);
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(4096).unwrap();
    let (memory, bytes) = (OwnedFd::from(file.try_clone().unwrap()), 4096);
    let came = BufferCame {
        buffer: 8,
        session: 11,
        origin: 0,
        offset: 0,
        bytes,
        sealed: false,
        pages: false,
    };
    give_in(&mut s, &memory, came);
    let slow = app.post(&args(Op::SlowFill, 30, 8, 0, bytes));
    let at = Mapping::guarded(&memory, 0, bytes as usize, Access::Read).unwrap().read();
    while at.load(0, Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    file.set_len(0).unwrap();
    // What it writes there reaches nobody. Later calls are told.
    assert_eq!(app.finish(slow).0, Status::Ok);
    assert_eq!((sum(&app, 8), sum(&app, 7)), (None, Some(0)));
    s.tell(ToService::BufferGone { buffer: 8 });
    assert_eq!(s.hear(), FromService::BufferLeft { buffer: 8 });
    s.stop();
}
