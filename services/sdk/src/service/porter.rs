//! Many channels share one bell (a window has eight), and each ring of it wakes
//! everybody who waits on it. So whoever has waited for long goes to rest: its own
//! thread no longer listens to the shared bell but to one of its own, and the
//! porter, one thread of the service, listens for all of these. At a ring it looks
//! at their lines and wakes those that have something to serve. A ring so wakes the
//! porter and those who were busy lately, however many channels there are.
//!
//! No ring is lost, because somebody listens at each moment: the porter listens before
//! a thread ceases to, and the thread looks once more after that; a thread listens
//! again before the porter lets go of it, and a bell that is listened to anew counts
//! as one that has just rung.
//!
//! Nothing here makes a decision on what the app wrote: a line that says nonsense
//! wakes its own channel, whose thread checks it.

use rustix::event::epoll::{self, EventData, EventFlags};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Result;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vfun_ring::{WindowMemory, is_posted};
use vfun_window::{Bell, BellWaiter};

/// Channels that share a bell from which on those without calls go to rest. Below it
/// a ring wakes few anyway, and to be woken by the porter takes some microseconds more.
const CROWD: usize = 4;
/// How long a channel has had no call when it goes to rest: what is called more often
/// listens by itself.
const REST_AFTER: Duration = Duration::from_millis(200);
/// Where a channel's waiter has the shared bell.
pub(super) const SHARED: usize = 0;
/// Stack of the porter's thread, which calls nothing deep.
const PORTER_STACK: usize = 64 << 10;
/// What the porter's own bell is called.
const END: u64 = 0;

/// The porter of a service. Its thread begins with the first channel that goes to rest,
/// and ends with this.
pub struct Porter(Arc<Lodge>);

/// What the porter shares with the channels' threads.
struct Lodge {
    epoll: OwnedFd,
    bells: Mutex<Bells>,
    end: Bell,
    ended: AtomicBool,
    /// Threads that it woke.
    woken: AtomicU64,
    rest_after: Duration,
}

#[derive(Default)]
struct Bells {
    /// By the number that the manager gave them.
    of: BTreeMap<u64, Sharers>,
    /// The thread runs.
    staffed: bool,
}

/// Who shares a bell.
#[derive(Default)]
struct Sharers {
    channels: usize,
    resting: BTreeMap<u64, Resting>,
    /// What the porter listens to, while anybody rests.
    listened: Option<Bell>,
}

/// What the porter has of a channel that rests.
#[derive(Clone)]
pub struct Resting {
    pub memory: WindowMemory,
    pub depth: u16,
    /// The channel's own bell, the only one that its thread listens to.
    pub wake: Bell,
}

impl Porter {
    pub fn new() -> Result<Self> {
        Self::with(REST_AFTER)
    }

    fn with(rest_after: Duration) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let end = Bell::new()?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN | EventFlags::ET)?;
        Ok(Porter(Arc::new(Lodge {
            epoll,
            bells: Mutex::default(),
            end,
            ended: AtomicBool::new(false),
            woken: AtomicU64::new(0),
            rest_after,
        })))
    }

    /// A channel's place to wait for the `shared` bell, of this number, which is not 0.
    pub fn porch(&self, number: u64, channel: u64, shared: &Bell, rests: Resting) -> Porch {
        self.0.lock().of.entry(number).or_default().channels += 1;
        Porch {
            lodge: self.0.clone(),
            number,
            channel,
            shared: shared.clone(),
            rests,
            resting: Cell::new(false),
        }
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.end.ring();
    }
}

impl Lodge {
    fn lock(&self) -> MutexGuard<'_, Bells> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The porter's thread.
    fn serve(&self) {
        let mut events = [std::mem::MaybeUninit::uninit(); 16];
        while !self.ended.load(Ordering::SeqCst) {
            let rang: Vec<u64> = match epoll::wait(&self.epoll, &mut events[..], None) {
                Ok((got, _)) => got.iter().map(|e| e.data.u64()).collect(),
                Err(rustix::io::Errno::INTR) => continue,
                // Then nobody may rely on it.
                Err(_) => return self.close(),
            };
            let bells = self.lock();
            for sharers in rang.iter().filter_map(|number| bells.of.get(number)) {
                self.wake_busy(sharers);
            }
        }
    }

