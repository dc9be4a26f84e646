//! Calls that are answered later: in any order, by any thread, and whatever
//! becomes of their channel.

use crate::common;

use common::{App, PATIENCE, Service, Shape, start_of};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use vfun_ring::{Memory, PollAnswer, Ticket, sync::Ordering};
use vfun_sdk::{DROPPED, abi};
use vfun_supervise::{Driver, FromService, ToService, send};
use vfun_testdriver::{Mode, SENTENCE, late};
use vfun_window::{BatonEvent, BatonWaiter, Bell};
use vfun_wire::Status;
use vfun_wire::channel::{CellState, Command, HELD_BEGUN, HELD_EVENT, Word0, in_header, line_off};

fn with(mode: Mode, tail: &[u8]) -> Vec<u8> {
    [&[mode as u8][..], tail].concat()
}

fn later(ms: u32, tail: &[u8]) -> Vec<u8> {
    [&[Mode::Later as u8][..], &ms.to_le_bytes(), tail].concat()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

fn word(app: &App, at: usize) -> u64 {
    app.caller.memory().load(at, Ordering::Acquire)
}

/// What the service's line of a call says beside a sequence number.
fn state(app: &App, ticket: &Ticket) -> u8 {
    Word0::unpack(word(app, line_off(ticket.cell()) / 8)).op
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < limit, "never: {what}");
        std::thread::yield_now();
    }
}

/// Posts a call and waits until it is held so.
fn held(app: &App, mode: Mode, tail: &[u8]) -> Ticket {
    let ticket = app.post(&with(mode, tail));
    let wanted = if mode == Mode::Event { HELD_EVENT } else { HELD_BEGUN };
    until("held", || state(app, &ticket) == wanted);
    ticket
}

#[test]
fn answers_come_in_any_order_and_other_calls_go_on_meanwhile() {
    for doorbell in [true, false] {
        let mut s = Service::misbehaving();
        let app = s.open(1, Shape { depth: 16, doorbell, ..Shape::default() });
        let open: Vec<_> = (0..9u8)
            .map(|i| held(&app, if i % 2 == 0 { Mode::Event } else { Mode::Hold }, &[i; 9]))
            .collect();
        for i in 0..100u8 {
            assert_eq!(app.ok(&with(Mode::Echo, &[i])), [i]);
        }
        until("it rests", || word(&app, in_header::CURRENT) == 0);
        for ticket in &open {
            assert_eq!(app.caller.look(ticket), PollAnswer::NotYet);
            assert_eq!(app.caller.state(ticket), CellState::Busy);
        }
        assert_eq!(word(&app, in_header::CALLS), 100, "only answers count");
        assert_eq!(number(&app.ok(&with(Mode::Fire, &[]))), 9);
        for (i, ticket) in open.into_iter().enumerate().rev() {
            assert_eq!(app.finish(ticket), (Status::Ok, vec![i as u8; 9]));
        }
        assert_eq!(word(&app, in_header::CALLS), 110);
        assert_eq!(word(&app, in_header::ERRORS), 0);
        s.stop();
    }
}

#[test]
fn an_answer_wakes_who_sleeps() {
    let mut s = Service::misbehaving();
    // Its deadline would wake it, too.
    let app = s.open(1, Shape { deadline_ms: 3_600_000, ..Shape::default() });
    // Long enough for both sides to sleep, short enough for a test.
    let ticket = app.post(&later(300, b"late"));
    app.caller.declare_sleep();
    let waiter = app.waiter.as_ref().unwrap();
    while app.caller.look(&ticket) == PollAnswer::NotYet {
        assert!(waiter.wait(Some(PATIENCE)).unwrap(), "nobody rang");
    }
    app.caller.declare_awake();
    assert_eq!(app.finish(ticket), (Status::Ok, b"late".to_vec()));
    s.stop();
}

