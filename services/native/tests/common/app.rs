//! An app with one channel in a window of its own.

use super::{PATIENCE, Shape};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use vfun_ring::{Answer, Caller, PollAnswer, Ticket, WindowMemory};
use vfun_supervise::Place;
use vfun_window::{Access, Bell, BellWaiter, Mapping, memfd, pause};
use vfun_wire::Status;
use vfun_wire::channel::{Command, side_bytes, spaces_off};
use vfun_wire::header::HEAP_OFF;
use vfun_wire::kind::Calls;
use vfun_wire::limits::INLINE_BYTES;

pub struct App {
    pub shape: Shape,
    pub window: OwnedFd,
    /// What the service is told of where the window begins in its file, and of its size.
    pub origin: u64,
    pub window_bytes: u64,
    pub place: Place,
    /// The one that rings the service, and the one that rings the app.
    pub bells: Option<(Bell, Bell)>,
    /// The number of the first one, where others share it; else 0.
    pub bell: u64,
    pub waiter: Option<BellWaiter>,
    pub caller: Caller<WindowMemory>,
}

impl App {
    /// Lays a channel out in a fresh window.
    pub fn new(shape: Shape) -> App {
        App::laid_out(shape, |bytes| memfd("window", bytes).unwrap())
    }

    /// The same in a window that is a file, which can be truncated.
    pub fn in_file(shape: Shape) -> App {
        App::laid_out(Shape { doorbell: false, ..shape }, |bytes| {
            let file = tempfile::tempfile_in("/dev/shm").unwrap();
            file.set_len(bytes).unwrap();
            file.into()
        })
    }

    fn laid_out(shape: Shape, window: impl FnOnce(u64) -> OwnedFd) -> App {
        let side = side_bytes(shape.depth, shape.cell_bytes).unwrap();
        // Something before and between, as in a real window.
        let dataout = HEAP_OFF as u64 + 8192;
        let datain = dataout + side + 4096;
        let (origin, window_bytes) = (0, datain + side);
        let window = window(window_bytes);
        let map = |off| {
            Mapping::new(&window, off, side as usize, Access::ReadWrite).unwrap().write().unwrap()
        };
        let mem = WindowMemory::new(map(dataout), map(datain).reader()).unwrap();
        let bells = shape.doorbell.then(|| (Bell::new().unwrap(), Bell::new().unwrap()));
        let waiter = bells.as_ref().map(|(_, app)| BellWaiter::new(app).unwrap());
        let caller = Caller::new(mem, shape.depth, shape.cell_bytes);
        let Shape { depth, cell_bytes, kind, .. } = shape;
        let calls = Calls { dataout, datain, side_bytes: side, depth, cell_bytes };
        let place = Place::of(&calls.place(kind, (1, 1)).unwrap());
        App { shape, window, origin, window_bytes, place, bells, bell: 0, waiter, caller }
    }

    fn space(&self, cell: usize) -> usize {
        spaces_off(self.shape.depth) + cell * self.shape.cell_bytes as usize
    }

    /// Posts a call, without ringing.
    pub fn post_quietly(&self, command: Command, args: &[u8]) -> Ticket {
        let claim = self.caller.claim().unwrap();
        if args.len() <= INLINE_BYTES {
            return self.caller.post_inline(claim, command, args);
        }
        self.caller.memory().mine().write(self.space(claim.cell()), args).unwrap();
        self.caller.post_space(claim, command, args.len() as u32)
    }

    /// Rings the service if it sleeps.
    pub fn ring(&self) {
        if let Some((service, _)) = &self.bells
            && self.caller.must_ring()
        {
            service.ring();
        }
    }

    pub fn post(&self, args: &[u8]) -> Ticket {
        let ticket = self.post_quietly(Command::Set, args);
        self.ring();
        ticket
    }

    /// The results of an answer, copied.
    pub fn results(&self, ticket: &Ticket, a: &Answer) -> Vec<u8> {
        let mut bytes = vec![0; a.len as usize];
        if a.in_space {
            self.caller.memory().theirs().read(self.space(ticket.cell()), &mut bytes).unwrap();
        } else {
            bytes.copy_from_slice(&a.inline[..a.len as usize]);
        }
        bytes
    }

    /// Looks for an answer for a while.
    pub fn answer_within(&self, ticket: &Ticket, limit: Duration) -> Option<(Status, Vec<u8>)> {
        let until = Instant::now() + limit;
        loop {
            for _ in 0..100 {
                match self.caller.look(ticket) {
                    PollAnswer::Done(a) => {
                        let status = Status::from_wire(a.status).expect("a known status");
                        return Some((status, self.results(ticket, &a)));
                    }
                    PollAnswer::NotYet => pause(),
                    other => panic!("{other:?}"),
                }
            }
            if Instant::now() > until {
                return None;
            }
            std::thread::yield_now();
        }
    }

    pub fn finish(&self, ticket: Ticket) -> (Status, Vec<u8>) {
        let answer = self.answer_within(&ticket, PATIENCE).expect("no answer");
        self.caller.take(ticket);
        answer
    }

    /// One call.
    pub fn call(&self, args: &[u8]) -> (Status, Vec<u8>) {
        self.finish(self.post(args))
    }

    /// One call that must succeed.
    pub fn ok(&self, args: &[u8]) -> Vec<u8> {
        let (status, results) = self.call(args);
        assert_eq!(status, Status::Ok, "{:?}", String::from_utf8_lossy(&results));
        results
    }

    pub fn rst(&self) -> (Status, Vec<u8>) {
        let ticket = self.post_quietly(Command::Rst, &[]);
        self.ring();
        self.finish(ticket)
    }
}
