//! Polling: what completed.
#![allow(unsafe_code)]

use crate::abi::{ibv_cq, ibv_cq_ex, ibv_wc};
use crate::cq::{Cq, CqState};
use crate::errno::EIO;
use crate::limits::{POLLED_AT_ONCE, POLLS_A_CHECK};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use vfun_verbs::Completion;

/// `ENOENT`: `ibv_start_poll` found nothing.
const NOTHING: c_int = libc::ENOENT;

fn of_completion(done: &Completion) -> ibv_wc {
    ibv_wc {
        wr_id: done.wr_id,
        status: done.status.to_wire().into(),
        opcode: done.opcode.to_wire().into(),
        vendor_err: 0,
        byte_len: done.byte_len,
        imm_data: done.imm,
        qp_num: done.qpn,
        src_qp: done.src_qp,
        wc_flags: done.flags.into(),
        pkey_index: 0,
        slid: done.slid,
        sl: 0,
        dlid_path_bits: 0,
    }
}

/// Takes up to as many completions as there are places: how many, or that the queue is broken.
#[inline]
fn take(cq: &Cq, state: &mut CqState, to: &mut [MaybeUninit<ibv_wc>]) -> Result<usize, ()> {
    let mut count = 0;
    while count < to.len() {
        let wanted = (to.len() - count).min(POLLED_AT_ONCE);
        let got = state.consumer.consume(&mut state.entries[..wanted]).map_err(drop)?;
        for entry in &state.entries[..got] {
            let done = Completion::of(entry).ok_or(())?;
            // One of a queue pair that is gone, or was reset since, is nobody's.
            let counts = state.pairs.find(done.qpn).is_some_and(|qp| qp.completed(&done));
            if counts {
                to[count].write(of_completion(&done));
                count += 1;
            }
        }
        if got < wanted {
            break;
        }
    }
    if count == 0 {
        return Ok(nothing(cq, state, to));
    }
    state.empty = 0;
    Ok(count)
}

/// After a poll that found nothing. Each so many polls it looks whether the NIC lives. If the NIC is gone, it
/// flushes what was posted.
fn nothing(cq: &Cq, state: &mut CqState, to: &mut [MaybeUninit<ibv_wc>]) -> usize {
    state.empty += 1;
    if state.empty >= POLLS_A_CHECK {
        state.empty = 0;
        cq.context().check();
    }
    if !cq.context().is_lost() {
        return 0;
    }
    let flushed = state.flushed.take();
    let mut flushed = flushed.unwrap_or_default();
    state.pairs.each(|qp| qp.flush_into(cq, &mut flushed));
    let count = flushed.len().min(to.len());
    for (place, wc) in to.iter_mut().zip(flushed.drain(..count)) {
        place.write(wc);
    }
    state.flushed = Some(flushed);
    count
}

/// `poll_cq` of the ops table.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, to: *mut ibv_wc) -> c_int {
    let Ok(wanted @ 1..) = usize::try_from(entries) else { return 0 };
    // SAFETY: C's rules for this function.
    let (of, places) = unsafe {
        (Cq::of(cq), std::slice::from_raw_parts_mut(to.cast::<MaybeUninit<_>>(), wanted))
    };
    let mut state = of.state();
    match take(of, &mut state, places) {
        Ok(count) => count as c_int,
        Err(()) => -1,
    }
}

fn next(of: &Cq) -> Result<Option<ibv_wc>, ()> {
    let mut one = [MaybeUninit::uninit()];
    let got = take(of, &mut of.state(), &mut one)?;
    // SAFETY: it was written: one was taken.
    Ok((got == 1).then(|| unsafe { one[0].assume_init() }))
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, _attr: *mut c_void) -> c_int {
    // SAFETY: C's rules for this function. One thread polls so at a time, as the header says of
    // queues that several threads share; a lock would be held across calls.
    unsafe { next_poll(cq) }
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Cq::of(cq.cast()) };
    match next(of) {
        Ok(Some(wc)) => {
            of.state().current = wc;
            // SAFETY: the members are this thread's from now to the end of the poll.
            unsafe {
                (*cq).wr_id = wc.wr_id;
                (*cq).status = wc.status;
            }
            0
        }
        Ok(None) => NOTHING,
        Err(()) => EIO.0,
    }
}

unsafe extern "C" fn end_poll(_cq: *mut ibv_cq_ex) {}

macro_rules! readers {
    ($($name:ident: $type:ty = $member:ident,)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            // SAFETY: C's rules for this function.
            unsafe { Cq::of(cq.cast()) }.state().current.$member as $type
        }
    )*};
}

readers! {
    read_opcode: u32 = opcode,
    read_vendor_err: u32 = vendor_err,
    read_byte_len: u32 = byte_len,
    read_imm_data: u32 = imm_data,
    read_qp_num: u32 = qp_num,
    read_src_qp: u32 = src_qp,
    read_wc_flags: u32 = wc_flags,
    read_slid: u32 = slid,
    read_sl: u8 = sl,
    read_dlid_path_bits: u8 = dlid_path_bits,
}

/// A queue's members of the header with its functions, the others zero.
pub fn head() -> ibv_cq_ex {
    // SAFETY: zeros are null pointers, numbers, and mutexes as they begin.
    let mut head: ibv_cq_ex = unsafe { MaybeUninit::zeroed().assume_init() };
    head.start_poll = Some(start_poll);
    head.next_poll = Some(next_poll);
    head.end_poll = Some(end_poll);
    head.read_opcode = Some(read_opcode);
    head.read_vendor_err = Some(read_vendor_err);
    head.read_byte_len = Some(read_byte_len);
    head.read_imm_data = Some(read_imm_data);
    head.read_qp_num = Some(read_qp_num);
    head.read_src_qp = Some(read_src_qp);
    head.read_wc_flags = Some(read_wc_flags);
    head.read_slid = Some(read_slid);
    head.read_sl = Some(read_sl);
    head.read_dlid_path_bits = Some(read_dlid_path_bits);
    head
}
