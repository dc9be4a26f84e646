//! Channels of queues, served by the function `mirror`: there and back, one thread for
//! all of them, and what a program may do to them.

use crate::common::{App, PATIENCE, Service, Shape, start_of};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_mirror::{ENTRY_BYTES, Pair, PairRequest};
use vfun_queue::{Broken, Consumer, End, Entry, Producer, Reason, WindowMemory};
use vfun_supervise::{Driver, FromService, Open, Place, ToService};
use vfun_window::{Access, Bell, BellWaiter, Mapping, WriteSpan, memfd};
use vfun_wire::channel::in_header;
use vfun_wire::header::HEAP_OFF;
use vfun_wire::kind::ChannelKind;
use vfun_wire::place::ChannelPlace;
use vfun_wire::queues::{QueuesShape, host_head, program_head};
use vfun_wire::range::{Access as Writers, Range};
use vfun_wire::{PAGE, Status};

/// Pages of each side, unless a test says otherwise.
const PAGES: u32 = 16;

/// A program with one channel of queues in a window of its own.
struct Queued {
    handle: u64,
    token: [u64; 2],
    window: OwnedFd,
    place: Place,
    bells: Option<(Bell, Bell)>,
    waiter: Option<BellWaiter>,
    program: WriteSpan,
    host: WriteSpan,
}

/// A pair of queues, the program's ends.
struct Ends {
    there: Producer<WindowMemory, ENTRY_BYTES>,
    back: Consumer<WindowMemory, ENTRY_BYTES>,
    depth: usize,
}

impl Queued {
    fn new(handle: u64) -> Self {
        Self::laid_out(handle, PAGES, Some((Bell::new().unwrap(), Bell::new().unwrap())))
    }

    fn laid_out(handle: u64, pages: u32, bells: Option<(Bell, Bell)>) -> Self {
        let bytes = u64::from(pages) << 12;
        let (program, host) = (HEAP_OFF as u64 + 8192, HEAP_OFF as u64 + 12288 + bytes);
        let window: OwnedFd = match &bells {
            Some(_) => memfd("window", host + bytes).unwrap(),
            None => {
                let file = tempfile::tempfile_in("/dev/shm").unwrap();
                file.set_len(host + bytes).unwrap();
                file.into()
            }
        };
        let map = |off| {
            Mapping::new(&window, off, bytes as usize, Access::ReadWrite).unwrap().write().unwrap()
        };
        let shape = QueuesShape::new(pages, pages).shape();
        let ranges = [
            Range::new(0, Writers::AppWrites, program, bytes),
            Range::new(0, Writers::HostWrites, host, bytes),
        ];
        let place = ChannelPlace::new(ChannelKind::Queues, shape, (1, 1), &ranges).unwrap();
        let (place, token) = (Place::of(&place), [handle << 32 | 7, 11]);
        let (program, host) = (map(program), map(host));
        let waiter = bells.as_ref().map(|(_, app)| BellWaiter::new(app).unwrap());
        let queued = Queued { handle, token, window, place, bells, waiter, program, host };
        queued.say_token(token);
        queued
    }

    fn say_token(&self, token: [u64; 2]) {
        self.program.store(program_head::TOKEN0, token[0], Ordering::Relaxed);
        self.program.store(program_head::TOKEN1, token[1], Ordering::Release);
    }

    fn open(&self) -> Open {
        Open {
            channel: self.handle,
            app: "app".into(),
            vm: Some("one".into()),
            address: None,
            session: 0,
            origin: 0,
            window_bytes: 1 << 20,
            place: self.place.clone(),
            deadline_ms: 1000,
            calls_per_s: 0,
            wait: 0,
            doorbell: self.bells.is_some(),
            bell: 0,
            vf: None,
            standby: false,
            port: None,
        }
    }

    fn hand(&self, s: &Service) {
        s.hand_over(self.open(), &self.window, self.bells.as_ref());
    }

    fn serve(&self, s: &mut Service) {
        self.hand(s);
        assert_eq!(s.hear(), FromService::Opened { channel: self.handle });
    }

