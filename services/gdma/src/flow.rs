//! Transfers through the engine: they are given to it, it is clocked, and their
//! ends are noted. The thread that holds the lock of the flow does this: the context's
//! own, or a caller's that asks how far a transfer is.

use crate::context::{Shared, lock};
use crate::engine::{BusError, Completion, Engine};
use crate::limits::{DESCRIPTORS, STUCK_CYCLES};
use crate::registers::{ACTIVE_TAG, CYCLES, MOVED};
use crate::state::State;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;

/// What is known of the local engine.
#[derive(Default)]
pub(crate) struct Flow {
    /// Descriptors that the engine has and has not reported.
    has: u32,
    /// The last tag and bytes that the engine said, and cycles since they changed.
    last: (u32, u32),
    quiet: u32,
}

/// What a turn of the engine brought.
struct Turn {
    done: Vec<Completion>,
    /// Tag, bytes and cycles of what is being moved.
    active: (u32, u32, u32),
}

/// Clocks the engine at most `cycles` times, unless somebody else does; whether.
pub(crate) fn step(shared: &Shared, cycles: u32) -> bool {
    if shared.aborted.load(Ordering::Acquire) {
        return false;
    }
    let mut flow = match shared.flow.try_lock() {
        Ok(flow) => flow,
        Err(TryLockError::Poisoned(flow)) => flow.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    let fed = flow.feed(shared, &mut lock(&shared.state));
    let turn = fed.and_then(|()| flow.turn(&mut lock(shared.local_engine()), cycles));
    let mut state = lock(&shared.state);
    match turn {
        Ok(turn) => note(&mut state, &turn),
        // It does not do what it should: nothing more is asked of it.
        Err(BusError::Refused | BusError::Silent) => {
            *flow = Flow::default();
            state.lose();
        }
    }
    shared.wake_for_calls(&mut state);
    true
}

/// Stops the engine, and ends all transfers. Who clocks it at this moment is waited for: that is not
/// for long.
pub(crate) fn abort(shared: &Shared) {
    shared.aborted.store(true, Ordering::Release);
    let mut flow = lock(&shared.flow);
    // One that does not stop is not clocked any more, so that it moves nothing either.
    let _ = lock(shared.local_engine()).abort();
    *flow = Flow::default();
    let mut state = lock(&shared.state);
    state.lose();
    shared.wake_for_calls(&mut state);
}

fn note(state: &mut State, turn: &Turn) {
    let (tag, moved, cycles) = turn.active;
    state.moved(tag, moved, cycles);
    for completion in &turn.done {
        state.ended(completion);
    }
}

impl Flow {
    /// Hands descriptors to the engine as long as it has room.
    fn feed(&mut self, shared: &Shared, state: &mut State) -> Result<(), BusError> {
        if self.has == DESCRIPTORS || !state.has_waiting() {
            return Ok(());
        }
        let mut engine = lock(shared.local_engine());
        while self.has < DESCRIPTORS
            && let Some(descriptor) = state.next_waiting()
        {
            engine.start(&descriptor)?;
            self.has += 1;
        }
        Ok(())
    }

    /// Some cycles of the engine.
    fn turn(&mut self, engine: &mut Engine, cycles: u32) -> Result<Turn, BusError> {
        let mut turn = Turn { done: vec![], active: (0, 0, 0) };
        if self.has == 0 {
            return Ok(turn);
        }
        let ran = engine.run(cycles);
        if ran < cycles {
            while let Some(completion) = engine.take()? {
                self.has = self.has.saturating_sub(1);
                turn.done.push(completion);
            }
        } else {
            turn.active = (engine.read(ACTIVE_TAG)?, engine.read(MOVED)?, engine.read(CYCLES)?);
        }
        let now = (turn.active.0, turn.active.1);
        let same = turn.done.is_empty() && now == self.last;
        self.quiet = if same { self.quiet + ran } else { 0 };
        self.last = now;
        if self.quiet >= STUCK_CYCLES { Err(BusError::Silent) } else { Ok(turn) }
    }
}
