//! What a program that uses verbs and its host's software NIC say to each other in a window.
//!
//! - [`WorkProducer`], [`WorkConsumer`]: a queue of work, sends or receives.
//! - [`SendEntry`], [`ReceiveEntry`], [`Completion`]: what the entries say.
//! - [`completions`]: completion queues, and how one asks for an event.
//! - [`bells`]: how a program tells which of its many queues have work, and how the NIC sleeps.
//!
//! The queues are those of `vfun_queue`: an entry bears its own number. Numbered rules
//! (`R-VRB-…`) are those of `docs/verbs-protocol.md`. Numbers of verbs are those of
//! `infiniband/verbs.h`, so that nothing is translated.
//!
//! No unsafe code. A line is read once into private memory and decoded from there.

#![forbid(unsafe_code)]

pub mod bells;
mod bytes;
mod completion;
pub mod completions;
mod facts;
pub mod flags;
pub mod limits;
mod numbers;
mod receive;
mod send;
mod sge;
mod work;

pub use completion::Completion;
pub use facts::ProgramFacts;
pub use numbers::{AsyncKind, CompletionOpcode, QpState, QpType, SendOpcode, Status};
pub use receive::ReceiveEntry;
pub use send::{BadEntry, Operands, SendBody, SendEntry, SendHead};
pub use sge::Sge;
pub use work::{PostError, Taken, WorkConsumer, WorkProducer, WorkShape};
