//! One channel with both of its sides in this program: the client's function, and a
//! service's loop that is stepped.

use crate::fake::{Fake, Setup};
use crate::trap;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vfun::{Function, FunctionRequest, Session};
use vfun_ring::WindowMemory;
use vfun_sdk::loader::Library;
use vfun_sdk::service::Stepped;
use vfun_window::{Access, Mapping};
use vfun_wire::PAGE;
use vfun_wire::kind::Calls;

pub struct Channel {
    pub function: Function,
    service: Rc<RefCell<Stepped<Library>>>,
    /// Where the client looks for answers.
    answers: usize,
    _session: Session,
    _fake: Fake,
}

/// Where this program has mapped the window from `off` on for reading alone.
fn mapped(off: u64) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    let found = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (range, access, at) = (words.next()?, words.next()?, words.next()?);
        let ours = line.contains("memfd:window") && access == "r--s";
        let here = u64::from_str_radix(at, 16).ok()? == off;
        let start = usize::from_str_radix(range.split('-').next()?, 16).ok()?;
        (ours && here).then_some(start)
    });
    found.expect("the client has mapped its answers")
}

impl Channel {
    /// A channel of `echo`, as its library computes it.
    pub fn open(library: &Path, depth: u16, cell_bytes: u32) -> Channel {
        let fake = Fake::new(Setup::default());
        fake.host.idle_services.store(true, Ordering::SeqCst);
        let session = fake.connect();
        let request = FunctionRequest::new("echo").depth(depth).cell_bytes(cell_bytes);
        let function = session.negotiate(&request).and_then(|g| g.activate()).expect("a channel");
        let place = fake.host.places.lock().unwrap()[0].1;
        let at = Calls::of(&place).expect("a channel of calls");
        let (out, inn) = (at.dataout, at.datain);
        let answers = mapped(inn) + PAGE;
        let side = at.side_bytes as usize;
        let map = |off, access| Mapping::new(&fake.host.fd, off, side, access).expect("mapped");
        let mine = map(inn, Access::ReadWrite).write().expect("for writing");
        let memory = WindowMemory::new(mine, map(out, Access::Read).read()).expect("its shape");
        let library = Library::open(library).expect("echo's library");
        let service = Stepped::open(&library, memory, depth, cell_bytes).expect("served");
        let service = Rc::new(RefCell::new(service));
        Channel { function, service, answers, _session: session, _fake: fake }
    }

    /// Serves one call.
    pub fn serve(&self) {
        serve(&mut self.service.borrow_mut());
    }

    /// The next call that waits is served when it first looks for its answer.
    pub fn serve_at_first_look(&self) {
        let service = self.service.clone();
        trap::set(move || serve(&mut service.borrow_mut()));
        trap::arm(self.answers);
    }
}

/// What is counted of the service.
#[inline(never)]
fn serve(service: &mut Stepped<Library>) {
    if !service.turn() {
        panic!("the service has ended");
    }
}
