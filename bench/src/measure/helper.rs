//! A thread that a slice needs besides its own.

use crate::lab::pin;
use crate::method::{farewell, ready};
use std::sync::{Arc, Barrier};
use std::thread::{Scope, ScopedJoinHandle};

/// Starts a thread that does `work` on a processor (none: any), and sleeps until it is there. A thread begins on its
/// maker's processor: a maker that looked without a pause would keep it waiting for milliseconds,
/// and the kernel would count that as if somebody else had disturbed the slice.
pub(super) fn in_place<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpu: Option<usize>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let there = Arc::new(Barrier::new(2));
    let said = there.clone();
    let helper = scope.spawn(move || {
        pin::to(cpu);
        ready();
        said.wait();
        let done = work();
        farewell();
        done
    });
    there.wait();
    ready();
    helper
}
