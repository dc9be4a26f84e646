//! The open calls of a channel, between a driver's threads and the channel's
//! own, which alone publishes answers.

use super::Answerer;
use crate::buffer::{BufferRefused, LendBuffers, Pins};
use crate::{DriverError, abi};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most answers that wait for the channel's thread. A channel has at most 1024
/// cells; more than twice that are answers to handles of calls that were answered
/// otherwise. Beyond it no handle is given until the thread has looked.
const WAITING_MAX: usize = 2048;

/// What an open call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitsFor {
    /// Its own work, which was begun: its deadline goes on, and it is never begun
    /// a second time.
    Begun,
    /// An event; nothing was done for it: no deadline, and another service may
    /// begin it.
    Event,
}

/// Which of a channel's open calls: for what, and in the order of their handles.
pub type Key = (WaitsFor, u64);

/// An answer: results, or an error.
pub type Answer = Result<Vec<u8>, DriverError>;

/// One call's place between its driver and its channel.
#[derive(Debug)]
struct OpenPlace {
    key: Key,
    /// During which call it was taken, as [`OpenCalls::of_channel`] counts.
    during: u64,
    /// Whether an answer can still reach the caller.
    open: AtomicBool,
}

#[derive(Default)]
struct Inner {
    handles: u64,
    /// The handle that was taken last, until its call is known to be held.
    taken: Option<Arc<OpenPlace>>,
    answers: Vec<(Key, Answer)>,
}

/// What drivers are shown of it comes first.
#[repr(C)]
struct Shared {
    table: abi::DriverService,
    inner: Mutex<Inner>,
    given: Condvar,
    /// Answers are there that the channel's thread has not published.
    news: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
    /// How often a call began or ended.
    calls: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Buffers of the channel's app.
    lend: Box<dyn LendBuffers>,
}

/// A handle: what drivers see of it comes first.
#[repr(C)]
struct Handle {
    seen: abi::OpenCall,
    shared: Arc<Shared>,
    place: Arc<OpenPlace>,
    /// Buffers that the call may use until it is answered.
    _pins: Option<Pins>,
}

const TABLE: abi::DriverService = abi::DriverService { later, answer, is_open, buffer, pages };

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn as_service(self: &Arc<Self>) -> *const abi::DriverService {
        Arc::as_ptr(self).cast()
    }

    fn handle(self: &Arc<Self>, hold: WaitsFor) -> Option<NonNull<abi::OpenCall>> {
        let mut inner = self.lock();
        if inner.answers.len() >= WAITING_MAX {
            return None;
        }
        inner.handles += 1;
        let (key, during) = ((hold, inner.handles), (self.calls)());
        let place = Arc::new(OpenPlace { key, during, open: AtomicBool::new(true) });
        if let Some(before) = inner.taken.replace(place.clone()) {
            before.open.store(false, Ordering::Relaxed);
        }
        let seen = abi::OpenCall { service: self.as_service() };
        let _pins = self.lend.pins();
        let handle = Box::new(Handle { seen, shared: self.clone(), place, _pins });
        NonNull::new(Box::into_raw(handle).cast())
    }

    /// Takes an answer in; false if its call has ended.
    fn give(&self, place: &OpenPlace, answer: Answer) -> bool {
        {
            let mut inner = self.lock();
            if !place.open.swap(false, Ordering::Relaxed) {
                return false;
            }
            inner.answers.push((place.key, answer));
            self.news.store(true, Ordering::SeqCst);
        }
        self.given.notify_one();
        (self.wake)();
        true
    }
}

/// # Safety
/// `service` is the table of a living [`OpenCalls`].
unsafe extern "C" fn later(service: *const abi::DriverService, flags: u32) -> *mut abi::OpenCall {
    let hold = match flags {
        0 => WaitsFor::Begun,
        abi::LATER_EVENT => WaitsFor::Event,
        _ => return std::ptr::null_mut(),
    };
    let shared = service.cast::<Shared>();
    // SAFETY: as promised, `shared` is what an Arc of a living OpenCalls points to.
    let shared = unsafe {
        Arc::increment_strong_count(shared);
        Arc::from_raw(shared)
    };
    shared.handle(hold).map_or(std::ptr::null_mut(), NonNull::as_ptr)
}

/// # Safety
/// `call` is a handle that was not answered; `bytes` has `len` readable bytes, or
/// `len` is 0.
unsafe extern "C" fn answer(
    call: *mut abi::OpenCall,
    code: c_int,
    bytes: *const c_void,
    len: u64,
) -> c_int {
    // SAFETY: `handle` made this box, and this is its last use.
    let handle = unsafe { Box::from_raw(call.cast::<Handle>()) };
    let bytes = match len {
        0 => &[][..],
        // SAFETY: as promised.
        _ => unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len as usize) },
    };
    let answer = match code {
        abi::OK => Ok(bytes.to_vec()),
        _ => Err(DriverError { code, sentence: String::from_utf8_lossy(bytes).into_owned() }),
    };
    if handle.shared.give(&handle.place, answer) { abi::ANSWERED } else { abi::CANCELLED }
}

