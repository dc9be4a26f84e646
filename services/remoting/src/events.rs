//! What the host tells a guest by itself: callbacks, by answering a call posted in advance.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_remoting::limits::{EVENT_BYTES, EVENTS_MAX, OBJECTS_MAX};
use vfun_remoting::{Refusal, Writer, put_record};
use vfun_sdk::Answerer;

#[derive(Default)]
struct State {
    /// Records that nobody took yet.
    queued: VecDeque<Vec<u8>>,
    /// The guest's open call.
    waiting: Option<Answerer>,
}

/// The events of one connection. Any thread of the service may push; nothing waits here.
#[derive(Default)]
pub struct Events {
    state: Mutex<State>,
}

impl Events {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the guest of an event. Its body is at most [`EVENT_BYTES`]. There is room for one
    /// event for each object that can be; a library that makes more loses the newest.
    pub fn push(&self, event: u16, write: impl FnOnce(&mut Writer<'_>)) {
        let mut record = Vec::with_capacity(8 + EVENT_BYTES);
        put_record(&mut record, event, false, write);
        debug_assert!(record.len() <= 8 + EVENT_BYTES, "event {event} is too long");
        let mut state = self.state();
        if state.queued.len() < OBJECTS_MAX {
            state.queued.push_back(record);
        }
        state.deliver();
    }

    /// The guest waits for events by this call.
    pub(crate) fn wait(&self, call: Answerer) -> Result<(), Refusal> {
        let mut state = self.state();
        if state.waiting.as_ref().is_some_and(Answerer::is_open) {
            return Err(Refusal::Limit);
        }
        state.waiting = Some(call);
        state.deliver();
        Ok(())
    }

    /// Drops what is queued and the call that waits: the connection ends.
    pub(crate) fn end(&self) {
        *self.state() = State::default();
    }
}

impl State {
    fn deliver(&mut self) {
        if self.queued.is_empty() {
            return;
        }
        let Some(call) = self.waiting.take() else { return };
        let count = self.queued.len().min(EVENTS_MAX);
        let mut answer = vec![];
        Writer::answer(&mut answer);
        self.queued.range(..count).for_each(|record| answer.extend_from_slice(record));
        // An event is used up when an answer carried it.
        if call.answer(&answer).is_ok() {
            self.queued.drain(..count);
        }
    }
}
