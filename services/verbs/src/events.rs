//! What programs must be told.

use crate::limits::EVENTS;
use crate::slab::{CqId, ProgramId};
use std::collections::VecDeque;
use vfun_verbs::AsyncKind;

/// News for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A completion queue has the event that was asked for: wake the program.
    Completed { program: ProgramId, cq: CqId },
    /// An asynchronous event of an object: a queue pair by the number that peers know, another
    /// one by its place.
    Async { program: ProgramId, kind: AsyncKind, object: u32 },
}

/// Those that nobody has taken yet.
pub(crate) struct Events {
    list: VecDeque<Event>,
    pub lost: u64,
}

impl Events {
    /// With room for all that it may hold.
    pub fn new() -> Self {
        Events { list: VecDeque::with_capacity(EVENTS), lost: 0 }
    }

    pub fn push(&mut self, event: Event) {
        match self.list.len() < EVENTS {
            true => self.list.push_back(event),
            false => self.lost += 1,
        }
    }

    pub fn take(&mut self) -> Option<Event> {
        self.list.pop_front()
    }
}
