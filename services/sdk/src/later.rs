//! Calls that are answered later, as a driver sees them.
//!
//! ```
//! use std::sync::mpsc::{Sender, channel};
//! use std::thread;
//! use std::time::{Duration, Instant};
//! use vfun_sdk::{Answerer, Args, Config, Driver, DriverError, Out};
//!
//! /// Answers each call after the milliseconds that it names, all from one thread.
//! struct Delay {
//!     timer: Sender<(Instant, Answerer)>,
//! }
//!
//! impl Driver for Delay {
//!     fn init(_: &Config) -> Result<Self, DriverError> {
//!         let (timer, calls) = channel::<(Instant, Answerer)>();
//!         // Ends when the channel closes: the other end is dropped then.
//!         thread::spawn(move || {
//!             for (due, call) in calls {
//!                 thread::sleep(due.saturating_duration_since(Instant::now()));
//!                 let _ = call.answer(b"now");
//!             }
//!         });
//!         Ok(Delay { timer })
//!     }
//!
//!     fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
//!         let ms = args.u32_at(0)?; // read now: the arguments are gone later
//!         let due = Instant::now() + Duration::from_millis(ms.into());
//!         let call = out.later()?;
//!         self.timer.send((due, call)).map_err(|_| DriverError::new(1, "the timer has ended"))
//!     }
//! }
//!
//! vfun_sdk::export_driver!(Delay, name = "delay", version = (1, 0), max_args = 4, max_result = 3);
//! # fn main() {}
//! ```
#![allow(unsafe_code)]

mod calls;

#[cfg(feature = "service")]
pub use calls::Key;
pub use calls::{Answer, HeldCall, OpenCalls, WaitsFor};

use crate::{DriverError, abi};
use std::ptr::NonNull;

/// What a call came to on the channel's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// So many bytes of results are there.
    Done(usize),
    /// It is answered later, through the handle that was taken during it.
    Later,
}

impl CallOutcome {
    /// Bytes of results, if they are there.
    pub fn done(self) -> Option<usize> {
        match self {
            CallOutcome::Done(len) => Some(len),
            CallOutcome::Later => None,
        }
    }
}

/// The call had ended before: its answer went nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the call had ended before it was answered")
    }
}
impl std::error::Error for Cancelled {}

/// A call that is open: answers it once, from any thread, at any time. Dropped
/// without an answer it tells the caller so, as an error with the code
/// [`abi::PANIC`].
///
/// A call ends before its answer by its deadline, by the release of its grant,
/// with its channel or with its service. Its answer is dropped then.
#[derive(Debug)]
#[must_use = "a call whose answerer is dropped fails"]
pub struct Answerer {
    call: NonNull<abi::OpenCall>,
}

// SAFETY: the interface lets any thread use a handle, one that may be another
// than the one before.
unsafe impl Send for Answerer {}
// SAFETY: by reference only `is_open` is asked, which any number of threads may.
unsafe impl Sync for Answerer {}

impl Answerer {
    /// # Safety
    /// `call` is a handle that a service gave and nobody else uses.
    pub(crate) unsafe fn from_raw(call: NonNull<abi::OpenCall>) -> Self {
        Answerer { call }
    }

    /// Answers with results, which are copied. More than the call had room for:
    /// the caller gets "the results do not fit".
    pub fn answer(self, results: &[u8]) -> Result<(), Cancelled> {
        self.give(abi::OK, results)
    }

    /// Answers with an error. [`DriverError::device_lost`] may be said of a call
    /// of which nothing was done that a second run would notice.
    pub fn fail(self, error: &DriverError) -> Result<(), Cancelled> {
        let code = if error.code == abi::OK { abi::PANIC } else { error.code };
        self.give(code, error.sentence.as_bytes())
    }

    /// Whether an answer can still reach the caller.
    pub fn is_open(&self) -> bool {
        // SAFETY: the handle is good until it is answered.
        unsafe { (self.table().is_open)(self.call.as_ptr()) == 1 }
    }

    fn table(&self) -> abi::DriverService {
        // SAFETY: the handle is good until it is answered, its service as long.
        unsafe { *self.call.as_ref().service }
    }

    fn give(self, code: i32, bytes: &[u8]) -> Result<(), Cancelled> {
        let answer = self.table().answer;
        let call = std::mem::ManuallyDrop::new(self).call;
        // SAFETY: the handle's last use; `bytes` is good while this runs.
        match unsafe { answer(call.as_ptr(), code, bytes.as_ptr().cast(), bytes.len() as u64) } {
            abi::ANSWERED => Ok(()),
            _ => Err(Cancelled),
        }
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        let words = DROPPED.as_bytes();
        let answer = self.table().answer;
        // SAFETY: the handle's last use.
        unsafe {
            answer(self.call.as_ptr(), abi::PANIC, words.as_ptr().cast(), words.len() as u64)
        };
    }
}

/// What a caller is told whose call was let go of.
pub const DROPPED: &str = "the driver dropped the call unanswered";

#[cfg(test)]
mod tests {
    /// The guide's example is the one above, which is compiled.
    #[test]
    fn the_guide_shows_what_is_compiled() {
        let guide = include_str!("../../../docs/drivers.md");
        let (_, rest) = guide.split_once("gives an `Answerer`:\n\n```rust\n").unwrap();
        let (shown, _) = rest.split_once("```").unwrap();
        let compiled: Vec<_> = include_str!("later.rs")
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        assert!(compiled.join("\n").contains(shown.trim()), "{shown}");
    }
}
