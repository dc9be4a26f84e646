//! A buffer's life in this process. Its end puts private memory in its place first, as a
//! channel's does ([`crate::calls`]), so that nothing that is kept of it reaches the
//! next one that has its pages.

use super::{BufferFile, MemoryPlace, MemoryToMove, Unmovable};
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

/// How long a buffer that is dropped without [`crate::Buffer::close`], or that is found to be
/// over, waits to be given back.
pub(super) const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a buffer is over.
#[derive(Clone, Copy)]
pub(crate) enum Over {
    /// Its session was closed, or it was given back itself.
    Closed,
    /// Its grant was released.
    Released,
    /// The window was made again, or is gone.
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
    /// Bytes that the app asked for; the buffer's memory is whole pages.
    pub bytes: usize,
    pub span: WriteSpan,
    window: Arc<Window>,
    /// Where it lies in the control window; none: in a further window of the VM, which may be unplugged by itself.
    offset: Option<u64>,
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
        offset: Option<u64>,
        session: &Arc<SessionInner>,
        function: Option<&Arc<Active>>,
    ) -> Arc<Self> {
        Arc::new(Inner {
            handle,
            bytes,
            span,
            window: window.clone(),
            offset,
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

    /// Moves memory of this process into it.
    pub fn take_over(
        &self,
        offset: u64,
        memory: MemoryToMove,
    ) -> std::result::Result<MemoryPlace, Unmovable> {
        self.window.transport.take_over(self.handle, offset, memory)
    }

    /// Does something with its place in the window's file, while it cannot end.
    pub fn in_file<T>(
        &self,
        f: impl FnOnce(BufferFile<'_>) -> T,
    ) -> std::result::Result<T, Unmovable> {
        self.check().map_err(|_| Unmovable::BufferOver)?;
        // Held until `f` is done: who ends the buffer waits for it.
        let state = self.state();
        match (&*state, self.offset, self.window.transport.file()) {
            (State::Over(_), _, _) => Err(Unmovable::BufferOver),
            (State::Open(_), Some(begin), Some((file, kind))) => {
                Ok(f(BufferFile { file, begin, kind }))
            }
            (State::Open(_), _, _) => Err(Unmovable::NoFile),
        }
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
                false
                    if self.offset.is_none() && self.window.transport.buffer_over(self.handle) =>
                {
                    Over::Unplugged
                }
                false => return Ok(()),
            };
            let session = self.end(over)?;
            // What ends with its grant or session is given back with it. This goes on being
            // one of those that the kernel module keeps for this session.
            if let (Over::Unplugged, Some(session)) = (over, session) {
                // Best effort: the module has it back with the session.
                let _ = put(&session, self.handle, DROP_TIMEOUT);
            }
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
#[derive(Default)]
pub(crate) struct Adopted(Mutex<Those<Inner>>);

impl Adopted {
    fn those(&self) -> MutexGuard<'_, Those<Inner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a buffer; ends it at once if its owner has ended meanwhile.
    pub fn adopt(&self, buffer: &Arc<Inner>, why: Over) -> Result<()> {
        let mut those = self.those();
        those.all.retain(|b| b.strong_count() > 0);
        those.all.push(Arc::downgrade(buffer));
        if !those.over {
            return Ok(());
        }
        drop(those);
        buffer.end(why)?;
        buffer.check()
    }

    /// Ends them all, also where one of them cannot be. That one is ended by the next try.
    pub fn cut_off(&self, why: Over) -> Result<()> {
        let (held, done) = self.those().end(|b| b.end(why).map(drop));
        // The last one of a buffer gives it back, which may take a while.
        drop(held);
        done
    }
}

/// Buffers of one owner.
struct Those<T> {
    /// Whether the owner has ended, or tried to.
    over: bool,
    /// Those that may not have ended yet.
    all: Vec<Weak<T>>,
}

impl<T> Default for Those<T> {
    fn default() -> Self {
        Those { over: false, all: vec![] }
    }
}

impl<T> Those<T> {
    /// Ends them all, and keeps those that could not be ended. What was held
    /// meanwhile, to be dropped without a lock, and the first error.
    fn end(&mut self, end: impl Fn(&T) -> Result<()>) -> (Vec<Arc<T>>, Result<()>) {
        self.over = true;
        let held: Vec<Arc<T>> = self.all.drain(..).filter_map(|b| b.upgrade()).collect();
        let mut done = Ok(());
        for b in &held {
            let ended = end(b);
            if ended.is_err() {
                self.all.push(Arc::downgrade(b));
            }
            done = done.and(ended);
        }
        (held, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn what_could_not_be_ended_is_ended_by_the_next_try() {
        let all: Vec<Arc<AtomicU32>> = (0..3).map(|_| Arc::default()).collect();
        let mut those = Those { over: false, all: all.iter().map(Arc::downgrade).collect() };
        let room = AtomicBool::new(false);
        let end = |b: &AtomicU32| {
            if std::ptr::eq(b, &*all[1]) && !room.load(Ordering::Relaxed) {
                return Err(Error::Closed);
            }
            b.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let ended = || -> Vec<u32> { all.iter().map(|b| b.load(Ordering::Relaxed)).collect() };
        assert!(matches!(those.end(end).1, Err(Error::Closed)));
        assert_eq!((ended(), those.over), (vec![1, 0, 1], true), "the others ended");
        assert!(those.end(end).1.is_err(), "and it is not forgotten");
        room.store(true, Ordering::Relaxed);
        those.end(end).1.unwrap();
        assert_eq!(ended(), [1, 1, 1]);
        those.end(end).1.unwrap();
        assert_eq!(ended(), [1, 1, 1], "once");
    }
}
