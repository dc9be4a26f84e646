//! Completion queues and shared receive queues, and where queues lie.

use crate::context::{MadeCq, MadeSrq, Which};
use crate::errno::{Errno, status};
use crate::generated::{vfun_nic_cq_made, vfun_nic_place, vfun_nic_srq_made};
use crate::nic::{At, Nic};
use std::ops::Range;
use vfun_queue::Shape;
use vfun_verbs::WorkShape;
use vfun_verbs::limits::ENTRY_BYTES;
use vfun_verbs_nic::{CompletionQueue, Shared};
use vfun_window::WindowMemory;

/// A queue's parts of both sides, taken for it.
pub struct QueuePart {
    pub place: vfun_nic_place,
    pub memory: WindowMemory,
}

impl Nic {
    /// Takes parts for a queue. Who does not use them gives them back.
    pub(crate) fn take_part(
        &self,
        context: usize,
        program_bytes: u64,
        nic_bytes: u64,
    ) -> Result<QueuePart, Errno> {
        let part = self.of(context, |at| {
            let living = at.context.living.as_ref().ok_or(Errno::LOST)?;
            let place = at.context.arenas.take(program_bytes, nic_bytes).ok_or(Errno::LIMIT)?;
            let (nic, program) = (
                range(place.nic_at, place.nic_bytes),
                range(place.program_at, place.program_bytes),
            );
            let memory = living.channel.memory(nic, program).map_err(|_| Errno::LIMIT)?;
            Ok(QueuePart { place, memory })
        })?;
        // Long, and nobody's turn.
        part.memory.mine().zero();
        Ok(part)
    }

    /// Takes parts for a queue of work.
    pub(crate) fn take_work_part(
        &self,
        context: usize,
        shape: WorkShape,
    ) -> Result<QueuePart, Errno> {
        self.take_part(context, shape.program_bytes(), shape.nic_bytes())
    }

    /// Gives parts back that no queue has.
    pub(crate) fn give_part(&self, context: usize, place: &vfun_nic_place) {
        // Without a channel there is nothing to be given back.
        let _ = self.of(context, |at| {
            at.context.arenas.give(place);
            Ok(())
        });
    }

    /// Makes what uses the parts, or gives them back.
    pub(crate) fn with_part<T>(
        &self,
        context: usize,
        part: QueuePart,
        make: impl FnOnce(&mut At<'_>, QueuePart) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let place = part.place;
        let made = self.of(context, |at| make(at, part));
        made.inspect_err(|_| self.give_part(context, &place))
    }

    pub fn vfun_nic_cq_make(
        &self,
        context: usize,
        depth: u32,
        has_channel: u32,
        made: &mut vfun_nic_cq_made,
        cq: &mut usize,
    ) -> i32 {
        let has_channel = has_channel != 0;
        let done = completions(depth).and_then(|shape| {
            let part = self.take_part(context, shape.consumer_bytes(), shape.producer_bytes())?;
            self.with_part(context, part, |at, QueuePart { place, memory }| {
                let what = CompletionQueue { memory, depth, has_channel };
                let id = at.engine.make_cq(at.program, what)?;
                let number = next_number(at);
                let at = at.context.cqs.insert(MadeCq { id, number, place })?;
                Ok((at, vfun_nic_cq_made { place, number, reserved: 0 }))
            })
        });
        let context = Which::of(context).context;
        status(done.map(|(place, of)| (*cq, *made) = (Which { context, place }.native(), of)))
    }

    pub fn vfun_nic_cq_end(&self, cq: usize) -> i32 {
        let place = Which::of(cq).place;
        status(self.of(cq, |at| {
            let id = at.context.cqs.get(place).ok_or(Errno::INVALID)?.id;
            at.engine.end_cq(at.program, id)?;
            let gone = at.context.cqs.remove(place).ok_or(Errno::INVALID)?;
            at.context.arenas.give(&gone.place);
            Ok(())
        }))
    }

    pub fn vfun_nic_srq_make(
        &self,
        pd: usize,
        depth: u32,
        extension: u32,
        made: &mut vfun_nic_srq_made,
        srq: &mut usize,
    ) -> i32 {
        let done = work(depth, extension).and_then(|shape| {
            let part = self.take_work_part(pd, shape)?;
            self.with_part(pd, part, |at, QueuePart { place, memory }| {
                let pd = *at.context.pds.get(Which::of(pd).place).ok_or(Errno::INVALID)?;
                let id = at.engine.make_srq(at.program, pd, Shared { memory, shape })?;
                let number = next_number(at);
                let at = at.context.srqs.insert(MadeSrq { id, number, place })?;
                Ok((at, vfun_nic_srq_made { place, number, reserved: 0 }))
            })
        });
        let context = Which::of(pd).context;
        status(done.map(|(place, of)| (*srq, *made) = (Which { context, place }.native(), of)))
    }

    pub fn vfun_nic_srq_limit(&self, srq: usize, limit: u32) -> i32 {
        status(self.of(srq, |at| {
            let id = at.context.srqs.get(Which::of(srq).place).ok_or(Errno::INVALID)?.id;
            Ok(at.engine.limit_srq(at.program, id, limit)?)
        }))
    }

    pub fn vfun_nic_srq_query(&self, srq: usize, limit: &mut u32) -> i32 {
        let found = self.of(srq, |at| {
            let id = at.context.srqs.get(Which::of(srq).place).ok_or(Errno::INVALID)?.id;
            Ok(at.engine.srq_limit(at.program, id)?)
        });
        status(found.map(|found| *limit = found))
    }

    pub fn vfun_nic_srq_end(&self, srq: usize) -> i32 {
        let place = Which::of(srq).place;
        status(self.of(srq, |at| {
            let id = at.context.srqs.get(place).ok_or(Errno::INVALID)?.id;
            at.engine.end_srq(at.program, id)?;
            let gone = at.context.srqs.remove(place).ok_or(Errno::INVALID)?;
            at.context.arenas.give(&gone.place);
            Ok(())
        }))
    }
}

/// Bytes of a side. What is too large for this machine lies outside.
fn range(at: u64, bytes: u64) -> Range<usize> {
    let place = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    place(at)..place(at.saturating_add(bytes))
}

fn completions(depth: u32) -> Result<Shape, Errno> {
    Shape::new(ENTRY_BYTES as u32, depth).map_err(|_| Errno::INVALID)
}

/// The shape of a queue of work.
pub fn work(depth: u32, extension: u32) -> Result<WorkShape, Errno> {
    WorkShape::new(depth, extension).map_err(|_| Errno::INVALID)
}

fn next_number(at: &mut At<'_>) -> u32 {
    *at.numbers = at.numbers.wrapping_add(1);
    *at.numbers
}