/// # Safety
/// `call` is a handle that was not answered.
unsafe extern "C" fn is_open(call: *const abi::OpenCall) -> c_int {
    // SAFETY: `handle` made this box, and it lives until it is answered.
    let handle = unsafe { &*call.cast::<Handle>() };
    handle.place.open.load(Ordering::Relaxed).into()
}

/// # Safety
/// `service` is the table of a living [`OpenCalls`]; there is room at `bytes` and `len`.
unsafe extern "C" fn buffer(
    service: *const abi::DriverService,
    handle: u64,
    bytes: *mut *mut c_void,
    len: *mut u64,
) -> c_int {
    // SAFETY: as promised, it is what an Arc of a living OpenCalls points to.
    let shared = unsafe { &*service.cast::<Shared>() };
    match shared.lend.lend(handle) {
        Ok((ptr, n)) => {
            // SAFETY: as promised, there is room for both.
            unsafe {
                *bytes = ptr.cast();
                *len = n as u64;
            }
            abi::OK
        }
        Err(BufferRefused::Unknown) => abi::BAD_ARGS,
        Err(BufferRefused::Unmapped) => abi::PANIC,
    }
}

/// # Safety
/// `service` is the table of a living [`OpenCalls`]; there is room at `place`.
unsafe extern "C" fn pages(
    service: *const abi::DriverService,
    handle: u64,
    place: *mut abi::PagesPlace,
) -> c_int {
    // SAFETY: as promised, it is what an Arc of a living OpenCalls points to.
    let shared = unsafe { &*service.cast::<Shared>() };
    match shared.lend.lend_pages(handle) {
        Ok(found) => {
            // SAFETY: as promised, there is room.
            unsafe { *place = found };
            abi::OK
        }
        Err(BufferRefused::Unknown) => abi::BAD_ARGS,
        Err(BufferRefused::Unmapped) => abi::PANIC,
    }
}

/// The open calls of one channel, and the buffers that its calls may name. A service makes one for each channel and hands
/// it to the engine; a driver's own tests make one for
/// [`Out::private_later`](crate::Out::private_later).
#[derive(Clone)]
pub struct OpenCalls {
    shared: Arc<Shared>,
}

/// A call that is held: what its channel keeps of it.
#[derive(Debug)]
pub struct HeldCall {
    place: Arc<OpenPlace>,
}

impl HeldCall {
    pub fn key(&self) -> Key {
        self.place.key
    }

    /// An answer that is given from now on is refused. One that was accepted before is
    /// among [`OpenCalls::answers`], if they are taken after this.
    pub fn refuse(&self) {
        self.place.open.store(false, Ordering::Relaxed);
    }
}

impl Drop for HeldCall {
    /// Nobody waits for its answer any more.
    fn drop(&mut self) {
        self.refuse();
    }
}

impl OpenCalls {
    /// `wake` is called after each answer, on the thread that gave it. For who holds
    /// each call that takes a handle. Its calls find no buffer.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        OpenCalls::of_channel(wake, || 0, ())
    }

    /// Of a channel on which calls may take handles and be answered at once, with the
    /// buffers of its app: `calls` is how often one began or ended. It must be cheap,
    /// and safe on any thread.
    pub(crate) fn of_channel(
        wake: impl Fn() + Send + Sync + 'static,
        calls: impl Fn() -> u64 + Send + Sync + 'static,
        lend: impl LendBuffers + 'static,
    ) -> Self {
        let shared = Shared {
            table: TABLE,
            inner: Mutex::default(),
            given: Condvar::new(),
            news: AtomicBool::new(false),
            wake: Box::new(wake),
            calls: Box::new(calls),
            lend: Box::new(lend),
        };
        OpenCalls { shared: Arc::new(shared) }
    }

    /// A handle of the call under way, for an engine that is no C driver. `None`
    /// where too many answers wait.
    pub fn later(&self, hold: WaitsFor) -> Option<Answerer> {
        // SAFETY: it was made for this one alone.
        self.shared.handle(hold).map(|call| unsafe { Answerer::from_raw(call) })
    }

    /// What C drivers are shown; good as long as this.
    pub fn service(&self) -> *const abi::DriverService {
        self.shared.as_service()
    }

    /// The call that ended last, which is `during` as it was counted inside of it, is to
    /// be held: by the handle that was taken last. `None` if it took none: one that is
    /// left over from a call before is no call's any more.
    pub fn hold(&self, during: u64) -> Option<HeldCall> {
        let held = self.shared.lock().taken.take().map(|place| HeldCall { place });
        held.filter(|held| held.place.during == during)
    }

    /// Whether answers are there.
    #[inline]
    pub fn has_answers(&self) -> bool {
        self.shared.news.load(Ordering::SeqCst)
    }

    /// The answers so far. Some may be of calls that are not held.
    pub fn answers(&self) -> Vec<(Key, Answer)> {
        let mut inner = self.shared.lock();
        self.shared.news.store(false, Ordering::SeqCst);
        std::mem::take(&mut inner.answers)
    }

    /// Waits until an answer is there, for at most so long.
    pub fn wait(&self, limit: Duration) {
        let inner = self.shared.lock();
        if inner.answers.is_empty() {
            drop(self.shared.given.wait_timeout(inner, limit));
        }
    }
}
