//! What the main thread does with a channel of either kind: one that a thread of its own
//! serves, or one that the engine serves.

use super::super::pulse::Pulse;
use super::super::queues::RunningQueues;
use super::RunningThread;
use std::os::fd::OwnedFd;

/// The main thread's hold on a channel.
pub enum Running {
    /// Of calls or raw lines.
    Thread(RunningThread),
    /// Of queues.
    Queues(RunningQueues),
}

impl Running {
    fn thread(&self) -> Option<&RunningThread> {
        match self {
            Running::Thread(thread) => Some(thread),
            Running::Queues(_) => None,
        }
    }

    /// What its thread shows, if it has one.
    pub fn pulse(&self) -> Option<&Pulse> {
        self.thread().map(|t| &*t.pulse)
    }

    /// Takes back what was lent to calls that have ended.
    pub fn expire(&self) {
        if let Some(thread) = self.thread() {
            thread.lender.expire();
        }
    }

    /// Shows the app that this service lives, which no manager would tell it.
    pub fn beat_alone(&self) {
        match self {
            Running::Thread(thread) => thread.beat_alone(),
            Running::Queues(queues) => queues.beat_alone(),
        }
    }

    /// Shows the app of queues that the service lives.
    pub fn beat_life(&self) {
        if let Running::Queues(queues) = self {
            queues.beat_life();
        }
    }

    /// Bounds its calls a second from now on; 0 for no bound. Queues have no calls.
    pub fn set_rate(&self, calls_per_s: u32) {
        if let Some(thread) = self.thread() {
            thread.set_rate(calls_per_s);
        }
    }

    /// Lets the thread look for calls, if it sleeps.
    pub fn wake(&self) {
        if let Some(thread) = self.thread() {
            thread.wake();
        }
    }

    /// Asks who serves it to end after what is under way.
    pub fn stop(&mut self) {
        match self {
            Running::Thread(thread) => thread.stop(),
            Running::Queues(queues) => queues.stop(),
        }
    }

    /// The same, for another service to go on with it. Nobody can go on with queues: they end.
    pub fn hand_over(&mut self, baton: Option<OwnedFd>) {
        match self {
            Running::Thread(thread) => thread.hand_over(baton),
            Running::Queues(queues) => queues.stop(),
        }
    }

    /// Nobody will say any more whose turn it is.
    pub fn leave_alone(&self) {
        if let Some(thread) = self.thread() {
            thread.leave_alone();
        }
    }

    /// It is the turn of one that stands by. Others are told nothing new.
    pub fn take_up(&self, status: u32) {
        if let Some(thread) = self.thread() {
            thread.take_up(status);
        }
    }

    /// Whether the engine is to let go of it and has not done so yet.
    pub fn is_leaving(&self) -> bool {
        matches!(self, Running::Queues(queues) if queues.is_leaving())
    }

    /// Looks whether the engine has let go of it.
    pub fn look(&mut self) {
        if let Running::Queues(queues) = self {
            queues.look();
        }
    }
}
