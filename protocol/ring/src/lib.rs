//! Cells over a window: how calls travel, without a lock, a system call or an
//! allocation, and how the two sides wake each other.
//!
//! - [`Caller`]: the app's side, shared by its threads.
//! - [`Server`]: the service's side, one thread a channel.
//! - [`Memory`]: what both stand on; [`WindowMemory`] over a real window, and
//!   models of it in tests (loom, fuzzing). Queues stand on the same.
//!
//! No unsafe code. The server trusts nothing it reads: a line is copied once
//! into private memory, checked, then used. Numbered rules (`R-…`) are those
//! of `docs/protocol.md`.

#![forbid(unsafe_code)]

mod caller;
mod server;

pub use caller::{
    Answer, Caller, Claim, Full, Outcome, PollAnswer, PollOutcome, PollQuick, Ticket, broken,
};
pub use server::{Next, Request, Server, Violation, is_posted};
pub use vfun_window::{Memory, WindowMemory, sync};
