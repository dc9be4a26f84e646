//! Packets over a window: frames of any length that go one way, from one sender to
//! one receiver, packed, in bursts, without a lock or a system call.
//!
//! - [`Sender`] and [`Receiver`]: the two ends of a ring; one thread each.
//! - [`Ring`]: its size, and what fits.
//! - [`LinkedSender`], [`LinkedReceiver`], [`Fence`], [`Closer`], [`Director`]: the parties of
//!   a direct link, which goes past the switch, and [`Ledger`] for its counts.
//!
//! A *side* is a header page and a ring, and has one writer. A port has two sides, and
//! each of its two parties is the sender of its own side and the receiver of the other
//! one. Why packets have an index and calls have none is in
//! `docs/decisions/0028-packets.md`. Numbered rules (`R-PKT-…`, `R-LNK-…`) are those of
//! `docs/protocol.md`. `include/vfun_packet.h` and `include/vfun_link_ring.h` are the same for C.
//!
//! No unsafe code. An end trusts nothing that its peer writes: a frame is copied once
//! into private memory, numbers are checked, and what makes no sense is passed over and
//! counted. A peer that breaks the rules loses its own frames.

#![forbid(unsafe_code)]

mod control;
pub mod layout;
pub mod limits;
mod links;
mod note;
mod receiver;
mod ring;
mod sender;

pub use control::{Turn, Way};
pub use links::closer::Closer;
pub use links::director::{Director, Stage, Todo};
pub use links::fence::Fence;
pub use links::ledger::{Breach, Claims, Ledger, Reading};
pub use links::linked_receiver::LinkedReceiver;
pub use links::linked_sender::{LinkedSender, Rings};
pub use links::place::LinkPlace;
pub use note::{NOTE_HEADER, Note};
pub use receiver::{Receiver, Taken};
pub use ring::{Ring, RingError};
pub use sender::{NotSent, Sender, Sent};
pub use vfun_window::{Memory, WindowMemory};
