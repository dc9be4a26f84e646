//! The guest library against a host that the tests play.
//!
//! One program for all files: linking is most of what a small one costs.

mod buffers;
mod c_abi;
mod c_header;
mod calls;
mod connect;
mod control;
mod fake;
mod host_nonsense;
mod queues;
mod tcp;
