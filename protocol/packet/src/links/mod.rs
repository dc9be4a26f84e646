//! Direct links: the flow of frames from one VM's port to another one's goes past the switch
//! and back, and none is lost, repeated or out of order. Rules: R-LNK of `docs/protocol.md`.
//! Why it is so: `docs/decisions/0031-handover.md`.
//!
//! ```text
//! LinkedSender ── port ring ──▶ Fence ─▶ switch ─▶ Closer ── port ring ──▶ LinkedReceiver
//!       ╰───────────────────────── link ring ─────────────────────────────────╯
//!                         Director: when to turn, and whether it is done
//! ```

pub(crate) mod closer;
pub(crate) mod director;
pub(crate) mod fence;
pub(crate) mod ledger;
pub(crate) mod linked_receiver;
pub(crate) mod linked_sender;