    fn ask(&self, calls: &App, depth: u32) -> (Status, Vec<u8>) {
        let request = PairRequest { channel: self.handle, token: self.token, depth };
        calls.call(&request.to_bytes())
    }

    /// A pair of queues in this channel.
    fn pair(&self, calls: &App, depth: u32) -> Ends {
        let (status, answer) = self.ask(calls, depth);
        assert_eq!(status, Status::Ok, "{}", String::from_utf8_lossy(&answer));
        let at = Pair::from_bytes(&answer).unwrap();
        let entries = PAGE + (ENTRY_BYTES * depth as usize).next_multiple_of(PAGE);
        let part = |span: &WriteSpan, off: u64, bytes| span.part(off as usize, bytes).unwrap();
        let there = WindowMemory::of_sides(
            part(&self.program, at.there, entries),
            part(&self.host, at.there_taken, PAGE).reader(),
        );
        let back = WindowMemory::of_sides(
            part(&self.program, at.back_taken, PAGE),
            part(&self.host, at.back, entries).reader(),
        );
        let (there, back) = (Producer::new(there, depth), Consumer::new(back, depth));
        Ends { there: there.unwrap(), back: back.unwrap(), depth: depth as usize }
    }

    /// Sends so many entries and takes them back, asleep where there is nothing to do.
    fn there_and_back(&self, ends: &mut Ends, count: u64) {
        let (mut sent, mut got) = (0u64, 0u64);
        let mut entries = [Entry::<ENTRY_BYTES>::default(); 8];
        let until = Instant::now() + PATIENCE;
        while got < count {
            assert!(Instant::now() < until, "{got} of {count} came back, {sent} were sent");
            let batch = ((count - sent) as usize).min(entries.len());
            for (entry, n) in entries[..batch].iter_mut().zip(sent..) {
                *entry = Entry::of(&n.to_le_bytes());
            }
            let out = ends.there.produce(&entries[..batch]).unwrap();
            sent += out as u64;
            if out > 0 && ends.there.must_ring() {
                self.ring();
            }
            let taken = ends.back.consume(&mut entries).unwrap();
            for entry in &entries[..taken] {
                assert_eq!(entry.payload()[..8], got.to_le_bytes());
                got += 1;
            }
            match taken {
                0 if out == 0 => self.sleep(ends, sent < count),
                0 => {}
                _ if ends.back.must_ring() => self.ring(),
                _ => {}
            }
        }
        assert_eq!(ends.back.consume(&mut entries), Ok(0));
    }

    fn ring(&self) {
        if let Some((service, _)) = &self.bells {
            service.ring();
        }
    }

    fn sleep(&self, ends: &mut Ends, sends: bool) {
        let Some(waiter) = &self.waiter else {
            return std::thread::sleep(Duration::from_micros(200));
        };
        ends.back.declare_sleep();
        ends.there.declare_sleep();
        let room = sends && ends.there.ready(true).unwrap();
        if !room && !ends.back.ready(true).unwrap() {
            waiter.wait(Some(PATIENCE)).unwrap();
        }
        ends.there.declare_awake();
        ends.back.declare_awake();
    }
}

fn mirror() -> Service {
    Service::start(start_of("mirror", Driver::Mirror))
}

fn threads(s: &Service) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", s.child.id())).unwrap().count()
}

/// How many ranges of windows the service has mapped.
fn mapped(s: &Service) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", s.child.id())).unwrap();
    maps.lines().filter(|line| line.contains("memfd:window")).count()
}

