//! Keeps a panic's words for the caller, and the log readable.

use crate::{DriverError, abi};
use std::any::Any;
use std::cell::RefCell;
use std::io::{Write, stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics that are logged; a caller who provokes one each call fills no log.
const LOGGED_PANICS: u32 = 20;

/// Replaces the panic hook of this library's copy of the standard library.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    static SEEN: AtomicU32 = AtomicU32::new(0);
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let payload = info.payload();
            let words = payload
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("no words");
            let told = match info.location() {
                Some(at) => format!("panic: {words} ({}:{})", at.file(), at.line()),
                None => format!("panic: {words}"),
            };
            let n = SEEN.fetch_add(1, Ordering::Relaxed);
            if n < LOGGED_PANICS {
                // A panic here, for a full disk, would end the service.
                let _ = writeln!(stderr(), "driver {told}");
            } else if n == LOGGED_PANICS {
                let _ = writeln!(stderr(), "driver panics are not logged any more");
            }
            LAST.with(|l| *l.borrow_mut() = Some(told));
        }));
    });
}

/// The error for a caught panic.
#[cold]
pub(super) fn told(payload: Box<dyn Any + Send>) -> DriverError {
    // A payload may panic when dropped; it is leaked rather than run.
    std::mem::forget(payload);
    let words = LAST.with(|l| l.borrow_mut().take());
    DriverError::new(abi::PANIC, words.unwrap_or_else(|| "panic: no words".into()))
}

/// A second panic while cleaning up: its words are not for the next call.
#[cold]
pub(super) fn forget() {
    LAST.with(|l| l.borrow_mut().take());
}
