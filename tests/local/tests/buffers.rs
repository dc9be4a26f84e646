//! Buffers that an app and its functions both write: whose they are, what is in them, and
//! what becomes of them.

use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};
use vfun_admin::{Ask, Reply};
use vfun_ring::{Caller, PollAnswer, Ticket, WindowMemory};
use vfun_sdk::abi::BAD_ARGS;
use vfun_testdriver::Mode;
use vfun_testdriver::buffer::{Op, args};
use vfun_tests_local::raw::{Raw, negotiate};
use vfun_tests_local::{Stand, number};
use vfun_wire::channel::Command;
use vfun_wire::kind::Calls;
use vfun_wire::message::{BUFFER_CONTIGUOUS, BufferAck, BufferGet, Kind, NegotiateAck};
use vfun_wire::place::ChannelPlace;
use vfun_wire::version::Features;
use vfun_wire::{Nack, NackCode, Status};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// An app in a window of its own, with a channel to the function that misbehaves.
struct App {
    raw: Raw,
    session: u64,
    grant: u64,
    vector: usize,
    caller: Caller<WindowMemory>,
}

/// A buffer that an app has.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Buffer {
    handle: u64,
    offset: usize,
    bytes: usize,
}

impl App {
    fn new(stand: &Stand) -> App {
        App::in_window(Raw::attach(stand))
    }

    fn of(stand: &Stand, client: &str) -> App {
        App::in_window(Raw::attach_as(stand, client, 0).unwrap())
    }

    fn in_window(mut raw: Raw) -> App {
        let session = raw.hello_with(Features::BUFFERS);
        let (grant, place) = activate(&mut raw, session);
        let calls = Calls::of(&place).unwrap();
        let side = |off: u64| raw.window.part(off as usize, calls.side_bytes as usize).unwrap();
        let mem = WindowMemory::new(side(calls.dataout), side(calls.datain).reader()).unwrap();
        let caller = Caller::new(mem, calls.depth, calls.cell_bytes);
        App { session, grant, vector: place.vector_out().into(), caller, raw }
    }

    fn try_get(
        &mut self,
        grant: u64,
        bytes: usize,
        align: u64,
        flags: u32,
    ) -> Result<Buffer, Nack> {
        let get = BufferGet {
            grant: U64::new(grant),
            bytes: U64::new(bytes as u64),
            align: U64::new(align),
            flags: U32::new(flags),
            reserved: U32::ZERO,
        };
        let ack = self.raw.ask(Kind::BufferGet, self.session, get.as_bytes())?;
        let ack = BufferAck::read_from_bytes(&ack).unwrap();
        let (offset, bytes) = (ack.range.offset.get() as usize, ack.range.bytes.get() as usize);
        Ok(Buffer { handle: ack.buffer.get(), offset, bytes })
    }

    fn get(&mut self, bytes: usize) -> Buffer {
        self.try_get(0, bytes, 0, 0).unwrap()
    }

    fn put(&mut self, buffer: Buffer) -> Result<(), Nack> {
        self.raw.ask(Kind::BufferPut, self.session, buffer.handle.as_bytes()).map(drop)
    }

    fn read(&self, buffer: Buffer) -> Vec<u8> {
        let mut bytes = vec![0xff; buffer.bytes];
        self.raw.window.read(buffer.offset, &mut bytes).unwrap();
        bytes
    }

    fn post(&self, args: &[u8]) -> Ticket {
        let claim = self.caller.claim().unwrap();
        let ticket = self.caller.post_inline(claim, Command::Set, args);
        self.raw.bells[self.vector].ring();
        ticket
    }

    fn done(&self, ticket: &Ticket) -> Option<(Status, Vec<u8>)> {
        match self.caller.look(ticket) {
            PollAnswer::Done(a) => {
                let status = Status::from_wire(a.status).expect("a known status");
                Some((status, a.inline[..a.len as usize].to_vec()))
            }
            PollAnswer::NotYet => None,
            other => panic!("{other:?}"),
        }
    }

