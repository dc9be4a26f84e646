//! The thread that relays all ports of the process. It waits as a service's threads do
//! (`vfun_wait`): it spins for a while, asks every guest to ring, looks once more, and sleeps
//! until a guest rings, a device is readable, or it is told something.

use crate::limits::{BUFFER_BYTES, DEVICES_EVERY, NAP_FIRST, NAP_LAST};
use crate::port::RelayedPort;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;
use vfun_sdk::service::{RungWaiter, log_line};
use vfun_wait::{Policy, WaitHistory, WaitMode, WaitSteps, clock, wait};

/// What the thread is told.
pub(crate) enum Word {
    /// A port to relay.
    Came(Box<RelayedPort>),
    /// The channel of one to let go of.
    Ends(u64),
}

/// The thread's own.
pub(crate) struct Relay {
    /// By their channels' handles.
    ports: BTreeMap<u64, RelayedPort>,
    waiter: RungWaiter,
    words: Receiver<Word>,
    /// Nobody is left who could say anything.
    is_over: bool,
    /// Where each frame is for a moment: private memory, which no guest writes.
    buffer: Box<[u8]>,
    /// Handles of ports whose devices are readable; kept for its memory.
    readable: Vec<u64>,
    looks: u32,
    /// The last look found something.
    worked: bool,
    /// The next pause where a guest has no doorbell.
    nap: Duration,
}

impl Relay {
    pub fn new(waiter: RungWaiter, words: Receiver<Word>) -> Self {
        Relay {
            ports: BTreeMap::new(),
            waiter,
            words,
            is_over: false,
            buffer: vec![0; BUFFER_BYTES].into(),
            readable: vec![],
            looks: 0,
            worked: false,
            nap: NAP_FIRST,
        }
    }

    /// Relays until nobody is left who could say anything.
    pub fn run(mut self) {
        let (policy, learned) = (Policy::service(WaitMode::Hybrid), WaitHistory::default());
        loop {
            self.hear();
            if self.is_over {
                break;
            }
            if self.look(false).is_none() {
                wait(&policy, &learned, &mut self);
            }
        }
        self.ports.values().for_each(RelayedPort::end);
    }

    /// Does what it was told: whether it was told anything.
    fn hear(&mut self) -> bool {
        let mut any = false;
        loop {
            match self.words.try_recv() {
                Ok(Word::Came(port)) => self.came(*port),
                Ok(Word::Ends(channel)) => self.ends(channel),
                Err(TryRecvError::Empty) => return any,
                Err(TryRecvError::Disconnected) => {
                    self.is_over = true;
                    return true;
                }
            }
            any = true;
        }
    }

    fn came(&mut self, mut port: RelayedPort) {
        let handle = port.channel().handle();
        let added = self.waiter.add(port.channel());
        if let Err(e) = added.and_then(|()| self.waiter.listen(port.device(), handle)) {
            // It is let go of, which ends its channel.
            self.waiter.remove(port.channel());
            return log_line(format_args!(
                "channel {handle} cannot be relayed: its bell or its device cannot be waited \
                 for: {e}"
            ));
        }
        port.begin();
        self.ports.insert(handle, port);
    }

    fn ends(&mut self, channel: u64) {
        if let Some(port) = self.ports.remove(&channel) {
            port.end();
            self.waiter.deafen(port.device());
            self.waiter.remove(port.channel());
        }
    }

    /// Asks which devices are readable.
    fn look_at_devices(&mut self) {
        self.readable.clear();
        if self.waiter.readable(&mut self.readable).is_err() {
            // Nobody says which: each is tried.
            self.ports.values_mut().for_each(RelayedPort::readable);
        }
        for handle in &self.readable {
            if let Some(port) = self.ports.get_mut(handle) {
                port.readable();
            }
        }
    }

    /// One turn of each port: whether anything was there.
    fn turn(&mut self) -> bool {
        let mut any = false;
        for port in self.ports.values_mut() {
            let was_gone = port.is_gone();
            any |= port.turn(&mut self.buffer);
            // One that is gone is readable for ever, and would end every sleep.
            if port.is_gone() && !was_gone {
                self.waiter.deafen(port.device());
            }
        }
        any
    }
}

impl WaitSteps for Relay {
    /// Something was done.
    type Found = ();

    fn look(&mut self, hard: bool) -> Option<()> {
        self.looks = self.looks.wrapping_add(1);
        // Rings are looked at each time, and cost a load each; devices cost a system call.
        if hard || self.worked || self.looks.is_multiple_of(DEVICES_EVERY) {
            self.look_at_devices();
        }
        self.worked = self.turn();
        if self.worked {
            self.nap = NAP_FIRST;
        }
        self.worked.then_some(())
    }

    fn given_up(&mut self) -> Option<()> {
        self.hear().then_some(())
    }

    /// Guests are rung where frames are published.
    fn nudge(&mut self, _again: bool) {}

    fn declare(&mut self) {
        self.ports.values().for_each(RelayedPort::declare_sleep);
    }

    /// A guest rings once for what is declared: there is nothing to take back.
    fn awake(&mut self) {}

    fn doze(&mut self, limit: Option<u64>) {
        let mut limit = limit.map(Duration::from_nanos);
        if !self.waiter.all_ring() {
            limit = Some(limit.map_or(self.nap, |l| l.min(self.nap)));
            self.nap = (self.nap * 2).min(NAP_LAST);
        }
        if self.waiter.wait(limit).is_err() {
            std::thread::sleep(limit.map_or(NAP_LAST, |l| l.min(NAP_LAST)));
        }
    }

    fn give_way(&mut self) {
        std::thread::yield_now();
    }

    #[inline(always)]
    fn pause(&self) {
        vfun_window::pause();
    }

    #[inline]
    fn now(&self) -> u64 {
        clock::now()
    }
}
