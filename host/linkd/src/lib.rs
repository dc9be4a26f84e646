//! `vfun-links`: watches which ports of VMs a switch joins point to point.
//!
//! What joins ports is found out by `vfun-links`, the crate `host/links`. This is the process
//! around it, which the manager starts, so that nothing of a switch is read in the manager:
//!
//! - [`manager`]: the socket to the manager.
//! - `bridges`: the ports that are declared, and what watches their bridges.
//! - `plugs`: windows of two VMs are plugged into VMs that run, and taken out.

#![forbid(unsafe_code)]

mod bridges;
pub mod limits;
pub mod manager;
mod plugs;

use bridges::{BridgeId, Bridges};
use limits::{ALIVE, HEARD_WAITING};
use manager::{About, Tell, Teller};
use plugs::Plugs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;
use vfun_links::Change;
use vfun_links::relay::{FromLinks, ToLinks};

/// Something that a thread heard.
#[derive(Debug)]
pub enum Heard {
    /// A word of the manager.
    Said(ToLinks),
    /// Nothing more of the manager is there for the moment.
    SaidAll,
    /// The manager is gone.
    ManagerGone,
    /// A verdict is another one.
    Changed(BridgeId, Change),
    /// What watches a bridge has ended.
    WatchEnded(BridgeId),
}

/// Where the threads tell. A thread waits while too much has not been taken.
#[derive(Clone)]
pub struct Hearing(SyncSender<Heard>);

impl Hearing {
    /// False once nobody listens any more.
    pub fn tell(&self, heard: Heard) -> bool {
        self.0.send(heard).is_ok()
    }
}

/// Runs until standard input ends, which is the manager's socket.
///
/// # Errors
/// A sentence: why it cannot, or cannot go on.
pub fn run() -> Result<(), String> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned();
    serve(stdin.map_err(|e| format!("standard input cannot be used: {e}"))?)
}

/// Runs until this socket ends.
///
/// # Errors
/// As [`run`].
pub fn serve(socket: OwnedFd) -> Result<(), String> {
    let (hearing, heard) = sync_channel(HEARD_WAITING);
    let hearing = Hearing(hearing);
    let teller = manager::take(socket, hearing.clone())?;
    let alive = teller.clone();
    let is_alive = move || alive.tell(About::Alive, FromLinks::Alive);
    follow(&heard, Plugs::new(teller.clone()), Bridges::new(teller, hearing), is_alive)
}

fn follow(
    heard: &Receiver<Heard>,
    mut plugs: Plugs<Teller>,
    mut bridges: Bridges<Teller>,
    is_alive: impl Fn(),
) -> Result<(), String> {
    let mut due = Instant::now();
    loop {
        if due <= Instant::now() {
            is_alive();
            due = Instant::now() + ALIVE;
        }
        let word = match heard.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(word) => word,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(e) => return Err(e.to_string()),
        };
        match word {
            Heard::Said(ToLinks::Port(news)) => bridges.declare(news),
            Heard::Said(ToLinks::Plug(order)) => plugs.begin(order),
            Heard::SaidAll => bridges.follow(),
            Heard::ManagerGone => return Ok(()),
            Heard::Changed(bridge, change) => bridges.changed(bridge, change),
            // Nothing is known any more. The manager hears of the end, and starts another one.
            Heard::WatchEnded(bridge) if bridges.has(bridge) => {
                return Err("what watches a bridge ended, which is a fault of this program".into());
            }
            Heard::WatchEnded(_) => {}
        }
    }
}
