//! Shared queues of receives.
#![allow(unsafe_code)]

use crate::abi::*;
use crate::asynchronous::about;
use crate::context::Context;
use crate::domains::{Pd, gone, handle};
use crate::errno::{EINVAL, EOPNOTSUPP, Errno, checked, number, pointer};
use crate::generated::{
    vfun_nic_srq, vfun_nic_srq_end, vfun_nic_srq_limit, vfun_nic_srq_make, vfun_nic_srq_query,
};
use crate::memory::CopyBack;
use crate::post::{failed, receive_entry};
use crate::shape::ReceiveShape;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};
use vfun_verbs::WorkProducer;
use vfun_window::WindowMemory;

#[repr(C)]
pub struct Srq {
    head: ibv_srq,
    nic: *mut vfun_nic_srq,
    number: u32,
    shape: ReceiveShape,
    producer: Mutex<WorkProducer<WindowMemory>>,
    /// Memory to be copied when a position completes, by its lower half.
    backs: Mutex<HashMap<u32, CopyBack>>,
}

impl Srq {
    /// # Safety
    /// The pointer is one that `ibv_create_srq` gave, and was not destroyed.
    pub unsafe fn of<'a>(srq: *mut ibv_srq) -> &'a Srq {
        // SAFETY: the program's pointer is that of the first member.
        unsafe { &*srq.cast() }
    }

    pub fn nic(&self) -> *mut vfun_nic_srq {
        self.nic
    }

    fn context(&self) -> &'static Context {
        // SAFETY: a context outlives what is made of it, by the rules of verbs.
        unsafe { Context::of(self.head.context) }
    }

    /// The receive at this position was used; `bytes` came.
    pub fn completed(&self, position: u32, bytes: u64) {
        if self.context().regions.has_bounces() {
            let mut backs = self.backs.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(back) = backs.remove(&position) {
                back.copy(bytes);
            }
        }
    }

    fn post(&self, queue: &mut WorkProducer<WindowMemory>, wr: &ibv_recv_wr) -> Result<(), Errno> {
        // SAFETY: the program's struct, by C's rules.
        let (entry, elements) = unsafe { receive_entry(wr, self.shape.sges()) }?;
        let context = self.context();
        if context.regions.has_bounces()
            && let Some(back) = context.regions.copy_back(elements.list())
        {
            let position = queue.queue().produced() as u32;
            self.backs.lock().unwrap_or_else(PoisonError::into_inner).insert(position, back);
        }
        let position = queue.queue().produced() as u32;
        let posted = queue.post_receive(&entry).map(drop).map_err(failed);
        posted.inspect_err(|_| {
            self.backs.lock().unwrap_or_else(PoisonError::into_inner).remove(&position);
        })
    }
}

fn make(
    pd: *mut ibv_pd,
    srq_context: *mut c_void,
    attr: &mut ibv_srq_attr,
) -> Result<*mut ibv_srq, Errno> {
    // SAFETY: the callers' rules are C's.
    let of = unsafe { Pd::of(pd) };
    let context = of.context();
    if attr.max_wr == 0 || attr.max_wr > context.info.work_depth || attr.max_sge > context.info.sges
    {
        return Err(EINVAL);
    }
    let shape = ReceiveShape::new(attr.max_wr, attr.max_sge);
    let (mut made, mut nic) = (MaybeUninit::uninit(), std::ptr::null_mut());
    // SAFETY: the places are ours.
    checked(unsafe {
        vfun_nic_srq_make(of.nic, shape.depth, shape.extension, made.as_mut_ptr(), &mut nic)
    })?;
    // SAFETY: it was written: the call succeeded.
    let made = unsafe { made.assume_init() };
    let producer = context
        .part(&made.place)
        .and_then(|memory| WorkProducer::new(memory, shape.work()?).map_err(|_| EINVAL));
    let producer = producer.inspect_err(|_| {
        // SAFETY: nobody has it.
        unsafe { vfun_nic_srq_end(nic) };
    })?;
    // SAFETY: zeros are null pointers, numbers, and mutexes as they begin.
    let mut head: ibv_srq = unsafe { MaybeUninit::zeroed().assume_init() };
    head.context = context.pointer();
    head.srq_context = srq_context;
    head.pd = pd;
    head.handle = handle();
    (attr.max_wr, attr.max_sge) = (shape.depth, shape.sges());
    let srq = Box::into_raw(Box::new(Srq {
        head,
        nic,
        number: made.number,
        shape,
        producer: Mutex::new(producer),
        backs: Mutex::default(),
    }));
    context.events.add(about::SRQ, made.number, srq);
    Ok(srq.cast())
}

/// `struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: C's rules for this function.
    let init = unsafe { &mut *init };
    pointer(make(pd, init.srq_context, &mut init.attr))
}

/// `create_srq_ex` of the ops table.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn create_srq_ex(
    _context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    use numbers::srq_init::*;
    // SAFETY: C's rules for this function.
    let init = unsafe { &mut *init };
    let basic = init.comp_mask & TYPE == 0 || init.srq_type == BASIC;
    let made = match init.comp_mask & PD != 0 {
        _ if !basic => Err(EOPNOTSUPP),
        true => make(init.pd, init.srq_context, &mut init.attr),
        false => Err(EINVAL),
    };
    pointer(made)
}

/// `get_srq_num` of the ops table: only XRC needs it.
pub extern "C" fn get_srq_num(_srq: *mut ibv_srq, _number: *mut u32) -> c_int {
    EOPNOTSUPP.0
}

/// `int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)`: sets the limit.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: C's rules for this function.
    let (of, attr) = unsafe { (Srq::of(srq), *attr) };
    let mask = mask as u32;
    if mask & numbers::srq::MAX_WR != 0 {
        return EOPNOTSUPP.0;
    }
    if mask & numbers::srq::LIMIT == 0 {
        return 0;
    }
    if attr.srq_limit > of.shape.depth {
        return EINVAL.0;
    }
    // SAFETY: the NIC's object is of this queue.
    unsafe { vfun_nic_srq_limit(of.nic, attr.srq_limit) }
}

/// `int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Srq::of(srq) };
    let mut srq_limit = 0;
    // SAFETY: the place is ours.
    let asked = checked(unsafe { vfun_nic_srq_query(of.nic, &mut srq_limit) });
    let (max_wr, max_sge) = (of.shape.depth, of.shape.sges());
    // SAFETY: the program's place.
    number(asked.map(|()| unsafe { attr.write(ibv_srq_attr { max_wr, max_sge, srq_limit }) }))
}

/// `int ibv_destroy_srq(struct ibv_srq *srq)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Srq::of(srq) };
    let context = of.context();
    // SAFETY: the NIC's object is of this queue.
    let ended = gone(context, unsafe { vfun_nic_srq_end(of.nic) });
    number(ended.map(|()| {
        context.events.remove(about::SRQ, of.number, of);
        // SAFETY: it was made by Box; the program uses it no more.
        drop(unsafe { Box::from_raw(srq.cast::<Srq>()) });
    }))
}

/// `post_srq_recv` of the ops table. The NIC looks at the queue when a message comes.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Srq::of(srq) };
    let mut queue = of.producer.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = first;
    while !next.is_null() {
        // SAFETY: as above.
        let wr = unsafe { &*next };
        if let Err(errno) = of.post(&mut queue, wr) {
            // SAFETY: the program's place.
            unsafe { bad.write(next) };
            return errno.0;
        }
        next = wr.next;
    }
    0
}