#[test]
fn late_errors_and_long_results_are_as_those_at_once() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { cell_bytes: 4096, ..Shape::default() });
    let code = |mode| [&[mode as u8][..], &7u32.to_le_bytes()].concat();
    assert_eq!(app.call(&code(Mode::LaterCode)), app.call(&code(Mode::Code)));
    let words = app.call(&code(Mode::LaterCode)).1;
    assert_eq!(&words[4..], SENTENCE.as_bytes());
    for n in [0u32, 1, 48, 49, 4096, 4097] {
        let fill = |mode| [&[mode as u8][..], &n.to_le_bytes()].concat();
        assert_eq!(app.call(&fill(Mode::LaterFill)), app.call(&fill(Mode::Fill)), "{n} bytes");
    }
    // Said to be later, and answered before that was said.
    assert_eq!(app.ok(&with(Mode::LaterNow, &[])), b"");
    assert_eq!(word(&app, in_header::ERRORS), 5);
    s.stop();
}

#[test]
fn what_is_dropped_or_reset_fails_by_name() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let failed = |code: i32, words: &str| {
        (Status::DriverError, [&code.to_le_bytes()[..], words.as_bytes()].concat())
    };
    let dropped = held(&app, Mode::Hold, &[]);
    app.ok(&with(Mode::DropAll, &[]));
    assert_eq!(app.finish(dropped), failed(abi::PANIC, DROPPED));
    let reset = held(&app, Mode::Event, &[]);
    assert_eq!(app.rst().0, Status::Ok);
    assert_eq!(app.finish(reset), failed(late::RESET, "it was reset"));
    // A panic drops the driver's state, and with it what that holds.
    let lost = held(&app, Mode::Event, &[]);
    assert_eq!(app.call(&with(Mode::Panic, &[])).0, Status::DriverError);
    assert_eq!(app.finish(lost), failed(abi::PANIC, DROPPED));
    assert!(DROPPED.len() <= 44, "it fits a line");
    s.stop();
}

#[test]
fn a_deadline_ends_what_was_begun_and_nothing_else() {
    for doorbell in [true, false] {
        let mut s = Service::misbehaving();
        let app = s.open(1, Shape { deadline_ms: 700, doorbell, ..Shape::default() });
        let event = held(&app, Mode::Event, b"event");
        let from = Instant::now();
        let [first, second] = [(); 2].map(|()| app.post(&with(Mode::Hold, &[])));
        assert_eq!(app.finish(first), (Status::Deadline, vec![]));
        assert!(from.elapsed().as_millis() >= 700, "early: {:?}", from.elapsed());
        assert_eq!(app.finish(second), (Status::Deadline, vec![]));
        // The same service goes on, and its driver's late answers go nowhere.
        assert_eq!(app.caller.look(&event), PollAnswer::NotYet);
        assert_eq!(number(&app.ok(&with(Mode::Cancelled, &[]))), 2);
        assert_eq!(number(&app.ok(&with(Mode::Fire, &[]))), 3);
        assert_eq!(app.finish(event), (Status::Ok, b"event".to_vec()));
        s.stop();
    }
}

#[test]
fn a_crash_ends_what_was_begun_and_events_are_waited_for_anew() {
    for crash in [Mode::Crash, Mode::Fault] {
        let mut s = Service::misbehaving();
        let app = s.open(1, Shape { depth: 16, ..Shape::default() });
        app.ok(&[]);
        let begun = [held(&app, Mode::Hold, b"a"), held(&app, Mode::Hold, b"b")];
        let events = [held(&app, Mode::Event, b"c"), held(&app, Mode::Event, b"d")];
        let died = app.post(&[crash as u8]);
        s.end();
        let posted = app.post(&with(Mode::Echo, b"posted"));
        let mut next = Service::misbehaving();
        next.serve(1, &app);
        assert_eq!(app.finish(died), (Status::DriverCrashed, vec![]));
        for ticket in begun {
            assert_eq!(app.finish(ticket), (Status::ServiceLost, vec![]));
        }
        assert_eq!(app.finish(posted), (Status::Ok, b"posted".to_vec()));
        for ticket in &events {
            until("held again", || state(&app, ticket) == HELD_EVENT);
        }
        assert_eq!(number(&app.ok(&with(Mode::Fire, &[]))), 2);
        for (ticket, answer) in events.into_iter().zip([b"c", b"d"]) {
            assert_eq!(app.finish(ticket), (Status::Ok, answer.to_vec()));
        }
        next.stop();
    }
}

