//! What a call asks of the manager: the one way from an engine's call to it.

use super::watch::Alarm;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vfun_supervise::{ModuleRequest, ModuleVerdict};

/// Something to be asked.
pub(crate) struct ManagerQuestion {
    /// The channel whose call asks.
    pub channel: u64,
    pub wish: ModuleRequest,
    /// What comes with it.
    pub file: Option<OwnedFd>,
    /// Where the answer goes.
    pub reply: Sender<ModuleVerdict>,
}

/// Asks the manager, from any channel's thread.
pub struct ManagerLink {
    to: Mutex<Sender<ManagerQuestion>>,
    alarm: Arc<Alarm>,
}

impl ManagerLink {
    /// A link, and where the main thread hears what is asked by it.
    pub(crate) fn new(alarm: Arc<Alarm>) -> (Self, Receiver<ManagerQuestion>) {
        let (to, heard) = channel();
        (ManagerLink { to: Mutex::new(to), alarm }, heard)
    }

    /// Has the main thread look at what there is for the manager.
    pub(crate) fn wake(&self) {
        self.alarm.bell().ring();
    }

    /// Asks and waits; `None` if no answer came in time, or no manager is
    /// there to give one. `file` is handed over with it.
    pub fn ask(
        &self,
        channel: u64,
        wish: ModuleRequest,
        file: Option<BorrowedFd<'_>>,
        patience: Duration,
    ) -> Option<ModuleVerdict> {
        let file = file.map(|f| f.try_clone_to_owned()).transpose().ok()?;
        let (reply, verdict) = std::sync::mpsc::channel();
        self.to
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(ManagerQuestion { channel, wish, file, reply })
            .ok()?;
        self.alarm.bell().ring();
        verdict.recv_timeout(patience).ok()
    }
}
