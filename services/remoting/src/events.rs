//! What the host tells a guest by itself: callbacks, by answering a call posted in advance.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_remoting::limits::{EVENT_BYTES, EVENTS_BYTES, OBJECTS_MAX};
use vfun_remoting::{HEAD_BYTES, Refusal, Writer, put_record};
use vfun_sdk::{Answerer, DriverError};

/// Longest record of an event, bytes.
const RECORD_BYTES: usize = 8 + EVENT_BYTES;

#[derive(Default)]
struct State {
    /// Records that nobody took yet.
    queued: VecDeque<Vec<u8>>,
    /// Their bytes.
    bytes: usize,
    /// The guest's open call, and how many bytes its answer may have.
    waiting: Option<(Answerer, usize)>,
    /// Events were lost, because nobody took those before them: the guest hears of nothing more.
    lost: bool,
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
    /// short event for each object that can be, [`EVENTS_BYTES`] in all. A guest that takes none of
    /// them hears of none any more: it is told so instead of missing one.
    pub fn push(&self, event: u16, write: impl FnOnce(&mut Writer<'_>)) {
        let mut record = vec![];
        put_record(&mut record, event, false, write);
        debug_assert!(record.len() <= RECORD_BYTES, "event {event} is too long");
        let mut state = self.state();
        if state.lost {
            return;
        }
        let bytes = state.bytes + record.len();
        if state.queued.len() == OBJECTS_MAX || bytes > EVENTS_BYTES {
            *state = State { lost: true, ..State::default() };
            return;
        }
        state.bytes = bytes;
        state.queued.push_back(record);
        state.deliver();
    }

    /// Whether a guest may wait by a call whose answer may have `room` bytes.
    pub(crate) fn check(&self, room: usize) -> Result<(), Refusal> {
        let state = self.state();
        let waits = state.waiting.as_ref().is_some_and(|(call, _)| call.is_open());
        let good = !waits && !state.lost && room >= HEAD_BYTES + RECORD_BYTES;
        if good { Ok(()) } else { Err(Refusal::Limit) }
    }

    /// The guest waits for events by this call, which was [checked](Events::check).
    pub(crate) fn wait(&self, call: Answerer, room: usize) {
        let mut state = self.state();
        if state.lost {
            let _ = call.fail(&DriverError::new(1, "more events than the guest took"));
            return;
        }
        state.waiting = Some((call, room));
        state.deliver();
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
        let Some((call, room)) = self.waiting.take() else { return };
        let mut answer = vec![];
        Writer::answer(&mut answer);
        let mut count = 0;
        for record in &self.queued {
            if answer.len() + record.len() > room {
                break;
            }
            answer.extend_from_slice(record);
            count += 1;
        }
        // An event is used up when an answer carried it.
        if call.answer(&answer).is_ok() {
            self.bytes -= self.queued.drain(..count).map(|record| record.len()).sum::<usize>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_remoting::Records;
    use vfun_sdk::{OpenCalls, Out};

    /// How many events a call is answered with whose answer may have `room` bytes.
    fn heard(events: &Events, room: usize) -> Result<Vec<u16>, Refusal> {
        let calls = OpenCalls::new(|| ());
        let call = Out::private_later(&mut [0; 8], &calls).on_event().unwrap();
        let _held = calls.hold(0);
        events.check(room)?;
        events.wait(call, room);
        let answer = calls.answers().pop().expect("an answer").1.expect("events");
        assert!(answer.len() <= room, "{} bytes", answer.len());
        Ok(Records::new(&answer[HEAD_BYTES..]).map(|record| record.unwrap().call).collect())
    }

    #[test]
    fn an_answer_has_as_many_events_as_its_cell_holds() {
        let events = Events::default();
        (20..50).for_each(|event| events.push(event, |w| (0..8).for_each(|n| w.u64(n))));
        let longest = HEAD_BYTES + RECORD_BYTES;
        assert_eq!(heard(&events, longest - 1), Err(Refusal::Limit), "no room for the longest");
        assert_eq!(heard(&events, longest), Ok((20..25).collect()));
        assert_eq!(heard(&events, 8 + 7 * 72), Ok((25..32).collect()));
        assert_eq!(heard(&events, 4096).map(|all| all.len()), Ok(18));
        assert_eq!(events.state().bytes, 0);
    }

    #[test]
    fn the_longest_event_is_heard_and_long_ones_have_no_more_memory_than_short_ones() {
        let events = Events::default();
        let longest = |w: &mut Writer<'_>| (0..EVENT_BYTES / 8).for_each(|_| w.u64(1));
        events.push(20, longest);
        assert_eq!(heard(&events, HEAD_BYTES + RECORD_BYTES), Ok(vec![20]));
        (0..EVENTS_BYTES / RECORD_BYTES).for_each(|_| events.push(20, longest));
        assert!(!events.state().lost);
        events.push(20, longest);
        assert!(events.state().lost && events.state().queued.is_empty());
    }

    #[test]
    fn a_guest_that_takes_no_events_is_told_so_and_misses_none_in_silence() {
        let events = Events::default();
        (0..OBJECTS_MAX).for_each(|_| events.push(20, |_| ()));
        assert_eq!(heard(&events, 400).map(|all| all.len()), Ok(49));
        (0..50).for_each(|_| events.push(21, |_| ()));
        assert_eq!(heard(&events, 400), Err(Refusal::Limit));
        events.push(22, |_| ());
        assert!(events.state().queued.is_empty(), "and holds no memory");
    }
}
