//! One connection to the service of an API.

use crate::connect::{Description, channel_of_events, channel_of_queues, connect, say_different};
use crate::events::{self, Handlers};
use crate::failure::Failure;
use crate::known::Known;
use crate::lane::{CELL_PAUSE, Lane};
use crate::say;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use vfun::{
    Error, Function, MemoryPlace, MemoryToMove, PageTable, Queues, Results, Session, Unmovable,
};
use vfun_remoting::{AnswerHead, CallHead, HEAD_BYTES, Reader, Refusal, Writer, numbers};
use vfun_window::Process;

/// A connection. It can be lost; its session is closed then, as soon as the program has no memory
/// of it, so that a service that dies often does not use up the sessions of its client.
pub struct Link {
    pub(crate) api: Description,
    pub(crate) function: Function,
    /// What the host knows this connection by.
    token: [u64; 2],
    /// Kept open as long as the function: until the connection is lost and nothing is lent.
    session: Mutex<Option<Session>>,
    /// Buffers that the program has of it.
    lent: AtomicU32,
    /// Its number in this process, from 1.
    pub(crate) number: u32,
    process: Process,
    lost: AtomicBool,
    /// Something was collected or is under way in the lane.
    busy: AtomicBool,
    lane: Mutex<Lane>,
    /// Whether the thread of events could be begun.
    events: OnceLock<bool>,
    /// It has ended: there is nothing more to hear.
    heard_all: AtomicBool,
    crossings: AtomicU64,
    known: Known,
    pub(crate) next: OnceLock<&'static Link>,
}

