//! How entries end: completions, events, queue pairs that fail.

use crate::engine::Engine;
use crate::events::Event;
use crate::limits::FAILS_A_TURN;
use crate::payload::Payload;
use crate::slab::{CqId, ProgramId};
use vfun_queue::Memory;
use vfun_verbs::flags::send::SIGNALED;
use vfun_verbs::limits::LINES_AHEAD;
use vfun_verbs::{AsyncKind, Completion, QpState, QpType, Status};

impl<M: Memory, P: Payload> Engine<M, P> {
    /// Puts a completion into a queue, and tells who asked for an event.
    #[inline(never)]
    pub(crate) fn complete(&mut self, at: u32, done: &Completion, solicited: bool) {
        self.put(at, done);
        self.answer(at, solicited);
    }

    /// The same where it is most of what is done: the completion's fields go from registers to the queue. By way of memory
    /// a processor waits for them, because they are stored one by one and loaded together.
    #[inline(always)]
    fn put(&mut self, at: u32, done: &Completion) {
        let cq = &mut self.cqs[at];
        if cq.failed {
            return;
        }
        if !matches!(cq.queue.produce(&[done.entry()]), Ok(1)) {
            return self.overrun(at);
        }
        cq.queue.prefetch(LINES_AHEAD);
    }

    /// Tells the program of what was put into a queue, if it asked (R-VRB-8).
    #[inline(always)]
    fn answer(&mut self, at: u32, solicited: bool) {
        let cq = &mut self.cqs[at];
        if !cq.failed && cq.has_channel && cq.events.completed(&cq.queue, solicited) {
            let (program, cq) = (ProgramId(cq.program), CqId(at));
            self.events.push(Event::Completed { program, cq });
        }
    }

    /// The same of what [`Engine::finish`] put there. Once for a turn: the fence waits for all that was copied before it.
    #[inline]
    pub(crate) fn answer_owed(&mut self) {
        if let Some(at) = self.owed.take() {
            self.answer(at, false);
        }
    }

    /// There is no room, or the program broke the queue's rules: nobody can be told of what
    /// is done, so the queue and all queue pairs that use it fail.
    #[cold]
    fn overrun(&mut self, at: u32) {
        // Of what had room before, in this turn.
        self.answer_owed();
        self.cqs[at].failed = true;
        let program = self.cqs[at].program;
        self.tell_program(program, AsyncKind::CqError, at);
        self.programs[program].failing = 0;
        self.fail_users(program);
    }

    /// Fails some of the program's queue pairs whose completion queue has failed. Whether
    /// there may be more of them.
    #[cold]
    pub(crate) fn fail_users(&mut self, program: u32) -> bool {
        let Some(next) = self.programs[program].next_failing(FAILS_A_TURN) else { return false };
        for at in next {
            self.fail_user(at);
        }
        true
    }

    /// Fails a queue pair if a completion queue of it has failed; whether it did.
    #[cold]
    pub(crate) fn fail_user(&mut self, at: u32) -> bool {
        let is = self.qps[at].state != QpState::Error && self.has_failed_cq(at);
        if is {
            self.tell(at, AsyncKind::QpFatal);
            self.fail_qp(at);
        }
        is
    }

    /// Whether there are completions of a queue pair that nobody can be told of.
    pub(crate) fn has_failed_cq(&self, at: u32) -> bool {
        let fixed = &self.qps[at].fixed;
        self.cqs[fixed.send_cq].failed || self.cqs[fixed.receive_cq].failed
    }

    /// Tells the program of a queue pair.
    pub(crate) fn tell(&mut self, at: u32, kind: AsyncKind) {
        let qp = &self.qps[at];
        let (program, object) = (qp.fixed.program, qp.qpn);
        self.tell_program(program, kind, object);
    }

    pub(crate) fn tell_program(&mut self, program: u32, kind: AsyncKind, object: u32) {
        self.events.push(Event::Async { program: ProgramId(program), kind, object });
    }

    /// The entry is done. Who asked for an event is told by [`Engine::answer_owed`].
    #[inline]
    pub(crate) fn finish(&mut self, at: u32) {
        let qp = &mut self.qps[at];
        qp.counts.done = qp.counts.done.wrapping_add(1);
        qp.counts.bytes = qp.counts.bytes.wrapping_add(qp.current.total);
        qp.current.is = false;
        qp.wait = None;
        // A long copy gave the program time to post it: it comes while this one completes.
        qp.sends.queue().prefetch(0);
        let is_drained = qp.state == QpState::Sqd;
        if qp.fixed.all_signaled || qp.current.entry.head.flags & SIGNALED != 0 {
            let (cq, done) = (qp.fixed.send_cq, qp.sent(Status::Success));
            self.put(cq, &done);
            self.owed = Some(cq);
        }
        if is_drained {
            self.tell_drained(at);
        }
    }

    /// The entry failed: it completes in any case, and the queue pair sends no more.
    #[cold]
    pub(crate) fn fail(&mut self, at: u32, status: Status) {
        let counts = &mut self.qps[at].counts;
        counts.done = counts.done.wrapping_add(1);
        counts.failed = counts.failed.wrapping_add(1);
        self.end_send(at, status);
        match self.qps[at].fixed.kind {
            QpType::Rc => self.fail_qp(at),
            // It still receives (InfiniBand 10.3.1.5).
            QpType::Uc | QpType::Ud if self.qps[at].state != QpState::Error => {
                self.qps[at].state = QpState::Sqe;
                self.activate(at);
            }
            QpType::Uc | QpType::Ud => {}
        }
    }

    /// Ends the entry that a queue pair works on, with a completion.
    pub(crate) fn end_send(&mut self, at: u32, status: Status) {
        let qp = &mut self.qps[at];
        qp.current.is = false;
        qp.wait = None;
        let (cq, done) = (qp.fixed.send_cq, qp.sent(status));
        self.complete(cq, &done, true);
    }

    /// From now on everything of the queue pair is flushed.
    pub(crate) fn fail_qp(&mut self, at: u32) {
        self.unbind(at);
        self.qps[at].state = QpState::Error;
        self.qps[at].wait = None;
        self.say_flushes(at, true);
        self.activate(at);
        // Also one that was looked at just now: what is posted is flushed before the NIC sleeps.
        self.programs[self.qps[at].fixed.program].fruitless = 0;
        self.more = true;
    }

    /// Says that the last entry of a queue that is to be drained is done.
    pub(crate) fn tell_drained(&mut self, at: u32) {
        let qp = &mut self.qps[at];
        if qp.state == QpState::Sqd && qp.set.tell_drained && !qp.current.is {
            qp.set.tell_drained = false;
            self.tell(at, AsyncKind::Drained);
        }
    }
}
