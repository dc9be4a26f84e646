//! The engine: channels of packets for the thread.

use crate::counted::CountedPort;
use crate::port::RelayedPort;
use crate::relay::{Relay, Word};
use crate::tally::Shown;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::{Engine, Port, QueuesChannel, QueuesCounts, QueuesHeld, RungWaiter, Serve};
use vfun_sdk::{CallOutcome, Config, DriverError, abi};
use vfun_supervise::CHANNEL_THREAD;
use vfun_window::Bell;

/// A way to tell the thread, which wakes it. The thread ends after the last one.
#[derive(Clone)]
struct Teller {
    /// Dropped before `waker`, which lets the thread see that.
    words: Sender<Word>,
    waker: Waker,
}

/// Wakes the thread, also when it is dropped.
#[derive(Clone)]
struct Waker(Bell);

impl Teller {
    fn tell(&self, word: Word) -> Result<(), DriverError> {
        let gone = |_| DriverError::new(abi::PANIC, "the thread that relays ports is gone");
        self.words.send(word).map_err(gone)?;
        self.waker.0.ring();
        Ok(())
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// The function's engine. Any thread may open channels in it; one thread of its own relays
/// all of them, and ends after the engine and its channels.
pub struct Ports(Mutex<Teller>);

impl Ports {
    /// Starts its thread.
    ///
    /// # Errors
    /// A sentence: the system gives no thread or no descriptor.
    pub fn new() -> Result<Self, String> {
        vfun_wait::clock::start();
        let waiter = RungWaiter::new().map_err(|e| format!("no descriptor to wait by: {e}"))?;
        let (words, heard) = channel();
        let teller = Teller { words, waker: Waker(waiter.waker()) };
        let relay = Relay::new(waiter, heard);
        // The manager knows threads that serve by their name.
        std::thread::Builder::new()
            .name(format!("{CHANNEL_THREAD}ports"))
            .spawn(move || relay.run())
            .map_err(|e| format!("no thread to relay ports: {e}"))?;
        Ok(Ports(Mutex::new(teller)))
    }

    fn teller(&self) -> Teller {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Engine for Ports {
    type Instance = NoCalls;

    fn max_args(&self) -> u32 {
        0
    }

    fn max_result(&self) -> u32 {
        0
    }

    fn open(&self, config: &Config) -> Result<NoCalls, DriverError> {
        let sentence = format!("the function {} serves packets, and no calls", config.function);
        Err(DriverError::bad_args(sentence))
    }

    fn open_packets(
        &self,
        _: &Config,
        channel: QueuesChannel,
        port: Port,
    ) -> Result<Box<dyn QueuesHeld>, DriverError> {
        if port.tap.is_none() {
            return Ok(Box::new(CountedPort::new(channel)));
        }
        let (teller, handle) = (self.teller(), channel.handle());
        let port = RelayedPort::new(channel, port)?;
        let shown = port.shown();
        teller.tell(Word::Came(Box::new(port)))?;
        Ok(Box::new(HeldByRelay { teller, handle, shown }))
    }
}

/// A channel that the thread has.
struct HeldByRelay {
    teller: Teller,
    handle: u64,
    shown: Arc<Shown>,
}

impl QueuesHeld for HeldByRelay {
    fn end(self: Box<Self>) {
        // A thread that is gone has let go of everything.
        let _ = self.teller.tell(Word::Ends(self.handle));
    }

    fn counts(&self) -> Option<QueuesCounts> {
        Some(self.shown.counts())
    }
}

/// The function has no calls.
pub enum NoCalls {}

impl Serve for NoCalls {
    fn run(&mut self, _: u32, _: ArgsAt<'_>, _: OutAt<'_>) -> Result<CallOutcome, DriverError> {
        match *self {}
    }
}
