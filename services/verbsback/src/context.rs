//! A context: what one program made of the NIC by one channel of queues.

use crate::arena::Arenas;
use crate::channel::NicChannel;
use crate::generated::{vfun_nic_place, vfun_nic_qp_attr};
use std::sync::Arc;
use vfun_remoting_host::Events;
use vfun_verbs_nic::cm::Home;
use vfun_verbs_nic::{Address, AhId, CqId, PageRun, PdId, ProgramId, QpId, Slab, SrqId};

/// Which object: what the connection's table keeps of it. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    pub context: u32,
    /// In the context's table of its kind; 0 of the context itself.
    pub place: u32,
}

impl Which {
    pub const fn of(native: usize) -> Self {
        Which { context: (native >> 32) as u32 - 1, place: native as u32 }
    }

    pub const fn native(self) -> usize {
        (self.context as usize + 1) << 32 | self.place as usize
    }
}

/// A completion queue.
pub struct MadeCq {
    pub id: CqId,
    /// What events call it.
    pub number: u32,
    pub place: vfun_nic_place,
}

/// A shared receive queue.
pub struct MadeSrq {
    pub id: SrqId,
    pub number: u32,
    pub place: vfun_nic_place,
}

/// A queue pair.
pub struct MadeQp {
    pub id: QpId,
    pub sends: vfun_nic_place,
    /// None: it has shared ones.
    pub receives: Option<vfun_nic_place>,
    /// What was set, the NIC's own attributes and those that are only said again.
    pub attr: vfun_nic_qp_attr,
}

/// A region, registered or on the way to it.
pub struct MadeRegion {
    /// The place of its domain.
    pub pd: u32,
    pub iova: u64,
    pub length: u64,
    pub access: u32,
    /// It is registered.
    pub key: Option<u32>,
    /// Runs that have come, until it is.
    pub runs: Vec<PageRun>,
    /// The buffers that it lies in.
    pub buffers: Vec<u64>,
}

impl MadeRegion {
    /// Of this domain, with no runs yet.
    pub const fn new(pd: u32, (iova, length, access): (u64, u64, u32)) -> Self {
        MadeRegion { pd, iova, length, access, key: None, runs: vec![], buffers: vec![] }
    }
}

/// A program's context.
pub struct NicContext {
    /// The key of its channel among those of the process.
    pub channel: u64,
    /// What the engine and the program have by that; none once the channel has ended.
    pub living: Option<Living>,
    pub station: u32,
    /// Where peers reach it.
    pub address: Address,
    /// Whom to tell of asynchronous events.
    pub events: Arc<Events>,
    pub arenas: Arenas,
    pub pds: Slab<PdId>,
    pub regions: Slab<MadeRegion>,
    /// Bytes of all regions, also of those that have no key yet: what their program says, for quotas.
    pub region_bytes: u128,
    pub cqs: Slab<MadeCq>,
    pub srqs: Slab<MadeSrq>,
    pub qps: Slab<MadeQp>,
    pub ahs: Slab<AhId>,
    /// What the connection manager calls the ids that the program has.
    pub cms: Slab<u32>,
    /// Its VM, for the connection manager.
    pub home: Home,
}

/// What a context has as long as its channel.
#[derive(Clone)]
pub struct Living {
    pub program: ProgramId,
    pub channel: Arc<dyn NicChannel>,
}

impl NicContext {
    /// With nothing made.
    pub fn new(
        (channel, living): (u64, Living),
        (station, address): (u32, Address),
        events: Arc<Events>,
        arenas: Arenas,
    ) -> Self {
        // How many there may be is the engine's to say.
        const fn empty<T>(what: &'static str) -> Slab<T> {
            Slab::new(what, usize::MAX)
        }
        NicContext {
            channel,
            living: Some(living),
            station,
            address,
            events,
            arenas,
            pds: empty("protection domains"),
            regions: empty("memory regions"),
            region_bytes: 0,
            cqs: empty("completion queues"),
            srqs: empty("shared receive queues"),
            qps: empty("queue pairs"),
            ahs: empty("address handles"),
            cms: empty("connections"),
            home: crate::address::home(address.gid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_never_none_and_is_found_again() {
        for (context, place) in [(0, 0), (0, 7), (9, 0), (u32::MAX - 1, u32::MAX)] {
            let which = Which { context, place };
            assert_ne!(which.native(), 0);
            assert_eq!(Which::of(which.native()), which);
        }
    }
}
