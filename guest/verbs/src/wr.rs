//! The functions `ibv_wr_…`: a program says entries piece by piece, and posts all of them at once.
#![allow(unsafe_code)]

use crate::abi::*;
use crate::domains::Ah;
use crate::errno::{EINVAL, ENOMEM, EOPNOTSUPP, Errno};
use crate::post::{Elements, Inline, send_one};
use crate::qp::Qp;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use vfun_verbs::flags::send;
use vfun_verbs::{Operands, SendBody, SendHead, SendOpcode};

/// The data of an entry, as far as they were said.
enum Data {
    None,
    Gather(Elements),
    Inline(Inline),
}

struct Entry {
    head: SendHead,
    operands: Operands,
    data: Data,
}

#[derive(Default)]
struct Entries {
    list: Vec<Entry>,
    /// What was wrong first: then nothing is posted.
    failed: Option<Errno>,
}

/// Those of one queue pair, from `ibv_wr_start` to `ibv_wr_complete`.
#[derive(Default)]
pub struct Building {
    /// A thread is between the two.
    taken: AtomicBool,
    entries: UnsafeCell<Entries>,
}

// SAFETY: only the thread that took it reaches the entries.
unsafe impl Sync for Building {}

impl Building {
    fn take(&self) {
        while self.taken.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    fn leave(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// # Safety
    /// This thread took it, and has no other reference.
    #[expect(clippy::mut_from_ref, reason = "the flag says whose it is")]
    unsafe fn entries(&self) -> &mut Entries {
        // SAFETY: the caller's.
        unsafe { &mut *self.entries.get() }
    }
}

/// Runs with the entries of a queue pair.
///
/// # Safety
/// C's rules: this thread has called `ibv_wr_start`.
unsafe fn with(qp: *mut ibv_qp_ex, run: impl FnOnce(&Qp, &mut Entries)) {
    // SAFETY: the caller's.
    unsafe {
        let of = Qp::of(qp.cast());
        run(of, of.building.entries());
    }
}

/// Begins an entry.
///
/// # Safety
/// As [`with`].
unsafe fn begin(
    qp: *mut ibv_qp_ex,
    op: SendOpcode,
    (key, addr, imm): (u32, u64, u32),
    operands: Operands,
) {
    // SAFETY: the caller's; the program has set the members of this entry.
    unsafe {
        let (wr_id, wr_flags) = ((*qp).wr_id, (*qp).wr_flags);
        with(qp, |_, entries| {
            let flags = u8::try_from(wr_flags).ok().filter(|f| f & !send::ALL == 0);
            if flags.is_none() {
                entries.failed.get_or_insert(EINVAL);
            }
            let flags = flags.unwrap_or_default() & !send::INLINE;
            let head = SendHead { op, flags, imm, key, addr, wr_id };
            entries.list.push(Entry { head, operands, data: Data::None });
        });
    }
}

/// Changes the entry that was begun last.
///
/// # Safety
/// As [`with`].
unsafe fn change(qp: *mut ibv_qp_ex, run: impl FnOnce(&mut Entry) -> Result<(), Errno>) {
    // SAFETY: the caller's.
    unsafe {
        with(qp, |_, entries| {
            let done = entries.list.last_mut().ok_or(EINVAL).and_then(run);
            if let Err(errno) = done {
                entries.failed.get_or_insert(errno);
            }
        });
    }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: C's rules; the flag was taken before the entries are reached.
    unsafe {
        let of = Qp::of(qp.cast());
        of.building.take();
        let entries = of.building.entries();
        entries.list.clear();
        entries.failed = None;
    }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: C's rules.
    unsafe { Qp::of(qp.cast()) }.building.leave();
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: C's rules: this thread has called ibv_wr_start.
    let of = unsafe { Qp::of(qp.cast()) };
    // SAFETY: as above.
    let done = post_all(of, unsafe { of.building.entries() });
    of.building.leave();
    crate::errno::number(done)
}

/// Posts all of them, or none.
fn post_all(qp: &Qp, entries: &mut Entries) -> Result<(), Errno> {
    if let Some(errno) = entries.failed {
        return Err(errno);
    }
    if !qp.takes_sends() {
        return Err(EINVAL);
    }
    let context = qp.context();
    let mut queue = qp.sends.producer();
    let wanted = entries.list.len() as u64;
    let position = queue.queue().produced();
    let free = queue.queue().room(wanted).map_err(|_| crate::errno::EIO)?;
    if qp.sends.progress.room(position).min(free) < wanted {
        return Err(ENOMEM);
    }
    // All are looked at before the first one is posted, and the NIC sees it.
    entries.list.iter().try_for_each(|entry| body(qp, entry).map(drop))?;
    for entry in &entries.list {
        send_one(qp, context, &mut queue, &entry.head, body(qp, entry)?)?;
    }
    if wanted > 0 {
        context.ring_if(context.bells.posted(qp.bell));
    }
    Ok(())
}

fn body<'a>(qp: &Qp, entry: &'a Entry) -> Result<SendBody<'a>, Errno> {
    let op = entry.head.op;
    match &entry.data {
        Data::Gather(elements) if op.is_atomic() => match elements.list() {
            [one] => Ok(SendBody::Atomic(*one, entry.operands)),
            _ => Err(EINVAL),
        },
        _ if op.is_atomic() => Err(EINVAL),
        Data::None => Ok(SendBody::Gather(&[])),
        Data::Gather(elements) => Ok(SendBody::Gather(elements.list())),
        Data::Inline(_) if op == SendOpcode::Read => Err(EINVAL),
        Data::Inline(data) if data.bytes().len() > qp.caps.max_inline_data as usize => Err(EINVAL),
        Data::Inline(data) => Ok(SendBody::Inline(data.bytes())),
    }
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    // SAFETY: C's rules.
    unsafe { begin(qp, SendOpcode::Send, (0, 0, 0), Operands::default()) }
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, imm: u32) {
    // SAFETY: C's rules.
    unsafe { begin(qp, SendOpcode::SendImm, (0, 0, imm), Operands::default()) }
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, key: u32, addr: u64) {
    // SAFETY: C's rules.
    unsafe { begin(qp, SendOpcode::Write, (key, addr, 0), Operands::default()) }
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut ibv_qp_ex, key: u32, addr: u64, imm: u32) {
    // SAFETY: C's rules.
    unsafe { begin(qp, SendOpcode::WriteImm, (key, addr, imm), Operands::default()) }
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, key: u32, addr: u64) {
    // SAFETY: C's rules.
    unsafe { begin(qp, SendOpcode::Read, (key, addr, 0), Operands::default()) }
}

