//! Posting: work for the NIC.
#![allow(unsafe_code)]

use crate::abi::{ibv_ah, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge};
use crate::context::Context;
use crate::domains::Ah;
use crate::errno::{EINVAL, EIO, ENOMEM, Errno};
use crate::qp::Qp;
use std::ffi::c_int;
use vfun_verbs::flags::send;
use vfun_verbs::limits::{INLINE_MAX, SGES_MAX};
use vfun_verbs::{
    Operands, PostError, QpType, ReceiveEntry, SendBody, SendHead, SendOpcode, Sge, WorkProducer,
};
use vfun_window::WindowMemory;

/// Elements of an entry, copied from the program once.
pub struct Elements {
    count: usize,
    list: [Sge; SGES_MAX],
}

impl Elements {
    /// # Safety
    /// `from` points to `count` elements.
    #[inline]
    pub unsafe fn of(from: *const ibv_sge, count: c_int) -> Result<Self, Errno> {
        let count = usize::try_from(count).ok().filter(|n| *n <= SGES_MAX).ok_or(EINVAL)?;
        let mut list = [Sge::default(); SGES_MAX];
        for (at, to) in list[..count].iter_mut().enumerate() {
            // SAFETY: the caller's.
            let sge = unsafe { *from.add(at) };
            *to = Sge { addr: sge.addr, len: sge.length, lkey: sge.lkey };
        }
        Ok(Elements { count, list })
    }

    pub fn list(&self) -> &[Sge] {
        &self.list[..self.count]
    }
}

/// Bytes of an inline entry.
pub struct Inline {
    count: usize,
    bytes: [u8; INLINE_MAX],
}

impl Inline {
    pub const fn new() -> Self {
        Inline { count: 0, bytes: [0; INLINE_MAX] }
    }

