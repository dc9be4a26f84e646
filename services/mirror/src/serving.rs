//! The thread that serves all channels of queues of the process.

use crate::limits::{ROUNDS_IN_VAIN, WITHOUT_BELL};
use crate::mirrored::Mirrored;
use crate::request::{Pair, PairRequest};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use vfun_sdk::DriverError;
use vfun_sdk::service::{QueuesChannel, RungWaiter};

/// What the thread is told.
pub(crate) enum Word {
    /// A channel to serve.
    Came(Box<QueuesChannel>),
    /// One to let go of.
    Ends(u64),
    /// A call asks for a pair of queues.
    Asked(PairRequest, Sender<Result<Pair, DriverError>>),
}

/// The thread's own.
pub(crate) struct Serving {
    channels: BTreeMap<u64, Mirrored>,
    waiter: RungWaiter,
    words: Receiver<Word>,
}

impl Serving {
    pub fn new(waiter: RungWaiter, words: Receiver<Word>) -> Self {
        Serving { channels: BTreeMap::new(), waiter, words }
    }

    /// Serves until nobody is left who could say anything.
    pub fn run(mut self) {
        let mut in_vain = 0;
        while self.hear() {
            if self.turn() {
                in_vain = 0;
            } else if in_vain < ROUNDS_IN_VAIN && !self.channels.is_empty() {
                in_vain += 1;
                vfun_window::pause();
            } else {
                self.sleep();
                in_vain = 0;
            }
        }
    }

    /// Does what it was told; false if nothing will come any more.
    fn hear(&mut self) -> bool {
        loop {
            match self.words.try_recv() {
                Ok(Word::Came(channel)) => self.came(*channel),
                Ok(Word::Ends(channel)) => self.ends(channel),
                // Who asked may have given up.
                Ok(Word::Asked(request, reply)) => drop(reply.send(self.asked(&request))),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn came(&mut self, channel: QueuesChannel) {
        // A channel that cannot be listened to is let go of, which ends it.
        if self.waiter.add(&channel).is_ok() {
            self.channels.insert(channel.handle(), Mirrored::new(channel));
        }
    }

    fn ends(&mut self, channel: u64) {
        if let Some(mirrored) = self.channels.remove(&channel) {
            self.waiter.remove(&mirrored.channel);
        }
    }

    fn asked(&mut self, request: &PairRequest) -> Result<Pair, DriverError> {
        let named = |m: &&mut Mirrored| m.channel.is_named(request.channel, request.token);
        let found = self.channels.get_mut(&request.channel);
        let mirrored = found.filter(named).ok_or_else(|| {
            DriverError::bad_args("no channel of queues has this handle and this token")
        })?;
        mirrored.add(request)
    }

    fn turn(&mut self) -> bool {
        let mut any = false;
        for channel in self.channels.values_mut() {
            any |= channel.turn();
        }
        any
    }

    /// Says that it sleeps, looks once more, and sleeps (R-SLP-1).
    fn sleep(&mut self) {
        self.channels.values().for_each(Mirrored::declare_sleep);
        if !self.turn() {
            let limit = (!self.waiter.all_ring()).then_some(WITHOUT_BELL);
            if self.waiter.wait(limit).is_err() {
                std::thread::sleep(WITHOUT_BELL);
            }
        }
        self.channels.values().for_each(Mirrored::declare_awake);
    }
}
