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
    completed: VecDeque<Event>,
    /// Asynchronous ones, by the place of their program, and how many there are in all.
    asynchronous: Vec<VecDeque<Event>>,
    waiting: usize,
    pub lost: u64,
}

impl Events {
    /// With room for all that data may make; the rest gets its room when it comes.
    pub fn new() -> Self {
        let completed = VecDeque::with_capacity(COMPLETED);
        Events { completed, asynchronous: vec![], waiting: 0, lost: 0 }
    }

    /// Each kind, and of asynchronous ones each program, has room of its own: a program whose
    /// queue pairs fail all at once must not take an event that another one needs.
    pub fn push(&mut self, event: Event) {
        let (list, most) = match event {
            Event::Completed { .. } => (&mut self.completed, COMPLETED),
            Event::Async { program, .. } => {
                let at = program.0 as usize;
                let programs = self.asynchronous.len().max(at + 1);
                self.asynchronous.resize_with(programs, VecDeque::new);
                (&mut self.asynchronous[at], EVENTS)
            }
        };
        if list.len() >= most {
            self.lost += 1;
            return;
        }
        list.push_back(event);
        self.waiting += usize::from(matches!(event, Event::Async { .. }));
    }

    pub fn take(&mut self) -> Option<Event> {
        if let Some(event) = self.completed.pop_front() {
            return Some(event);
        }
        if self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        self.asynchronous.iter_mut().find_map(VecDeque::pop_front)
    }

    /// A program has gone: who has its place next gets nothing of it.
    pub fn forget(&mut self, program: ProgramId) {
        if let Some(list) = self.asynchronous.get_mut(program.0 as usize) {
            self.waiting -= list.len();
            *list = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn failed(program: u32, object: u32) -> Event {
        Event::Async { program: ProgramId(program), kind: AsyncKind::QpFatal, object }
    }

    #[test]
    fn a_flood_takes_nothing_of_another_kind_or_program() {
        let completed = Event::Completed { program: ProgramId(1), cq: CqId(0) };
        let mut events = Events::new();
        (0..EVENTS as u32 + 3).for_each(|object| events.push(failed(0, object)));
        events.push(failed(1, 7));
        events.push(completed);
        assert_eq!(events.lost, 3);
        assert_eq!(events.take(), Some(completed));
        for object in 0..EVENTS as u32 {
            assert_eq!(events.take(), Some(failed(0, object)));
        }
        assert_eq!((events.take(), events.take()), (Some(failed(1, 7)), None));
        (0..COMPLETED + 2).for_each(|_| events.push(completed));
        events.push(failed(0, 0));
        assert_eq!(events.lost, 5);
        assert_eq!(std::iter::from_fn(|| events.take()).count(), COMPLETED + 1);
    }

    #[test]
    fn events_of_a_program_that_has_gone_are_nobodys() {
        let mut events = Events::new();
        events.push(failed(0, 1));
        events.push(failed(2, 2));
        events.forget(ProgramId(0));
        events.forget(ProgramId(9));
        assert_eq!((events.take(), events.take()), (Some(failed(2, 2)), None));
    }
}
