//! What a description cannot say: where memory lies, identifiers, and callbacks.
#![allow(unsafe_code, clippy::too_many_arguments, clippy::missing_safety_doc)]

use crate::generated::{
    OK, REMOTE, calls, gdma_buffer, gdma_context, gdma_node, gdma_progress, gdma_transfer, kinds,
    read_gdma_progress,
};
use crate::pools;
use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use vfun_remoting_guest::{Failure, Kind, Link, Object, Reader, out};

/// Statuses of the header that this file makes by itself.
const BUSY: i32 = 1;
const ERR_NODE: i32 = -4;
const ERR_RANGE: i32 = -5;

/// What a buffer's object keeps: where it lies in its pool, or [`REMOTE_NODE`]; its bytes.
const OFFSET: usize = 0;
const BYTES: usize = 1;
/// The offset of a buffer on another node.
const REMOTE_NODE: u64 = u64::MAX;

/// What a transfer's object keeps: the program's callback and its argument, and what is known of
/// it.
const DONE: usize = 0;
const USER: usize = 1;
const STATE: usize = 2;

/// Of a transfer's state. The host has said that it ended, so that it can be released.
const ENDED: u64 = 1 << 32;
/// The host never began it; the lower half says why.
const NEVER_BEGUN: u64 = 1 << 33;
/// Its callback was made.
const CALLED: u64 = 1 << 34;
/// The program has released it: it may not name it any more. One whose callback is still to come
/// stays until then.
const RELEASED: u64 = 1 << 35;

/// The type of the callback, `gdma_done`.
type Done = unsafe extern "C" fn(*mut gdma_context, u32, i32, *mut c_void);

/// The event that tells of a transfer's end.
const DONE_EVENT: u16 = 34;

pub unsafe fn gdma_status_text(status: i32) -> *const i8 {
    let text = match status {
        OK => c"done",
        1 => c"not finished yet, or still in use",
        -1 => c"a handle or an argument is wrong",
        -2 => c"the node's pool has no room for the buffer in one piece",
        -3 => c"more, or larger, than gdma_device_info says",
        ERR_NODE => c"there is no such node, or neither end is on the local node",
        ERR_RANGE => c"beyond the end of a buffer, or the two ends overlap",
        -6 => c"the engine reported an error",
        -7 => c"the engine or its service is gone, or no host offers it",
        -8 => c"this library does not have it",
        _ => c"unknown status",
    };
    text.as_ptr()
}

pub unsafe fn gdma_init(version: u32, context: *mut *mut gdma_context) -> Result<i32, Failure> {
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(context) }?;
    let link = REMOTE.link()?;
    let pool = pools::lend(link)?;
    let new = REMOTE.objects.make(kinds::CONTEXT, link.number(), None)?;
    let returned = link.call(
        calls::GDMA_INIT,
        |w| {
            w.u32(version);
            w.u64(pool.handle());
            w.name(new.name());
        },
        |r| Ok(r.i32()?),
    )?;
    if returned == OK {
        let object = new.keep();
        pools::put(object, pool);
        place.write(with_exposed_provenance_mut(object.pointer()));
    }
    Ok(returned)
}

pub unsafe fn gdma_exit(context: *mut gdma_context) -> Result<i32, Failure> {
    let object = match REMOTE.object(context.addr(), kinds::CONTEXT) {
        Ok((object, link)) => {
            pools::wait_for_callbacks(object.name(), link);
            let returned =
                link.call(calls::GDMA_EXIT, |w| w.name(object.name()), |r| Ok(r.i32()?))?;
            if returned != OK {
                return Ok(returned);
            }
            object
        }
        // Its service is gone, and with it all that there was to free there.
        Err(Failure::Lost) => REMOTE.objects.find(context.addr(), kinds::CONTEXT)?,
        Err(other) => return Err(other),
    };
    let name = object.name();
    REMOTE.objects.forget(object);
    pools::take(name);
    Ok(OK)
}

pub unsafe fn gdma_buffer_alloc(
    node: *mut gdma_node,
    bytes: u64,
    buffer: *mut *mut gdma_buffer,
) -> Result<i32, Failure> {
    let (node, link) = REMOTE.object(node.addr(), kinds::NODE)?;
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(buffer) }?;
    let context = pools::context_of(node)?;
    let new = REMOTE.objects.make(kinds::BUFFER, link.number(), Some(context))?;
    let (returned, offset, bytes) = link.call(
        calls::GDMA_BUFFER_ALLOC,
        |w| {
            w.name(node.name());
            w.u64(bytes);
            w.name(new.name());
        },
        |r| match r.i32()? {
            OK => Ok((OK, r.u64()?, r.u64()?)),
            failed => Ok((failed, 0, 0)),
        },
    )?;
    if returned == OK {
        let object = new.keep();
        object.keep(OFFSET, offset);
        object.keep(BYTES, bytes);
        place.write(with_exposed_provenance_mut(object.pointer()));
    }
    Ok(returned)
}

