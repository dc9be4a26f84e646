//! Asynchronous events: what happened to an object without a call of the program's.
#![allow(unsafe_code)]

use crate::abi::{ibv_async_event, ibv_context};
use crate::context::Context;
use crate::errno::{self, Errno, minus_one};
use crate::limits::EVENTS_MAX;
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
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
struct Subject {
    /// What the program calls it.
    pointer: usize,
    unacknowledged: Arc<Unacknowledged>,
}

struct Event {
    kind: u32,
    subject: (u32, u32),
}

#[derive(Default)]
struct Waiting {
    /// By what they are and the NIC's number.
    subjects: HashMap<(u32, u32), Subject>,
    events: VecDeque<Event>,
}

/// Those of one context.
pub struct AsyncEvents {
    /// Counts events that nobody has taken.
    descriptor: OwnedFd,
    waiting: Mutex<Waiting>,
}

impl AsyncEvents {
    pub fn new() -> Result<Self, Errno> {
        // SAFETY: makes a descriptor.
        let made = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if made < 0 {
            return Err(errno::last());
        }
        // SAFETY: it is new, and nobody else's.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made) };
        Ok(AsyncEvents { descriptor, waiting: Mutex::default() })
    }

    /// What the program polls.
    pub fn descriptor(&self) -> c_int {
        self.descriptor.as_raw_fd()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events may be about this object from now on.
    pub fn add<T>(&self, what: u32, number: u32, pointer: *mut T) -> Arc<Unacknowledged> {
        let unacknowledged = Arc::new(Unacknowledged::default());
        let subject = Subject {
            pointer: pointer.expose_provenance(),
            unacknowledged: unacknowledged.clone(),
        };
        self.waiting().subjects.insert((what, number), subject);
        unacknowledged
    }

    /// The object goes: the program gets no event of it any more. Waits until it has acknowledged
    /// those that it got.
    pub fn remove(&self, what: u32, number: u32) {
        let mut waiting = self.waiting();
        waiting.events.retain(|event| event.subject != (what, number));
        let gone = waiting.subjects.remove(&(what, number));
        drop(waiting);
        if let Some(subject) = gone {
            subject.unacknowledged.wait_for_all();
        }
    }

    /// Something happened.
    pub fn tell(&self, kind: u32, what: u32, number: u32) {
        let mut waiting = self.waiting();
        let known = what == about::DEVICE || waiting.subjects.contains_key(&(what, number));
        if known && waiting.events.len() < EVENTS_MAX {
            waiting.events.push_back(Event { kind, subject: (what, number) });
            drop(waiting);
            let one = 1u64.to_ne_bytes();
            // SAFETY: the bytes are ours. It cannot fail: the count is far below its limit.
            unsafe { libc::write(self.descriptor(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// The NIC is gone: the device and all its queue pairs have failed.
    pub fn tell_all_lost(&self) {
        let pairs: Vec<u32> = {
            let waiting = self.waiting();
            waiting
                .subjects
                .keys()
                .filter(|(what, _)| *what == about::QP)
                .map(|key| key.1)
                .collect()
        };
        for qpn in pairs {
            self.tell(AsyncKind::QpFatal.to_wire(), about::QP, qpn);
        }
        self.tell(AsyncKind::DeviceFatal.to_wire(), about::DEVICE, 0);
    }

    /// Waits for an event, unless the program has said that the descriptor does not block.
    fn take(&self) -> Result<ibv_async_event, Errno> {
        loop {
            let mut count = [0u8; 8];
            // SAFETY: the bytes are ours.
            let got =
                unsafe { libc::read(self.descriptor(), count.as_mut_ptr().cast(), count.len()) };
            if got != count.len() as isize {
                return Err(errno::last());
            }
            let mut waiting = self.waiting();
            // Those of objects that have gone are counted still.
            let Some(event) = waiting.events.pop_front() else { continue };
            let element = match waiting.subjects.get(&event.subject) {
                Some(subject) => {
                    subject.unacknowledged.given();
                    subject.pointer
                }
                // Of the device: its only port.
                None => 1,
            };
            let element = std::ptr::with_exposed_provenance_mut::<c_void>(element);
            return Ok(ibv_async_event { element, event_type: event.kind });
        }
    }

    fn acknowledge(&self, element: usize) {
        let waiting = self.waiting();
        if let Some(subject) = waiting.subjects.values().find(|s| s.pointer == element) {
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
