//! What is left of a queue pair that failed: each entry completes as flushed.

use crate::engine::Engine;
use crate::limits::ENTRIES_A_TURN;
use crate::payload::Payload;
use vfun_queue::Memory;
use vfun_verbs::{AsyncKind, Completion, QpState, Status, Taken};

impl<M: Memory, P: Payload> Engine<M, P> {
    pub(crate) fn flush_turn(&mut self, at: u32) -> bool {
        let mut worked = false;
        for _ in 0..ENTRIES_A_TURN {
            let sent = self.flush_send(at);
            let received = self.qps[at].state == QpState::Error && self.flush_receive(at);
            if !sent && !received {
                break;
            }
            worked = true;
        }
        if worked {
            self.qps[at].idle = 0;
        }
        worked
    }

    fn flush_send(&mut self, at: u32) -> bool {
        let qp = &mut self.qps[at];
        if !qp.current.is {
            qp.current.position = qp.sends.position();
            // What was broken brings no more entries.
            match qp.sends.take_send(&mut qp.current.entry) {
                Ok(Taken::Nothing) | Err(_) => return false,
                Ok(_) => qp.current.total = 0,
            }
        }
        self.end_send(at, Status::Flushed);
        true
    }

    fn flush_receive(&mut self, at: u32) -> bool {
        let qp = &mut self.qps[at];
        if !qp.incoming.is {
            let Some(receives) = &mut qp.receives else {
                return self.tell_last(at);
            };
            qp.incoming.position = receives.position();
            match receives.take_receive(&mut qp.incoming.entry) {
                Ok(Taken::Nothing) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        let done = Completion { status: Status::Flushed, ..self.received(at) };
        self.end_receive(at, &done, true);
        true
    }

    /// A queue pair that failed takes no more from a shared receive queue.
    fn tell_last(&mut self, at: u32) -> bool {
        let qp = &mut self.qps[at];
        if !qp.told_last {
            qp.told_last = true;
            self.tell(at, AsyncKind::LastReceive);
        }
        false
    }
}
