//! VirtFun's guest library: call functions that run on the host, through
//! memory that both sides share.
//!
//! ```no_run
//! # fn main() -> vfun::Result<()> {
//! let session = vfun::ConnectOptions::new("demo").connect()?;
//! let factorial = session.function("factorial")?;
//! let mut args = [0u8; 16];
//! args[..8].copy_from_slice(&20u64.to_le_bytes());
//! args[8..].copy_from_slice(&1u64.to_le_bytes());
//! let result = factorial.call(&args)?;
//! # Ok(()) }
//! ```
//!
//! - [`ConnectOptions`] opens a [`Session`] over the best transport there is,
//!   or the one asked for ([`Endpoint`]); [`Session::describe`] says which.
//! - [`Session::negotiate`] asks for a function and gets a [`Grant`];
//!   [`Grant::activate`] starts it and gives a [`Function`], which any number
//!   of threads may call at once.
//! - [`Function::call`] waits for the result, [`Function::submit`] gives a
//!   [`Pending`] to wait for later, [`Function::borrow`] a [`Slot`] whose
//!   bytes are written where the service reads them.
//! - [`Grant::activate_queues`] gives [`Queues`]: memory in which a program and a function lay
//!   out queues, of which posting and polling are no calls.
//! - [`Session::buffer`] gives a [`Buffer`]: memory that this app and a function both
//!   write, named in a call's arguments by its handle.
//!
//! A call makes no system call unless somebody sleeps, takes no lock and
//! (with [`Function::call_into`]) allocates nothing. The manager is not on its
//! path: calls go on while it is down, and only control requests (negotiate,
//! activate, release, list, stats) fail then, with [`Error::ManagerGone`].
//!
//! A session belongs to the process that opened it. In a child of `fork` whatever
//! would use it fails with [`Error::Forked`], and dropping it there leaves the
//! parent's alone; the child connects by itself. A [`Slot`]'s and a [`Buffer`]'s bytes are not mapped
//! in a child: touching them ends it. (`exec` after `fork` is fine.)
//!
//! [`Function::release`] and [`Session::close`] let go of the window's memory before
//! they give it back: nothing that is kept of a function reaches the next one.
//!
//! What the host writes is distrusted as a guest's bytes are: it is copied
//! once, checked, then used, and what makes no sense ends in an [`Error`] that
//! names it.

mod buffer;
mod calls;
#[doc(hidden)]
pub mod capi;
mod connect;
mod control;
mod endpoint;
mod error;
mod function;
mod grant;
mod heartbeat;
mod offered;
mod owned;
mod pending;
mod port;
mod queues;
mod random;
mod request;
mod session;
mod slot;
mod submit;
mod tcp;
mod tls;
mod transport;
mod wait;
mod waiter;

pub use buffer::{Buffer, BufferRequest, MemoryPlace, MemoryToMove, PageTable, Unmovable};
#[doc(hidden)]
pub use buffer::{BufferFile, FileKind};
pub use calls::Results;
pub use connect::ConnectOptions;
pub use endpoint::{Endpoint, TransportKind};
pub use error::{Error, Result};
pub use function::Function;
pub use grant::{Grant, GrantInfo, Stats};
pub use offered::offered;
#[doc(hidden)]
pub use owned::{KeptResults, OwnedCell, OwnedPending};
pub use pending::Pending;
pub use port::{LinkWay, Port, PortInfo, PortLink};
pub use queues::{EndWait, Queues, QueuesWaiter};
pub use request::FunctionRequest;
pub use session::{Description, FunctionInfo, Session, SessionInfo};
pub use slot::Slot;
pub use submit::{OwnFunction, Submission, Submitted};
pub use tls::TlsFiles;
pub use transport::{ModuleBell, ModuleDevice};
pub use wait::WaitPolicy;
pub use waiter::{InFlight, Waiter};

/// Why a host did not take a module.
pub use vfun_submit::Code as SubmitCode;

/// The queues that a channel of [`Queues`] has room for.
pub use vfun_queue as queue;
pub use vfun_ring::WindowMemory;
pub use vfun_signature as signature;
pub use vfun_window::{ReadSpan, WriteSpan};
pub use vfun_wire::channel::CellState;
pub use vfun_wire::header::HeaderError;
pub use vfun_wire::kind::ChannelKind;
pub use vfun_wire::message::{Location, Preference, WaitMode};
pub use vfun_wire::nack::{Nack, NackCode};
pub use vfun_wire::status::{BreakReason, Status};
pub use vfun_wire::version::{Features, FunctionVersion};

/// What reads a host's bytes, for the fuzzer; no part of the interface.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    /// Answers to control requests.
    pub fn answers(body: &[u8]) {
        crate::control::fuzz(body);
    }
    /// Frames of the TCP transport.
    pub fn frames(bytes: &[u8]) {
        crate::tcp::fuzz(bytes);
    }
}
