//! What a description cannot say: where memory lies, identifiers, and callbacks.
#![allow(unsafe_code, clippy::too_many_arguments, clippy::missing_safety_doc)]

use crate::callbacks::{self, Callback, Done};
use crate::generated::{
    OK, REMOTE, calls, gdma_buffer, gdma_context, gdma_node, gdma_progress, gdma_transfer, kinds,
    read_gdma_progress,
};
use crate::{pools, text};
use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Once;
use std::time::Duration;
use vfun_remoting_guest::{
    Failure, Handlers, Kind, Lent, Link, Object, Reader, in_callback, keep_open, out,
};

/// Statuses of the header that this file makes by itself.
const BUSY: i32 = 1;
const ERR_NODE: i32 = -4;
const ERR_RANGE: i32 = -5;
const ERR_LOST: i32 = -7;

/// What a buffer's object keeps: where it lies in its pool, or [`REMOTE_NODE`]; its bytes.
const OFFSET: usize = 0;
const BYTES: usize = 1;
/// The offset of a buffer on another node.
const REMOTE_NODE: u64 = u64::MAX;

/// What a transfer's object keeps: whether it is known to have ended.
const ENDED: usize = 0;

/// The event that tells of a transfer's end.
const DONE_EVENT: u16 = 34;

pub unsafe fn gdma_status_text(status: i32) -> *const i8 {
    text::text(status).as_ptr()
}

/// What is done with the host's events.
const HANDLERS: Handlers = Handlers { event: heard, lost: |link| callbacks::lost(link, ERR_LOST) };

/// A connection that hears of transfers, and a pool for a new context.
fn connected() -> Result<(&'static Link, Lent), Failure> {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        keep_open(pools::hold);
        keep_open(callbacks::hold);
    });
    let link = REMOTE.link()?;
    link.listen(HANDLERS)?;
    Ok((link, pools::lend(link)?))
}

pub unsafe fn gdma_init(version: u32, context: *mut *mut gdma_context) -> Result<i32, Failure> {
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(context) }?;
    let (link, pool) = match connected() {
        // The service died before, and only this call has noticed it.
        Err(Failure::Lost) => connected()?,
        other => other?,
    };
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
    end(context, |object, known_by, on_host| {
        callbacks::wait_for_all(object.pointer(), known_by);
        on_host(exit_on_host)
    })
}

pub unsafe fn gdma_abort(context: *mut gdma_context) -> Result<i32, Failure> {
    end(context, |_, _, on_host| {
        on_host(|object, link| {
            link.call(calls::GDMA_ABORT, |w| w.name(object.name()), |r| Ok(r.i32()?))
        })
    })
}

/// What ends a context on the host.
type OnHost = fn(Object<'_>, &Link) -> Result<i32, Failure>;

/// Ends a context. `how` gets it, the connection that knows it, and what makes the host end it, which
/// gives the host's status.
fn end(
    context: *mut gdma_context,
    how: impl FnOnce(
        Object<'static>,
        &'static Link,
        &dyn Fn(OnHost) -> Result<i32, Failure>,
    ) -> Result<i32, Failure>,
) -> Result<i32, Failure> {
    let object = REMOTE.objects.find(context.addr(), kinds::CONTEXT)?;
    if in_callback() {
        return Ok(BUSY); // it would wait for itself
    }
    let known_by = REMOTE.link_of(object).ok_or(Failure::Object)?;
    // Takes nothing more: a callback may be starting transfer after transfer.
    object.keep(pools::CLOSES, 1);
    let on_host = |end: OnHost| match REMOTE.object(context.addr(), kinds::CONTEXT) {
        Ok((object, link)) => end(object, link),
        // Its service is gone, and with it all that there was to free there.
        Err(Failure::Lost) => Ok(OK),
        Err(other) => Err(other),
    };
    let returned = how(object, known_by, &on_host)?;
    if returned != OK {
        object.keep(pools::CLOSES, 0);
        return Ok(returned);
    }
    // Those of transfers that other threads started meanwhile, and of those that were aborted.
    callbacks::wait_for_all(object.pointer(), known_by);
    let name = object.name();
    REMOTE.objects.forget(object);
    pools::take(name);
    Ok(OK)
}

/// Ends a context on the host, where transfers may be under way of which no function tells. The host
/// does not wait for them, so that other calls of the program go on: it is asked again.
fn exit_on_host(context: Object<'_>, link: &Link) -> Result<i32, Failure> {
    let mut pause = Duration::from_micros(50);
    loop {
        let returned = link.call(calls::GDMA_EXIT, |w| w.name(context.name()), |r| Ok(r.i32()?))?;
        if returned != BUSY {
            return Ok(returned);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(1));
    }
}

pub unsafe fn gdma_buffer_alloc(
    node: *mut gdma_node,
    bytes: u64,
    buffer: *mut *mut gdma_buffer,
) -> Result<i32, Failure> {
    let (node, link) = REMOTE.object(node.addr(), kinds::NODE)?;
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(buffer) }?;
    let context = pools::open_context_of(node)?;
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
    let (address, bytes) = unsafe { (out::place(address)?, out::place(bytes)?) };
    let offset = buffer.kept(OFFSET);
    if offset == REMOTE_NODE {
        return Ok(ERR_NODE);
    }
    let pool = pools::context_of(buffer)?.kept(pools::POOL_START);
    address.write(with_exposed_provenance_mut((pool + offset) as usize));
    bytes.write(buffer.kept(BYTES));
    Ok(OK)
}

