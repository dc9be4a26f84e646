//! How programs are told what happened.

use crate::channel::NicChannel;
use crate::context::NicContext;
use std::sync::Arc;
use vfun_verbs::AsyncKind;
use vfun_verbs_nic::{Event, ProgramId};

/// The number of an asynchronous event among the remoting core's (`VFUN_NIC_EVENT`).
pub const EVENT: u16 = 64;

/// What an event is about (`VFUN_NIC_EVENT_OF_…`).
mod about {
    pub const DEVICE: u32 = 0;
    pub const QP: u32 = 1;
    pub const CQ: u32 = 2;
    pub const SRQ: u32 = 3;
}

/// Channels to be rung, each once, however many of its queues have events.
#[derive(Default)]
pub struct Rung(Vec<Arc<dyn NicChannel>>);

impl Rung {
    fn add(&mut self, channel: &Arc<dyn NicChannel>) {
        if !self.0.iter().any(|other| Arc::ptr_eq(other, channel)) {
            self.0.push(channel.clone());
        }
    }

    /// Rings them.
    pub fn ring(&mut self) {
        self.0.drain(..).for_each(|channel| channel.ring());
    }
}

/// Whom an event is for.
pub const fn whose(event: &Event) -> ProgramId {
    match event {
        Event::Completed { program, .. } | Event::Async { program, .. } => *program,
    }
}

/// Tells the program of this context.
pub fn tell(event: &Event, context: &NicContext, rung: &mut Rung) {
    match event {
        // The queue's word FIRED says the rest.
        Event::Completed { .. } => {
            if let Some(living) = &context.living {
                rung.add(&living.channel);
            }
        }
        Event::Async { kind, object, .. } => {
            // An object that is gone by now has no events any more.
            if let Some((about, number)) = named(*kind, *object, context) {
                context.events.push(EVENT, |w| {
                    w.u32(kind.to_wire());
                    w.u32(about);
                    w.u32(number);
                });
            }
        }
    }
}

/// What the program calls the object of an event.
fn named(kind: AsyncKind, object: u32, context: &NicContext) -> Option<(u32, u32)> {
    match kind {
        AsyncKind::CqError => {
            let (_, cq) = context.cqs.iter().find(|(_, cq)| cq.id.number() == object)?;
            Some((about::CQ, cq.number))
        }
        AsyncKind::SrqError | AsyncKind::SrqLimit => {
            let (_, srq) = context.srqs.iter().find(|(_, srq)| srq.id.number() == object)?;
            Some((about::SRQ, srq.number))
        }
        AsyncKind::DeviceFatal => Some((about::DEVICE, 0)),
        // The engine calls queue pairs as peers do.
        _ => Some((about::QP, object)),
    }
}
