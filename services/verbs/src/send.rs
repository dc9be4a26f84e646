//! The sending half of a queue pair: takes entries, checks them, does them.

use crate::access::{Side, View, Wrong};
use crate::engine::{Engine, Regions};
use crate::limits::{ENTRIES_A_TURN, PATIENCE_NS, SLICE, SLICES_ALONE};
use crate::payload::Payload;
use crate::qp::{Qp, Wait, Waits};
use crate::times;
use vfun_queue::Memory;
use vfun_verbs::flags::access;
use vfun_verbs::limits::{DATAGRAM_MAX, INLINE_MAX, MESSAGE_MAX};
use vfun_verbs::{AsyncKind, QpState, QpType, SendOpcode, Status};

/// How far an entry came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    /// The slice is used up.
    More,
}

/// Why an entry did not get further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The requester's own.
    Mine(Status),
    /// The responder refuses.
    Theirs(Refusal),
    /// Not now.
    Wait(Waits),
}

/// What both sides are told of what the responder refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The requester's status.
    pub status: Status,
    /// The status of the responder's receive, if one was used.
    pub receive: Option<Status>,
    /// The responder's event.
    pub event: Option<AsyncKind>,
}

/// No key allows it.
pub(crate) const NO_ACCESS: Fault = Fault::Theirs(Refusal {
    status: Status::RemoteAccess,
    receive: None,
    event: Some(AsyncKind::QpAccess),
});
/// The responder does not offer it.
pub(crate) const INVALID: Fault = Fault::Theirs(Refusal {
    status: Status::RemoteInvalid,
    receive: None,
    event: Some(AsyncKind::QpRequest),
});

impl<M: Memory, P: Payload> Engine<M, P> {
    pub(crate) fn send_turn(&mut self, at: u32) -> bool {
        let (mut left, mut slices, mut worked) = (SLICE, 1, false);
        for _ in 0..ENTRIES_A_TURN {
            match self.qps[at].take_send() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    self.tell(at, AsyncKind::QpFatal);
                    self.fail_qp(at);
                    break;
                }
            }
            match self.step(at, &mut left) {
                Ok(Step::Done | Step::More) => worked = true,
                Err(fault) if self.fault(at, fault) => worked = true,
                Err(_) => break,
            }
            if left == 0 {
                if slices >= SLICES_ALONE || !self.is_alone(at) {
                    break;
                }
                (left, slices) = (SLICE, slices + 1);
            }
        }
        self.answer_owed();
        worked
    }

    /// Whether nobody else has work, so that nobody waits for a turn.
    fn is_alone(&self, at: u32) -> bool {
        let program = &self.programs[self.qps[at].fixed.program];
        self.programs.count() == 1 && program.active.len() == 1
    }

    #[inline]
    fn step(&mut self, at: u32, left: &mut u64) -> Result<Step, Fault> {
        let qp = &mut self.qps[at];
        if !qp.current.begun {
            check_entry(&self.regions, qp).map_err(Fault::Mine)?;
            qp.current.begun = true;
        }
        match qp.fixed.kind {
            QpType::Ud => self.datagram(at),
            QpType::Rc | QpType::Uc => self.message(at, left),
        }
    }

    /// A message of a connected queue pair.
    #[inline]
    fn message(&mut self, at: u32, left: &mut u64) -> Result<Step, Fault> {
        let peer = self.peer(at).ok_or(Fault::Wait(Waits::Peer))?;
        let (qp, other) = (&self.qps[at], &self.qps[peer]);
        let op = qp.current.entry.head.op;
        if !offers(other.set.access, op) {
            return Err(INVALID);
        }
        let is_first = other.state == QpState::Rtr;
        if op.is_atomic() {
            self.atomic(at, peer)?;
        } else {
            let moved = if op.takes_receive() {
                self.prepare_receive(peer)?;
                self.move_to_receive(at, peer, *left)?
            } else {
                move_slice(&self.regions, (qp, other), None, *left)?
            };
            *left = left.saturating_sub(moved);
            let current = &mut self.qps[at].current;
            current.done += moved;
            if current.done < current.total {
                return Ok(Step::More);
            }
            if op.takes_receive() {
                self.deliver(at, peer);
            }
        }
        if is_first {
            self.establish(peer);
        }
        self.finish(at);
        Ok(Step::Done)
    }

    /// Moves bytes of what takes the receive that was prepared. Apart, so that a write knows what it moves to.
    #[inline(never)]
    fn move_to_receive(&self, at: u32, peer: u32, left: u64) -> Result<u64, Fault> {
        let (qp, other) = (&self.qps[at], &self.qps[peer]);
        let is_write = qp.current.entry.head.op == SendOpcode::WriteImm;
        if !is_write && qp.current.done == 0 {
            self.check_receive(peer, qp.current.total)?;
        }
        let receive = (!is_write).then(|| self.receive_view(peer));
        move_slice(&self.regions, (qp, other), receive, left)
    }

    /// What comes of a fault; whether the entry is done with.
    fn fault(&mut self, at: u32, fault: Fault) -> bool {
        let reliable = self.qps[at].fixed.kind == QpType::Rc;
        if fault == NO_ACCESS {
            self.qps[at].counts.wrong_keys += 1;
        }
        match fault {
            Fault::Mine(status) => self.fail(at, status),
            Fault::Theirs(refusal) if reliable => {
                if let Some(peer) = self.peer(at) {
                    self.refuse(peer, refusal);
                }
                self.fail(at, refusal.status);
            }
            Fault::Wait(what) if reliable => match self.wait(at, what) {
                None => return false,
                Some(status) => self.fail(at, status),
            },
            // Nobody answers: the message is lost, and the requester does not know.
            Fault::Theirs(_) | Fault::Wait(_) => {
                self.qps[at].counts.dropped += 1;
                // A receive that nothing can be put into ends; one that is short stays.
                if let Fault::Theirs(refusal) = fault
                    && refusal.status == Status::RemoteOperation
                    && let Some(peer) = self.peer(at)
                {
                    self.refuse(peer, refusal);
                }
                self.finish(at);
            }
        }
        true
    }

    /// Waits, or says with which status there is no more to wait for.
    fn wait(&mut self, at: u32, what: Waits) -> Option<Status> {
        let now = self.now;
        let (tries, after, status) = self.patience(at, what);
        let end = after.map(|after| now.saturating_add(after));
        let qp = &mut self.qps[at];
        match &mut qp.wait {
            Some(wait) if wait.what == what => {
                if wait.until.is_some_and(|until| now >= until) {
                    let forever = what == Waits::Receive && qp.set.rnr_retry == 7;
                    // The tries for a peer follow the first wait, those for a receive end it.
                    let none_left = match what {
                        Waits::Receive => wait.tries <= 1,
                        Waits::Peer => wait.tries == 0,
                    };
                    if none_left && !forever {
                        return Some(status);
                    }
                    wait.tries = wait.tries.saturating_sub(1);
                    wait.until = end;
                }
            }
            _ if what == Waits::Receive && tries == 0 => return Some(status),
            other => *other = Some(Wait { what, until: end, tries }),
        }
        None
    }

    /// How often and how long this is waited for, ns, and the status if it is in vain.
    fn patience(&self, at: u32, what: Waits) -> (u8, Option<u64>, Status) {
        let qp = &self.qps[at];
        match what {
            Waits::Peer => {
                (qp.set.retry_cnt, times::timeout(qp.set.timeout), Status::RetryExceeded)
            }
            Waits::Receive => {
                // The responder says how long.
                let code = qp.peer.map_or(0, |peer| self.qps[peer].set.min_rnr_timer);
                let lookers = self.programs[qp.fixed.program].active.len() as u64;
                let after = times::rnr(code).max(lookers * PATIENCE_NS);
                (qp.set.rnr_retry, Some(after), Status::RnrExceeded)
            }
        }
    }
}

