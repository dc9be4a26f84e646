//! Queue pairs.
#![allow(unsafe_code)]

use crate::abi::*;
use crate::asynchronous::about;
use crate::context::Context;
use crate::cq::Cq;
use crate::domains::{Pd, gone, handle};
use crate::errno::{EINVAL, EOPNOTSUPP, Errno, checked, number, pointer};
use crate::generated::{
    vfun_nic_qp, vfun_nic_qp_end, vfun_nic_qp_init, vfun_nic_qp_made, vfun_nic_qp_make,
};
use crate::progress::Progress;
use crate::shape::{ReceiveShape, SendShape};
use crate::srq::Srq;
use crate::wr::{self, Building};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfun_verbs::{Completion, CompletionOpcode, QpState, QpType, WorkProducer};
use vfun_window::WindowMemory;

/// What every completion of a receive has in its opcode.
const RECEIVES: u8 = CompletionOpcode::Receive as u8;

/// A queue of work: its end, and how far it is.
pub struct WorkQueue {
    producer: Mutex<WorkProducer<WindowMemory>>,
    pub progress: Progress,
}

impl WorkQueue {
    pub fn producer(&self) -> MutexGuard<'_, WorkProducer<WindowMemory>> {
        self.producer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[repr(C)]
pub struct Qp {
    pub head: ibv_qp_ex,
    pub nic: *mut vfun_nic_qp,
    /// Its doorbell bit.
    pub bell: usize,
    pub sends: WorkQueue,
    /// None: they are shared.
    pub receives: Option<WorkQueue>,
    /// As the program set it last.
    state: AtomicU32,
    pub caps: ibv_qp_cap,
    pub all_signaled: bool,
    /// What `ibv_wr_…` collect.
    pub building: Building,
}

impl Qp {
    /// # Safety
    /// The pointer is one that `ibv_create_qp` gave, and was not destroyed.
    pub unsafe fn of<'a>(qp: *mut ibv_qp) -> &'a Qp {
        // SAFETY: the program's pointer is that of the first member.
        unsafe { &*qp.cast() }
    }

    pub fn context(&self) -> &'static Context {
        // SAFETY: a context outlives what is made of it, by the rules of verbs.
        unsafe { Context::of(self.head.base.context) }
    }

    pub fn srq(&self) -> Option<&Srq> {
        let srq = self.head.base.srq;
        // SAFETY: a shared queue outlives the pairs that use it, by the rules of verbs.
        (!srq.is_null()).then(|| unsafe { Srq::of(srq) })
    }

    fn cqs(&self) -> [&Cq; 2] {
        // SAFETY: completion queues outlive the pairs that use them, by the rules of verbs.
        [self.head.base.send_cq, self.head.base.recv_cq].map(|cq| unsafe { Cq::of(cq) })
    }

    /// Whether sends may be posted: the state that the program set allows it.
    #[inline]
    pub fn takes_sends(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= QpState::Rts as u32
    }

    #[inline]
    pub fn takes_receives(&self) -> bool {
        self.state.load(Ordering::Relaxed) != QpState::Reset as u32
    }

    /// The program has set a state.
    pub fn set_state(&self, state: u32) {
        self.state.store(state, Ordering::Relaxed);
        if state == QpState::Reset as u32 {
            self.sends.progress.reset();
            self.receives.iter().for_each(|receives| receives.progress.reset());
        }
    }

    /// One of its entries has completed; false if it was no more its own.
    #[inline]
    pub fn completed(&self, done: &Completion) -> bool {
        let bytes = done.byte_len.into();
        if done.opcode as u8 & RECEIVES == 0 {
            return self.sends.progress.completed(done.position, bytes, true);
        }
        match (&self.receives, self.srq()) {
            (Some(receives), _) => receives.progress.completed(done.position, bytes, false),
            (None, Some(srq)) => {
                srq.completed(done.position, bytes);
                true
            }
            (None, None) => false,
        }
    }

