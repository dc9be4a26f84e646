//! A buffer's life in this process. Its end puts private memory in its place first, as a
//! channel's does ([`crate::calls`]), so that nothing that is kept of it reaches the
//! next one that has its pages.

use crate::error::{Error, Result};
use crate::function::Active;
use crate::session::SessionInner;
use crate::transport::Window;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use vfun_window::{Process, WriteSpan};
use vfun_wire::message::{BufferPut, Kind};
use vfun_wire::nack::NackCode;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// How long a buffer that is dropped without [`crate::Buffer::close`] waits to be given back.
pub(super) const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a buffer is over.
#[derive(Clone, Copy)]
pub(crate) enum Over {
    /// Its session was closed, or it was given back itself.
    Closed,
    /// Its grant was released.
    Released,
    /// The window was laid out anew, or is gone.
    Renewed,
    /// The further window that it lies in is gone; the session goes on.
    Unplugged,
}

enum State {
    /// With what it is given back.
    Open(Arc<SessionInner>),
    Over(Over),
}

pub(crate) struct Inner {
    pub handle: u64,
    /// As asked for.
    pub bytes: usize,
    pub span: WriteSpan,
    window: Arc<Window>,
    /// It lies in a further window of the VM, which may be unplugged by itself.
    further: bool,
    /// Whose it is: a child of fork has none of it.
    of: Process,
    /// The function that it belongs to; none: the session's.
    function: Weak<Active>,
    /// That it is over, or about to be.
    ended: AtomicBool,
    state: Mutex<State>,
}

impl Inner {
    /// A buffer of the session, or of its function.
    pub fn new(
        (handle, bytes, span): (u64, usize, WriteSpan),
        window: &Arc<Window>,
        further: bool,
        session: &Arc<SessionInner>,
        function: Option<&Arc<Active>>,
    ) -> Arc<Self> {
        Arc::new(Inner {
            handle,
            bytes,
            span,
            window: window.clone(),
            further,
            of: Process::current(),
            function: function.map_or_else(Weak::new, Arc::downgrade),
            ended: AtomicBool::new(false),
            state: Mutex::new(State::Open(session.clone())),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts private memory in its place, once; what it would be given back with.
    pub fn end(&self, why: Over) -> Result<Option<Arc<SessionInner>>> {
        if !self.of.is_current() {
            return Err(Error::Forked);
        }
        let mut state = self.state();
        let State::Open(session) = &*state else { return Ok(None) };
        let session = session.clone();
        // Before the memory goes: a reader looks here after it has read.
        self.ended.store(true, Ordering::Release);
        if let Err(e) = self.span.cut_off(|_| ()) {
            self.ended.store(false, Ordering::Release);
            return Err(Error::Map(e));
        }
        *state = State::Over(why);
        Ok(Some(session))
    }

    /// Fails if it is over; finds that out, too.
    pub fn check(&self) -> Result<()> {
        if !self.of.is_current() {
            return Err(Error::Forked);
        }
        if !self.ended.load(Ordering::Acquire) {
            let released = || self.function.upgrade().is_some_and(|f| f.calls.is_released());
            let over = match self.window.is_stale() {
                true => Over::Renewed,
                false if released() => Over::Released,
                // No word of its own says so: the module is asked, at each look.
                false if self.further && self.window.transport.buffer_over(self.handle) => {
                    Over::Unplugged
                }
                false => return Ok(()),
            };
            self.end(over)?;
        }
        Err(match *self.state() {
            State::Over(Over::Released) => Error::Released,
            State::Over(Over::Renewed) => self.window.renewed(),
            State::Over(Over::Unplugged) => Error::NoWindow(
                "the window that this buffer lies in was taken out of this machine".into(),
            ),
            State::Over(Over::Closed) | State::Open(_) => Error::Closed,
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Where private memory does not come, the host has it back with the session.
        if let Ok(Some(session)) = self.end(Over::Closed) {
            // Best effort, likewise.
            let _ = put(&session, self.handle, DROP_TIMEOUT);
        }
    }
}

/// Gives a buffer back that this process has let go of.
pub(super) fn put(session: &SessionInner, buffer: u64, timeout: Duration) -> Result<()> {
    let body = BufferPut { buffer: U64::new(buffer) };
    match session.request(Kind::BufferPut, body.as_bytes(), timeout) {
        Ok(_) => Ok(()),
        // It went with its grant or its session.
        Err(Error::Closed | Error::Released) => Ok(()),
        Err(Error::Refused(n)) if matches!(n.code, NackCode::Stale | NackCode::BadHandle) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Buffers that end with something: a session, a function. No more are taken once it ends.
pub(crate) struct Adopted(Mutex<Option<Vec<Weak<Inner>>>>);

impl Default for Adopted {
    fn default() -> Self {
        Adopted(Mutex::new(Some(Vec::new())))
    }
}

impl Adopted {
    fn list(&self) -> MutexGuard<'_, Option<Vec<Weak<Inner>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a buffer; ends it at once if its owner has ended meanwhile.
    pub fn adopt(&self, buffer: &Arc<Inner>, why: Over) -> Result<()> {
        match &mut *self.list() {
            Some(all) => {
                all.retain(|b| b.strong_count() > 0);
                all.push(Arc::downgrade(buffer));
                return Ok(());
            }
            None => buffer.end(why)?,
        };
        buffer.check()
    }

    /// Ends them all, also where one of them cannot be.
    pub fn cut_off(&self, why: Over) -> Result<()> {
        let all = self.list().take().into_iter().flatten();
        all.filter_map(|b| b.upgrade()).map(|b| b.end(why).map(drop)).fold(Ok(()), Result::and)
    }
}