/// What the requester's side alone can tell.
#[inline]
fn check_entry<M, P: Payload>(regions: &Regions<P>, qp: &Qp<M>) -> Result<(), Status> {
    let (op, total) = (qp.current.entry.head.op, qp.current.total);
    if qp.current.bad || !op.offered_by(qp.fixed.kind) {
        return Err(Status::LocalOperation);
    }
    let most = if qp.fixed.kind == QpType::Ud { DATAGRAM_MAX } else { MESSAGE_MAX };
    if total > most || op.is_atomic() && total != 8 {
        return Err(Status::LocalLength);
    }
    // One element is checked when it is used, which is before anything is moved; but
    // nobody waits for a receive in vain.
    let now = qp.current.entry.sges() > 1 || op.takes_receive();
    match now && !regions.allows(&qp.own_view()) {
        true => Err(Status::LocalProtection),
        false => Ok(()),
    }
}

/// Moves as many bytes as the slice has left, or all where they stand in the entry: to the receive,
/// or where the entry says.
#[inline(always)]
fn move_slice<M, P: Payload>(
    regions: &Regions<P>,
    (qp, other): (&Qp<M>, &Qp<M>),
    receive: Option<View<'_>>,
    left: u64,
) -> Result<u64, Fault> {
    let (head, current) = (&qp.current.entry.head, &qp.current);
    let done = current.done;
    let len = (current.total - done).min(left);
    let mine = qp.own_view();
    let side = Side::Remote { addr: head.addr, len: current.total, key: head.key };
    let remote = |access| View { side, pd: other.fixed.pd, access };
    if head.op == SendOpcode::Read {
        let from = remote(access::REMOTE_READ);
        let moved = regions.copy((&from, done), (&mine, done), (len, false));
        return moved.map(|()| len).map_err(|wrong| match wrong {
            Wrong::From => NO_ACCESS,
            Wrong::To => Fault::Mine(Status::LocalProtection),
        });
    }
    let writes = receive.is_none();
    let to = receive.unwrap_or_else(|| remote(access::REMOTE_WRITE));
    let moved = if current.entry.is_inline() {
        let mut bytes = [0; INLINE_MAX];
        let all = current.entry.inline_to(&mut bytes);
        regions.put(&bytes[..all], &to, 0).map(|()| current.total)
    } else {
        let last = writes && done + len == current.total;
        regions.copy((&mine, done), (&to, done), (len, last)).map(|()| len)
    };
    moved.map_err(|wrong| match wrong {
        Wrong::From => Fault::Mine(Status::LocalProtection),
        Wrong::To if writes => NO_ACCESS,
        Wrong::To => crate::respond::RECEIVE_DENIED,
    })
}

/// Whether a queue pair with these rights lets its peer do this.
const fn offers(rights: u32, op: SendOpcode) -> bool {
    let needed = match op {
        SendOpcode::Send | SendOpcode::SendImm => 0,
        SendOpcode::Write | SendOpcode::WriteImm => access::REMOTE_WRITE,
        SendOpcode::Read => access::REMOTE_READ,
        SendOpcode::CompareSwap | SendOpcode::FetchAdd => access::REMOTE_ATOMIC,
    };
    rights & needed == needed
}
