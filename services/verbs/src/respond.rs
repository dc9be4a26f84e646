//! The receiving half of a queue pair.

use crate::access::{Side, View};
use crate::engine::Engine;
use crate::payload::Payload;
use crate::qp::Waits;
use crate::send::{Fault, Refusal};
use vfun_queue::Memory;
use vfun_verbs::flags::{access, completion, send};
use vfun_verbs::{AsyncKind, Completion, CompletionOpcode, QpState, SendOpcode, Status, Taken};

/// A receive's keys do not allow it.
pub(crate) const RECEIVE_DENIED: Fault = Fault::Theirs(Refusal {
    status: Status::RemoteOperation,
    receive: Some(Status::LocalProtection),
    event: None,
});
/// A receive that makes no sense.
const RECEIVE_BAD: Fault = Fault::Theirs(Refusal {
    status: Status::RemoteOperation,
    receive: Some(Status::LocalOperation),
    event: None,
});
/// A receive that is too short.
const RECEIVE_SHORT: Fault = Fault::Theirs(Refusal {
    status: Status::RemoteInvalid,
    receive: Some(Status::LocalLength),
    event: None,
});

impl<M: Memory, P: Payload> Engine<M, P> {
    /// Makes sure that a queue pair has a receive for what comes.
    pub(crate) fn prepare_receive(&mut self, at: u32) -> Result<(), Fault> {
        let qp = &mut self.qps[at];
        if qp.incoming.is {
            return Ok(());
        }
        let shared = qp.fixed.srq;
        let queue = match (shared, &mut qp.receives) {
            (Some(srq), _) => &mut self.srqs[srq].queue,
            (None, Some(own)) => own,
            (None, None) => return Err(Fault::Wait(Waits::Receive)),
        };
        qp.incoming.position = queue.position();
        match queue.take_receive(&mut qp.incoming.entry) {
            Ok(Taken::Nothing) => return Err(Fault::Wait(Waits::Receive)),
            Ok(taken) => (qp.incoming.is, qp.incoming.bad) = (true, taken != Taken::Entry),
            Err(_) => {
                self.receives_broke(at, shared);
                return Err(Fault::Wait(Waits::Peer));
            }
        }
        if let Some(srq) = shared {
            self.look_at_limit(srq);
        }
        Ok(())
    }

    /// A program broke the rules of a receive queue.
    #[cold]
    fn receives_broke(&mut self, at: u32, shared: Option<u32>) {
        match shared {
            Some(srq) => {
                let program = self.srqs[srq].program;
                self.tell_program(program, AsyncKind::SrqError, srq);
            }
            None => self.tell(at, AsyncKind::QpFatal),
        }
        self.fail_qp(at);
    }

    fn look_at_limit(&mut self, at: u32) {
        let srq = &mut self.srqs[at];
        if srq.limit > 0 && srq.queue.posted_hint() < srq.limit.into() {
            srq.limit = 0;
            let program = srq.program;
            self.tell_program(program, AsyncKind::SrqLimit, at);
        }
    }

    /// Whether the receive that was prepared takes a message of so many bytes.
    pub(crate) fn check_receive(&self, at: u32, total: u64) -> Result<(), Fault> {
        let incoming = &self.qps[at].incoming;
        let room: u64 = incoming.entry.sges().iter().map(|s| u64::from(s.len)).sum();
        if incoming.bad {
            return Err(RECEIVE_BAD);
        }
        if total > room {
            return Err(RECEIVE_SHORT);
        }
        // One element is checked when it is used.
        let several = incoming.entry.sges().len() > 1;
        match several && !self.regions.allows(&self.receive_view(at)) {
            true => Err(RECEIVE_DENIED),
            false => Ok(()),
        }
    }

    /// Memory of the receive that was prepared.
    pub(crate) fn receive_view(&self, at: u32) -> View<'_> {
        let qp = &self.qps[at];
        let side = Side::Receives(&qp.incoming.entry);
        let pd = qp.fixed.srq.map_or(qp.fixed.pd, |srq| self.srqs[srq].pd);
        View { side, pd, access: access::LOCAL_WRITE }
    }

    /// A message is complete: the receive is.
    pub(crate) fn deliver(&mut self, at: u32, peer: u32) {
        let qp = &self.qps[at];
        let (head, byte_len) = (qp.current.entry.head, qp.current.total as u32);
        let opcode = match head.op {
            SendOpcode::WriteImm => CompletionOpcode::ReceiveWrite,
            _ => CompletionOpcode::Receive,
        };
        let (flags, imm) =
            if head.op.has_imm() { (completion::WITH_IMM, head.imm) } else { (0, 0) };
        let src_qp = qp.qpn;
        let solicited = head.flags & send::SOLICITED != 0;
        let done = Completion { opcode, flags, imm, byte_len, src_qp, ..self.received(peer) };
        self.end_receive(peer, &done, solicited);
    }

    /// What is common to the completions of receives.
    pub(crate) fn received(&self, at: u32) -> Completion {
        let qp = &self.qps[at];
        Completion {
            status: Status::Success,
            opcode: CompletionOpcode::Receive,
            flags: 0,
            wr_id: qp.incoming.entry.wr_id,
            qpn: qp.qpn,
            src_qp: 0,
            byte_len: 0,
            imm: 0,
            position: qp.incoming.position as u32,
            slid: 0,
        }
    }

    /// The receive that was prepared is done.
    pub(crate) fn end_receive(&mut self, at: u32, done: &Completion, solicited: bool) {
        let qp = &mut self.qps[at];
        qp.incoming.is = false;
        let cq = qp.fixed.receive_cq;
        self.complete(cq, done, solicited);
    }

    /// The responder's part of a refusal: it fails too (InfiniBand 9.9.3, class C).
    pub(crate) fn refuse(&mut self, at: u32, refusal: Refusal) {
        if let Some(status) = refusal.receive
            && self.qps[at].incoming.is
        {
            let done = Completion { status, ..self.received(at) };
            self.end_receive(at, &done, true);
        }
        if let Some(kind) = refusal.event {
            self.tell(at, kind);
        }
        self.fail_qp(at);
    }

    /// The first message came while the program believed that nobody is connected yet.
    #[inline]
    pub(crate) fn establish(&mut self, at: u32) {
        let qp = &mut self.qps[at];
        if qp.state == QpState::Rtr && !qp.established {
            qp.established = true;
            self.tell(at, AsyncKind::Established);
        }
    }
}