pub unsafe fn gdma_buffer_map(
    buffer: *mut gdma_buffer,
    address: *mut *mut c_void,
    bytes: *mut u64,
) -> Result<i32, Failure> {
    let (buffer, _) = REMOTE.object(buffer.addr(), kinds::BUFFER)?;
    // SAFETY: C's rules for this function.
    let (address, bytes) = unsafe { (out::place(address)?, out::place_or_none(bytes)) };
    let offset = buffer.kept(OFFSET);
    if offset == REMOTE_NODE {
        return Ok(ERR_NODE);
    }
    let pool = pools::context_of(buffer)?.kept(pools::POOL_START);
    address.write(with_exposed_provenance_mut((pool + offset) as usize));
    if let Some(bytes) = bytes {
        bytes.write(buffer.kept(BYTES));
    }
    Ok(OK)
}

/// A transfer that the program has not released.
fn transfer(pointer: usize) -> Result<(Object<'static>, &'static Link), Failure> {
    let (object, link) = REMOTE.object(pointer, kinds::TRANSFER)?;
    if object.kept(STATE) & RELEASED == 0 { Ok((object, link)) } else { Err(Failure::Object) }
}

/// The number of an object.
unsafe fn id_of(object: Object<'_>, id: *mut u32) -> Result<i32, Failure> {
    // SAFETY: C's rules for these functions.
    unsafe { out::place(id) }?.write(object.id());
    Ok(OK)
}

/// The object of a number, in this context.
fn by_id(context: *mut gdma_context, id: u32, kind: Kind) -> Result<Object<'static>, Failure> {
    let (context, _) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
    let object = REMOTE.objects.of_id(id, kind)?;
    match pools::context_of(object)?.pointer() == context.pointer() {
        true => Ok(object),
        false => Err(Failure::Object),
    }
}

pub unsafe fn gdma_buffer_id(buffer: *mut gdma_buffer, id: *mut u32) -> Result<i32, Failure> {
    let (object, _) = REMOTE.object(buffer.addr(), kinds::BUFFER)?;
    // SAFETY: C's rules for this function.
    unsafe { id_of(object, id) }
}

pub unsafe fn gdma_buffer_by_id(
    context: *mut gdma_context,
    id: u32,
    buffer: *mut *mut gdma_buffer,
) -> Result<i32, Failure> {
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(buffer) }?;
    place.write(with_exposed_provenance_mut(by_id(context, id, kinds::BUFFER)?.pointer()));
    Ok(OK)
}

pub unsafe fn gdma_transfer_id(transfer: *mut gdma_transfer, id: *mut u32) -> Result<i32, Failure> {
    let (object, _) = self::transfer(transfer.addr())?;
    // SAFETY: C's rules for this function.
    unsafe { id_of(object, id) }
}

pub unsafe fn gdma_transfer_by_id(
    context: *mut gdma_context,
    id: u32,
    transfer: *mut *mut gdma_transfer,
) -> Result<i32, Failure> {
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(transfer) }?;
    let (object, _) = self::transfer(by_id(context, id, kinds::TRANSFER)?.pointer())?;
    place.write(with_exposed_provenance_mut(object.pointer()));
    Ok(OK)
}

/// Whether a transfer of so many bytes can be: what the host would say at once.
fn check(to: (Object<'_>, u64), from: (Object<'_>, u64), bytes: u64) -> Result<(), i32> {
    let inside = |(buffer, offset): (Object<'_>, u64)| {
        offset.checked_add(bytes).is_some_and(|end| end <= buffer.kept(BYTES))
    };
    if to.0.kept(OFFSET) == REMOTE_NODE && from.0.kept(OFFSET) == REMOTE_NODE {
        return Err(ERR_NODE);
    }
    let overlap = to.0.pointer() == from.0.pointer() && to.1.abs_diff(from.1) < bytes;
    if inside(to) && inside(from) && !overlap { Ok(()) } else { Err(ERR_RANGE) }
}

pub unsafe fn gdma_transfer_start(
    to: *mut gdma_buffer,
    to_offset: u64,
    from: *mut gdma_buffer,
    from_offset: u64,
    bytes: u64,
    done: Option<Done>,
    user: *mut c_void,
    transfer: *mut *mut gdma_transfer,
) -> Result<i32, Failure> {
    let (to, link) = REMOTE.object(to.addr(), kinds::BUFFER)?;
    let (from, _) = REMOTE.object(from.addr(), kinds::BUFFER)?;
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(transfer) }?;
    if let Err(status) = check((to, to_offset), (from, from_offset), bytes) {
        return Ok(status);
    }
    link.listen(heard);
    let context = pools::context_of(to)?;
    let new = REMOTE.objects.make(kinds::TRANSFER, link.number(), Some(context))?;
    let object = new.object();
    if let Some(done) = done {
        object.keep(DONE, (done as *const ()).expose_provenance() as u64);
        object.keep(USER, user.expose_provenance() as u64);
        pools::await_callback(context.name());
    }
    // The program may be called back before this returns, so it has its answer first.
    place.write(with_exposed_provenance_mut(object.pointer()));
    let posted = link.post(calls::GDMA_TRANSFER_START, true, |w| {
        w.name(to.name());
        w.u64(to_offset);
        w.name(from.name());
        w.u64(from_offset);
        w.u64(bytes);
        w.bool(done.is_some());
        w.name(object.name());
    });
    match posted {
        Ok(()) => {
            new.keep();
            Ok(OK)
        }
        Err(failure) => {
            if done.is_some() {
                pools::callback_done(context.name());
            }
            Err(failure)
        }
    }
}

