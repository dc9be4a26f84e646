//! Asynchronous events: what happened to an object without a call of the program's.
#![allow(unsafe_code)]

use crate::abi::{ibv_async_event, ibv_context};
use crate::context::Context;
use crate::errno::{Errno, minus_one};
use crate::limits::EVENTS_MAX;
use crate::told::Told;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use vfun_verbs::AsyncKind;

/// `VFUN_NIC_EVENT_OF_…`.
pub mod about {
    pub const DEVICE: u32 = 0;
    pub const QP: u32 = 1;
    pub const CQ: u32 = 2;
    pub const SRQ: u32 = 3;
}

/// Events of an object that the program has and did not acknowledge. Destroying the object waits
/// until there are none, as verbs promise.
#[derive(Default)]
pub struct Unacknowledged {
    count: Mutex<u32>,
    fewer: Condvar,
}

impl Unacknowledged {
    fn count(&self) -> MutexGuard<'_, u32> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn given(&self) {
        *self.count() += 1;
    }

    pub fn acknowledged(&self, events: u32) {
        let mut count = self.count();
        *count = count.saturating_sub(events);
        self.fewer.notify_all();
    }

    pub fn wait_for_all(&self) {
        let some = |count: &mut u32| *count > 0;
        drop(self.fewer.wait_while(self.count(), some));
    }
}

/// An object that events can be about.
#[derive(Clone)]
struct Subject {
    /// What the program calls it.
    pointer: usize,
    unacknowledged: Arc<Unacknowledged>,
}

struct Event {
    kind: u32,
    /// None: of the device.
    subject: Option<Subject>,
}

#[derive(Default)]
struct Subjects {
    /// By what they are and the NIC's number.
    living: HashMap<(u32, u32), Subject>,
    /// Objects that a thread is destroying: it waits until the program has acknowledged their events.
    ending: Vec<Subject>,
}

/// Those of one context.
pub struct AsyncEvents {
    events: Told<Event>,
    subjects: Mutex<Subjects>,
}

impl AsyncEvents {
    pub fn new() -> Result<Self, Errno> {
        Ok(AsyncEvents { events: Told::new()?, subjects: Mutex::default() })
    }

    /// What the program polls.
    pub fn descriptor(&self) -> c_int {
        self.events.descriptor()
    }

    fn subjects(&self) -> MutexGuard<'_, Subjects> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events may be about this object from now on.
    pub fn add<T>(&self, what: u32, number: u32, pointer: *mut T) {
        let (pointer, unacknowledged) = (pointer.expose_provenance(), Arc::default());
        let mut subjects = self.subjects();
        let before = subjects.living.insert((what, number), Subject { pointer, unacknowledged });
        // The NIC may give a number again before the object that had it was removed here.
        subjects.ending.extend(before);
    }

    /// The object goes: the program gets no event of it any more. Waits until the program has
    /// acknowledged the events that it got.
    pub fn remove<T>(&self, what: u32, number: u32, pointer: *const T) {
        let pointer = pointer.addr();
        let is_other = |subject: &Subject| subject.pointer != pointer;
        let mut subjects = self.subjects();
        if subjects.living.get(&(what, number)).is_some_and(|subject| !is_other(subject)) {
            let own = subjects.living.remove(&(what, number));
            subjects.ending.extend(own);
        }
        self.events.remove(|event| event.subject.as_ref().is_none_or(is_other));
        let ending = subjects.ending.iter().find(|subject| !is_other(subject)).cloned();
        drop(subjects);
        if let Some(subject) = ending {
            subject.unacknowledged.wait_for_all();
        }
        self.subjects().ending.retain(is_other);
    }

    /// Something happened.
    pub fn tell(&self, kind: u32, what: u32, number: u32) {
        let subjects = self.subjects();
        let subject = subjects.living.get(&(what, number)).cloned();
        if what == about::DEVICE || subject.is_some() {
            self.events.push(Event { kind, subject }, EVENTS_MAX);
        }
    }

    /// The NIC is gone: the device and all its queue pairs have failed.
    pub fn tell_all_lost(&self) {
        let pairs: Vec<u32> = {
            let subjects = self.subjects();
            subjects.living.keys().filter(|key| key.0 == about::QP).map(|key| key.1).collect()
        };
        for qpn in pairs {
            self.tell(AsyncKind::QpFatal.to_wire(), about::QP, qpn);
        }
        self.tell(AsyncKind::DeviceFatal.to_wire(), about::DEVICE, 0);
    }

    /// Waits for an event, unless the program has said that the descriptor does not block.
    fn take(&self) -> Result<ibv_async_event, Errno> {
        self.events.take(|event| {
            // An event of the device names its only port.
            let element = event.subject.map_or(1, |subject| {
                subject.unacknowledged.given();
                subject.pointer
            });
            let element = std::ptr::with_exposed_provenance_mut::<c_void>(element);
            ibv_async_event { element, event_type: event.kind }
        })
    }

    fn acknowledge(&self, element: usize) {
        let subjects = self.subjects();
        let mut all = subjects.living.values().chain(&subjects.ending);
        if let Some(subject) = all.find(|subject| subject.pointer == element) {
            subject.unacknowledged.acknowledged(1);
        }
    }
}

/// `int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: C's rules for this function.
    let taken = unsafe { Context::of(context) }.events.take();
    // SAFETY: the program's place.
    minus_one(taken.map(|taken| unsafe { event.write(taken) }))
}

/// `void ibv_ack_async_event(struct ibv_async_event *event)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: the program's event.
    let element = unsafe { (*event).element }.expose_provenance();
    // The event does not say of which context it is: pointers are unique among all.
    crate::registry::each(|context| context.events.acknowledge(element));
}
