//! A channel, as the main thread holds it ([`running`]): what it tells the channel's thread,
//! and what that tells. [`opening`] maps the two sides; [`serving`] is the thread.

mod opening;
mod running;
mod serving;

pub use opening::{OrderBells, OrderDescriptors, map_side, open};
pub use running::Running;

use super::buffers::BufferLender;
use super::idle::End;
use super::pulse::Pulse;
use super::standby::Standby;
use super::watch::Alarm;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, Weak};
use vfun_ring::WindowMemory;
use vfun_window::{Baton, Bell};
use vfun_wire::channel::in_header;

/// What a channel's thread tells the main thread.
#[derive(Debug)]
pub enum Event {
    /// The driver is ready for it; another service serves it still.
    Standing,
    /// The driver is ready for it, and it is served.
    Opened,
    /// The driver refused it.
    Refused(String),
    /// It is no longer touched.
    Ended(End),
}

/// A way to tell, which wakes the main thread.
#[derive(Clone)]
pub struct Teller {
    pub channel: u64,
    pub events: Sender<(u64, Event)>,
    pub alarm: Arc<Alarm>,
}

impl Teller {
    pub fn tell(&self, event: Event) {
        // The main thread outlives every channel's.
        let _ = self.events.send((self.channel, event));
        self.alarm.bell().ring();
    }
}

/// The main thread's hold on a channel's thread.
pub struct RunningThread {
    pub pulse: Arc<Pulse>,
    bell: Option<Bell>,
    standby: Option<Arc<Standby>>,
    /// What the thread passes when it has let go.
    baton: Arc<Mutex<Option<Baton>>>,
    /// Its pages, for as long as the thread has them.
    pages: Weak<WindowMemory>,
    /// What lends its app's buffers to its calls.
    pub lender: Arc<BufferLender>,
}

impl RunningThread {
    /// Shows the app that this service lives, which no manager would tell it.
    pub fn beat_alone(&self) {
        if let Some(pages) = self.pages.upgrade() {
            pages.mine().fetch_add(in_header::ALONE, 1, Ordering::Relaxed);
        }
    }

    /// Bounds its calls a second from now on; 0 for no bound.
    pub fn set_rate(&self, calls_per_s: u32) {
        self.pulse.set_rate(calls_per_s);
    }

    /// Lets the thread look for calls, if it sleeps.
    pub fn wake(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Asks the thread to end after the call under way.
    pub fn stop(&self) {
        self.pulse.stop();
        self.wake_to_end();
    }

    fn wake_to_end(&self) {
        self.wake();
        if let Some(standby) = &self.standby {
            standby.wake();
        }
    }

    /// The same, and to pass the baton as soon as what was begun is answered. Said
    /// again, by another manager, which has no baton: the one that is here is passed.
    pub fn hand_over(&self, baton: Option<OwnedFd>) {
        if let Some(baton) = baton {
            let mut here = self.baton.lock().unwrap_or_else(|e| e.into_inner());
            *here = Some(Baton::from_fd(baton));
        }
        self.pulse.hand_over();
        self.wake_to_end();
    }

    /// Nobody will say any more whose turn it is.
    pub fn leave_alone(&self) {
        if let Some(standby) = &self.standby {
            standby.leave_alone();
        }
    }

    /// It is the turn of one that stands by. Others are told nothing new.
    pub fn take_up(&self, status: u32) {
        if let Some(standby) = &self.standby {
            standby.take(status);
        }
    }
}