/// An event of the host: a transfer has ended, or was never begun.
fn heard(link: &'static Link, event: u16, mut args: Reader<'_>) {
    let (Ok(name), Ok(status), Ok(begun)) = (args.name(), args.i32(), args.bool()) else { return };
    let Ok(transfer) = REMOTE.objects.named(name, kinds::TRANSFER) else { return };
    if event != DONE_EVENT || transfer.link() != link.number() {
        return;
    }
    let reason = if begun { 0 } else { NEVER_BEGUN | u64::from(status as u32) };
    transfer.mark(STATE, ENDED | reason);
    let Ok(context) = pools::context_of(transfer) else { return };
    let done = transfer.kept(DONE) as usize;
    if done == 0 {
        return;
    }
    // SAFETY: the program gave this function for this transfer, which it has not released.
    let call =
        unsafe { std::mem::transmute::<*const (), Done>(std::ptr::with_exposed_provenance(done)) };
    let user = with_exposed_provenance_mut(transfer.kept(USER) as usize);
    // SAFETY: as the header promises: on the library's thread, with the program's argument.
    unsafe { call(with_exposed_provenance_mut(context.pointer()), transfer.id(), status, user) };
    if transfer.mark(STATE, CALLED) & RELEASED != 0 {
        REMOTE.objects.forget(transfer);
    }
    pools::callback_done(context.name());
}

pub unsafe fn gdma_transfer_query(
    transfer: *mut gdma_transfer,
    progress: *mut gdma_progress,
) -> Result<i32, Failure> {
    let (object, link) = self::transfer(transfer.addr())?;
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(progress) }?;
    let asked = link.call(
        calls::GDMA_TRANSFER_QUERY,
        |w| w.name(object.name()),
        |r| match r.i32()? {
            OK => Ok(Ok(read_gdma_progress(r)?)),
            failed => Ok(Err(failed)),
        },
    );
    let known = match asked {
        Ok(Ok(known)) => known,
        Ok(Err(status)) => return Ok(status),
        // The host did not begin it. The event that says why comes before or after this answer.
        Err(Failure::Object) => gdma_progress { status: failed(object), ..NOTHING },
        Err(failure) => return Err(failure),
    };
    if known.status != BUSY {
        object.mark(STATE, ENDED);
    }
    place.write(known);
    Ok(OK)
}

/// Of a transfer that was not begun.
const NOTHING: gdma_progress = gdma_progress { status: 0, reserved: 0, moved: 0, cycles: 0 };

/// Why a transfer was not begun.
fn failed(transfer: Object<'_>) -> i32 {
    const ERR_DEVICE: i32 = -6;
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(1);
    while transfer.kept(STATE) & NEVER_BEGUN == 0 && std::time::Instant::now() < patience {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    match transfer.kept(STATE) {
        state if state & NEVER_BEGUN != 0 => state as u32 as i32,
        _ => ERR_DEVICE,
    }
}

/// Frees a transfer, also one that the host never began. Of one that has ended the host cannot
/// refuse it, so that nobody waits for its answer: it goes with the next call.
pub unsafe fn gdma_transfer_release(transfer: *mut gdma_transfer) -> Result<i32, Failure> {
    let (object, link) = self::transfer(transfer.addr())?;
    let name = object.name();
    let has_ended = object.kept(STATE) & ENDED != 0;
    if !has_ended {
        let asked = link.call(calls::GDMA_TRANSFER_RELEASE, |w| w.name(name), |r| Ok(r.i32()?));
        match asked {
            Ok(OK) | Err(Failure::Object) => {}
            other => return other,
        }
    }
    let before = object.mark(STATE, RELEASED);
    if before & RELEASED != 0 {
        return Err(Failure::Object); // another thread was faster
    }
    if has_ended && before & NEVER_BEGUN == 0 {
        link.post(calls::GDMA_TRANSFER_RELEASE, false, |w| w.name(name))?;
    }
    if object.kept(DONE) == 0 || before & CALLED != 0 {
        REMOTE.objects.forget(object);
    }
    Ok(OK)
}
