//! Between the thread that moves the bond and the one that talks with the host: the latest
//! order one way, the latest report the other way. A newer one takes the older one's place.

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_bond::{Order, Report};

#[derive(Default)]
struct Letters {
    order: Option<Order>,
    report: Option<Report>,
    host: String,
}

/// Shared by both threads.
pub struct Mailbox {
    letters: Mutex<Letters>,
    to_agent: OwnedFd,
    to_host: OwnedFd,
}

fn ring(bell: &OwnedFd) {
    // It can only be full of rings, and then it rings.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Takes all rings out of a bell.
pub fn silence(bell: BorrowedFd<'_>) {
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

impl Mailbox {
    /// An empty one.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> std::io::Result<Self> {
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Mailbox { letters: Mutex::default(), to_agent: bell()?, to_host: bell()? })
    }

    fn letters(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the host wants, for the agent.
    pub fn put_order(&self, order: Order) {
        self.letters().order = Some(order);
        ring(&self.to_agent);
    }

    /// The latest order; it stays.
    pub fn order(&self) -> Option<Order> {
        self.letters().order.clone()
    }

    /// How things are, for the host.
    pub fn put_report(&self, report: Report) {
        self.letters().report = Some(report);
        ring(&self.to_host);
    }

    /// Takes the report that was not sent yet.
    pub fn take_report(&self) -> Option<Report> {
        self.letters().report.take()
    }

    /// How it goes with the host, for people.
    pub fn set_host(&self, text: &str) {
        self.letters().host = text.to_owned();
        ring(&self.to_agent);
    }

    /// The same.
    pub fn host(&self) -> String {
        self.letters().host.clone()
    }

    /// Readable when there is something for the agent.
    pub fn agent_bell(&self) -> BorrowedFd<'_> {
        self.to_agent.as_fd()
    }

    /// Readable when there is something for the host.
    pub fn host_bell(&self) -> BorrowedFd<'_> {
        self.to_host.as_fd()
    }
}
