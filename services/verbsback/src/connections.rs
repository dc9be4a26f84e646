//! Calls of the connection manager.

use crate::context::{NicContext, Which};
use crate::errno::{Errno, status};
use crate::generated::{vfun_nic_cm_data, vfun_nic_cm_offer, vfun_nic_cm_place};
use crate::nic::Nic;
use vfun_verbs_nic::cm::{Cm, CmData, CmEvent, CmOffer, CmSpace};
use vfun_verbs_nic::{Address, Refused};

/// The number of an event of a connection among the remoting core's (`VFUN_NIC_CM_EVENT`).
pub const CM_EVENT: u16 = 65;

fn data_of(data: &vfun_nic_cm_data) -> Result<CmData, Errno> {
    let bytes = usize::try_from(data.length).ok().and_then(|n| data.bytes.get(..n));
    bytes.and_then(CmData::new).ok_or(Errno::INVALID)
}

/// Where the program is, the NIC says, and not the program.
const fn offer_of(offer: &vfun_nic_cm_offer, at: Address) -> CmOffer {
    CmOffer {
        at,
        qpn: offer.qpn,
        qkey: offer.qkey,
        responder_resources: offer.responder_resources,
        initiator_depth: offer.initiator_depth,
        flow_control: offer.flow_control,
        retry_count: offer.retry_count,
        rnr_retry: offer.rnr_retry,
        srq: offer.srq,
    }
}

/// Tells a program of an event.
pub fn tell(event: &CmEvent, context: &NicContext) {
    let offer = &event.offer;
    context.events.push(CM_EVENT, |w| {
        w.u32(event.kind as u32);
        w.i32(event.status);
        w.u32(event.id);
        w.u32(event.other);
        w.u32(offer.qpn);
        w.u32(offer.qkey);
        for small in [
            offer.responder_resources,
            offer.initiator_depth,
            offer.flow_control,
            offer.retry_count,
            offer.rnr_retry,
            offer.srq,
        ] {
            w.u8(small);
        }
        w.bytes(&offer.at.gid);
        w.u16(offer.at.lid);
        w.u16(event.peer_port);
        w.blob(Some(event.data.bytes()));
    });
}

/// A context that uses the connection manager, and its number there.
struct AtCm<'a> {
    cm: &'a mut Cm,
    owner: u32,
    context: &'a mut NicContext,
}

impl AtCm<'_> {
    /// The number of an id of it.
    fn id(&self, native: usize) -> Result<u32, Errno> {
        self.context.cms.get(Which::of(native).place).copied().ok_or(Errno::INVALID)
    }

    fn add(&mut self, id: u32) -> Result<usize, Errno> {
        let place = self.context.cms.insert(id)?;
        Ok(Which { context: self.owner, place }.native())
    }
}

impl Nic {
    fn at_cm<T>(
        &self,
        native: usize,
        change: impl FnOnce(&mut AtCm<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.change(|tables| {
            let owner = Which::of(native).context;
            let context = tables.contexts.get_mut(owner).ok_or(Errno::INVALID)?;
            context.living.as_ref().ok_or(Errno::LOST)?;
            change(&mut AtCm { cm: &mut tables.cm, owner, context })
        })
    }

    /// A change of one id.
    fn of_cm(
        &self,
        native: usize,
        change: impl FnOnce(&mut AtCm<'_>, u32) -> Result<(), Refused>,
    ) -> Result<(), Errno> {
        self.at_cm(native, |at| {
            let id = at.id(native)?;
            Ok(change(at, id)?)
        })
    }

    pub fn vfun_nic_cm_make(
        &self,
        context: usize,
        space: u32,
        number: &mut u32,
        cm: &mut usize,
    ) -> i32 {
        let made = CmSpace::from_wire(space).ok_or(Errno::UNSUPPORTED).and_then(|space| {
            self.at_cm(context, |at| {
                let id = at.cm.make(at.owner, at.context.home, space)?;
                Ok((id, at.add(id)?))
            })
        });
        status(made.map(|(id, native)| (*number, *cm) = (id, native)))
    }

    pub fn vfun_nic_cm_take(&self, context: usize, number: u32, cm: &mut usize) -> i32 {
        let taken = self.at_cm(context, |at| {
            at.cm.take(at.owner, number)?;
            at.add(number)
        });
        status(taken.map(|native| *cm = native))
    }

    pub fn vfun_nic_cm_bind(&self, cm: usize, port: u32, bound: &mut u32) -> i32 {
        let done = u16::try_from(port).map_err(|_| Errno::INVALID).and_then(|port| {
            self.at_cm(cm, |at| {
                let id = at.id(cm)?;
                Ok(at.cm.bind(at.owner, id, port)?)
            })
        });
        status(done.map(|port| *bound = port.into()))
    }

    pub fn vfun_nic_cm_listen(&self, cm: usize, backlog: u32) -> i32 {
        status(self.of_cm(cm, |at, id| at.cm.listen(at.owner, id, backlog)))
    }

    pub fn vfun_nic_cm_connect(
        &self,
        cm: usize,
        to: &vfun_nic_cm_place,
        offer: &vfun_nic_cm_offer,
        data: &vfun_nic_cm_data,
    ) -> i32 {
        let done = data_of(data).and_then(|data| {
            self.of_cm(cm, |at, id| {
                let context = &at.context;
                let home = match to.is_here {
                    0 => crate::address::home(to.gid),
                    _ => context.home,
                };
                let offer = offer_of(offer, context.address);
                at.cm.connect(at.owner, id, (home, to.port), (offer, data))
            })
        });
        status(done)
    }

    pub fn vfun_nic_cm_accept(
        &self,
        cm: usize,
        offer: &vfun_nic_cm_offer,
        data: &vfun_nic_cm_data,
    ) -> i32 {
        let done = data_of(data).and_then(|data| {
            self.of_cm(cm, |at, id| {
                let offer = offer_of(offer, at.context.address);
                at.cm.accept(at.owner, id, offer, data)
            })
        });
        status(done)
    }

    pub fn vfun_nic_cm_establish(&self, cm: usize) -> i32 {
        status(self.of_cm(cm, |at, id| at.cm.establish(at.owner, id)))
    }

    pub fn vfun_nic_cm_reject(&self, cm: usize, data: &vfun_nic_cm_data) -> i32 {
        let done = data_of(data)
            .and_then(|data| self.of_cm(cm, |at, id| at.cm.reject(at.owner, id, data)));
        status(done)
    }

    pub fn vfun_nic_cm_disconnect(&self, cm: usize) -> i32 {
        status(self.of_cm(cm, |at, id| at.cm.disconnect(at.owner, id)))
    }

    pub fn vfun_nic_cm_end(&self, cm: usize) -> i32 {
        status(self.at_cm(cm, |at| {
            let id = at.id(cm)?;
            at.cm.end(at.owner, id)?;
            at.context.cms.remove(Which::of(cm).place);
            Ok(())
        }))
    }
}
