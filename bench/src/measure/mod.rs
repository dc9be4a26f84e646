//! Takes figures, in the process where this runs.
//!
//! All that is timed is timed around the public library, as any program would call it.
//! Nothing is subtracted: not the reading of the clock, not the loop.

mod activation;
mod bandwidth;
mod bare_vm;
mod bells;
mod calls;
mod clock;
mod copies;
mod first_call;
mod floor;
mod helper;
mod job;
mod queues;
mod rates;
mod round_trips;
mod samples;
mod scale;
mod sockets;
mod verbs;
mod waiting;
mod work;

pub use activation::activations;
pub use bandwidth::bandwidth;
pub use bare_vm::{BareVm, TRANSPORT as BARE_VM_TRANSPORT, bare_vm};
pub use bells::bare_doorbell;
pub use calls::{Calls, open};
pub use clock::Clock;
pub use copies::copies;
pub use first_call::{await_device, load_module, rings};
pub use floor::Floor;
pub use job::{Activation, Job, Load, Outcome, Trip};
pub use queues::{Lane, Line, Packets, Queue, Ring, empty_look_ns, entries_per_s, entry_trips};
pub use rates::rate_of;
pub use round_trips::trips;
pub use scale::{Times, busy_callers, null_calls, paced_calls};
pub use sockets::{EchoServer, Socket, socket_trips};
pub use verbs::{VerbsJob, work as verbs_work};
pub use waiting::{idle_channels, load};
pub use work::{Callee, arguments, expected, seconds};