#[test]
fn entries_come_back_through_many_channels_and_one_thread_serves_them() {
    let mut s = mirror();
    let calls = s.open(1, Shape::default());
    let mut all: Vec<(Queued, Ends)> = vec![];
    let mut before = 0;
    for handle in 10..14 {
        let queued = Queued::new(handle);
        queued.serve(&mut s);
        let ends = queued.pair(&calls, 16);
        all.push((queued, ends));
        let now = threads(&s);
        assert!(handle == 10 || now == before, "a channel of queues makes no thread");
        before = now;
    }
    std::thread::scope(|scope| {
        for (queued, ends) in &mut all {
            scope.spawn(|| queued.there_and_back(ends, 5_000));
        }
    });
    // Several pairs in one channel, of another depth.
    let mut more = all[0].0.pair(&calls, 64);
    all[0].0.there_and_back(&mut more, 1_000);
    let (queued, ends) = &mut all[0];
    queued.there_and_back(ends, 100);
    let rings: u64 = all.iter().map(|(q, _)| q.host.load(host_head::RANG, Ordering::Relaxed)).sum();
    let news: u64 = all.iter().map(|(q, _)| q.host.load(in_header::NEWS, Ordering::Relaxed)).sum();
    assert!(rings > 0 && rings == news, "{rings} rings, {news} news");
    s.stop();
}

#[test]
fn a_channel_without_a_doorbell_is_served_by_the_clock() {
    let mut s = mirror();
    let calls = s.open(1, Shape { doorbell: false, ..Shape::default() });
    let queued = Queued::laid_out(2, PAGES, None);
    queued.serve(&mut s);
    let mut ends = queued.pair(&calls, 8);
    queued.there_and_back(&mut ends, 200);
    s.close(2);
    s.stop();
}

#[test]
fn only_who_knows_the_token_names_a_channel() {
    let mut s = mirror();
    let calls = s.open(1, Shape::default());
    let queued = Queued::new(5);
    queued.serve(&mut s);
    let ask = |channel, token| calls.call(&PairRequest { channel, token, depth: 4 }.to_bytes()).0;
    assert_eq!(ask(5, [queued.token[0], 12]), Status::DriverError);
    assert_eq!(ask(5, [0, 0]), Status::DriverError);
    assert_eq!(ask(6, queued.token), Status::DriverError, "another handle");
    // A program that never wrote one cannot be named by zeros.
    queued.say_token([0; 2]);
    assert_eq!(ask(5, [0; 2]), Status::DriverError);
    queued.say_token(queued.token);
    assert_eq!(ask(5, queued.token), Status::Ok);
    // As many as there is room for, and no shape that is none.
    assert_eq!(queued.ask(&calls, 3).0, Status::DriverError);
    let mut pairs = 0;
    while queued.ask(&calls, 2).0 == Status::Ok {
        pairs += 1;
        assert!(pairs < 64, "there is no end");
    }
    // A pair takes two pages and one of each side; the first one took as many.
    assert_eq!(pairs, (PAGES as usize - 1) / 3 - 1);
    assert_eq!(calls.call(&[1; 8]).0, Status::DriverError);
    s.stop();
}

#[test]
fn a_channel_is_closed_when_the_engine_has_let_go_of_its_memory() {
    let mut s = mirror();
    let calls = s.open(1, Shape::default());
    let before = mapped(&s);
    let queued = Queued::new(5);
    queued.serve(&mut s);
    let mut ends = queued.pair(&calls, 4);
    queued.there_and_back(&mut ends, 10);
    assert_eq!(mapped(&s), before + 2);
    s.close(5);
    assert_eq!(mapped(&s), before, "it said so when nothing was mapped any more");
    assert_eq!(queued.ask(&calls, 4).0, Status::DriverError, "no call finds it");
    // Its handle may come again.
    queued.serve(&mut s);
    s.close(5);
    // All of them, with the service.
    let others = [Queued::new(8), Queued::new(9)];
    others.iter().for_each(|q| q.serve(&mut s));
    s.stop();
}

#[test]
fn a_channel_that_the_engine_lets_go_of_unasked_ends() {
    let mut s = mirror();
    // A bell that nobody can listen to.
    let file = Bell::from_fd(tempfile::tempfile().unwrap().into());
    let queued = Queued::laid_out(5, PAGES, Some((file, Bell::new().unwrap())));
    queued.serve(&mut s);
    assert_eq!(s.hear(), FromService::Closed { channel: 5 });
    // That was said: it is not said again, and its handle may come again.
    s.tell(ToService::Close { channel: 5 });
    let next = Queued::new(5);
    next.serve(&mut s);
    s.close(5);
    s.stop();
}

