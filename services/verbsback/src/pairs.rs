//! Queue pairs and address handles.

use crate::attributes;
use crate::context::{MadeQp, Which};
use crate::errno::{Errno, status};
use crate::generated::{
    vfun_nic_path, vfun_nic_place, vfun_nic_qp_attr, vfun_nic_qp_init, vfun_nic_qp_made,
};
use crate::nic::{At, Nic};
use crate::queues::{QueuePart, work};
use crate::quota::Wants;
use vfun_verbs::{QpType, WorkShape};
use vfun_verbs_nic::{CqId, QpId, QueuePair, SrqId};

/// A queue pair's parts.
struct PairParts {
    sends: QueuePart,
    receives: Option<QueuePart>,
}

/// Its queues' shapes; those of receives unless they are shared.
type PairShapes = (WorkShape, Option<WorkShape>);

const NOWHERE: vfun_nic_place =
    vfun_nic_place { program_at: 0, program_bytes: 0, nic_at: 0, nic_bytes: 0 };

impl Nic {
    #[expect(clippy::too_many_arguments, reason = "those of the C function")]
    pub fn vfun_nic_qp_make(
        &self,
        pd: usize,
        init: &vfun_nic_qp_init,
        send_cq: usize,
        receive_cq: usize,
        srq: usize,
        made: &mut vfun_nic_qp_made,
        qp: &mut usize,
    ) -> i32 {
        let shared = (srq != 0).then_some(srq);
        let done = shapes(init, shared).and_then(|(kind, shapes)| {
            let parts = self.take_pair(pd, shapes)?;
            let places = parts.places();
            let used = (pd, [send_cq, receive_cq], shared);
            let made = self.make(pd, Wants::QueuePair, |at| {
                let (id, qpn, bell) =
                    make(at, (kind, init.all_signaled != 0), used, parts, shapes)?;
                let (sends, receives) = places;
                let attr = attributes::fresh();
                let place = at.context.qps.insert(MadeQp { id, sends, receives, attr })?;
                let receives = receives.unwrap_or(NOWHERE);
                let bell = u32::try_from(bell).map_err(|_| Errno::LIMIT)?;
                Ok((place, vfun_nic_qp_made { sends, receives, qpn, bell }))
            });
            made.inspect_err(|_| self.give_pair(pd, &places))
        });
        let context = Which::of(pd).context;
        status(done.map(|(place, of)| (*qp, *made) = (Which { context, place }.native(), of)))
    }

    fn take_pair(&self, context: usize, shapes: PairShapes) -> Result<PairParts, Errno> {
        let sends = self.take_work_part(context, shapes.0)?;
        let receives = shapes.1.map(|shape| self.take_work_part(context, shape)).transpose();
        match receives {
            Ok(receives) => Ok(PairParts { sends, receives }),
            Err(errno) => {
                self.give_part(context, &sends.place);
                Err(errno)
            }
        }
    }

    fn give_pair(&self, context: usize, places: &(vfun_nic_place, Option<vfun_nic_place>)) {
        let all = [Some(&places.0), places.1.as_ref()];
        all.into_iter().flatten().for_each(|place| self.give_part(context, place));
    }

    pub fn vfun_nic_qp_modify(&self, qp: usize, mask: u32, attr: &vfun_nic_qp_attr) -> i32 {
        status(self.of(qp, |at| {
            let made = at.context.qps.get_mut(Which::of(qp).place).ok_or(Errno::INVALID)?;
            let from = at.engine.state(at.program, made.id)?;
            let change = attributes::read(mask, attr, from)?;
            at.engine.modify(at.program, made.id, (mask, change.to, &change.set))?;
            attributes::keep(&mut made.attr, (mask, change.to), attr);
            Ok(())
        }))
    }

    pub fn vfun_nic_qp_query(&self, qp: usize, attr: &mut vfun_nic_qp_attr) -> i32 {
        let found = self.of(qp, |at| {
            let made = at.context.qps.get(Which::of(qp).place).ok_or(Errno::INVALID)?;
            let state = at.engine.state(at.program, made.id)?;
            let draining = at.engine.is_draining(at.program, made.id)?;
            Ok(attributes::say(&made.attr, state, draining))
        });
        status(found.map(|found| *attr = found))
    }

