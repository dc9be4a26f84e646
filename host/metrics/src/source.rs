//! What the manager says, at every look.

use crate::totals::Totals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_manager::admin::{Ask, AskError, ClientRow, GrantRow, Reply, Status, ask};

/// One look.
#[derive(Debug)]
pub struct Look {
    /// The manager at a glance.
    pub status: Status,
    /// Its clients.
    pub clients: Vec<ClientRow>,
    /// Grants there are.
    pub grants: Vec<GrantRow>,
}

/// A manager and what was seen of it so far. Any thread may look.
#[derive(Debug)]
pub struct Source {
    socket: PathBuf,
    totals: Mutex<Totals>,
    /// Whether the last look saw it; what is the same as before is not said again.
    seen: AtomicBool,
}

impl Source {
    /// The manager with this admin socket.
    pub fn new(socket: PathBuf) -> Self {
        Source { socket, totals: Mutex::default(), seen: AtomicBool::new(true) }
    }

    fn asked(&self) -> Result<Look, AskError> {
        let strange =
            |r: Reply| AskError::Unreadable(format!("an answer to something else: {r:?}"));
        let status = match ask(&self.socket, &Ask::Status)? {
            Reply::Status(status) => status,
            other => return Err(strange(other)),
        };
        let clients = match ask(&self.socket, &Ask::Clients)? {
            Reply::Clients { clients } => clients,
            other => return Err(strange(other)),
        };
        let grants = match ask(&self.socket, &Ask::Grants)? {
            Reply::Grants { grants } => grants,
            other => return Err(strange(other)),
        };
        Ok(Look { status, clients, grants })
    }

    /// Looks, and adds what was seen to the totals.
    pub fn look(&self) -> (Option<Look>, MutexGuard<'_, Totals>) {
        // Held while asking, so that looks come in order.
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        match self.asked() {
            Ok(look) => {
                self.seen.store(true, Ordering::Relaxed);
                totals.take(&look.grants);
                (Some(look), totals)
            }
            Err(e) => {
                if self.seen.swap(false, Ordering::Relaxed) {
                    tracing::warn!("{e}");
                }
                (None, totals)
            }
        }
    }
}
