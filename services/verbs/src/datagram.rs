//! Datagrams: to any queue pair of the tenant that is ready and has the same Q_Key.

use crate::access::Wrong;
use crate::engine::Engine;
use crate::payload::Payload;
use crate::send::{Fault, Step};
use vfun_queue::Memory;
use vfun_verbs::flags::{completion, send};
use vfun_verbs::limits::{GRH_BYTES, INLINE_MAX};
use vfun_verbs::{Completion, QpType, Status};

/// A Q_Key with this bit stands for the queue pair's own (InfiniBand 3.5.3).
const OWN_QKEY: u32 = 1 << 31;

impl<M: Memory, P: Payload> Engine<M, P> {
    pub(crate) fn datagram(&mut self, at: u32) -> Result<Step, Fault> {
        let mine = self.qps[at].own_view();
        let total = self.qps[at].current.total;
        if total > 0 && !self.qps[at].current.entry.is_inline() && !self.regions.allows(&mine) {
            return Err(Fault::Mine(Status::LocalProtection));
        }
        let to = self.receiver(at)?;
        match to.filter(|to| self.takes(*to, total)) {
            Some(to) => self.bring(at, to)?,
            None => self.qps[at].counts.dropped += 1,
        }
        self.finish(at);
        Ok(Step::Done)
    }

    /// The queue pair that a datagram is for; `None`: nobody has it.
    fn receiver(&self, at: u32) -> Result<Option<u32>, Fault> {
        let qp = &self.qps[at];
        let head = &qp.current.entry.head;
        let ah = self.ahs.get(head.key).filter(|ah| ah.pd == qp.fixed.pd);
        let ah = ah.ok_or(Fault::Mine(Status::LocalOperation))?;
        let (qpn, qkey) = head.receiver();
        let qkey = if qkey & OWN_QKEY != 0 { qp.set.qkey } else { qkey };
        let found = self.qpns.get(qpn).copied().filter(|to| {
            let to = &self.qps[*to];
            to.fixed.kind == QpType::Ud
                && to.is_ready()
                && to.set.qkey == qkey
                && ah.path.leads_to(&self.programs[to.fixed.program].address)
        });
        Ok(found)
    }

    /// Whether it has a receive that is long enough. One that is not stays for the next.
    fn takes(&mut self, to: u32, total: u64) -> bool {
        if self.prepare_receive(to).is_err() {
            return false;
        }
        let incoming = &self.qps[to].incoming;
        let room: u64 = incoming.entry.sges().iter().map(|s| u64::from(s.len)).sum();
        incoming.bad || GRH_BYTES as u64 + total <= room
    }

    fn bring(&mut self, at: u32, to: u32) -> Result<(), Fault> {
        let status = if self.qps[to].incoming.bad {
            Status::LocalOperation
        } else {
            match self.copy_datagram(at, to) {
                Ok(()) => Status::Success,
                Err(Wrong::To) => Status::LocalProtection,
                Err(Wrong::From) => return Err(Fault::Mine(Status::LocalProtection)),
            }
        };
        let qp = &self.qps[at];
        let head = qp.current.entry.head;
        let imm = if head.op.has_imm() { completion::WITH_IMM } else { 0 };
        let done = Completion {
            status,
            flags: completion::GRH | imm,
            imm: if head.op.has_imm() { head.imm } else { 0 },
            byte_len: qp.current.total as u32 + GRH_BYTES as u32,
            src_qp: qp.qpn,
            slid: self.programs[qp.fixed.program].address.lid,
            ..self.received(to)
        };
        let solicited = head.flags & send::SOLICITED != 0 || status != Status::Success;
        self.end_receive(to, &done, solicited);
        if status != Status::Success {
            self.fail_qp(to);
        }
        Ok(())
    }

    fn copy_datagram(&self, at: u32, to: u32) -> Result<(), Wrong> {
        let (from, target) = (self.qps[at].own_view(), self.receive_view(to));
        if !self.regions.allows(&target) {
            return Err(Wrong::To);
        }
        let current = &self.qps[at].current;
        self.regions.put(&self.route_header(at, to), &target, 0)?;
        let after = GRH_BYTES as u64;
        if current.entry.is_inline() {
            let mut bytes = [0; INLINE_MAX];
            let all = current.entry.inline_to(&mut bytes);
            return self.regions.put(&bytes[..all], &target, after);
        }
        self.regions.copy((&from, 0), (&target, after), (current.total, false))
    }

    /// The global route header (InfiniBand 8.3): version 6, its length, the next header is
    /// InfiniBand's, and the two addresses.
    fn route_header(&self, at: u32, to: u32) -> [u8; GRH_BYTES] {
        let gid = |qp: u32| self.programs[self.qps[qp].fixed.program].address.gid;
        let mut header = [0; GRH_BYTES];
        header[0] = 0x60;
        let len = self.qps[at].current.total as u16;
        header[4..6].copy_from_slice(&len.to_be_bytes());
        (header[6], header[7]) = (0x1b, 0xff);
        header[8..24].copy_from_slice(&gid(at));
        header[24..40].copy_from_slice(&gid(to));
        header
    }
}
