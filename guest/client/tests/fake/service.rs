//! The service's thread: echoes, or does what arguments that begin with `!` say.

use super::Host;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfun_ring::{Next, Request, Server, WindowMemory};
use vfun_window::BellWaiter;
use vfun_wire::Status;
use vfun_wire::channel::{Command, line_off, spaces_off};
use vfun_wire::kind::{Calls, ChannelKind};
use vfun_wire::place::ChannelPlace;

pub fn run(host: &Host, place: &ChannelPlace, factorial: bool, end: &AtomicBool) {
    let stopped = || host.stopped() || end.load(Ordering::Relaxed);
    let calls = Calls::of(place).unwrap();
    let part = |off: u64| host.window.part(off as usize, calls.side_bytes as usize).unwrap();
    let (out, inn) = (part(calls.dataout), part(calls.datain));
    let memory = WindowMemory::new(inn, out.reader()).unwrap();
    if place.kind() == ChannelKind::Floor {
        return floor(&stopped, &memory, calls.depth.into());
    }
    let mut server = Server::new(memory, calls.depth, calls.cell_bytes);
    let waiter = BellWaiter::new(&host.to_host[usize::from(place.vector_out())]).unwrap();
    let mut state = Service { host, place, calls, factorial, kept: 0, held: vec![] };
    let mut idle = 0u32;
    while !stopped() {
        if host.let_go.load(Ordering::SeqCst) && !state.held.is_empty() {
            state.answer_held(&mut server);
        }
        if host.idle_services.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        match server.next() {
            Next::Call(r) => {
                idle = 0;
                state.serve(&mut server, r);
                continue;
            }
            Next::Broken(_) => return,
            Next::Nothing => idle += 1,
        }
        if idle < 2_000 {
            vfun_window::pause();
        } else if idle < 4_000 || !host.setup.doorbell {
            std::thread::yield_now();
        } else {
            server.declare_sleep();
            let found = server.next_anywhere();
            if found == Next::Nothing {
                // So long that a call which rings no bell is seen to be late.
                let look = Duration::from_millis(if idle == 4_000 { 1 } else { 1_000 });
                waiter.wait(Some(look)).unwrap();
            }
            server.declare_awake();
            if let Next::Call(r) = found {
                idle = 0;
                state.serve(&mut server, r);
            } else if let Next::Call(r) = server.next_anywhere() {
                idle = 0;
                state.serve(&mut server, r);
            }
        }
    }
}

struct Service<'a> {
    host: &'a Host,
    place: &'a ChannelPlace,
    calls: Calls,
    factorial: bool,
    /// What `rst` clears.
    kept: u64,
    /// Open calls.
    held: Vec<usize>,
}

impl Service<'_> {
    fn serve(&mut self, s: &mut Server<WindowMemory>, r: Request) {
        let space = spaces_off(self.calls.depth) + r.cell * self.calls.cell_bytes as usize;
        let mut args = r.inline[..(r.len as usize).min(48)].to_vec();
        if r.in_space {
            args = vec![0; r.len as usize];
            s.memory().theirs().read(space, &mut args).unwrap();
        }
        s.begin(r.cell, r.seq);
        let done = match r.command {
            Command::Rst => {
                self.kept = 0;
                Some((Status::Ok, vec![]))
            }
            Command::Set => self.function(s, r.cell, args),
        };
        s.idle();
        if let Some((status, results)) = done {
            self.answer(s, r.cell, status, &results);
        }
    }

    fn answer(&self, s: &mut Server<WindowMemory>, cell: usize, status: Status, results: &[u8]) {
        if results.len() <= 48 {
            s.answer_inline(cell, status, results);
        } else {
            let space = spaces_off(self.calls.depth) + cell * self.calls.cell_bytes as usize;
            s.memory().mine().write(space, results).unwrap();
            s.answer_space(cell, status, results.len() as u32);
        }
        if s.must_ring() {
            s.about_to_ring();
            self.host.to_app[usize::from(self.place.vector_in())].ring();
        }
    }

    fn answer_held(&mut self, s: &mut Server<WindowMemory>) {
        for cell in std::mem::take(&mut self.held) {
            self.answer(s, cell, Status::Ok, b"event");
        }
    }

    fn function(
        &mut self,
        s: &mut Server<WindowMemory>,
        cell: usize,
        args: Vec<u8>,
    ) -> Option<(Status, Vec<u8>)> {
        let words = |n: u32, text: &str| [&n.to_le_bytes()[..], text.as_bytes()].concat();
        let ok = |results: Vec<u8>| Some((Status::Ok, results));
        if self.factorial {
            let n = u64::from_le_bytes(args[..8].try_into().unwrap());
            return ok((1..=n).fold(1u64, u64::wrapping_mul).to_le_bytes().to_vec());
        }
        match args.as_slice() {
            b"!driver" => Some((Status::DriverError, words(7, "n is too large: at most 20"))),
            b"!bad-args" => Some((Status::DriverError, words(-3i32 as u32, "no such level"))),
            b"!driver-long" => Some((Status::DriverError, words(8, &"x".repeat(100)))),
            b"!crash" => Some((Status::DriverCrashed, vec![])),
            b"!deadline" => Some((Status::Deadline, vec![])),
            b"!lost" => Some((Status::ServiceLost, vec![])),
            b"!released" => Some((Status::Released, vec![])),
            // Sums the words of a buffer, and fills it with the sum.
            [b'!', b's', b'u', b'm', handle @ ..] => {
                let handle = u64::from_le_bytes(handle.try_into().unwrap());
                let buffers = self.host.buffers.lock().unwrap();
                let Some((_, _, r)) = buffers.iter().find(|b| b.0 == handle) else {
                    return Some((Status::DriverError, words(9, "no such buffer")));
                };
                let at = r.offset.get() as usize / 8..(r.offset.get() + r.bytes.get()) as usize / 8;
                let load = |w| self.host.window.load(w, Ordering::Relaxed);
                let sum = at.clone().fold(0u64, |sum, w| sum.wrapping_add(load(w)));
                at.for_each(|w| self.host.window.store(w, sum, Ordering::Relaxed));
                ok(sum.to_le_bytes().to_vec())
            }
            b"!hold" => {
                self.held.push(cell);
                None
            }
            b"!let-go" => {
                self.answer_held(s);
                ok(vec![])
            }
            b"!count" => {
                self.kept += 1;
                ok(self.kept.to_le_bytes().to_vec())
            }
            _ => {
                if let Some(ms) = args.strip_prefix(b"!sleep ") {
                    let ms = std::str::from_utf8(ms).unwrap().parse().unwrap();
                    std::thread::sleep(Duration::from_millis(ms));
                }
                ok(args)
            }
        }
    }
}

/// Answers each line's first word with itself.
fn floor(stopped: &dyn Fn() -> bool, memory: &WindowMemory, depth: usize) {
    while !stopped() {
        for i in 0..depth {
            let at = line_off(i) / 8;
            let v = memory.theirs().load(at, Ordering::Acquire);
            memory.mine().store(at, v, Ordering::Release);
        }
        std::thread::yield_now();
    }
}
