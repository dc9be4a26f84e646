//! What a description cannot say: the pool, where buffers lie, and callbacks.
#![allow(unsafe_code)]

use crate::generated::{Native, OK, gdma_context, gdma_progress, kinds, write_gdma_progress};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;
use vfun_remoting_host::{Context, Events, Held, Name, Reader, Refusal, Returned, Writer};

/// The event that tells of a transfer's end.
const DONE_EVENT: u16 = 34;
/// The offset of a buffer on another node, which no program maps.
const REMOTE_NODE: u64 = u64::MAX;

/// Statuses of the header: not finished yet; a handle is wrong.
const BUSY: i32 = 1;
const ERR_ARGUMENT: i32 = -1;

/// What the hooks keep of a connection.
#[derive(Default)]
pub struct State {
    /// The pool of each context, by the library's pointer: the guest cannot take it back before
    /// the context ends.
    pools: HashMap<usize, Held>,
    /// Transfers that were not begun, and why: the guest has them as started. By the places of
    /// their names, so that there are at most as many as objects.
    not_begun: HashMap<usize, (Name, i32)>,
}

impl State {
    /// The library has ended a context.
    pub fn ended(&mut self, context: usize) {
        self.pools.remove(&context);
    }

    fn note_not_begun(&mut self, transfer: Name, status: i32) {
        let place = transfer.place().map(|(place, _)| (place, (transfer, status)));
        self.not_begun.extend(place);
    }

    /// Why a transfer was not begun; an error if there is none of this name.
    fn why_not_begun(&self, transfer: Name) -> Result<i32, Refusal> {
        let (place, _) = transfer.place().ok_or(Refusal::Object)?;
        let known = self.not_begun.get(&place).filter(|(name, _)| *name == transfer);
        known.map(|(_, status)| *status).ok_or(Refusal::Object)
    }
}

/// Ends a call as its status says.
fn returned(status: i32) -> Returned {
    if status == OK { Returned::Fine } else { Returned::Failure(status as u32) }
}

/// `gdma_init`, and the pool, which the guest has lent.
pub fn gdma_init(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let (version, pool, name) = (args.u32()?, args.u64()?, args.name()?);
    args.end()?;
    cx.objects.check_free(name)?;
    // Refused if another context has it.
    let held = cx.attached.hold(pool)?;
    let pool = held.memory();
    let mut context: *mut gdma_context = std::ptr::null_mut();
    // SAFETY: the place is ours.
    let mut status = unsafe { (native.gdma_init)(version, &mut context) };
    if status == OK {
        // SAFETY: the context is new; the pool stays where it is as long as `held` lives, which
        // is until `gdma_exit`, at the latest when the connection ends.
        status = unsafe { (native.gdma_pool_use)(context, pool.start.cast(), pool.len as u64) };
        if status != OK {
            // SAFETY: nobody else knows it.
            unsafe { (native.gdma_exit)(context) };
        }
    }
    reply.i32(status);
    if status == OK {
        let context = context.expose_provenance();
        cx.objects.insert(name, kinds::CONTEXT, context, Name::NONE);
        state.pools.insert(context, held);
    }
    Ok(returned(status))
}

/// How far a transfer of the library's is.
fn progress_of(native: &Native, transfer: usize) -> (i32, gdma_progress) {
    let mut progress = gdma_progress { status: 0, reserved: 0, moved: 0, cycles: 0 };
    // SAFETY: the transfer is alive, the place is ours.
    let status = unsafe {
        (native.gdma_transfer_query)(with_exposed_provenance_mut(transfer), &mut progress)
    };
    (status, progress)
}

/// `gdma_exit`: its pool is free for another context then. While transfers are under way the library
/// would wait for them, and with it all calls of the program: the guest asks again.
pub fn gdma_exit(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let name = args.name()?;
    args.end()?;
    let context = cx.objects.check_owned(name, kinds::CONTEXT)?;
    let busy = |transfer| progress_of(native, transfer).1.status == BUSY;
    if cx.objects.of(name, kinds::TRANSFER).any(busy) {
        reply.i32(BUSY);
        return Ok(returned(BUSY));
    }
    // SAFETY: the context is alive, and gone from the table after this.
    let status = unsafe { (native.gdma_exit)(with_exposed_provenance_mut(context)) };
    reply.i32(status);
    if status == OK {
        cx.objects.remove(name);
        state.ended(context);
    }
    Ok(returned(status))
}

/// `gdma_abort`: transfers under way end, and nobody waits for them.
pub fn gdma_abort(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let name = args.name()?;
    args.end()?;
    let context = cx.objects.check_owned(name, kinds::CONTEXT)?;
    // SAFETY: the context is alive, and gone from the table after this.
    let status = unsafe { (native.gdma_abort)(with_exposed_provenance_mut(context)) };
    reply.i32(status);
    if status == OK {
        cx.objects.remove(name);
        state.ended(context);
    }
    Ok(returned(status))
}

