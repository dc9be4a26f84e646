//! The guest's half of remoted APIs, without any one API.
//!
//! A front end is a shared library with the exact C symbols of an API. It is generated from the
//! API's description and stands on three things here: [`Remote`], the connection to the host
//! (opened by the first call that needs it, and again after a fork or after its service died);
//! [`Objects`], what the program's pointers stand for; and [`Failure`], what went wrong, before
//! the API's own status is made of it.
//!
//! All of it may be used by any number of threads.

mod batch;
mod buffer;
mod connect;
mod events;
mod failure;
mod fork;
mod found;
mod known;
mod lane;
mod link;
mod objects;
pub mod out;
mod parts;
mod remote;
mod say;
mod secret;

pub use buffer::{Lent, LentPages};
pub use connect::Description;
pub use events::{Handlers, in_callback};
pub use failure::Failure;
pub use fork::keep_open;
pub use found::found;
pub use link::{Answer, Link};
pub use objects::{Fresh, Kind, Object, Objects};
pub use parts::{parts, parts_filled, parts_turned};
pub use remote::Remote;
pub use say::once as say_once;
pub use secret::packed;
pub use vfun_remoting::{NOWHERE, Name, Reader, Refusal, Writer, limits};