    fn call(&self, args: &[u8]) -> (Status, Vec<u8>) {
        let ticket = self.post(args);
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(answer) = self.done(&ticket) {
                self.caller.take(ticket);
                return answer;
            }
            assert!(Instant::now() < until, "no answer");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// What the driver finds in a buffer, all of it summed up.
    fn sum(&self, buffer: Buffer) -> Result<u64, String> {
        let (status, bytes) = self.call(&args(Op::Sum, 0, buffer.handle, 0, buffer.bytes as u64));
        if status == Status::Ok {
            return Ok(number(&bytes));
        }
        assert_eq!(status, Status::DriverError);
        let (code, sentence) = bytes.split_at(4);
        assert_eq!(code, BAD_ARGS.to_le_bytes());
        Err(String::from_utf8(sentence.to_vec()).unwrap())
    }

    fn fill(&self, buffer: Buffer, value: u8) {
        let args = args(Op::Fill, value, buffer.handle, 0, buffer.bytes as u64);
        assert_eq!(self.call(&args).0, Status::Ok);
    }
}

/// A new channel to the function that misbehaves.
fn activate(raw: &mut Raw, session: u64) -> (u64, ChannelPlace) {
    let asked = negotiate("misbehave");
    let ack = raw.ask(Kind::Negotiate, session, asked.as_bytes()).unwrap();
    let grant = NegotiateAck::read_from_bytes(&ack).unwrap().grant.get();
    let ack = raw.ask(Kind::Activate, session, grant.as_bytes()).unwrap();
    (grant, ChannelPlace::read(&ack).unwrap().1)
}

#[test]
fn app_and_driver_see_what_the_other_writes_and_no_one_else_does() {
    let stand = Stand::start();
    stand.add_client("name = \"other\"\nkind = \"host\"\n").unwrap();
    let (mut app, beside, other) = (App::new(&stand), App::new(&stand), App::of(&stand, "other"));
    let buffer = app.try_get(0, 100_000, 1 << 16, 0).unwrap();
    assert_eq!((buffer.bytes, buffer.offset % (1 << 16)), (102_400, 0));
    assert!(app.read(buffer).iter().all(|b| *b == 0));
    app.raw.window.write(buffer.offset, &[3; 5000]).unwrap();
    assert_eq!(app.sum(buffer), Ok(15_000));
    app.fill(buffer, 9);
    assert!(app.read(buffer).iter().all(|b| *b == 9));
    // The same service serves another app of the client; another one serves another's.
    let pids: Vec<_> = stand.grants().iter().map(|g| (g.client.clone(), g.pid)).collect();
    assert_eq!(pids[0], pids[1], "one service for both apps");
    for stranger in [&beside, &other] {
        let why = stranger.sum(buffer).unwrap_err();
        assert!(why.starts_with("this app has no buffer"), "{why}");
    }
    // What lies outside is refused, and what was given back is found no more.
    let beyond = args(Op::Sum, 0, buffer.handle, 1, buffer.bytes as u64);
    assert_eq!(app.call(&beyond).0, Status::DriverError);
    let grants = stand.grants();
    let row = grants.iter().find(|g| g.buffers + g.session_buffers > 0).unwrap();
    assert_eq!((row.session_buffers, row.session_buffer_bytes), (1, 102_400));
    app.put(buffer).unwrap();
    stand.until("its service let go", |s| s.status().buffers == 0);
    app.sum(buffer).unwrap_err();
    assert_eq!(app.put(buffer).unwrap_err().code, NackCode::Stale);
}

#[test]
fn what_is_given_again_is_zero_and_aligned_up_to_two_mebibytes() {
    let stand = Stand::start();
    let mut app = App::new(&stand);
    let mut places = std::collections::BTreeMap::new();
    for round in 0..30 {
        let align = 4096 << (round % 10);
        let buffer = app.try_get(0, 8192, align, 0).unwrap();
        assert_eq!(buffer.offset as u64 % align, 0);
        assert!(app.read(buffer).iter().all(|b| *b == 0), "what another left is in it");
        assert_eq!(app.sum(buffer), Ok(0));
        app.fill(buffer, 7);
        app.put(buffer).unwrap();
        stand.until("its service let go", |s| s.status().buffers == 0);
        *places.entry(buffer.offset).or_insert(0) += 1;
    }
    assert!(places.values().any(|times| *times > 1), "some pages were given again");
    let why = app.try_get(0, 8192, 0, BUFFER_CONTIGUOUS).unwrap_err();
    assert_eq!(why.code, NackCode::BeyondLimit);
    assert!(
        why.sentence.contains("which has 4096") && why.sentence.contains("huge pages"),
        "{why}"
    );
    app.try_get(0, 4096, 2 << 20, BUFFER_CONTIGUOUS).unwrap();
}

#[test]
fn a_buffer_ends_with_its_grant_its_session_and_its_app() {
    let stand = Stand::start();
    let mut app = App::new(&stand);
    let (grant, session) = (app.grant, app.session);
    app.try_get(grant, 4096, 0, 0).unwrap();
    let own = app.get(4096);
    let row = &stand.grants()[0];
    assert_eq!((row.buffers, row.session_buffers), (1, 1));
    app.raw.ask(Kind::Release, session, grant.as_bytes()).unwrap();
    stand.until("the grant's is gone", |s| s.status().buffers == 1);
    // A channel that is opened later finds what is there.
    let (grant, place) = activate(&mut app.raw, session);
    let calls = Calls::of(&place).unwrap();
    let side = |off: u64| app.raw.window.part(off as usize, calls.side_bytes as usize).unwrap();
    let mem = WindowMemory::new(side(calls.dataout), side(calls.datain).reader()).unwrap();
    app.caller = Caller::new(mem, calls.depth, calls.cell_bytes);
    (app.grant, app.vector) = (grant, place.vector_out().into());
    assert_eq!(app.sum(own), Ok(0));
    app.raw.ask(Kind::Goodbye, session, &[0; 8]).unwrap();
    stand.until("the session's is gone", |s| s.status().buffers == 0);
    // An app that is gone without a word.
    let mut app = App::new(&stand);
    (0..5).for_each(|_| _ = app.get(4096));
    drop(app);
    stand.until("a dead app's are gone", |s| s.status().buffers == 0 && s.status().sessions == 0);
}

#[test]
fn pages_that_a_call_uses_are_nobody_elses_until_it_has_ended() {
    let stand = Stand::start();
    let mut app = App::new(&stand);
    let first = app.get(4096);
    let slow = app.post(&args(Op::SlowFill, 40, first.handle, 0, 4096));
    stand.until("its driver has it", |_| app.read(first)[0] == 1);
    app.put(first).unwrap();
    let next = app.get(4096);
    let free = app.read(next);
    if app.done(&slow).is_none() {
        assert_ne!(next.offset, first.offset, "its call writes there still");
    }
    stand.until("the call ended", |_| app.done(&slow).is_some());
    assert!(free.iter().all(|b| *b == 0) && app.read(next).iter().all(|b| *b == 0));
    stand.until("its service let go", |s| s.status().buffers == 1);
    assert_eq!(app.get(4096).offset, first.offset);
}

#[test]
fn buffers_outlive_managers_and_services() {
    let mut stand = Stand::start();
    let mut app = App::new(&stand);
    let buffer = app.get(8192);
    app.fill(buffer, 1);
    for round in 2..5 {
        stand.kill_vfund();
        assert_eq!(app.sum(buffer), Ok(8192 * (round - 1)), "without a manager, too");
        stand.start_vfund();
        // A service that dies is followed by one that has it.
        if round == 3 {
            assert_eq!(app.call(&[Mode::Crash as u8]).0, Status::DriverCrashed);
        }
        assert_eq!(app.sum(buffer), Ok(8192 * (round - 1)));
        app.fill(buffer, round as u8);
        let other = app.get(4096);
        assert!(other.offset >= buffer.offset + 8192 || other.offset + 4096 <= buffer.offset);
        assert_eq!(app.sum(other), Ok(0));
        app.put(other).unwrap();
    }
    // Replaced in place, as by an upgrade.
    let before = stand.status().generation;
    let pid = Pid::from_raw(stand.pid() as i32).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    stand.until(
        "another generation",
        |s| matches!(s.try_ask(&Ask::Status), Ok(Reply::Status(s)) if s.generation > before),
    );
    assert_eq!(app.sum(buffer), Ok(8192 * 4));
    app.put(buffer).unwrap();
    stand.until("it is gone", |s| s.status().buffers == 0);
    app.sum(buffer).unwrap_err();
}

#[test]
fn many_gets_and_puts_leave_nothing_and_a_quota_is_named() {
    let stand = Stand::start();
    let mut app = App::new(&stand);
    let used = stand.status().window_bytes_used;
    for i in 0..300 {
        let buffer = app.get(1 + i * 100);
        app.put(buffer).unwrap();
    }
    stand.until("all given back", |s| s.status().window_bytes_used == used);
    let policy = "[default]\nbuffer_bytes = \"64 KiB\"\n";
    stand.ask(&Ask::SetPolicy { text: policy.into(), file: "test.toml".into() });
    app.get(60 << 10);
    let why = app.try_get(0, 8192, 0, 0).unwrap_err();
    assert_eq!(why.code, NackCode::OverQuota);
    let says = ["61440 bytes", "buffer_bytes in [default]", "give one back"];
    says.iter().for_each(|s| assert!(why.sentence.contains(s), "{why} should say {s}"));
}