/// `gdma_buffer_alloc`, and where the buffer lies in the pool.
pub fn gdma_buffer_alloc(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let (node, bytes, name) = (args.name()?, args.u64()?, args.name()?);
    args.end()?;
    cx.objects.check_free(name)?;
    let context = cx.objects.ancestor(node, kinds::CONTEXT);
    let node = cx.objects.find(node, kinds::NODE)?;
    let owner = cx.objects.find(context, kinds::CONTEXT)?;
    let pool = state.pools.get(&owner).ok_or(Refusal::Object)?.memory();
    let mut buffer = std::ptr::null_mut();
    // SAFETY: the node is alive, the place is ours.
    let status = unsafe {
        (native.gdma_buffer_alloc)(with_exposed_provenance_mut(node), bytes, &mut buffer)
    };
    reply.i32(status);
    if status != OK {
        return Ok(returned(status));
    }
    let (mut address, mut length) = (std::ptr::null_mut::<c_void>(), bytes);
    // SAFETY: the buffer is alive, the places are ours.
    let mapped = unsafe { (native.gdma_buffer_map)(buffer, &mut address, &mut length) };
    // An offset in the pool, and no address.
    let offset = match (address.addr().checked_sub(pool.start.addr()), mapped) {
        (Some(offset), OK) if offset < pool.len => offset as u64,
        _ => REMOTE_NODE,
    };
    cx.objects.insert(name, kinds::BUFFER, buffer.expose_provenance(), context);
    reply.u64(offset);
    reply.u64(length);
    Ok(Returned::Fine)
}

/// Whom to tell of a transfer's end.
struct Done {
    events: Arc<Events>,
    transfer: Name,
}

impl Done {
    fn tell(&self, status: i32) {
        self.events.push(DONE_EVENT, |w| {
            w.name(self.transfer);
            w.i32(status);
        });
    }
}

/// The library's callback: tells the guest, and is done with what it was given.
unsafe extern "C" fn done(_: *mut gdma_context, _: u32, status: i32, user: *mut c_void) {
    // SAFETY: made by `Box::into_raw` for this one call.
    let done = unsafe { Box::from_raw(user.cast::<Done>()) };
    done.tell(status);
}

/// `gdma_transfer_start`. The guest does not wait for the answer: a transfer that is not begun is
/// one that has ended, until the guest releases it.
pub fn gdma_transfer_start(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let (to_name, to_offset, from, from_offset) =
        (args.name()?, args.u64()?, args.name()?, args.u64()?);
    let (bytes, wants_event, name) = (args.u64()?, args.bool()?, args.name()?);
    args.end()?;
    cx.objects.check_free(name)?;
    let tell = Done { events: cx.events.clone(), transfer: name };
    let find = |buffer| cx.objects.find(buffer, kinds::BUFFER);
    let (to, from) = match (find(to_name), find(from)) {
        (Ok(to), Ok(from)) => (to, from),
        (Err(refusal), _) | (_, Err(refusal)) => {
            // Another thread of the program has freed it meanwhile.
            state.note_not_begun(name, ERR_ARGUMENT);
            if wants_event {
                tell.tell(ERR_ARGUMENT);
            }
            return Err(refusal);
        }
    };
    let user = if wants_event { Box::into_raw(Box::new(tell)) } else { std::ptr::null_mut() };
    let mut transfer = std::ptr::null_mut();
    // SAFETY: both buffers are alive, the place is ours, and `done` takes what it is given once.
    let status = unsafe {
        (native.gdma_transfer_start)(
            with_exposed_provenance_mut(to),
            to_offset,
            with_exposed_provenance_mut(from),
            from_offset,
            bytes,
            wants_event.then_some(done as unsafe extern "C" fn(_, _, _, _)),
            user.cast(),
            &mut transfer,
        )
    };
    reply.i32(status);
    if status == OK {
        let context = cx.objects.ancestor(to_name, kinds::CONTEXT);
        cx.objects.insert(name, kinds::TRANSFER, transfer.expose_provenance(), context);
    } else {
        state.note_not_begun(name, status);
        if !user.is_null() {
            // SAFETY: the library did not take it.
            unsafe { Box::from_raw(user) }.tell(status);
        }
    }
    Ok(returned(status))
}

/// `gdma_transfer_query`, also of a transfer that was not begun.
pub fn gdma_transfer_query(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let name = args.name()?;
    args.end()?;
    let (status, progress) = match cx.objects.find(name, kinds::TRANSFER) {
        Ok(transfer) => progress_of(native, transfer),
        Err(_) => {
            let status = state.why_not_begun(name)?;
            (OK, gdma_progress { status, reserved: 0, moved: 0, cycles: 0 })
        }
    };
    reply.i32(status);
    if status == OK {
        write_gdma_progress(reply, &progress);
    }
    Ok(returned(status))
}

/// `gdma_transfer_release`, also of a transfer that was not begun.
pub fn gdma_transfer_release(
    state: &mut State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let name = args.name()?;
    args.end()?;
    let Ok(transfer) = cx.objects.check_owned(name, kinds::TRANSFER) else {
        state.why_not_begun(name)?;
        state.not_begun.remove(&name.place().expect("looked up").0);
        reply.i32(OK);
        return Ok(Returned::Fine);
    };
    // SAFETY: the transfer is alive, and gone from the table after this.
    let status = unsafe { (native.gdma_transfer_release)(with_exposed_provenance_mut(transfer)) };
    reply.i32(status);
    if status == OK {
        cx.objects.remove(name);
    }
    Ok(returned(status))
}