    fn wake_busy(&self, sharers: &Sharers) {
        for channel in sharers.resting.values() {
            if is_posted(&channel.memory, channel.depth) {
                channel.wake.ring();
                self.woken.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Wakes all, who then find that nobody listens for them.
    fn close(&self) {
        self.ended.store(true, Ordering::SeqCst);
        for sharers in self.lock().of.values() {
            sharers.resting.values().for_each(|channel| channel.wake.ring());
        }
    }
}

/// Where one channel's thread waits.
pub struct Porch {
    lodge: Arc<Lodge>,
    number: u64,
    channel: u64,
    shared: Bell,
    rests: Resting,
    resting: Cell<bool>,
}

impl Porch {
    /// Waits until a bell rings or `limit` has passed; it may end early. Look after it.
    pub fn wait(&self, waiter: &BellWaiter, limit: Option<Duration>) -> Result<()> {
        if self.resting.get() {
            if limit.is_none() {
                waiter.wait(None)?;
                return self.listen(waiter);
            }
            self.listen(waiter)?;
        }
        if limit.is_some() || !self.is_crowded() {
            return waiter.wait(limit).map(drop);
        }
        if waiter.wait(Some(self.lodge.rest_after))? {
            return Ok(());
        }
        match self.go_to_rest(waiter) {
            // To look once more.
            Ok(()) => Ok(()),
            Err(_) => waiter.wait(None).map(drop),
        }
    }

    fn is_crowded(&self) -> bool {
        let bells = self.lodge.lock();
        bells.of.get(&self.number).is_some_and(|s| s.channels > CROWD)
    }

    /// The porter listens from now on, and this thread no longer.
    fn go_to_rest(&self, waiter: &BellWaiter) -> Result<()> {
        let mut bells = self.lodge.lock();
        if self.lodge.ended.load(Ordering::SeqCst) {
            return Err(std::io::ErrorKind::NotConnected.into());
        }
        if !bells.staffed {
            let lodge = self.lodge.clone();
            std::thread::Builder::new()
                .name("porter".into())
                .stack_size(PORTER_STACK)
                .spawn(move || lodge.serve())?;
            bells.staffed = true;
        }
        let sharers = bells.of.entry(self.number).or_default();
        if sharers.listened.is_none() {
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&self.lodge.epoll, &self.shared, EventData::new_u64(self.number), flags)?;
            sharers.listened = Some(self.shared.clone());
        }
        sharers.resting.insert(self.channel, self.rests.clone());
        self.resting.set(true);
        drop(bells);
        // Where this fails it is merely woken too often.
        let _ = waiter.deafen(SHARED);
        Ok(())
    }

    /// This thread listens by itself again, and then the porter no longer has to.
    fn listen(&self, waiter: &BellWaiter) -> Result<()> {
        match waiter.listen(SHARED) {
            // It never ceased to.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        self.leave();
        Ok(())
    }

    fn leave(&self) {
        if !self.resting.replace(false) {
            return;
        }
        let mut bells = self.lodge.lock();
        let Some(sharers) = bells.of.get_mut(&self.number) else { return };
        sharers.resting.remove(&self.channel);
        if sharers.resting.is_empty()
            && let Some(bell) = sharers.listened.take()
        {
            let _ = epoll::delete(&self.lodge.epoll, &bell);
        }
    }
}

impl Drop for Porch {
    fn drop(&mut self) {
        self.leave();
        let mut bells = self.lodge.lock();
        if let Some(sharers) = bells.of.get_mut(&self.number) {
            sharers.channels -= 1;
            if sharers.channels == 0 {
                bells.of.remove(&self.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use vfun_ring::{Caller, Looked, Memory, Next, Server};
    use vfun_window::{Access, Mapping, memfd};
    use vfun_wire::Status;
    use vfun_wire::channel::{Command, in_header, side_bytes};

    const DEPTH: u16 = 4;
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Both sides of a channel.
    fn channel() -> (WindowMemory, WindowMemory) {
        let side = side_bytes(DEPTH, 0).unwrap() as usize;
        let fd = memfd("channel", 2 * side as u64).unwrap();
        let map = |off| Mapping::new(&fd, off, side, Access::ReadWrite).unwrap().write().unwrap();
        let (out, inn) = (map(0), map(side as u64));
        let app = WindowMemory::new(out.clone(), inn.reader()).unwrap();
        (app, WindowMemory::new(inn, out.reader()).unwrap())
    }

    /// A channel's thread, in the order of the sleeping rules.
    fn serve(memory: WindowMemory, porch: &Porch, waiter: &BellWaiter, ended: &AtomicBool) {
        let mut server = Server::new(memory, DEPTH, 0);
        while !ended.load(Ordering::SeqCst) {
            server.declare_sleep();
            let mut next = server.next_anywhere();
            if next == Next::Nothing {
                porch.wait(waiter, None).unwrap();
            }
            server.declare_awake();
            while let Next::Call(r) = next {
                server.answer_inline(r.cell, Status::Ok, &[]);
                next = server.next_anywhere();
            }
        }
    }

    fn call(caller: &Caller<WindowMemory>, shared: &Bell) {
        let claim = caller.claim().unwrap();
        let ticket = caller.post_inline(claim, Command::Set, &[]);
        if caller.must_ring() {
            shared.ring();
        }
        let start = Instant::now();
        while caller.look(&ticket) == Looked::NotYet {
            assert!(start.elapsed() < PATIENCE, "nobody woke the channel");
            std::thread::yield_now();
        }
        caller.take(ticket);
    }

    fn rests(memory: &WindowMemory) -> Resting {
        Resting { memory: memory.clone(), depth: DEPTH, wake: Bell::new().unwrap() }
    }

    /// Everybody goes to rest after each call, so that each has to be woken.
    #[test]
    fn every_call_wakes_its_channel_and_few_others() {
        const CHANNELS: usize = 3 * CROWD;
        const CALLS: usize = 150;
        let (porter, shared, ended) =
            (Porter::with(Duration::ZERO).unwrap(), Bell::new().unwrap(), AtomicBool::new(false));
        let channels: Vec<_> = (0..CHANNELS).map(|_| channel()).collect();
        let bells: Vec<_> = channels.iter().map(|(_, service)| rests(service)).collect();
        std::thread::scope(|scope| {
            for (number, rests) in bells.iter().enumerate() {
                let porch = porter.porch(1, number as u64, &shared, rests.clone());
                let waiter = BellWaiter::any(&[&shared, &rests.wake]).unwrap();
                let ended = &ended;
                scope.spawn(move || serve(rests.memory.clone(), &porch, &waiter, ended));
            }
            let callers: Vec<_> = channels
                .iter()
                .map(|(app, _)| {
                    let caller = Caller::new(app.clone(), DEPTH, 0);
                    let shared = &shared;
                    scope.spawn(move || {
                        for turn in 0..CALLS {
                            call(&caller, shared);
                            if turn % 8 == 0 {
                                std::thread::sleep(Duration::from_micros(300));
                            }
                        }
                    })
                })
                .collect();
            let done: Vec<_> = callers.into_iter().map(|c| c.join()).collect();
            ended.store(true, Ordering::SeqCst);
            bells.iter().for_each(|b| b.wake.ring());
            shared.ring();
            done.into_iter().for_each(|d| d.unwrap());
        });
        let woken = porter.0.woken.load(Ordering::Relaxed) as usize;
        assert!(woken > 0, "nobody rested");
        // With a ring for everybody it would be calls times channels. Some are seen twice.
        assert!(woken <= 3 * CALLS * CHANNELS, "{woken}");
        assert!(porter.0.lock().of.is_empty(), "all have left");
    }

    #[test]
    fn few_channels_do_not_go_to_rest() {
        let (porter, shared) = (Porter::with(Duration::ZERO).unwrap(), Bell::new().unwrap());
        let rests = rests(&channel().1);
        let porches: Vec<_> =
            (0..=CROWD as u64).map(|n| porter.porch(7, n, &shared, rests.clone())).collect();
        let waiter = BellWaiter::any(&[&shared, &rests.wake]).unwrap();
        let wait = |porch: &Porch| {
            rests.wake.ring();
            porch.wait(&waiter, None).unwrap();
            porch.resting.get()
        };
        // The ring itself ends the first wait; with none it goes to rest.
        assert!(!wait(&porches[0]));
        porches[0].wait(&waiter, None).unwrap();
        assert!(porches[0].resting.get() && porter.0.lock().staffed);
        assert!(!wait(&porches[0]), "woken, it listens by itself");
        drop(porches);
        let alone = porter.porch(7, 0, &shared, rests.clone());
        assert!(waiter.wait(Some(Duration::ZERO)).is_ok());
        assert!(!wait(&alone) && !wait(&alone));
    }

    #[test]
    fn what_is_posted_is_seen_and_what_is_answered_or_held_is_not() {
        let (app, service) = channel();
        let posted = || is_posted(&service, DEPTH);
        let (caller, mut server) =
            (Caller::new(app, DEPTH, 0), Server::new(service.clone(), DEPTH, 0));
        assert!(!posted());
        let ticket = caller.post_inline(caller.claim().unwrap(), Command::Set, &[]);
        assert!(posted());
        let Next::Call(r) = server.next() else { panic!("it was posted") };
        server.hold(r.cell, true);
        assert!(!posted(), "it is held open");
        let second = caller.post_inline(caller.claim().unwrap(), Command::Set, &[]);
        assert!(posted());
        server.answer_inline(r.cell, Status::Ok, &[]);
        let Next::Call(s) = server.next_anywhere() else { panic!("it was posted") };
        server.answer_inline(s.cell, Status::Ok, &[]);
        assert!(!posted());
        caller.take(ticket);
        caller.take(second);
        assert_eq!(service.load_own(in_header::SLEEPS, Ordering::Relaxed), 0);
    }
}