#[test]
fn a_channel_that_is_closed_waits_for_no_answer() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let (begun, event) = (held(&app, Mode::Hold, &[]), held(&app, Mode::Event, b"e"));
    let timed = app.post(&later(19_000, &[]));
    s.close(1);
    for ticket in [&begun, &event, &timed] {
        assert_eq!(app.caller.look(ticket), PollAnswer::NotYet);
    }
    // The timer's answer comes when the channel is gone; the service lives on.
    let other = s.open(2, Shape::default());
    other.ok(&later(200, &[]));
    s.serve(3, &app);
    assert_eq!(app.finish(begun), (Status::ServiceLost, vec![]));
    assert_eq!(app.finish(timed), (Status::ServiceLost, vec![]));
    until("held again", || state(&app, &event) == HELD_EVENT);
    app.ok(&with(Mode::Fire, &[]));
    assert_eq!(app.finish(event), (Status::Ok, b"e".to_vec()));
    s.stop();
}

#[test]
fn a_channel_is_handed_over_when_what_was_begun_is_answered() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { deadline_ms: 2000, ..Shape::default() });
    let event = held(&app, Mode::Event, b"e");
    let (answered, forgotten) = (app.post(&later(200, b"here")), held(&app, Mode::Hold, &[]));
    s.tell(ToService::HandOver { channel: 1 });
    assert_eq!(s.hear(), FromService::Closed { channel: 1 });
    // Both ended before it was let go of; what waits for an event did not.
    assert_eq!(app.finish(answered), (Status::Ok, b"here".to_vec()));
    assert_eq!(app.finish(forgotten), (Status::Deadline, vec![]));
    assert_eq!(app.caller.look(&event), PollAnswer::NotYet);
    let mut next = Service::misbehaving();
    next.serve(1, &app);
    until("held again", || state(&app, &event) == HELD_EVENT);
    next.child.kill().unwrap();
    s.stop();
}

#[test]
fn a_hand_over_that_is_said_again_ends_no_call_and_loses_no_baton() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    // When the second one is held, the first one was begun.
    let (begun, event) = (app.post(&later(300, b"here")), held(&app, Mode::Event, b"e"));
    let (giver, taker) = vfun_window::baton().unwrap();
    let bell = Bell::new().unwrap();
    let waiter = BatonWaiter::new(taker, &bell).unwrap();
    send(s.socket(), &ToService::HandOver { channel: 1 }, &[giver.as_fd()]).unwrap();
    drop(giver);
    // The next manager says it, too, and has no baton.
    s.tell(ToService::HandOver { channel: 1 });
    assert_eq!(s.hear(), FromService::Closed { channel: 1 });
    assert_eq!(app.finish(begun), (Status::Ok, b"here".to_vec()));
    assert_eq!(app.caller.look(&event), PollAnswer::NotYet, "it is the next one's");
    assert!(matches!(waiter.wait().unwrap(), BatonEvent::Here(_)), "the baton was passed");
    s.stop();
}

#[test]
fn a_handle_that_a_call_left_answers_no_other_call() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let (status, _) = app.call(&with(Mode::TakeAndFail, &[]));
    assert_eq!(status, Status::DriverError);
    // A driver that says *later* and has taken no handle.
    let code = [&[Mode::Code as u8][..], &abi::LATER.to_le_bytes()].concat();
    let (status, words) = app.call(&code);
    assert_eq!(status, Status::DriverError, "{}", String::from_utf8_lossy(&words));
    assert_eq!(words[4..], *b"answered later, but no handle was taken");
    // And those that take one are answered by it.
    assert_eq!(app.ok(&later(1, b"own")), b"own");
    s.stop();
}