#[test]
fn what_a_program_writes_breaks_its_own_queue_and_no_other() {
    let mut s = mirror();
    let calls = s.open(1, Shape::default());
    let (bad, good) = (Queued::new(5), Queued::new(6));
    [&bad, &good].iter().for_each(|q| q.serve(&mut s));
    let (mut broken, mut beside) = (bad.pair(&calls, 8), bad.pair(&calls, 8));
    let mut ends = good.pair(&calls, 8);
    // All of the first queue's entries, and its counts.
    let entries = PAGE..PAGE + PAGE + ENTRY_BYTES * broken.depth;
    (entries.start / 8..entries.end / 8)
        .for_each(|word| bad.program.store(word, 0x5555_5555_5555_5555, Ordering::Relaxed));
    bad.ring();
    let until = Instant::now() + PATIENCE;
    let ended = loop {
        match broken.back.ready(true) {
            Ok(_) => assert!(Instant::now() < until, "nobody says that it is broken"),
            Err(e) => break e,
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(ended, Broken::Ended(Reason::Closed));
    bad.there_and_back(&mut beside, 100);
    good.there_and_back(&mut ends, 100);
    // Everything of its side, over and over, while it is served.
    let until = Instant::now() + Duration::from_millis(200);
    let mut value = 1u64;
    while Instant::now() < until {
        for word in 0..(PAGES as usize * PAGE / 8) {
            value = value.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            bad.program.store(word, value >> (word % 3 * 20), Ordering::Relaxed);
        }
        bad.ring();
        good.there_and_back(&mut ends, 20);
    }
    s.close(5);
    s.stop();
}

#[test]
fn it_shows_that_it_lives_with_a_manager_and_without() {
    let mut s = mirror();
    let queued = Queued::new(5);
    queued.serve(&mut s);
    let word = |at| queued.host.load(at, Ordering::Relaxed);
    let moves = |at| {
        let (from, until) = (word(at), Instant::now() + PATIENCE);
        while word(at) == from {
            assert!(Instant::now() < until, "word {at} stands still");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    (0..3).for_each(|_| moves(host_head::LIFE));
    assert_eq!(word(in_header::ALONE), 0);
    drop(s.socket.take());
    (0..3).for_each(|_| moves(in_header::ALONE));
    moves(host_head::LIFE);
}

#[test]
fn who_does_not_serve_queues_says_so() {
    let refused = |s: &mut Service, open: Open, words: &str| {
        let queued = Queued::new(open.channel);
        s.hand_over(open, &queued.window, queued.bells.as_ref());
        match s.hear() {
            FromService::OpenFailed { channel: 5, reason } => {
                assert!(reason.contains(words), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    };
    let open = Queued::new(5).open();
    let mut s = Service::of("echo");
    refused(&mut s, open.clone(), "serves calls, and no queues");
    s.stop();
    let mut s = Service::start(start_of("floor", Driver::Floor));
    refused(&mut s, open.clone(), "does not serve channels of queues");
    s.stop();
    let mut s = mirror();
    let mut wrong = open.clone();
    wrong.place.shape[0] = 1;
    refused(&mut s, wrong, "beyond a limit");
    let mut wrong = open.clone();
    wrong.place.ranges.swap(0, 1);
    refused(&mut s, wrong, "another side");
    let mut wrong = open.clone();
    wrong.window_bytes = HEAP_OFF as u64 + 8192;
    refused(&mut s, wrong, "outside the window's heap");
    s.stop();
}

#[test]
fn what_is_handed_over_ends() {
    let mut s = mirror();
    let queued = Queued::new(5);
    queued.serve(&mut s);
    s.tell(ToService::Rate { channel: 5, calls_per_s: 1 });
    s.tell(ToService::Look { channel: 5 });
    s.tell(ToService::TakeUp { channel: 5, status: 0 });
    s.tell(ToService::HandOver { channel: 5 });
    assert_eq!(s.hear(), FromService::Closed { channel: 5 });
    s.stop();
}
