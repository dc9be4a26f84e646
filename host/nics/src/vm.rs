//! One VM, as the allocator knows it.

use crate::declared;
use crate::event::{AgentId, OpId, VfId};
use crate::limits::*;
use std::collections::BTreeSet;
use vfun_bond::{Order, Report};
use vfun_leases::GrantId;

/// What its hypervisor said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was not asked yet.
    Not,
    Runs,
    Ended,
    /// It does not answer.
    Unknown {
        why: String,
    },
}

/// What an operator wants of it next, as soon as it holds no VF.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pending {
    Declare(declared::Vm),
    Remove,
}

/// A VM's agent: its connection, and what it said last.
pub(crate) type AgentSeen = (AgentId, Option<Report>);

#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub declared: declared::Vm,
    pub pending: Option<Pending>,
    /// What it is called in its pool's contest.
    pub id: GrantId,
    pub seen: Seen,
    /// The event by which that was told.
    pub seen_at: u64,
    /// What its hypervisor says is plugged in.
    pub plugged: BTreeSet<VfId>,
    pub inspect: Option<OpId>,
    /// When to ask again.
    pub inspect_ms: u64,
    /// How long its hypervisor does not answer already, as the time to wait for the next
    /// question.
    pub inspect_wait_ms: u64,
    /// None: not known yet.
    pub filters: Option<Vec<String>>,
    pub sent: Option<(AgentId, Order)>,
    /// Since when its agent does not carry the order out while it holds a VF.
    pub astray_ms: Option<u64>,
    pub back_off_until_ms: u64,
    /// How long the last one was; 0 after it held a VF for a tenure.
    pub back_off_ms: u64,
    /// What went wrong last, in a sentence.
    pub trouble: Option<String>,
    /// How often its VF went without its agent's word.
    pub abrupt: u32,
    /// How often it began to use a VF.
    pub moves: u64,
    /// How often it failed to take or to keep one.
    pub failed: u64,
    pub audit: AuditBound,
}

impl Contender {
    pub(crate) fn new(now_ms: u64, id: GrantId, declared: declared::Vm) -> Self {
        Contender {
            declared,
            pending: None,
            id,
            seen: Seen::Not,
            seen_at: 0,
            plugged: BTreeSet::new(),
            inspect: None,
            inspect_ms: now_ms,
            inspect_wait_ms: INSPECT_MS,
            filters: None,
            sent: None,
            astray_ms: None,
            back_off_until_ms: 0,
            back_off_ms: 0,
            trouble: None,
            abrupt: 0,
            moves: 0,
            failed: 0,
            audit: AuditBound::new(now_ms),
        }
    }

    /// Whether its hypervisor said what is plugged in.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.seen, Seen::Runs | Seen::Ended)
    }
}

/// Whether a VM declared anew is another for its VF: that is taken away first.
pub(crate) fn moves(old: &declared::Vm, new: &declared::Vm) -> bool {
    let essence = |vm: &declared::Vm| {
        (vm.pool.clone(), vm.hypervisor.clone(), vm.mac.to_lowercase(), vm.bus.clone())
    };
    essence(old) != essence(new) || (old.vlan, old.rate_mbit) != (new.vlan, new.rate_mbit)
}

/// Bounds the lines about one VM in the audit log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditBound {
    left: u64,
    since_ms: u64,
    pub dropped: u64,
}

impl AuditBound {
    fn new(now_ms: u64) -> Self {
        AuditBound { left: AUDIT_BURST, since_ms: now_ms, dropped: 0 }
    }

    /// Whether one more line may be written; and how many were not since the last one.
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<u64> {
        let new = now_ms.saturating_sub(self.since_ms) / AUDIT_EACH_MS;
        self.since_ms += new * AUDIT_EACH_MS;
        self.left = (self.left + new).min(AUDIT_BURST);
        let Some(left) = self.left.checked_sub(1) else {
            self.dropped += 1;
            return None;
        };
        self.left = left;
        Some(std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_a_vm_are_bounded_and_counted() {
        let mut bound = AuditBound::new(0);
        let lines = (0..1000).filter(|_| bound.take(0).is_some()).count() as u64;
        assert_eq!(lines, AUDIT_BURST);
        assert_eq!(bound.take(AUDIT_EACH_MS), Some(1000 - AUDIT_BURST));
        assert_eq!(bound.take(AUDIT_EACH_MS), None);
    }
}
