//! What happened, kept outside of the world so that it outlives a panic.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Lines that are shown of a run that fails.
const KEPT: usize = 40;

thread_local! {
    static LINES: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
    static STEP: Cell<u64> = const { Cell::new(0) };
    static ON: Cell<bool> = const { Cell::new(false) };
    static LOUD: Cell<bool> = const { Cell::new(false) };
}

/// Begins a run: whether to keep its trace, and whether to print it as it goes.
pub fn begin(on: bool, loud: bool) {
    LINES.with_borrow_mut(VecDeque::clear);
    STEP.set(0);
    ON.set(on || loud);
    LOUD.set(loud);
}

pub fn say(now: u64, what: impl FnOnce() -> String) {
    if !ON.get() {
        return;
    }
    let line = format!("step {} t {now}: {}", STEP.get(), what());
    if LOUD.get() {
        println!("{line}");
    }
    LINES.with_borrow_mut(|l| {
        if l.len() == KEPT {
            l.pop_front();
        }
        l.push_back(line);
    });
}

pub fn at(step: u64) {
    STEP.set(step);
}

/// Whether a run is under way.
pub fn running() -> bool {
    ON.get()
}

/// The step that was reached and the last lines.
pub fn end() -> (u64, Vec<String>) {
    ON.set(false);
    (STEP.get(), LINES.with_borrow_mut(|l| l.drain(..).collect()))
}
