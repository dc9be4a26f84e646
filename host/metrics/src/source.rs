//! What the manager says, at every look.

use crate::nics::{NicsSeen, NicsSource};
use crate::totals::Totals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_admin::links::{FlowsView, LinkRow};
use vfun_admin::ports::PortRow;
use vfun_admin::{AskError, Client, ClientRow, GrantRow, Status};

/// One look.
#[derive(Debug)]
pub struct Look {
    /// The manager at a glance.
    pub status: Status,
    pub clients: Vec<ClientRow>,
    /// Grants there are.
    pub grants: Vec<GrantRow>,
    /// Ports of VMs.
    pub ports: Vec<PortRow>,
    /// Direct links between these.
    pub links: Vec<LinkRow>,
    /// What went past rules of switches.
    pub flows: FlowsView,
}

/// A manager and what was seen of it so far. Any thread may look.
#[derive(Debug)]
pub struct Source {
    manager: Client,
    totals: Mutex<Totals>,
    nics: NicsSource,
    /// Whether the last look saw it; what is the same as before is not said again.
    seen: AtomicBool,
}

impl Source {
    /// The manager with this admin socket.
    pub fn new(socket: PathBuf) -> Self {
        Source {
            manager: Client::of_socket(socket),
            totals: Mutex::default(),
            nics: NicsSource::new(),
            seen: AtomicBool::new(true),
        }
    }

    fn asked(&self) -> Result<Look, AskError> {
        Ok(Look {
            status: self.manager.status()?,
            clients: self.manager.clients()?,
            grants: self.manager.grants()?,
            ports: self.manager.ports()?,
            links: self.manager.links()?,
            flows: self.manager.link_flows(None)?,
        })
    }

    /// Looks at what is lent of network VFs. It may take long: [`Source::look`] does not wait
    /// for it.
    pub fn look_at_nics(&self) {
        // That the manager does not answer is said by the other look.
        if let Ok(status) = self.manager.status() {
            self.nics.look(&status);
        }
    }

    /// What was seen last of network VFs.
    pub fn nics(&self) -> NicsSeen {
        self.nics.seen()
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
