//! The thread of a context: it steps the engine while transfers are under way,
//! and calls what wants to be called at their ends. Else it sleeps.

use crate::context::{Shared, lock};
use crate::flow::step;
use crate::limits::{AWAY, RUN_CYCLES, SPIN};
use crate::state::{Call, Rest, State};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

thread_local! {
    static WORKS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is that of a context, which calls the functions of transfers.
pub(crate) fn in_function() -> bool {
    WORKS.get()
}

/// Until the context is closed and nothing is under way.
pub(crate) fn work(shared: &Shared) {
    WORKS.set(true);
    let mut state = lock(&shared.state);
    loop {
        if let Some(call) = state.next_call() {
            drop(state);
            make(call);
            state = lock(&shared.state);
        } else if state.under_way > 0 {
            drop(state);
            let stepped = step(shared, RUN_CYCLES);
            state = lock(&shared.state);
            if !stepped {
                state = leave_to_caller(shared, state);
            }
        } else if state.closing {
            return;
        } else {
            state = sleep(shared, state);
        }
    }
}

fn make(call: Call) {
    // A panic of the program's is no reason to leave its other transfers alone.
    let _ = catch_unwind(AssertUnwindSafe(|| (call.done)(call.transfer, call.status)));
}

/// A caller steps the engine: this thread would only take its processor and its
/// locks, until there is something to call.
fn leave_to_caller<'a>(
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
) -> MutexGuard<'a, State> {
    if state.has_calls() {
        return state;
    }
    state.rest = Rest::Away;
    let (mut state, _) =
        shared.wake.wait_timeout(state, AWAY).unwrap_or_else(PoisonError::into_inner);
    state.rest = Rest::None;
    state
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
    while state.under_way == 0 && !state.has_calls() && !state.closing {
        state.rest = Rest::Asleep;
        state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.rest = Rest::None;
    state
}
