//! Completion channels: files by which a program waits for the events of completion queues.
#![allow(unsafe_code)]

use crate::abi::{ibv_comp_channel, ibv_context, ibv_cq};
use crate::context::Context;
use crate::cq::Cq;
use crate::errno::{EAGAIN, EBUSY, EOPNOTSUPP, Errno, minus_one, number, pointer};
use crate::{refused, sleep};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun::QueuesWaiter;

/// How long a blocking wait sleeps before it looks whether the NIC lives, ms.
const SLEEP_MS: c_int = 1000;

/// The queues whose events it shows, and whose turn it is.
#[derive(Default)]
struct Members {
    queues: Vec<*mut Cq>,
    next: usize,
}

#[repr(C)]
pub struct Channel {
    head: ibv_comp_channel,
    waiter: QueuesWaiter,
    members: Mutex<Members>,
}

impl Channel {
    /// # Safety
    /// The pointer is one that `ibv_create_comp_channel` gave, and was not destroyed.
    pub unsafe fn of<'a>(channel: *mut ibv_comp_channel) -> &'a Channel {
        // SAFETY: the program's pointer is that of the first member.
        unsafe { &*channel.cast() }
    }

    fn context(&self) -> &'static Context {
        // SAFETY: a context outlives what is made of it, by the rules of verbs.
        unsafe { Context::of(self.head.context) }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, cq: *mut Cq) {
        self.members().queues.push(cq);
    }

    pub fn remove(&self, cq: &Cq) {
        self.members().queues.retain(|member| !std::ptr::eq(*member, cq));
    }

    /// The next queue that has an event, each in its turn.
    fn take(&self) -> Option<*mut Cq> {
        let mut members = self.members();
        let count = members.queues.len();
        for turn in 0..count {
            let at = (members.next + turn) % count;
            let cq = members.queues[at];
            // SAFETY: a member is removed before it is freed, under this lock.
            let member = unsafe { &*cq };
            if member.take_event() {
                member.unacknowledged.given();
                members.next = at + 1;
                return Some(cq);
            }
        }
        None
    }

    fn blocks(&self) -> bool {
        // SAFETY: asks for the flags of a descriptor of ours.
        let flags = unsafe { libc::fcntl(self.head.fd, libc::F_GETFL) };
        flags & libc::O_NONBLOCK == 0
    }

    /// Waits for an event, unless the program has said that the descriptor does not block.
    fn wait(&self) -> Result<*mut Cq, Errno> {
        loop {
            self.waiter.drain();
            if let Some(cq) = self.take() {
                // There may be a further one: then the descriptor stays readable.
                self.waiter.again();
                return Ok(cq);
            }
            if !self.blocks() {
                return Err(EAGAIN);
            }
            if !sleep::readable(self.head.fd, SLEEP_MS)? {
                self.context().check();
            }
        }
    }
}

/// `struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: C's rules for this function.
    let of = unsafe { Context::of(context) };
    let made = of.queues.waiter().map_err(|why| {
        refused::say("ibv_create_comp_channel", &why.to_string());
        EOPNOTSUPP
    });
    pointer(made.map(|waiter| {
        let head = ibv_comp_channel { context, fd: waiter.as_raw_fd(), refcnt: 0 };
        Box::into_raw(Box::new(Channel { head, waiter, members: Mutex::default() })).cast()
    }))
}

/// `int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Channel::of(channel) };
    if !of.members().queues.is_empty() {
        return number(Err(EBUSY));
    }
    // SAFETY: it was made by Box; the program uses it no more.
    drop(unsafe { Box::from_raw(channel.cast::<Channel>()) });
    0
}

/// `int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: C's rules for this function.
    let got = unsafe { Channel::of(channel) }.wait();
    minus_one(got.map(|got| {
        // SAFETY: the program's places, and its queue.
        unsafe {
            cq.write(got.cast());
            cq_context.write((*got).head.base.cq_context);
        }
    }))
}
