//! `ibv_modify_qp`: states of queue pairs, and which of them are each other's peers.

use crate::attributes::Attributes;
use crate::engine::Engine;
use crate::payload::Payload;
use crate::qp::{Current, Qp};
use crate::refused::Refused;
use crate::slab::{ProgramId, QpId};
use crate::transition::is_ok;
use vfun_queue::Memory;
use vfun_verbs::QpState;
use vfun_verbs::flags::{access, attribute};

impl<M: Memory, P: Payload> Engine<M, P> {
    pub(crate) fn own_qp(&mut self, program: ProgramId, qp: QpId) -> Result<&mut Qp<M>, Refused> {
        let found = self.qps.get_mut(qp.0).filter(|q| q.fixed.program == program.0);
        found.ok_or(Refused::NoSuch("queue pair"))
    }

    /// The state that a queue pair is in.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn state(&self, program: ProgramId, qp: QpId) -> Result<QpState, Refused> {
        let found = self.qps.get(qp.0).filter(|q| q.fixed.program == program.0);
        found.map(|qp| qp.state).ok_or(Refused::NoSuch("queue pair"))
    }

    /// Whether a queue pair in the state SQD still works on an entry.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn is_draining(&self, program: ProgramId, qp: QpId) -> Result<bool, Refused> {
        let found = self.qps.get(qp.0).filter(|q| q.fixed.program == program.0);
        let found = found.ok_or(Refused::NoSuch("queue pair"))?;
        Ok(found.state == QpState::Sqd && found.current.is)
    }

    /// Changes attributes (those of `mask`) and the state: to `to`, which is the present one
    /// where `mask` has no state. On a refusal nothing changes.
    ///
    /// # Errors
    /// [`Refused`]: there is no such change, or an attribute is not possible.
    pub fn modify(
        &mut self,
        program: ProgramId,
        qp: QpId,
        (mask, to, set): (u32, QpState, &Attributes),
    ) -> Result<(), Refused> {
        let (at, qp) = (qp.0, self.own_qp(program, qp)?);
        let from = qp.state;
        let to = if mask & attribute::STATE == 0 { from } else { to };
        if !is_ok(from, to, qp.fixed.kind, mask) {
            return Err(Refused::Invalid("a queue pair in this state takes no such change"));
        }
        check(mask, set)?;
        if !matches!(to, QpState::Reset | QpState::Error) && self.has_failed_cq(at) {
            return Err(Refused::Invalid("a completion queue of the queue pair has failed"));
        }
        take(&mut self.qps[at].set, mask, set);
        if mask & attribute::AV != 0 {
            self.unbind(at);
        }
        match to {
            QpState::Reset => self.reset(at),
            QpState::Error => {
                self.fail_qp(at);
                Ok(())
            }
            to => {
                self.qps[at].state = to;
                self.qps[at].wait = None;
                self.say_flushes(at, false);
                self.activate(at);
                self.wake_peer(at);
                self.tell_drained(at);
                Ok(())
            }
        }
    }

    fn reset(&mut self, at: u32) -> Result<(), Refused> {
        self.unbind(at);
        let qp = &mut self.qps[at];
        qp.state = QpState::Reset;
        qp.set = Attributes::default();
        qp.current = Current::default();
        (qp.incoming.is, qp.wait) = (false, None);
        (qp.established, qp.told_last) = (false, false);
        let sends = qp.sends.discard();
        let receives = qp.receives.as_mut().map_or(Ok(()), |r| r.discard());
        self.say_flushes(at, false);
        // A queue whose rules were broken stays broken: the queue pair can only be ended.
        if sends.and(receives).is_err() {
            self.fail_qp(at);
            return Err(Refused::Invalid("the program broke the rules of the queue"));
        }
        Ok(())
    }

    /// Whether receives are flushed: the program must know, to tell of those it posts.
    pub(crate) fn say_flushes(&mut self, at: u32, flushes: bool) {
        if let Some(receives) = &self.qps[at].receives {
            receives.say_flushes(flushes);
        }
    }

    /// A queue pair changed: the one that it names may wait for that.
    fn wake_peer(&mut self, at: u32) {
        let named = self.qps[at].set.dest_qpn;
        if let Some(other) = self.qpns.get(named).copied()
            && self.qps[other].wait.is_some()
        {
            self.activate(other);
        }
    }

    /// The peer of a connected queue pair, if each of the two names the other one.
    #[inline]
    pub(crate) fn peer(&mut self, at: u32) -> Option<u32> {
        match self.qps[at].peer {
            None => self.bind(at),
            peer => peer,
        }
    }

    #[cold]
    fn bind(&mut self, at: u32) -> Option<u32> {
        let me = &self.qps[at];
        let found = *self.qpns.get(me.set.dest_qpn)?;
        let other = &self.qps[found];
        let address = |qp: &Qp<M>| self.programs[qp.fixed.program].address;
        let both = other.fixed.kind == me.fixed.kind
            && other.is_ready()
            && other.set.dest_qpn == me.qpn
            && other.set.path.leads_to(&address(me))
            && me.set.path.leads_to(&address(other));
        if !both {
            return None;
        }
        self.qps[at].peer = Some(found);
        Some(found)
    }

    /// Forgets who the peer is, at both ends: it is asked for again.
    pub(crate) fn unbind(&mut self, at: u32) {
        let named = self.qps[at].set.dest_qpn;
        if let Some(other) = self.qpns.get(named).copied()
            && self.qps[other].peer == Some(at)
        {
            self.qps[other].peer = None;
        }
        self.qps[at].peer = None;
    }
}

fn check(mask: u32, set: &Attributes) -> Result<(), Refused> {
    let is = |bit: u32| mask & bit != 0;
    if is(attribute::ACCESS_FLAGS) && set.access & !access::ALL != 0 {
        return Err(Refused::Invalid("the access flags are not offered"));
    }
    if is(attribute::DEST_QPN) && set.dest_qpn > 0xff_ffff {
        return Err(Refused::Invalid("a queue pair's number has 24 bits"));
    }
    let small = [
        (attribute::TIMEOUT, set.timeout, 31),
        (attribute::RETRY_CNT, set.retry_cnt, 7),
        (attribute::RNR_RETRY, set.rnr_retry, 7),
        (attribute::MIN_RNR_TIMER, set.min_rnr_timer, 31),
    ];
    match small.iter().any(|(bit, value, most)| is(*bit) && value > most) {
        true => Err(Refused::Invalid("a timer or a retry count is too large")),
        false => Ok(()),
    }
}

fn take(to: &mut Attributes, mask: u32, from: &Attributes) {
    macro_rules! take {
        ($($bit:ident $field:ident,)*) => {
            $(if mask & attribute::$bit != 0 { to.$field = from.$field; })*
        };
    }
    take! {
        ACCESS_FLAGS access,
        QKEY qkey,
        AV path,
        DEST_QPN dest_qpn,
        TIMEOUT timeout,
        RETRY_CNT retry_cnt,
        RNR_RETRY rnr_retry,
        MIN_RNR_TIMER min_rnr_timer,
        EN_SQD_ASYNC_NOTIFY tell_drained,
    }
}
