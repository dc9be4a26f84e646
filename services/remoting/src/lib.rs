//! The host's half of remoted APIs, without any one API.
//!
//! A back end is a driver like any other: its service serves one client's connections, one
//! channel each. [`Remoted`] copies each call into private memory, decodes it, keeps the order of
//! calls that have one, and asks a [`Backend`] (generated from the API's description) to make
//! the call. The back end sees checked values and objects of this connection only; what it
//! answers goes through a writer that takes values, names and bytes.

#![forbid(unsafe_code)]

mod attached;
mod backend;
mod budget;
mod connection;
mod events;
#[cfg(feature = "trial")]
pub mod fuzz;
mod objects;
mod order;
mod remoted;
pub mod room;
mod tokens;
#[cfg(feature = "trial")]
pub mod trial;

pub use attached::{Attached, Held, Memory, Used};
pub use backend::{Backend, Context, Returned};
pub use events::Events;
pub use objects::{Kind, Native, Objects};
pub use remoted::Remoted;
pub use room::{Places, Room};
pub use vfun_remoting::{NOWHERE, Name, Reader, Refusal, Writer, limits};
pub use vfun_sdk::abi::PagesPlace;
