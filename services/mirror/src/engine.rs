//! The engine: calls, and channels of queues for the thread.

use crate::limits::CALL_PATIENCE;
use crate::request::{Pair, PairRequest};
use crate::serving::{Serving, Word};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::{Engine, QueuesChannel, QueuesHeld, RungWaiter, Serve};
use vfun_sdk::{CallOutcome, Config, DriverError, abi};
use vfun_window::Bell;

/// A way to tell the thread, which wakes it.
#[derive(Clone)]
struct Teller {
    words: Sender<Word>,
    waker: Bell,
}

impl Teller {
    fn tell(&self, word: Word) -> Result<(), DriverError> {
        let gone = |_| DriverError::new(abi::PANIC, "the thread that serves queues is gone");
        self.words.send(word).map_err(gone)?;
        self.waker.ring();
        Ok(())
    }
}

/// The function's engine.
pub struct Mirror(Mutex<Teller>);

impl Mirror {
    /// Starts its thread.
    ///
    /// # Errors
    /// A sentence: the system gives no thread or no descriptor.
    pub fn new() -> Result<Self, String> {
        let waiter = RungWaiter::new().map_err(|e| format!("no descriptor to wait by: {e}"))?;
        let (words, heard) = channel();
        let teller = Teller { words, waker: waiter.waker() };
        let serving = Serving::new(waiter, heard);
        std::thread::Builder::new()
            .name("mirror".into())
            .spawn(move || serving.run())
            .map_err(|e| format!("no thread to serve queues: {e}"))?;
        Ok(Mirror(Mutex::new(teller)))
    }

    fn teller(&self) -> Teller {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Engine for Mirror {
    type Instance = MirrorCalls;

    fn max_args(&self) -> u32 {
        PairRequest::BYTES as u32
    }

    fn max_result(&self) -> u32 {
        Pair::BYTES as u32
    }

    fn open(&self, _: &Config) -> Result<MirrorCalls, DriverError> {
        Ok(MirrorCalls(self.teller()))
    }

    fn open_queues(
        &self,
        _: &Config,
        channel: QueuesChannel,
    ) -> Result<Box<dyn QueuesHeld>, DriverError> {
        let (teller, handle) = (self.teller(), channel.handle());
        teller.tell(Word::Came(Box::new(channel)))?;
        Ok(Box::new(HeldByThread { teller, handle }))
    }
}

/// A channel that the thread has.
struct HeldByThread {
    teller: Teller,
    handle: u64,
}

impl QueuesHeld for HeldByThread {
    fn end(self: Box<Self>) {
        // A thread that is gone has let go of everything.
        let _ = self.teller.tell(Word::Ends(self.handle));
    }
}

/// A channel of calls.
pub struct MirrorCalls(Teller);

impl Serve for MirrorCalls {
    fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        mut out: OutAt<'_>,
    ) -> Result<CallOutcome, DriverError> {
        if command == abi::COMMAND_RST {
            return Ok(CallOutcome::Done(0));
        }
        let mut bytes = [0; PairRequest::BYTES];
        // Once, into private memory: what is checked is what is used.
        let whole = args.len() == bytes.len() && args.copy_to(&mut bytes);
        let request = PairRequest::from_bytes(&bytes).filter(|_| whole);
        let request = request.ok_or_else(|| {
            DriverError::bad_args("the arguments are a handle, a token and a depth, 32 bytes")
        })?;
        let (reply, answer) = channel();
        self.0.tell(Word::Asked(request, reply))?;
        let late = |_| DriverError::new(abi::PANIC, "the thread that serves queues does not run");
        let pair = answer.recv_timeout(CALL_PATIENCE).map_err(late)??.to_bytes();
        match out.write(&pair) {
            true => Ok(CallOutcome::Done(pair.len())),
            false => Err(DriverError::too_large(pair.len(), out.capacity())),
        }
    }
}
