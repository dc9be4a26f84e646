//! A context: a local node, the memories of all nodes, their engines, and the
//! thread that drives the local one.

use crate::edge::PoolMemory;
use crate::engine::{BusError, Engine, global};
use crate::flow::{self, Flow, step};
use crate::limits::{ASK_CYCLES, NODES};
use crate::options::{Options, check_pool};
use crate::registers::IRQ_ENABLE;
use crate::state::{Buffer, Done, End, Progress, Rest, State};
use crate::status::{BUSY, GdmaError};
use crate::worker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A lock whose holder panicked is as good as any: nothing is half done between
/// two lines that could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What callers and the thread share. Who takes several locks takes them in this
/// order: flow, state, engine.
pub(crate) struct Shared {
    pub flow: Mutex<Flow>,
    pub state: Mutex<State>,
    pub wake: Condvar,
    /// Counts what was started, so that the thread need not lock to look.
    pub posted: AtomicU64,
    /// Transfers are to end at once: nobody clocks the engine any more but who says so.
    pub aborted: AtomicBool,
    /// By node, from 0 for node 1.
    engines: Vec<Mutex<Engine>>,
    local: u32,
}

impl Shared {
    pub fn local_engine(&self) -> &Mutex<Engine> {
        &self.engines[self.local as usize - 1]
    }

    /// Something was started, or is to end.
    fn wake(&self, state: &mut State) {
        self.posted.fetch_add(1, Ordering::Release);
        self.wake_from(state, &[Rest::Asleep]);
    }

    /// Functions may be to be called.
    pub fn wake_for_calls(&self, state: &mut State) {
        if state.has_calls() {
            self.wake_from(state, &[Rest::Asleep, Rest::Away]);
        }
    }

    fn wake_from(&self, state: &mut State, rests: &[Rest]) {
        if rests.contains(&state.rest) {
            state.rest = Rest::None;
            self.wake.notify_one();
        }
    }

    /// Tells the engines of all nodes.
    fn all_engines(
        &self,
        mut tell: impl FnMut(&mut Engine) -> Result<(), BusError>,
    ) -> Result<(), GdmaError> {
        let told = self.engines.iter().try_for_each(|engine| tell(&mut lock(engine)));
        told.map_err(|_| GdmaError::Lost)
    }
}

