//! RDMA, for people.

use super::Daemon;
use crate::admin::rdma::{RdmaRow, RdmaView};
use crate::core::Grant;
use crate::core::rdma::{Rdma, RdmaQuota};
use vfun_verbs::ProgramFacts;

/// What a manifest says.
pub(super) fn view(rdma: &Rdma) -> RdmaView {
    let quota = |of: RdmaQuota| rdma.quotas.get(&of).copied();
    RdmaView {
        backend: rdma.backend.name().into(),
        network: rdma.network.map(|network| network.to_string()),
        programs: quota(RdmaQuota::Programs),
        queue_pairs: quota(RdmaQuota::QueuePairs),
        regions: quota(RdmaQuota::Regions),
        memory: quota(RdmaQuota::Memory),
    }
}

impl Daemon {
    /// What a grant's program has of its NIC, if the grant is its way there and the NIC has said so.
    pub(super) fn rdma_of(&self, g: &Grant) -> Option<RdmaRow> {
        let function = self.rim.core.catalog().functions.get(&g.subject.function)?;
        if !vfun_kinds::of(function.driver_at(g.subject.location)?).takes_rdma {
            return None;
        }
        let window = self.rim.windows.get(&g.holder.window)?;
        let facts = ProgramFacts::of(&window.window.facts(&g.told()?)?)?;
        Some(RdmaRow {
            gid: facts.gid.into(),
            lid: facts.lid,
            queue_pairs: facts.queue_pairs,
            regions: facts.regions,
            pinned: self.rim.core.has_page_tables(g.holder.session),
            registered_bytes: facts.registered_bytes,
            connections: facts.connections,
            wrong_keys: facts.wrong_keys,
            dropped: facts.dropped,
        })
    }
}
