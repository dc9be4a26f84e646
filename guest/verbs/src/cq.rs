//! Completion queues.
#![allow(unsafe_code)]

use crate::abi::{ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, numbers};
use crate::asynchronous::{Unacknowledged, about};
use crate::channel::Channel;
use crate::context::Context;
use crate::domains::{gone, handle};
use crate::errno::{EINVAL, EOPNOTSUPP, Errno, checked, number, pointer};
use crate::generated::{vfun_nic_cq, vfun_nic_cq_end, vfun_nic_cq_make};
use crate::limits::POLLED_AT_ONCE;
use crate::pairs::Pairs;
use crate::poll;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_queue::limits::DEPTH_MIN;
use vfun_queue::{Consumer, Entry};
use vfun_verbs::completions::Asker;
use vfun_verbs::limits::ENTRY_BYTES;
use vfun_window::WindowMemory;

/// What pollers change.
pub struct CqState {
    pub consumer: Consumer<WindowMemory, ENTRY_BYTES>,
    pub asker: Asker,
    /// The queue pairs that complete here.
    pub pairs: Pairs,
    /// Polls since the last look whether the NIC lives, which found nothing.
    pub empty: u32,
    /// The program asked for an event, and got none since.
    pub asked: bool,
    /// What is left to be said of a NIC that is gone, once it was looked for.
    pub flushed: Option<Vec<crate::abi::ibv_wc>>,
    /// Where a poll copies entries to: to clear as much for each poll takes longer than a poll.
    pub entries: [Entry<ENTRY_BYTES>; POLLED_AT_ONCE],
    /// What `ibv_start_poll` and `ibv_next_poll` look at.
    pub current: crate::abi::ibv_wc,
}

#[repr(C)]
pub struct Cq {
    pub head: ibv_cq_ex,
    nic: *mut vfun_nic_cq,
    number: u32,
    state: Mutex<CqState>,
    pub unacknowledged: Unacknowledged,
}

impl Cq {
    /// # Safety
    /// The pointer is one that `ibv_create_cq` gave, and was not destroyed.
    pub unsafe fn of<'a>(cq: *mut ibv_cq) -> &'a Cq {
        // SAFETY: the program's pointer is that of the first member.
        unsafe { &*cq.cast() }
    }

    pub fn context(&self) -> &'static Context {
        // SAFETY: a context outlives what is made of it, by the rules of verbs.
        unsafe { Context::of(self.head.base.context) }
    }

    pub fn nic(&self) -> *mut vfun_nic_cq {
        self.nic
    }

    #[inline]
    pub fn state(&self) -> MutexGuard<'_, CqState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event of the NIC, if there is one.
    pub fn take_event(&self) -> bool {
        let mut state = self.state();
        let state = &mut *state;
        let fired = state.asker.take(&state.consumer);
        // Of a NIC that is gone everybody is told who still waits.
        let taken = fired || state.asked && self.context().is_lost();
        state.asked &= !taken;
        taken
    }
}

fn channel_of<'a>(channel: *mut ibv_comp_channel) -> Option<&'a Channel> {
    // SAFETY: the callers' rules are C's.
    (!channel.is_null()).then(|| unsafe { Channel::of(channel) })
}

fn make(
    context: *mut ibv_context,
    entries: u32,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
) -> Result<*mut Cq, Errno> {
    // SAFETY: the callers' rules are C's.
    let of = unsafe { Context::of(context) };
    if entries == 0 || entries > of.info.cq_depth {
        return Err(EINVAL);
    }
    let depth = entries.max(DEPTH_MIN).next_power_of_two();
    let (mut made, mut nic) = (MaybeUninit::uninit(), std::ptr::null_mut());
    let has_channel = u32::from(!channel.is_null());
    // SAFETY: the places are ours.
    checked(unsafe { vfun_nic_cq_make(of.nic, depth, has_channel, made.as_mut_ptr(), &mut nic) })?;
    // SAFETY: it was written: the call succeeded.
    let made = unsafe { made.assume_init() };
    let consumer = of.part(&made.place).and_then(|m| Consumer::new(m, depth).map_err(|_| EINVAL));
    let consumer = consumer.inspect_err(|_| {
        // SAFETY: nothing uses it.
        unsafe { vfun_nic_cq_end(nic) };
    })?;
    let mut cq = Box::new(Cq {
        head: poll::head(),
        nic,
        number: made.number,
        state: Mutex::new(CqState {
            consumer,
            asker: Asker::new(),
            pairs: Pairs::default(),
            empty: 0,
            asked: false,
            flushed: None,
            entries: [Entry::default(); POLLED_AT_ONCE],
            current: crate::abi::ibv_wc::default(),
        }),
        unacknowledged: Unacknowledged::default(),
    });
    cq.head.base.context = context;
    cq.head.base.channel = channel;
    cq.head.base.cq_context = cq_context;
    cq.head.base.handle = handle();
    cq.head.base.cqe = depth as c_int;
    let place = Box::into_raw(cq);
    of.events.add(about::CQ, made.number, place);
    if let Some(channel) = channel_of(channel) {
        channel.add(place);
    }
    Ok(place)
}

/// `struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
/// struct ibv_comp_channel *channel, int comp_vector)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    let entries = u32::try_from(entries).ok().filter(|_| vector == 0).ok_or(EINVAL);
    let made = entries.and_then(|entries| make(context, entries, cq_context, channel));
    pointer(made.map(<*mut Cq>::cast))
}

/// `create_cq_ex` of the ops table.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: C's rules for this function.
    let attr = unsafe { &*attr };
    // Flags and a parent domain are hints; other members of the completion are not there.
    let made = match attr.wc_flags & !numbers::WC_FLAGS == 0 && attr.comp_vector == 0 {
        true => make(context, attr.cqe, attr.cq_context, attr.channel),
        false => Err(EOPNOTSUPP),
    };
    pointer(made.map(<*mut Cq>::cast))
}

/// `int ibv_destroy_cq(struct ibv_cq *cq)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Cq::of(cq) };
    let context = of.context();
    // SAFETY: the NIC's object is of this queue.
    let ended = gone(context, unsafe { vfun_nic_cq_end(of.nic) });
    number(ended.map(|()| {
        if let Some(channel) = channel_of(of.head.base.channel) {
            channel.remove(of);
        }
        of.unacknowledged.wait_for_all();
        context.events.remove(about::CQ, of.number, of);
        // SAFETY: it was made by Box; the program uses it no more.
        drop(unsafe { Box::from_raw(cq.cast::<Cq>()) });
    }))
}

/// `req_notify_cq` of the ops table.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Cq::of(cq) };
    let mut state = of.state();
    let state = &mut *state;
    state.asker.ask(&state.consumer, solicited_only != 0);
    state.asked = true;
    0
}

/// `void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    // SAFETY: C's rules for this function.
    unsafe { Cq::of(cq) }.unacknowledged.acknowledged(events);
}