    pub fn vfun_nic_qp_end(&self, qp: usize) -> i32 {
        let place = Which::of(qp).place;
        status(self.of(qp, |at| {
            let id = at.context.qps.get(place).ok_or(Errno::INVALID)?.id;
            at.engine.end_qp(at.program, id)?;
            let gone = at.context.qps.remove(place).ok_or(Errno::INVALID)?;
            let places = [Some(&gone.sends), gone.receives.as_ref()];
            places.into_iter().flatten().for_each(|place| at.context.arenas.give(place));
            Ok(())
        }))
    }

    pub fn vfun_nic_ah_make(
        &self,
        pd: usize,
        path: &vfun_nic_path,
        number: &mut u32,
        ah: &mut usize,
    ) -> i32 {
        let Which { context, place } = Which::of(pd);
        let done = attributes::path(path).and_then(|path| {
            self.of(pd, |at| {
                let pd = *at.context.pds.get(place).ok_or(Errno::INVALID)?;
                let id = at.engine.make_ah(at.program, pd, path)?;
                Ok((at.context.ahs.insert(id)?, id.number()))
            })
        });
        status(done.map(|(place, of)| (*ah, *number) = (Which { context, place }.native(), of)))
    }

    pub fn vfun_nic_ah_end(&self, ah: usize) -> i32 {
        let place = Which::of(ah).place;
        status(self.of(ah, |at| {
            let id = *at.context.ahs.get(place).ok_or(Errno::INVALID)?;
            at.engine.end_ah(at.program, id)?;
            at.context.ahs.remove(place);
            Ok(())
        }))
    }
}

impl PairParts {
    fn places(&self) -> (vfun_nic_place, Option<vfun_nic_place>) {
        (self.sends.place, self.receives.as_ref().map(|part| part.place))
    }
}

fn shapes(init: &vfun_nic_qp_init, srq: Option<usize>) -> Result<(QpType, PairShapes), Errno> {
    let kind = u8::try_from(init.kind).ok().and_then(QpType::from_wire);
    let sends = work(init.send_depth, init.send_extension)?;
    let receives = match srq {
        None => Some(work(init.receive_depth, init.receive_extension)?),
        Some(_) => None,
    };
    Ok((kind.ok_or(Errno::UNSUPPORTED)?, (sends, receives)))
}

/// What a queue pair uses: its domain, its two completion queues, shared receives.
type PairUses = (usize, [usize; 2], Option<usize>);

fn make(
    at: &mut At<'_>,
    (kind, all_signaled): (QpType, bool),
    (pd, cqs, srq): PairUses,
    parts: PairParts,
    shapes: PairShapes,
) -> Result<(QpId, u32, usize), Errno> {
    let context = Which::of(pd).context;
    // All of one context, as the header says.
    let place = |native: usize| {
        let which = Which::of(native);
        (which.context == context).then_some(which.place).ok_or(Errno::INVALID)
    };
    let cq = |at: &At<'_>, native| -> Result<CqId, Errno> {
        Ok(at.context.cqs.get(place(native)?).ok_or(Errno::INVALID)?.id)
    };
    let shared = srq.map(|srq| -> Result<SrqId, Errno> {
        Ok(at.context.srqs.get(place(srq)?).ok_or(Errno::INVALID)?.id)
    });
    let receives = match (shared.transpose()?, parts.receives.zip(shapes.1)) {
        (Some(srq), _) => Err(srq),
        (None, Some((part, shape))) => Ok((part.memory, shape)),
        (None, None) => return Err(Errno::INVALID),
    };
    let what = QueuePair {
        pd: *at.context.pds.get(Which::of(pd).place).ok_or(Errno::INVALID)?,
        kind,
        send_cq: cq(at, cqs[0])?,
        receive_cq: cq(at, cqs[1])?,
        sends: (parts.sends.memory, shapes.0),
        receives,
        all_signaled,
    };
    Ok(at.engine.make_qp(at.program, what)?)
}