    /// The NIC is gone: flushes what completes in this queue.
    pub fn flush_into(&self, cq: &Cq, to: &mut Vec<ibv_wc>) {
        let [sends, receives] = self.cqs();
        let number = self.head.base.qp_num;
        if std::ptr::eq(sends, cq) {
            self.sends.progress.flush(number, 0, to);
        }
        if std::ptr::eq(receives, cq)
            && let Some(queue) = &self.receives
        {
            queue.progress.flush(number, RECEIVES.into(), to);
        }
    }
}

/// The shapes of its queues, from what the program asked for.
struct Shapes {
    sends: SendShape,
    receives: ReceiveShape,
    caps: ibv_qp_cap,
}

fn shapes(context: &Context, init: &ibv_qp_init_attr) -> Result<Shapes, Errno> {
    let (cap, info) = (&init.cap, &context.info);
    let shared = !init.srq.is_null();
    let receive_wr = if shared { 0 } else { cap.max_recv_wr };
    let too_many = cap.max_send_wr.max(receive_wr) > info.work_depth
        || cap.max_send_sge.max(cap.max_recv_sge) > info.sges
        || cap.max_inline_data > info.inline_bytes;
    if too_many {
        return Err(EINVAL);
    }
    let sends = SendShape::new(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data);
    let receives = ReceiveShape::new(receive_wr, cap.max_recv_sge);
    let caps = ibv_qp_cap {
        max_send_wr: sends.depth,
        max_recv_wr: if shared { 0 } else { receives.depth },
        max_send_sge: sends.sges(),
        max_recv_sge: if shared { 0 } else { receives.sges() },
        max_inline_data: sends.inline_bytes(),
    };
    Ok(Shapes { sends, receives, caps })
}

/// The NIC's queue pair.
fn ask(
    pd: &Pd,
    init: &ibv_qp_init_attr,
    shapes: &Shapes,
) -> Result<(*mut vfun_nic_qp, vfun_nic_qp_made), Errno> {
    let kinds = [QpType::Rc, QpType::Uc, QpType::Ud].map(|kind| u32::from(kind.to_wire()));
    if !kinds.contains(&init.qp_type) {
        return Err(EOPNOTSUPP);
    }
    if init.send_cq.is_null() || init.recv_cq.is_null() {
        return Err(EINVAL);
    }
    let wish = vfun_nic_qp_init {
        kind: init.qp_type,
        all_signaled: u32::from(init.sq_sig_all != 0),
        send_depth: shapes.sends.depth,
        send_extension: shapes.sends.extension,
        receive_depth: shapes.receives.depth,
        receive_extension: shapes.receives.extension,
    };
    // SAFETY: the program's objects, by C's rules.
    let (send_cq, receive_cq) = unsafe { (Cq::of(init.send_cq).nic(), Cq::of(init.recv_cq).nic()) };
    // SAFETY: as above.
    let srq = (!init.srq.is_null()).then(|| unsafe { Srq::of(init.srq) }.nic());
    let srq = srq.unwrap_or(std::ptr::null_mut());
    let (mut made, mut nic) = (MaybeUninit::uninit(), std::ptr::null_mut());
    // SAFETY: the places are ours.
    checked(unsafe {
        vfun_nic_qp_make(pd.nic, &wish, send_cq, receive_cq, srq, made.as_mut_ptr(), &mut nic)
    })?;
    // SAFETY: it was written: the call succeeded.
    Ok((nic, unsafe { made.assume_init() }))
}

/// The program's ends of its queues.
fn queues(
    context: &Context,
    made: &vfun_nic_qp_made,
    shapes: &Shapes,
    shared: bool,
) -> Result<(WorkQueue, Option<WorkQueue>), Errno> {
    let queue = |place, shape: vfun_verbs::WorkShape| -> Result<WorkQueue, Errno> {
        let producer = WorkProducer::new(context.part(place)?, shape).map_err(|_| EINVAL)?;
        let progress = Progress::new(shape.depth());
        Ok(WorkQueue { producer: Mutex::new(producer), progress })
    };
    let sends = queue(&made.sends, shapes.sends.work()?)?;
    let receives = match shared {
        true => None,
        false => Some(queue(&made.receives, shapes.receives.work()?)?),
    };
    Ok((sends, receives))
}

