//! The thread of a context: it steps the engine while transfers are under way,
//! ends them, and calls what they wanted called. Else it sleeps.

use crate::context::{Shared, lock};
use crate::engine::{BusError, Completion, Engine};
use crate::limits::{DESCRIPTORS, RUN_CYCLES, SPIN, STUCK_CYCLES};
use crate::registers::{ACTIVE_TAG, CYCLES, IRQ_ENABLE, MOVED};
use crate::state::{Done, State};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

/// What the thread knows of the engine.
struct Flow {
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

/// Until the context is closed and nothing is under way.
pub(crate) fn work(shared: &Shared) {
    let mut flow = Flow { has: 0, last: (0, 0), quiet: 0 };
    let mut state = lock(&shared.state);
    let enabled = lock(shared.local_engine()).write(IRQ_ENABLE, 1);
    if enabled.is_err() {
        state = lose(shared, state, &mut flow);
    }
    loop {
        if flow.has == 0 && !state.has_waiting() {
            if state.closing {
                return;
            }
            state = sleep(shared, state);
            continue;
        }
        if feed(shared, &mut state, &mut flow).is_err() {
            state = lose(shared, state, &mut flow);
            continue;
        }
        drop(state);
        let turn = turn(&mut lock(shared.local_engine()), &mut flow);
        state = lock(&shared.state);
        state = match turn {
            Ok(turn) => note(shared, state, &turn),
            Err(BusError::Refused | BusError::Silent) => lose(shared, state, &mut flow),
        };
    }
}

/// Hands descriptors to the engine as long as it has room.
fn feed(shared: &Shared, state: &mut State, flow: &mut Flow) -> Result<(), BusError> {
    if flow.has == DESCRIPTORS || !state.has_waiting() {
        return Ok(());
    }
    let mut engine = lock(shared.local_engine());
    while flow.has < DESCRIPTORS
        && let Some(descriptor) = state.next_waiting()
    {
        engine.start(&descriptor)?;
        flow.has += 1;
    }
    Ok(())
}

/// Some cycles of the engine.
fn turn(engine: &mut Engine, flow: &mut Flow) -> Result<Turn, BusError> {
    let ran = engine.run(RUN_CYCLES);
    let mut done = vec![];
    while let Some(completion) = engine.take()? {
        flow.has = flow.has.saturating_sub(1);
        done.push(completion);
    }
    let active = if ran == RUN_CYCLES {
        (engine.read(ACTIVE_TAG)?, engine.read(MOVED)?, engine.read(CYCLES)?)
    } else {
        (0, 0, 0)
    };
    let now = (active.0, active.1);
    flow.quiet = if done.is_empty() && now == flow.last { flow.quiet + ran } else { 0 };
    flow.last = now;
    if flow.quiet >= STUCK_CYCLES { Err(BusError::Silent) } else { Ok(Turn { done, active }) }
}

/// Notes what a turn brought, and calls what is to be called, the state free meanwhile.
fn note<'a>(
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
    turn: &Turn,
) -> MutexGuard<'a, State> {
    let (tag, moved, cycles) = turn.active;
    state.moved(tag, moved, cycles);
    let calls: Vec<_> = turn.done.iter().filter_map(|c| state.ended(c)).collect();
    if calls.is_empty() {
        return state;
    }
    drop(state);
    call(calls);
    lock(&shared.state)
}

/// The engine does not do what it should: nothing more is asked of it.
fn lose<'a>(
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
    flow: &mut Flow,
) -> MutexGuard<'a, State> {
    flow.has = 0;
    let calls = state.lose();
    drop(state);
    call(calls);
    lock(&shared.state)
}

fn call(calls: Vec<(Done, u32, i32)>) {
    for (done, id, status) in calls {
        // A panic of the program's is no reason to leave its other transfers alone.
        let _ = catch_unwind(AssertUnwindSafe(|| done(id, status)));
    }
}

/// Until something was started or the context is closed: looks for a while, then sleeps.
fn sleep<'a>(shared: &'a Shared, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let seen = shared.posted.load(Ordering::Acquire);
    drop(state);
    let from = Instant::now();
    while shared.posted.load(Ordering::Acquire) == seen && from.elapsed() < SPIN {
        std::hint::spin_loop();
    }
    let mut state = lock(&shared.state);
    while !state.has_waiting() && !state.closing {
        state.asleep = true;
        state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.asleep = false;
    state
}
