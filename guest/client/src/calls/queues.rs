//! A channel of queues, the app's side: two arenas, and how its threads sleep and are woken.

use super::end::ChannelSides;
use super::life::ServiceLife;
use super::open::GrantedChannel;
use crate::error::{Error, Result};
use crate::random;
use crate::transport::{BellPlace, Bells, DoorbellWaiter, Links, Window};
use crate::wait::{Sleeper, WaitPolicy, wait_long};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use vfun_ring::{Memory, WindowMemory, broken};
use vfun_wait::WaitHistory;
use vfun_window::Bell;
use vfun_wire::queues::{host_head, program_head};
use vfun_wire::status::BreakReason;

/// The two sides of a channel of queues. Threads share it.
pub(crate) struct QueueSides {
    memory: WindowMemory,
    token: [u64; 2],
    window: Arc<Window>,
    place: BellPlace,
    bells: Bells,
    policy: WaitPolicy,
    learned: WaitHistory,
    life: ServiceLife,
    waiters: Mutex<Vec<Box<dyn DoorbellWaiter>>>,
    /// What rings for programs that wait by a descriptor, once one did.
    bell: OnceLock<Option<Bell>>,
    /// Whether the memory is this process's own, or about to be.
    ended: AtomicBool,
    cut: Mutex<bool>,
}

impl QueueSides {
    /// Takes an activated channel up, and gives it its token, if it has one.
    pub fn open(
        window: Arc<Window>,
        placed: &GrantedChannel,
        policy: &WaitPolicy,
        doorbell: bool,
    ) -> Result<Self> {
        let memory = placed.queue_sides(&window)?;
        let bells = Bells { ring: window.bells.ring, rung: window.bells.rung && doorbell };
        // A channel of packets has none (R-PRT-4).
        let token = match placed.has_token() {
            true => [random::token(), random::token()],
            false => [0; 2],
        };
        for (word, half) in [program_head::TOKEN0, program_head::TOKEN1].into_iter().zip(token) {
            memory.store(word, half, Ordering::Release);
        }
        let policy = policy.clone();
        Ok(QueueSides {
            memory,
            token,
            window,
            place: placed.bells(),
            bells,
            policy: if bells.rung { policy } else { policy.without_doorbell() },
            learned: WaitHistory::default(),
            life: ServiceLife::default(),
            waiters: Mutex::new(Vec::new()),
            bell: OnceLock::new(),
            ended: AtomicBool::new(false),
            cut: Mutex::new(false),
        })
    }

    /// Both sides: `mine` is the program's, `theirs` the host's.
    pub fn memory(&self) -> &WindowMemory {
        &self.memory
    }

    pub fn token(&self) -> [u64; 2] {
        self.token
    }

    /// Direct links of the port that this channel is of; `None`: there are none here.
    pub fn links(&self) -> Option<&dyn Links> {
        self.window.transport.links()
    }

    /// Lets go of the channel's memory, as [`super::RawLines::cut_off`] does.
    pub fn cut_off(&self) -> Result<()> {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        if !*cut {
            self.ended.store(true, Ordering::Release);
            ChannelSides { memory: &self.memory, depth: 0, cell_bytes: 0 }.cut_off(&[], &[])?;
            *cut = true;
        }
        Ok(())
    }

    /// Whether the queues are served still; else why not. Lets go of a channel that the
    /// host released, as it may give its memory to others.
    pub fn check(&self) -> Result<()> {
        if self.ended.load(Ordering::Acquire) {
            return Err(Error::Released);
        }
        if let Some(reason) = broken(&self.memory) {
            if reason == BreakReason::Released {
                self.cut_off()?;
            }
            return Err(Error::of_break(reason));
        }
        self.window.check_generation()?;
        self.life.check(&self.memory, || self.window.manager_gone()).map_or(Ok(()), Err)
    }

    /// Rings the service, if anything can ring it. What was stored before is seen by it.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.bells.ring && !self.ended.load(Ordering::Acquire) {
            self.window.transport.ring(self.place);
        }
    }

    /// Rings the service if it has said that it sleeps (R-SLP-2): whether it had.
    pub fn ring_sleeper(&self) -> bool {
        fence(Ordering::SeqCst);
        let sleeps = self.memory.load(host_head::SLEEPS, Ordering::Relaxed) != 0;
        if sleeps {
            self.ring();
        }
        sleeps
    }

    /// Says that one more thread sleeps, and fences (R-SLP-1).
    pub fn declare_sleep(&self) {
        self.memory.add_own(program_head::SLEEPERS, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Takes that back.
    pub fn declare_awake(&self) {
        self.memory.sub_own(program_head::SLEEPERS, 1, Ordering::SeqCst);
    }

    /// A place for one thread to sleep; `None` without a doorbell.
    pub fn waiter(&self) -> Option<Box<dyn DoorbellWaiter>> {
        if !self.bells.rung {
            return None;
        }
        let kept = self.waiters.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.or_else(|| self.window.transport.waiter(self.place)?.ok())
    }

    /// Gives such a place back.
    pub fn keep(&self, waiter: Box<dyn DoorbellWaiter>) {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).push(waiter);
    }

    /// What rings when the host rings, for who waits by a descriptor; `None`: nothing does.
    pub fn bell(&self) -> Option<Bell> {
        let made = || self.window.transport.bell(self.place)?.ok();
        self.bells.rung.then(|| self.bell.get_or_init(made).clone()).flatten()
    }

    /// Waits by `sleeper` until a look finds something; `None`: the limit passed.
    pub fn wait<T>(
        &self,
        sleeper: &impl Sleeper,
        limit: Option<Duration>,
        look: impl FnMut(bool) -> Option<T>,
    ) -> Option<T> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        wait_long(&self.policy, &self.learned, sleeper, false, until, look)
    }
}

impl Sleeper for QueueSides {
    fn nudge(&self) {
        self.ring_sleeper();
    }

    fn declare(&self) -> Option<Box<dyn DoorbellWaiter>> {
        // Before declaring: a ring must find it there.
        let waiter = self.waiter()?;
        self.declare_sleep();
        Some(waiter)
    }

    fn awake(&self, waiter: Box<dyn DoorbellWaiter>) {
        self.declare_awake();
        self.keep(waiter);
    }
}