#[test]
fn a_release_ends_a_hand_over_that_waits_for_answers() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { deadline_ms: 3_600_000, ..Shape::default() });
    let _begun = held(&app, Mode::Hold, &[]);
    s.tell(ToService::HandOver { channel: 1 });
    s.heard();
    // It may begin one more while it wakes up to hear of it.
    let waits = loop {
        let call = app.post(&[]);
        match app.answer_within(&call, Duration::from_millis(200)) {
            Some(_) => app.caller.take(call),
            None => break call,
        }
    };
    s.close(1);
    assert_eq!(app.caller.look(&waits), PollAnswer::NotYet, "it is the next one's");
    s.stop();
}

#[test]
fn who_is_held_back_by_a_rate_gets_its_answers_still() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { calls_per_s: 1, ..Shape::default() });
    let first = app.post(&later(20, b"first"));
    let second = app.post(&with(Mode::Echo, b"second"));
    assert_eq!(app.finish(first), (Status::Ok, b"first".to_vec()));
    assert_eq!(app.caller.look(&second), PollAnswer::NotYet, "it counts as a call when it begins");
    assert_eq!(app.finish(second), (Status::Ok, b"second".to_vec()));
    s.stop();
}

#[test]
fn a_caller_without_pause_does_not_hold_up_answers() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { depth: 1024, cell_bytes: 0, ..Shape::default() });
    let ticket = app.post(&later(20, b"late"));
    // Two seconds' work is posted: its thread does not rest before that is done.
    let work = [&[Mode::Spin as u8][..], &2u32.to_le_bytes()].concat();
    let mut posted: Vec<_> = (0..1000).map(|_| app.post(&work)).collect();
    assert_eq!(app.finish(ticket), (Status::Ok, b"late".to_vec()));
    let last = posted.pop().unwrap();
    assert_eq!(app.caller.look(&last), PollAnswer::NotYet, "it came after all others");
    s.close(1);
}

/// Times that any thread of a process went to sleep or was put off its processor.
fn switches(s: &Service) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", s.child.id())).unwrap();
    let count = |text: String| -> u64 {
        let of = |l: &str| l.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
        text.lines().filter(|l| l.contains("ctxt_switches")).map(of).sum()
    };
    tasks.map(|t| count(std::fs::read_to_string(t.unwrap().path().join("status")).unwrap())).sum()
}

#[test]
fn ten_thousand_open_calls_have_no_thread_each_and_cost_nothing_while_they_wait() {
    let mut s = Service::misbehaving();
    let shape = Shape { depth: 1024, cell_bytes: 0, deadline_ms: 900, ..Shape::default() };
    let apps: Vec<_> = (1..=10).map(|c| s.open(c, shape.clone())).collect();
    let open = |app: &App| -> Vec<Ticket> {
        // One cell is left for other calls.
        let post = |i: u32| app.post_quietly(Command::Set, &with(Mode::Event, &i.to_le_bytes()));
        let tickets = (0..1023).map(post).collect();
        app.ring();
        tickets
    };
    let tickets: Vec<_> = apps.iter().map(open).collect();
    for (app, tickets) in apps.iter().zip(&tickets) {
        until("all are held", || tickets.iter().all(|t| state(app, t) == HELD_EVENT));
    }
    assert!(tickets.iter().map(Vec::len).sum::<usize>() >= 10_000);
    let threads = s.status_kb("Threads:");
    assert!(threads <= 12, "{threads} threads: the channels', the main one");
    until("nothing runs for a second", || {
        let before = switches(&s);
        std::thread::sleep(Duration::from_secs(1));
        switches(&s) == before
    });
    for (app, tickets) in apps.iter().zip(tickets) {
        assert_eq!(number(&app.ok(&with(Mode::Fire, &[]))), 1023);
        for (i, ticket) in tickets.into_iter().enumerate() {
            assert_eq!(app.finish(ticket), (Status::Ok, (i as u32).to_le_bytes().to_vec()));
        }
    }
    s.stop();
}

