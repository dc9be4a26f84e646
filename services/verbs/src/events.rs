//! What programs must be told.

use crate::limits::{COMPLETED, EVENTS};
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
    /// How many of these say that something is completed.
    completed: usize,
    pub lost: u64,
}

impl Events {
    /// With room for all that it may hold.
    pub fn new() -> Self {
        let list = VecDeque::with_capacity(EVENTS + COMPLETED);
        Events { list, completed: 0, lost: 0 }
    }

    /// Each kind has room of its own: a program whose queue pairs fail all at once must not take
    /// the event for which another one sleeps.
    pub fn push(&mut self, event: Event) {
        let is_completed = matches!(event, Event::Completed { .. });
        let has_room = match is_completed {
            true => self.completed < COMPLETED,
            false => self.list.len() - self.completed < EVENTS,
        };
        if !has_room {
            self.lost += 1;
            return;
        }
        self.completed += usize::from(is_completed);
        self.list.push_back(event);
    }

    pub fn take(&mut self) -> Option<Event> {
        let event = self.list.pop_front()?;
        self.completed -= usize::from(matches!(event, Event::Completed { .. }));
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_kind_takes_nothing_of_the_other() {
        let failed =
            |object| Event::Async { program: ProgramId(0), kind: AsyncKind::QpFatal, object };
        let completed = Event::Completed { program: ProgramId(1), cq: CqId(0) };
        let mut events = Events::new();
        (0..EVENTS as u32 + 3).for_each(|object| events.push(failed(object)));
        events.push(completed);
        assert_eq!(events.lost, 3);
        for object in 0..EVENTS as u32 {
            assert_eq!(events.take(), Some(failed(object)));
        }
        assert_eq!((events.take(), events.take()), (Some(completed), None));
        (0..COMPLETED + 2).for_each(|_| events.push(completed));
        events.push(failed(0));
        assert_eq!(events.lost, 5);
        let all = std::iter::from_fn(|| events.take()).count();
        assert_eq!((all, events.completed), (COMPLETED + 1, 0));
    }
}