/// The number of an object.
unsafe fn id_of(pointer: usize, kind: Kind, id: *mut u32) -> Result<i32, Failure> {
    let (object, _) = REMOTE.object(pointer, kind)?;
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
    // SAFETY: C's rules for this function.
    unsafe { id_of(buffer.addr(), kinds::BUFFER, id) }
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
    // SAFETY: C's rules for this function.
    unsafe { id_of(transfer.addr(), kinds::TRANSFER, id) }
}

pub unsafe fn gdma_transfer_by_id(
    context: *mut gdma_context,
    id: u32,
    transfer: *mut *mut gdma_transfer,
) -> Result<i32, Failure> {
    // SAFETY: C's rules for this function.
    let place = unsafe { out::place(transfer) }?;
    place.write(with_exposed_provenance_mut(by_id(context, id, kinds::TRANSFER)?.pointer()));
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
    let context = pools::open_context_of(to)?;
    if context.pointer() != pools::context_of(from)?.pointer() {
        return Err(Failure::Argument);
    }
    if let Err(status) = check((to, to_offset), (from, from_offset), bytes) {
        return Ok(status);
    }
    let new = REMOTE.objects.make(kinds::TRANSFER, link.number(), Some(context))?;
    let object = new.object();
    if let Some(done) = done {
        let (user, context) = (user.expose_provenance(), context.pointer());
        let (id, link) = (object.id(), link.number());
        callbacks::await_end(object.name(), Callback { done, user, context, id, link });
    }
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
        // Its function was called already, with the loss: so it was started.
        Err(_) if done.is_some() && !callbacks::withdraw(object.name()) => {}
        Err(failure) => return Err(failure),
        Ok(()) => {}
    }
    new.keep();
    place.write(with_exposed_provenance_mut(object.pointer()));
    Ok(OK)
}

/// An event of the host: a transfer has ended, or was never begun.
fn heard(link: &'static Link, event: u16, mut args: Reader<'_>) {
    let (Ok(name), Ok(status)) = (args.name(), args.i32()) else { return };
    if event != DONE_EVENT {
        return;
    }
    // The program may have released it before.
    if let Ok(transfer) = REMOTE.objects.named(name, kinds::TRANSFER) {
        transfer.keep(ENDED, 1);
    }
    callbacks::ended(link, name, status);
}

pub unsafe fn gdma_transfer_query(
    transfer: *mut gdma_transfer,
    progress: *mut gdma_progress,
) -> Result<i32, Failure> {
    let (object, link) = REMOTE.object(transfer.addr(), kinds::TRANSFER)?;
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
    let known = match asked? {
        Ok(known) => known,
        Err(status) => return Ok(status),
    };
    if known.status != BUSY {
        object.keep(ENDED, 1);
    }
    place.write(known);
    Ok(OK)
}

/// Frees a transfer. The host cannot refuse to free one that has ended. So nobody waits for that
/// answer: the call goes with the next one.
pub unsafe fn gdma_transfer_release(transfer: *mut gdma_transfer) -> Result<i32, Failure> {
    let (object, link) = REMOTE.object(transfer.addr(), kinds::TRANSFER)?;
    if object.kept(ENDED) != 0 {
        // First: once its place is free, another thread may give the place to a new object, whose
        // call must come behind this one.
        link.post(calls::GDMA_TRANSFER_RELEASE, false, |w| w.name(object.name()))?;
        // Of two threads that free it, one finds it gone, and so does its call on the host.
        return if REMOTE.objects.forget(object) { Ok(OK) } else { Err(Failure::Object) };
    }
    let returned =
        link.call(calls::GDMA_TRANSFER_RELEASE, |w| w.name(object.name()), |r| Ok(r.i32()?))?;
    if returned == OK {
        REMOTE.objects.forget(object);
    }
    Ok(returned)
}