/// A driver in C that answers each three calls by a thread of its own, the last one
/// first. It takes the arguments with it: they are gone when the function returns.
const REVERSE: &str = include_str!("../../template/c/later.c");

#[test]
fn a_driver_in_c_answers_by_its_own_thread_in_reverse_order() {
    let dir = tempfile::tempdir().unwrap();
    let library = crate::loader::from_c(dir.path(), "reverse", REVERSE);
    let mut s = Service::start(start_of("reverse", Driver::Native { library }));
    let app = s.open(1, Shape::default());
    let mut reversed = 0;
    for round in 0..50u64 {
        let tickets: Vec<_> = (0..3u64).map(|i| app.post(&(3 * round + i).to_le_bytes())).collect();
        // How many it answered before each one.
        let answered = (0..3u64).zip(tickets).map(|(i, ticket)| {
            let (status, answer) = app.finish(ticket);
            assert_eq!(status, Status::Ok, "round {round}, call {i}");
            assert_eq!(number(&answer[..8]), 3 * round + i);
            number(&answer[8..])
        });
        let answered: Vec<u64> = answered.collect();
        let each: std::collections::BTreeSet<u64> = answered.iter().copied().collect();
        assert_eq!(each, (0..3).collect(), "round {round}: {answered:?}");
        reversed += u32::from(answered == [2, 1, 0]);
    }
    // A service that looks while calls are posted may begin the second one first.
    assert!(reversed > 25, "{reversed} of 50 rounds");
    // Two that wait when the channel closes, with a thread that still has them.
    let _two = [app.post(&[0; 8]), app.post(&[0; 8])];
    s.close(1);
    let again = s.open(2, Shape::default());
    assert_eq!(again.call(&[0; 3]).0, Status::DriverError);
    s.stop();
}

#[test]
fn a_driver_of_the_first_interface_answers_nothing_later() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include \"vfun_driver.h\"
const struct vfun_driver_info vfun_driver_info = { .abi = 1, .name = \"old\", .version_major = 1 };
int vfun_driver_init(const struct vfun_driver_config *c, void **s) { (void)s; return c->abi != 1; }
int vfun_driver_function(void *s, struct vfun_call *c) { (void)s; (void)c; return VFUN_DRIVER_LATER; }
void vfun_driver_exit(void *s) { (void)s; }
";
    for (name, source, code) in [
        // It is told the version that it was built for, and -5 is an error of its own.
        ("old", source.to_owned(), -5),
        // One that says *later* and takes no handle has a bug.
        ("new", source.replace(".abi = 1", ".abi = 2").replace("!= 1", "!= 2"), abi::PANIC),
    ] {
        let library = crate::loader::from_c(dir.path(), name, &source);
        let mut s = Service::start(start_of("old", Driver::Native { library }));
        let app = s.open(1, Shape::default());
        let (status, words) = app.call(&[]);
        assert_eq!((status, &words[..4]), (Status::DriverError, &code.to_le_bytes()[..]), "{name}");
        // A caller that sleeps is rung for this answer as for any.
        app.caller.declare_sleep();
        let (ticket, waiter) = (app.post(&[]), app.waiter.as_ref().unwrap());
        while app.caller.look(&ticket) == PollAnswer::NotYet {
            assert!(waiter.wait(Some(PATIENCE)).unwrap(), "{name}: nobody rang");
        }
        app.caller.declare_awake();
        assert_eq!(app.finish(ticket).0, Status::DriverError, "{name}");
        s.stop();
    }
}