/// An open library.
pub struct Context {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Context {
    /// A context with pools, engines and a thread of its own.
    pub fn new(options: &Options) -> Result<Self, GdmaError> {
        options.check()?;
        let pool = |_| PoolMemory::new(options.pool_bytes).map(Arc::new);
        let pools: Result<Vec<_>, _> = (0..NODES).map(pool).collect();
        let pools = pools.map_err(|_| GdmaError::Memory)?;
        let engine = |node| {
            let fault = if node == options.local { options.fault } else { 0 };
            let mut engine = Engine::new(node, fault).map_err(|_| GdmaError::Unsupported)?;
            for (n, memory) in (1..).zip(&pools) {
                engine.set_memory(n, memory.clone());
            }
            Ok(Mutex::new(engine))
        };
        let mut engines: Vec<_> = (1..=NODES).map(engine).collect::<Result<_, _>>()?;
        let mut state = State::new(options.local, pools);
        let local = engines[options.local as usize - 1].get_mut();
        let enabled = local.unwrap_or_else(PoisonError::into_inner).write(IRQ_ENABLE, 1);
        state.lost = enabled.is_err();
        let shared = Arc::new(Shared {
            flow: Mutex::default(),
            engines,
            state: Mutex::new(state),
            wake: Condvar::new(),
            posted: AtomicU64::new(0),
            aborted: AtomicBool::new(false),
            local: options.local,
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("gdma".into());
        let thread =
            thread.spawn(move || worker::work(&of_thread)).map_err(|_| GdmaError::Limit)?;
        Ok(Context { shared, thread: Mutex::new(Some(thread)) })
    }

    pub fn local(&self) -> u32 {
        self.shared.local
    }

    /// Bytes of the local node's pool.
    pub fn pool_bytes(&self) -> u64 {
        lock(&self.shared.state).pool(self.local()).bytes()
    }

    /// The local node's pool is this memory from now on.
    pub fn use_pool(&self, memory: PoolMemory) -> Result<(), GdmaError> {
        check_pool(memory.bytes())?;
        let memory = Arc::new(memory);
        let mut state = lock(&self.shared.state);
        state.use_pool(memory.clone())?;
        self.shared.all_engines(|engine| {
            engine.set_memory(self.local(), memory.clone());
            Ok(())
        })
    }

    /// A buffer in one piece in a node's pool, which all engines know.
    pub fn allocate(&self, node: u32, bytes: u64) -> Result<u32, GdmaError> {
        let mut state = lock(&self.shared.state);
        let id = state.allocate(node, bytes)?;
        let Buffer { offset, bytes, entry, .. } = *state.buffer(id)?;
        let length = u32::try_from(bytes).map_err(|_| GdmaError::Limit)?;
        let base = global(node, offset);
        let told = self.shared.all_engines(|engine| engine.open_window(entry, base, length));
        if told.is_err() {
            state.forget_buffer(id);
        }
        told.map(|()| id)
    }

    /// Gives a buffer back.
    pub fn free(&self, id: u32) -> Result<(), GdmaError> {
        let mut state = lock(&self.shared.state);
        let buffer = state.idle_buffer(id)?;
        // An engine that is gone moves nothing into it either.
        let lost = state.lost;
        let told = self.shared.all_engines(|engine| engine.close_window(buffer.entry));
        if told.is_ok() || lost {
            state.forget_buffer(id);
            return Ok(());
        }
        told
    }

    /// Where a buffer is.
    pub fn buffer(&self, id: u32) -> Result<Buffer, GdmaError> {
        lock(&self.shared.state).buffer(id).copied()
    }

    /// The memory of a node's pool.
    pub fn pool(&self, node: u32) -> Arc<PoolMemory> {
        lock(&self.shared.state).pool(node).clone()
    }

    /// Starts a transfer: its identifier. `done` is called by the context's thread.
    pub fn start(
        &self,
        to: End,
        from: End,
        bytes: u64,
        done: Option<Done>,
    ) -> Result<u32, GdmaError> {
        let mut state = lock(&self.shared.state);
        let id = state.start(to, from, bytes, done)?;
        self.shared.wake(&mut state);
        Ok(id)
    }

    /// How far a transfer is. While it is under way, the caller's processor steps
    /// the engine a little: who asks again and again waits for nobody else's.
    pub fn query(&self, id: u32) -> Result<Progress, GdmaError> {
        let before = lock(&self.shared.state).query(id)?;
        if before.status != BUSY || !step(&self.shared, ASK_CYCLES) {
            return Ok(before);
        }
        lock(&self.shared.state).query(id)
    }

    /// Forgets a transfer that has ended.
    pub fn release(&self, id: u32) -> Result<(), GdmaError> {
        lock(&self.shared.state).release(id)
    }

    /// Takes nothing more, and waits until what is under way has ended.
    pub fn close(&self) -> Result<(), GdmaError> {
        self.end(|_| ())
    }

    /// Takes nothing more, and ends what is under way. Nothing is moved any more when it returns.
    pub fn abort(&self) -> Result<(), GdmaError> {
        self.end(flow::abort)
    }

    fn end(&self, stop: fn(&Shared)) -> Result<(), GdmaError> {
        // Of any context: two functions that close each other's context would wait for ever.
        if worker::in_function() {
            return Err(GdmaError::Busy);
        }
        let Some(thread) = lock(&self.thread).take() else {
            return Err(GdmaError::Argument);
        };
        self.tell_to_close();
        stop(&self.shared);
        thread.join().map_err(|_| GdmaError::Lost)
    }

    fn tell_to_close(&self) {
        let mut state = lock(&self.shared.state);
        state.closing = true;
        self.shared.wake(&mut state);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Closed before, or, by a function that the thread calls, closed when that returns.
        if self.close().is_err() {
            self.tell_to_close();
        }
    }
}