unsafe extern "C" fn wr_cmp_swp(
    qp: *mut ibv_qp_ex,
    key: u32,
    addr: u64,
    compare_add: u64,
    swap: u64,
) {
    // SAFETY: C's rules.
    unsafe { begin(qp, SendOpcode::CompareSwap, (key, addr, 0), Operands { compare_add, swap }) }
}

unsafe extern "C" fn wr_fetch_add(qp: *mut ibv_qp_ex, key: u32, addr: u64, compare_add: u64) {
    // SAFETY: C's rules.
    unsafe { begin(qp, SendOpcode::FetchAdd, (key, addr, 0), Operands { compare_add, swap: 0 }) }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: C's rules, for the handle too.
    unsafe {
        change(qp, |entry| {
            entry.head.key = Ah::of(ah).number;
            entry.head.addr = SendHead::datagram(qpn, qkey);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let one = ibv_sge { addr, length, lkey };
    // SAFETY: C's rules; the element is ours.
    unsafe { wr_set_sge_list(qp, 1, &one) }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: C's rules.
    unsafe {
        let most = Qp::of(qp.cast()).caps.max_send_sge as usize;
        change(qp, |entry| {
            let fits = c_int::try_from(count).ok().filter(|_| count <= most).ok_or(EINVAL)?;
            entry.data = Data::Gather(Elements::of(list, fits)?);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, from: *mut c_void, bytes: usize) {
    let one = ibv_data_buf { addr: from, length: bytes };
    // SAFETY: C's rules; the element is ours.
    unsafe { wr_set_inline_data_list(qp, 1, &one) }
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    // SAFETY: C's rules, for the bytes too.
    unsafe {
        change(qp, |entry| {
            let mut data = Inline::new();
            for at in 0..count {
                let part = &*list.add(at);
                data.add(part.addr.expose_provenance() as u64, part.length)?;
            }
            entry.data = Data::Inline(data);
            Ok(())
        });
    }
}

/// Of operations that this NIC does not have.
///
/// # Safety
/// As [`with`].
unsafe fn refuse(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller's.
    unsafe {
        with(qp, |_, entries| {
            entries.failed.get_or_insert(EOPNOTSUPP);
        });
    }
}

unsafe extern "C" fn wr_local_inv(qp: *mut ibv_qp_ex, _key: u32) {
    // SAFETY: C's rules.
    unsafe { refuse(qp) }
}

unsafe extern "C" fn wr_send_tso(qp: *mut ibv_qp_ex, _header: *mut c_void, _bytes: u16, _mss: u16) {
    // SAFETY: C's rules.
    unsafe { refuse(qp) }
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    _mw: *mut c_void,
    _key: u32,
    _info: *const c_void,
) {
    // SAFETY: C's rules.
    unsafe { refuse(qp) }
}

unsafe extern "C" fn wr_atomic_write(
    qp: *mut ibv_qp_ex,
    _key: u32,
    _addr: u64,
    _data: *const c_void,
) {
    // SAFETY: C's rules.
    unsafe { refuse(qp) }
}

/// A queue pair's members of the header with its functions, the others zero.
pub fn head() -> ibv_qp_ex {
    // SAFETY: zeros are null pointers, numbers, and mutexes as they begin.
    let mut head: ibv_qp_ex = unsafe { MaybeUninit::zeroed().assume_init() };
    head.wr_start = Some(wr_start);
    head.wr_complete = Some(wr_complete);
    head.wr_abort = Some(wr_abort);
    head.wr_send = Some(wr_send);
    head.wr_send_imm = Some(wr_send_imm);
    head.wr_rdma_write = Some(wr_rdma_write);
    head.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    head.wr_rdma_read = Some(wr_rdma_read);
    head.wr_atomic_cmp_swp = Some(wr_cmp_swp);
    head.wr_atomic_fetch_add = Some(wr_fetch_add);
    head.wr_set_ud_addr = Some(wr_set_ud_addr);
    head.wr_set_sge = Some(wr_set_sge);
    head.wr_set_sge_list = Some(wr_set_sge_list);
    head.wr_set_inline_data = Some(wr_set_inline_data);
    head.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    head.wr_local_inv = Some(wr_local_inv);
    head.wr_send_inv = Some(wr_local_inv);
    head.wr_set_xrc_srqn = Some(wr_local_inv);
    head.wr_send_tso = Some(wr_send_tso);
    head.wr_bind_mw = Some(wr_bind_mw);
    head.wr_atomic_write = Some(wr_atomic_write);
    head
}