    /// Adds bytes.
    ///
    /// # Safety
    /// There are so many at the address.
    pub unsafe fn add(&mut self, addr: u64, bytes: usize) -> Result<(), Errno> {
        let end = self.count.checked_add(bytes).filter(|end| *end <= INLINE_MAX).ok_or(EINVAL)?;
        let from = std::ptr::with_exposed_provenance::<u8>(addr as usize);
        if bytes > 0 {
            let to = self.bytes[self.count..end].as_mut_ptr();
            // SAFETY: the caller's; the place is ours.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        }
        self.count = end;
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

/// Posts one entry; its queue is locked.
#[inline]
pub fn send_one(
    qp: &Qp,
    context: &Context,
    queue: &mut WorkProducer<WindowMemory>,
    head: &SendHead,
    body: SendBody<'_>,
) -> Result<(), Errno> {
    let position = queue.queue().produced();
    if qp.sends.progress.room(position) == 0 {
        return Err(ENOMEM);
    }
    if context.regions.has_bounces() {
        bounce(qp, context, position, head.op, &body);
    }
    queue.post_send(head, body).map_err(failed)?;
    qp.sends.progress.posted(position, head.wr_id);
    Ok(())
}

/// Why an entry was not posted, as verbs say it.
#[cold]
pub fn failed(error: PostError) -> Errno {
    match error {
        PostError::Full => ENOMEM,
        PostError::Bad(_) => EINVAL,
        PostError::Broken(_) => EIO,
    }
}

/// Of memory that has a copy in the window: copies what is sent, and notes what will be filled.
#[cold]
fn bounce(qp: &Qp, context: &Context, position: u64, op: SendOpcode, body: &SendBody<'_>) {
    let (sges, fills) = match body {
        SendBody::Inline(_) => return,
        SendBody::Gather(sges) => (*sges, op == SendOpcode::Read),
        SendBody::Atomic(sge, _) => (std::slice::from_ref(sge), true),
    };
    if !fills {
        context.regions.copy_in(sges);
    } else if let Some(back) = context.regions.copy_back(sges) {
        qp.sends.progress.will_copy(position, back);
    }
}

/// What an entry says, without its data. `wr` is the union of the header.
#[inline]
fn head_of(qp: &Qp, wr: &ibv_send_wr) -> Result<SendHead, Errno> {
    let op = u8::try_from(wr.opcode).ok().and_then(SendOpcode::from_wire).ok_or(EINVAL)?;
    let flags = u8::try_from(wr.send_flags).ok().filter(|f| f & !send::ALL == 0).ok_or(EINVAL)?;
    let [first, second, _, fourth] = wr.wr;
    let (key, addr) = match qp.head.base.qp_type == u32::from(QpType::Ud.to_wire()) {
        true => {
            let ah: *const ibv_ah = std::ptr::with_exposed_provenance(first as usize);
            if ah.is_null() {
                return Err(EINVAL);
            }
            // SAFETY: the program's handle, by C's rules. Receiver and key stand in the second word.
            (unsafe { Ah::of(ah) }.number, SendHead::datagram(second as u32, (second >> 32) as u32))
        }
        false if op.is_atomic() => (fourth as u32, first),
        false => (second as u32, first),
    };
    Ok(SendHead { op, flags: flags & !send::INLINE, imm: wr.imm_data, key, addr, wr_id: wr.wr_id })
}

/// Posts what one struct of the program says.
#[inline]
fn send(
    qp: &Qp,
    context: &Context,
    queue: &mut WorkProducer<WindowMemory>,
    wr: &ibv_send_wr,
) -> Result<(), Errno> {
    let head = head_of(qp, wr)?;
    if wr.send_flags & u32::from(send::INLINE) != 0 {
        return send_inline(qp, context, queue, (&head, wr));
    }
    // SAFETY: the program's list, by C's rules.
    let elements = unsafe { Elements::of(wr.sg_list, wr.num_sge) }?;
    let list = elements.list();
    if list.len() > qp.caps.max_send_sge as usize {
        return Err(EINVAL);
    }
    match (head.op.is_atomic(), list) {
        (true, [one]) => {
            let operands = Operands { compare_add: wr.wr[1], swap: wr.wr[2] };
            send_one(qp, context, queue, &head, SendBody::Atomic(*one, operands))
        }
        (true, _) => Err(EINVAL),
        (false, list) => send_one(qp, context, queue, &head, SendBody::Gather(list)),
    }
}

fn send_inline(
    qp: &Qp,
    context: &Context,
    queue: &mut WorkProducer<WindowMemory>,
    (head, wr): (&SendHead, &ibv_send_wr),
) -> Result<(), Errno> {
    let mut data = Inline::new();
    for at in 0..usize::try_from(wr.num_sge).map_err(|_| EINVAL)? {
        // SAFETY: the program's list, and the bytes that it names, by C's rules.
        unsafe {
            let sge = *wr.sg_list.add(at);
            data.add(sge.addr, sge.length as usize)?;
        }
    }
    if data.bytes().len() > qp.caps.max_inline_data as usize {
        return Err(EINVAL);
    }
    send_one(qp, context, queue, head, SendBody::Inline(data.bytes()))
}

/// `post_send` of the ops table.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Qp::of(qp) };
    let context = of.context();
    let (mut next, mut failed, mut posted) = (first, None, false);
    if !of.takes_sends() {
        failed = Some(EINVAL);
    } else {
        let mut queue = of.sends.producer();
        while !next.is_null() {
            // SAFETY: as above.
            let wr = unsafe { &*next };
            if let Err(errno) = send(of, context, &mut queue, wr) {
                failed = Some(errno);
                break;
            }
            posted = true;
            next = wr.next;
        }
        if posted {
            context.ring_if(context.bells.posted(of.bell));
        }
    }
    match failed {
        None => 0,
        Some(errno) => {
            // SAFETY: the program's place.
            unsafe { bad.write(next) };
            errno.0
        }
    }
}

/// An entry for a queue of receives; `most` elements.
///
/// # Safety
/// C's rules for the struct.
pub unsafe fn receive_entry(
    wr: &ibv_recv_wr,
    most: u32,
) -> Result<(ReceiveEntry, Elements), Errno> {
    // SAFETY: the caller's.
    let elements = unsafe { Elements::of(wr.sg_list, wr.num_sge) }?;
    let entry = ReceiveEntry::new(wr.wr_id, elements.list());
    let entry = entry.filter(|_| elements.list().len() <= most as usize).ok_or(EINVAL)?;
    Ok((entry, elements))
}

/// Posts one receive of a queue pair's own.
fn receive(
    qp: &Qp,
    context: &Context,
    queue: &mut WorkProducer<WindowMemory>,
    wr: &ibv_recv_wr,
) -> Result<(), Errno> {
    // SAFETY: the program's struct, by C's rules.
    let (entry, elements) = unsafe { receive_entry(wr, qp.caps.max_recv_sge) }?;
    let progress = &qp.receives.as_ref().ok_or(EINVAL)?.progress;
    let position = queue.queue().produced();
    if progress.room(position) == 0 {
        return Err(ENOMEM);
    }
    if context.regions.has_bounces()
        && let Some(back) = context.regions.copy_back(elements.list())
    {
        progress.will_copy(position, back);
    }
    queue.post_receive(&entry).map_err(failed)?;
    progress.posted(position, wr.wr_id);
    Ok(())
}

/// `post_recv` of the ops table.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Qp::of(qp) };
    let context = of.context();
    let (mut next, mut failed, mut posted) = (first, None, false);
    match of.receives.as_ref().filter(|_| of.takes_receives()) {
        None => failed = Some(EINVAL),
        Some(receives) => {
            let mut queue = receives.producer();
            while !next.is_null() {
                // SAFETY: as above.
                let wr = unsafe { &*next };
                if let Err(errno) = receive(of, context, &mut queue, wr) {
                    failed = Some(errno);
                    break;
                }
                posted = true;
                next = wr.next;
            }
            if posted {
                context.ring_if(context.bells.posted_receive(of.bell, &queue));
            }
        }
    }
    match failed {
        None => 0,
        Some(errno) => {
            // SAFETY: the program's place.
            unsafe { bad.write(next) };
            errno.0
        }
    }
}
