//! Direct links: the flow of frames from one VM's port to another one's goes past the switch
//! and back, and none is lost, repeated or out of order. Rules: R-LNK of `docs/protocol.md`.
//! Why it is so: `docs/decisions/0031-handover.md`.
//!
//! | party | what it does |
//! |---|---|
//! | `LinkedSender` | sends into its port's ring, or into the link's |
//! | `Fence` | reads the port's ring for the switch, and sees the turns in it |
//! | `Closer` | fills the other port's ring behind the switch, and tells the turns there |
//! | `LinkedReceiver` | takes from its port's ring, and from the link's in the right order |
//! | `Director` | the host: when to turn, and whether it is done |

use crate::layout::header::STARTS;
use vfun_window::Memory;
use vfun_window::sync::Ordering;

pub(crate) mod closer;
pub(crate) mod director;
pub(crate) mod fence;
pub(crate) mod ledger;
pub(crate) mod linked_receiver;
pub(crate) mod linked_sender;
pub(crate) mod place;

/// An end takes a link's memory up (R-LNK-8).
fn count_start<M: Memory>(mem: &M) {
    let starts = mem.load_own(STARTS, Ordering::Relaxed);
    mem.store(STARTS, starts.wrapping_add(1), Ordering::Release);
}