thread_local! {
    /// A call and its answer, of this thread.
    static BYTES: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Runs with this thread's bytes. A thread that ends has none any more: a program may call from
/// what it registered with `atexit`.
#[inline]
fn with_bytes<T>(run: impl FnOnce(&mut (Vec<u8>, Vec<u8>)) -> T) -> T {
    let mut run = Some(run);
    let mut take = || run.take().expect("run once");
    match BYTES.try_with(|bytes| take()(&mut bytes.borrow_mut())) {
        Ok(done) => done,
        Err(_) => take()(&mut Default::default()),
    }
}

/// The channel of a connection's events.
pub(crate) struct Ear {
    function: Function,
    /// If it is in one of its own.
    _session: Option<Session>,
    answer: Vec<u8>,
}

impl Ear {
    /// Makes a call, which may wait for ever. The body of its answer.
    pub fn ask(
        &mut self,
        number: u16,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Reader<'_>, Failure> {
        let mut call = Vec::with_capacity(HEAD_BYTES + 16);
        write(&mut Writer::call(&mut call, CallHead { sequence: 0, call: number }));
        let answer = &mut self.answer;
        let done = self.function.call_with(&call, |results| copy(results, answer));
        done.and_then(|copied| copied).map_err(|e| Failure::from(&e))?;
        let (head, body) = AnswerHead::split(&self.answer)?;
        match head.refusal {
            Some(refusal) => Err(refusal.into()),
            None => Ok(Reader::new(body)),
        }
    }
}

/// The body of an answer.
pub type Answer<'a> = Reader<'a>;

/// Copies results out once; nothing is read where the host can still write.
pub(crate) fn copy(results: Results<'_>, to: &mut Vec<u8>) -> Result<(), Error> {
    to.resize(results.len(), 0);
    results.read(0, to)
}

impl Link {
    pub(crate) fn open(api: &Description, number: u32) -> Result<Link, Failure> {
        let (session, function) = connect(api)?;
        let mut link = Link {
            api: *api,
            function,
            token: [0; 2],
            session: Mutex::new(Some(session)),
            lent: AtomicU32::new(0),
            number,
            process: Process::current(),
            lost: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            lane: Mutex::default(),
            events: OnceLock::new(),
            heard_all: AtomicBool::new(false),
            crossings: AtomicU64::new(0),
            known: Known::default(),
            next: OnceLock::new(),
        };
        let hello = |r: &mut Answer<'_>| Ok((r.u64()?, [r.u64()?, r.u64()?]));
        let greeted = link.direct(numbers::HELLO, |w| w.u64(api.fingerprint), hello);
        if greeted == Err(Failure::Internal) {
            say_different(api);
        }
        link.token = greeted?.1;
        Ok(link)
    }

    /// A channel of its own for events: a thread that sleeps in the other one would make each
    /// answer there ring.
    pub(crate) fn ear(&self) -> Result<Ear, Failure> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = session.as_ref().ok_or(Failure::Lost)?;
        let opened = channel_of_events(session, &self.api).map_err(|_| Failure::Limit)?;
        let mut ear = Ear { function: opened.1, _session: opened.0, answer: vec![] };
        ear.ask(numbers::HELLO, |w| w.u64(self.api.fingerprint))?;
        ear.ask(numbers::LISTEN, |w| self.token.into_iter().for_each(|half| w.u64(half)))?;
        Ok(ear)
    }

    /// A channel of queues to the same service: so many pages that the program writes, and that
    /// the service writes. An error says why the host does not grant it.
    pub fn queues(&self, pages: (u32, u32)) -> Result<Queues, Error> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = session.as_ref().ok_or(Error::Released)?;
        channel_of_queues(session, &self.api, pages)
    }

    /// Where memory of the program is ([`Session::find_memory`]).
    pub fn find_memory(&self, memory: MemoryToMove) -> Result<MemoryPlace, Unmovable> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().ok_or(Unmovable::BufferOver)?.find_memory(memory)
    }

    /// Where pages of the program are named ([`Session::find_pages`]).
    pub fn find_pages(&self, memory: MemoryToMove) -> Result<MemoryPlace, Unmovable> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().ok_or(Unmovable::BufferOver)?.find_pages(memory)
    }

    /// A table of so many pages. An error says why there is none.
    pub fn page_table(&self, places: usize) -> Result<PageTable, Error> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().ok_or(Error::Released)?.page_table(places)
    }

    /// Whether it can still be used: not lost, and of this process.
    #[inline]
    pub fn is_alive(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && self.process.is_current()
    }

    /// Whether it was opened in this process, and not before a fork.
    pub fn is_here(&self) -> bool {
        self.process.is_current()
    }

    /// Its number in this process: an object keeps that of its own.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How often a call went to the host.
    pub fn crossings(&self) -> u64 {
        self.crossings.load(Ordering::Relaxed)
    }

    fn lane(&self) -> MutexGuard<'_, Lane> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a failure that ends the connection.
    pub(crate) fn noted<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        if matches!(result, Err(Failure::Lost | Failure::Internal)) {
            self.lost.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Why a call was not made, for the API's status; people are told what that has no word for.
    #[cold]
    pub(crate) fn refused(&self, refusal: Refusal) -> Failure {
        static SAID: Once = Once::new();
        if refusal == Refusal::Budget {
            say::once(&SAID, || vec![format!("'{}': {refusal}", self.api.name)]);
        }
        refusal.into()
    }

    /// It can be used no longer: its service knows nothing of it.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// The program has one buffer more of it.
    pub(crate) fn lends(&self) {
        self.lent.fetch_add(1, Ordering::AcqRel);
    }

    /// Buffers that the program has of it.
    pub(crate) fn lent(&self) -> u32 {
        self.lent.load(Ordering::Acquire)
    }

    /// It has one less.
    pub(crate) fn lends_no_more(&self) {
        self.lent.fetch_sub(1, Ordering::AcqRel);
        self.close_if_over();
    }

    /// Closes the session of a connection that is lost and of which the program has no memory.
    pub(crate) fn close_if_over(&self) {
        let lost = self.lost.load(Ordering::Acquire) && self.process.is_current();
        if lost && self.lent.load(Ordering::Acquire) == 0 {
            let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Best effort: the host closes it with the process.
            let _ = session.map(Session::close);
        }
    }

    /// A call went to the host.
    pub(crate) fn crossed(&self) {
        self.crossings.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until nothing is collected or under way.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        while self.busy.load(Ordering::Acquire) && !self.settle()? {
            self.flush()?;
            std::thread::sleep(CELL_PAUSE);
        }
        Ok(())
    }

    /// Ends the connection: the host frees all objects, and its session is closed.
    pub(crate) fn end(&self) {
        if self.is_alive() {
            // Best effort: the host does it as well when the session is gone.
            let _ = self.call(numbers::END, |_| (), |_| Ok(()));
        }
        self.lose();
        self.close_if_over();
    }

    /// Makes a call and waits for its answer. What was collected before goes first.
    #[inline]
    pub fn call<T>(
        &self,
        number: u16,
        write: impl FnOnce(&mut Writer<'_>),
        read: impl FnOnce(&mut Answer<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.busy.load(Ordering::Acquire) && !self.settle()? {
            return self.behind(number, write, read);
        }
        self.direct(number, write, read)
    }

    /// As [`Link::call`], for an answer that never changes: the host is asked once. `keep` says
    /// whether an answer is to be kept.
    pub fn cached<T>(
        &self,
        number: u16,
        write: impl Fn(&mut Writer<'_>),
        read: impl Fn(&mut Answer<'_>) -> Result<T, Failure>,
        keep: impl FnOnce(&T) -> bool,
    ) -> Result<T, Failure> {
        if !self.is_alive() {
            return Err(Failure::Lost);
        }
        let known = with_bytes(|(call, _)| {
            write(&mut Writer::call(call, CallHead { sequence: 0, call: number }));
            self.known.look(call, |body| read(&mut Reader::new(body)))
        });
        if let Some(answer) = known {
            return answer;
        }
        let (mut call, mut body) = (vec![], vec![]);
        write(&mut Writer::call(&mut call, CallHead { sequence: 0, call: number }));
        let made = self.call(number, write, |answer| {
            body.extend_from_slice(answer.rest());
            read(answer)
        })?;
        if keep(&made) {
            self.known.put(call, body);
        }
        Ok(made)
    }

    /// A call that stands in no order.
    #[inline]
    fn direct<T>(
        &self,
        number: u16,
        write: impl FnOnce(&mut Writer<'_>),
        read: impl FnOnce(&mut Answer<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.crossings.fetch_add(1, Ordering::Relaxed);
        let made = with_bytes(|(call, answer)| {
            write(&mut Writer::call(call, CallHead { sequence: 0, call: number }));
            let done = self.function.call_with(call, |results| copy(results, answer));
            done.and_then(|copied| copied).map_err(|e| Failure::from(&e))?;
            let (head, body) = AnswerHead::split(answer)?;
            match head.refusal {
                Some(refusal) => Err(self.refused(refusal)),
                None => read(&mut Reader::new(body)),
            }
        });
        self.noted(made)
    }

    /// Takes the answers that are there; whether nothing is collected or under way.
    fn settle(&self) -> Result<bool, Failure> {
        let mut lane = self.lane();
        let reaped = lane.reap();
        let clear = lane.is_clear();
        if clear {
            self.busy.store(false, Ordering::Release);
        }
        drop(lane);
        self.noted(reaped.map(|()| clear))
    }

    /// A call behind those that were collected, in one cell with them.
    #[cold]
    fn behind<T>(
        &self,
        number: u16,
        write: impl FnOnce(&mut Writer<'_>),
        read: impl FnOnce(&mut Answer<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.crossings.fetch_add(1, Ordering::Relaxed);
        let sent = self.lane().send_with(&self.function, number, write);
        let mut answer = vec![];
        let made = sent.and_then(|sent| {
            let done = sent.call.append_to(&mut answer).map_err(|e| Failure::from(&e));
            if sent.carries {
                self.lane().landed();
            }
            done?;
            let (head, body) = AnswerHead::split(&answer)?;
            self.lane().note(head);
            match head.refusal {
                Some(refusal) => Err(self.refused(refusal)),
                None => read(&mut Reader::new(body)),
            }
        });
        self.noted(made)
    }

    /// Begins a call and does not wait for its answer. `now`: it is sent at once; otherwise it is
    /// collected, and goes before the next call that waits.
    pub fn post(
        &self,
        number: u16,
        now: bool,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), Failure> {
        if !self.is_alive() {
            return Err(Failure::Lost);
        }
        let mut lane = self.lane();
        self.busy.store(true, Ordering::Release);
        let sent = self.post_to(&mut lane, number, now, write);
        drop(lane);
        self.noted(sent)
    }

    fn post_to(
        &self,
        lane: &mut Lane,
        number: u16,
        now: bool,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), Failure> {
        lane.reap()?;
        if lane.collect(&self.function, number, write)? || now {
            self.crossings.fetch_add(1, Ordering::Relaxed);
            lane.flush(&self.function)?;
        }
        Ok(())
    }

    /// Sends what was collected.
    pub fn flush(&self) -> Result<(), Failure> {
        if !self.busy.load(Ordering::Acquire) {
            return Ok(());
        }
        let sent = self.lane().flush(&self.function);
        self.noted(sent)
    }

    /// The first failure of a call that did not wait: a status of the API's own. Once.
    pub fn take_failed(&self) -> Option<u32> {
        self.lane().take_failed()
    }

    /// An open call: its answer may never come. Waits for a free cell, as other calls do.
    pub(crate) fn open_call(
        &self,
        number: u16,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<vfun::OwnedPending, Failure> {
        let mut call = Vec::with_capacity(HEAD_BYTES + 8);
        write(&mut Writer::call(&mut call, CallHead { sequence: 0, call: number }));
        while self.is_alive() {
            match self.function.submit_parts(&[&call[..]]) {
                // Some may be those of answers that nobody took yet.
                Err(Error::Full { .. }) => self.settle().map(|_| std::thread::sleep(CELL_PAUSE))?,
                posted => return posted.map_err(|e| Failure::from(&e)),
            }
        }
        Err(Failure::Lost)
    }

    /// Begins to hear of events, with a thread of its own; once.
    pub fn listen(&'static self, handlers: Handlers) -> Result<(), Failure> {
        let begun = self.events.get_or_init(|| events::begin(self, handlers));
        begun.then_some(()).ok_or(Failure::Limit)
    }

    /// Whether events may still be heard, or the loss of the connection: not in a child of fork,
    /// which does not have the thread.
    pub fn may_hear(&self) -> bool {
        self.process.is_current()
            && self.events.get() == Some(&true)
            && !self.heard_all.load(Ordering::Acquire)
    }

    pub(crate) fn no_more_events(&self) {
        self.heard_all.store(true, Ordering::Release);
    }
}