fn make(pd: *mut ibv_pd, init: &ibv_qp_init_attr) -> Result<*mut Qp, Errno> {
    // SAFETY: the callers' rules are C's.
    let of = unsafe { Pd::of(pd) };
    let context = of.context();
    let shapes = shapes(context, init)?;
    let (nic, made) = ask(of, init, &shapes)?;
    let parts = queues(context, &made, &shapes, !init.srq.is_null());
    let (sends, receives) = parts.inspect_err(|_| {
        // SAFETY: nobody has it.
        unsafe { vfun_nic_qp_end(nic) };
    })?;
    let mut head = wr::head();
    head.base = ibv_qp {
        context: context.pointer(),
        qp_context: init.qp_context,
        pd,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: handle(),
        qp_num: made.qpn,
        state: QpState::Reset as u32,
        qp_type: init.qp_type,
        ..head.base
    };
    let place = Box::into_raw(Box::new(Qp {
        head,
        nic,
        bell: made.bell as usize,
        sends,
        receives,
        state: AtomicU32::new(QpState::Reset as u32),
        caps: shapes.caps,
        all_signaled: init.sq_sig_all != 0,
        building: Building::default(),
    }));
    context.events.add(about::QP, made.qpn, place);
    // SAFETY: it was just made.
    let cqs = unsafe { (*place).cqs() };
    cqs.iter().for_each(|cq| cq.state().pairs.add(made.qpn, place));
    Ok(place)
}

/// `struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)`. What was made is written
/// into `init->cap`.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: C's rules for this function.
    let init = unsafe { &mut *init };
    let made = make(pd, init).map(|qp| {
        // SAFETY: it was just made.
        init.cap = unsafe { (*qp).caps };
        qp.cast()
    });
    pointer(made)
}

/// Operations that `ibv_wr_…` offer: writes, sends, reads and atomics, without invalidation.
const SEND_OPS: u64 = 0x7F;

/// `create_qp_ex` of the ops table.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn create_qp_ex(
    _context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    use numbers::init::*;
    // SAFETY: C's rules for this function.
    let init = unsafe { &mut *init };
    let flags = init.comp_mask & CREATE_FLAGS != 0 && init.create_flags != 0;
    let ops = init.comp_mask & SEND_OPS_FLAGS != 0 && init.send_ops_flags & !SEND_OPS != 0;
    let more = init.comp_mask & !(PD | CREATE_FLAGS | SEND_OPS_FLAGS) != 0;
    let made = match init.comp_mask & PD != 0 {
        _ if flags || ops || more => Err(EOPNOTSUPP),
        true => make(init.pd, &init.base()),
        false => Err(EINVAL),
    };
    pointer(made.map(|qp| {
        // SAFETY: it was just made.
        init.cap = unsafe { (*qp).caps };
        qp.cast()
    }))
}

/// `struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)`
#[unsafe(no_mangle)]
pub extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    qp.cast()
}

/// `int ibv_destroy_qp(struct ibv_qp *qp)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Qp::of(qp) };
    let context = of.context();
    // SAFETY: the NIC's object is of this pair.
    let ended = gone(context, unsafe { vfun_nic_qp_end(of.nic) });
    number(ended.map(|()| {
        let qpn = of.head.base.qp_num;
        of.cqs().iter().for_each(|cq| cq.state().pairs.remove(qpn));
        context.events.remove(about::QP, qpn, of);
        // SAFETY: it was made by Box; the program uses it no more.
        drop(unsafe { Box::from_raw(qp.cast::<Qp>()) });
    }))
}
