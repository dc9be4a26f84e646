//! The C interface, `include/gdma.h`. The edge keeps three rules: every pointer
//! through which something is answered is checked for null; handles are never
//! followed; a panic does not reach the program.
#![allow(non_camel_case_types)]

use super::PoolMemory;
use crate::handles::{Kind, Meant, abort, close, handle, open};
use crate::limits::{ALIGNMENT, BUFFERS, LONGEST, NODES, TRANSFERS};
use crate::options::Options;
use crate::state::{Done, End};
use crate::status::{GdmaError, OK};
use crate::text::text;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// As in the header.
pub const GDMA_VERSION: u32 = 1;
pub type gdma_id = u32;
/// What C sees of an object: nothing.
pub enum gdma_context {}
pub enum gdma_node {}
pub enum gdma_buffer {}
pub enum gdma_transfer {}
pub type gdma_done = Option<extern "C" fn(*mut gdma_context, gdma_id, c_int, *mut c_void)>;

/// As in the header.
#[repr(C)]
pub struct gdma_info {
    pub name: [c_char; 64],
    pub version: u32,
    pub nodes: u32,
    pub local: gdma_id,
    pub simulated: u32,
    pub alignment: u32,
    pub buffers: u32,
    pub transfers: u32,
    pub reserved: u32,
    pub pool_bytes: u64,
    pub longest: u64,
}

/// As in the header.
#[repr(C)]
pub struct gdma_progress {
    pub status: i32,
    pub reserved: u32,
    pub moved: u64,
    pub cycles: u64,
}

const NAME: &[u8] = b"simulated DMA engine (RTL run by Verilator, no hardware)";
const _: () = assert!(NAME.len() < 64);

/// Runs a function's body: its code, and no panic.
fn edge(body: impl FnOnce() -> Result<(), GdmaError>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => OK,
        Ok(Err(e)) => e.code(),
        Err(_) => GdmaError::Lost.code(),
    }
}

fn meant<T>(pointer: *mut T, kind: Kind) -> Result<Meant, GdmaError> {
    Meant::new(pointer.addr() as u64, kind)
}

fn pointer<T>(value: u64) -> *mut T {
    std::ptr::without_provenance_mut(value as usize)
}

/// Where an answer is to go.
fn room<T>(to: *mut T) -> Result<NonNull<T>, GdmaError> {
    NonNull::new(to).ok_or(GdmaError::Argument)
}

/// # Safety
///
/// As the header says of the program: what is not null is a `T` of its own.
unsafe fn answer<T>(to: NonNull<T>, value: T) {
    // SAFETY: as the function's.
    unsafe { to.as_ptr().write(value) }
}

/// # Safety
///
/// `context` is null or where a pointer may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_init(version: u32, context: *mut *mut gdma_context) -> c_int {
    edge(|| {
        let to = room(context)?;
        if version != GDMA_VERSION {
            return Err(GdmaError::Unsupported);
        }
        let opened = open(&Options::from_environment()?)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(to, pointer(opened)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn gdma_exit(context: *mut gdma_context) -> c_int {
    edge(|| close(context.addr() as u64))
}

#[unsafe(no_mangle)]
pub extern "C" fn gdma_abort(context: *mut gdma_context) -> c_int {
    edge(|| abort(context.addr() as u64))
}

#[unsafe(no_mangle)]
pub extern "C" fn gdma_status_text(status: c_int) -> *const c_char {
    text(status).as_ptr()
}

/// # Safety
///
/// `info` is null or where a `gdma_info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_device_info(
    context: *mut gdma_context,
    info: *mut gdma_info,
) -> c_int {
    edge(|| {
        let (meant, to) = (meant(context, Kind::Context)?, room(info)?);
        let mut name = [0; 64];
        for (to, from) in name.iter_mut().zip(NAME) {
            *to = *from as c_char;
        }
        let value = gdma_info {
            name,
            version: GDMA_VERSION,
            nodes: NODES,
            local: meant.context.local(),
            simulated: 1,
            alignment: ALIGNMENT as u32,
            buffers: BUFFERS,
            transfers: TRANSFERS,
            reserved: 0,
            pool_bytes: meant.context.pool_bytes(),
            longest: LONGEST,
        };
        // SAFETY: not null, and the program's.
        unsafe { answer(to, value) };
        Ok(())
    })
}

/// # Safety
///
/// `count` is null or where a number may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_node_count(context: *mut gdma_context, count: *mut u32) -> c_int {
    edge(|| {
        meant(context, Kind::Context)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(room(count)?, NODES) };
        Ok(())
    })
}

/// # Safety
///
/// `node` is null or where a pointer may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_node_local(
    context: *mut gdma_context,
    node: *mut *mut gdma_node,
) -> c_int {
    edge(|| {
        let meant = meant(context, Kind::Context)?;
        let local = meant.handle(Kind::Node, meant.context.local());
        // SAFETY: not null, and the program's.
        unsafe { answer(room(node)?, pointer(local)) };
        Ok(())
    })
}

/// # Safety
///
/// `node` is null or where a pointer may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_node_by_id(
    context: *mut gdma_context,
    id: gdma_id,
    node: *mut *mut gdma_node,
) -> c_int {
    edge(|| {
        let (meant, to) = (meant(context, Kind::Context)?, room(node)?);
        if !(1..=NODES).contains(&id) {
            return Err(GdmaError::Node);
        }
        // SAFETY: not null, and the program's.
        unsafe { answer(to, pointer(meant.handle(Kind::Node, id))) };
        Ok(())
    })
}

/// # Safety
///
/// `id` is null or where a number may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_node_id(node: *mut gdma_node, id: *mut gdma_id) -> c_int {
    edge(|| {
        let meant = real_node(node)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(room(id)?, meant.id) };
        Ok(())
    })
}

fn real_node(node: *mut gdma_node) -> Result<Meant, GdmaError> {
    let meant = meant(node, Kind::Node)?;
    if (1..=NODES).contains(&meant.id) { Ok(meant) } else { Err(GdmaError::Argument) }
}

/// # Safety
///
/// `buffer` is null or where a pointer may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_alloc(
    node: *mut gdma_node,
    bytes: u64,
    buffer: *mut *mut gdma_buffer,
) -> c_int {
    edge(|| {
        let (node, to) = (real_node(node)?, room(buffer)?);
        let id = node.context.allocate(node.id, bytes)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(to, pointer(node.handle(Kind::Buffer, id))) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn gdma_buffer_free(buffer: *mut gdma_buffer) -> c_int {
    edge(|| {
        let meant = meant(buffer, Kind::Buffer)?;
        meant.context.free(meant.id)
    })
}

/// # Safety
///
/// `address` and `bytes` are null or where a pointer and a number may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_map(
    buffer: *mut gdma_buffer,
    address: *mut *mut c_void,
    bytes: *mut u64,
) -> c_int {
    edge(|| {
        let meant = meant(buffer, Kind::Buffer)?;
        let (to_address, to_bytes) = (room(address)?, room(bytes)?);
        let found = meant.context.buffer(meant.id)?;
        if found.node != meant.context.local() {
            return Err(GdmaError::Node);
        }
        let base = meant.context.pool(found.node).base();
        let at = base.wrapping_add(found.offset as usize).cast();
        // SAFETY: not null, and the program's.
        unsafe { answer(to_address, at) };
        // SAFETY: not null, and the program's.
        unsafe { answer(to_bytes, found.bytes) };
        Ok(())
    })
}

/// # Safety
///
/// `id` is null or where a number may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_id(buffer: *mut gdma_buffer, id: *mut gdma_id) -> c_int {
    edge(|| {
        let meant = meant(buffer, Kind::Buffer)?;
        meant.context.buffer(meant.id)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(room(id)?, meant.id) };
        Ok(())
    })
}

/// # Safety
///
/// `buffer` is null or where a pointer may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_by_id(
    context: *mut gdma_context,
    id: gdma_id,
    buffer: *mut *mut gdma_buffer,
) -> c_int {
    edge(|| {
        let meant = meant(context, Kind::Context)?;
        meant.context.buffer(id)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(room(buffer)?, pointer(meant.handle(Kind::Buffer, id))) };
        Ok(())
    })
}

/// # Safety
///
/// `transfer` is null or where a pointer may be written; `done` is null or may
/// be called from another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_start(
    to: *mut gdma_buffer,
    to_offset: u64,
    from: *mut gdma_buffer,
    from_offset: u64,
    bytes: u64,
    done: gdma_done,
    user: *mut c_void,
    transfer: *mut *mut gdma_transfer,
) -> c_int {
    edge(|| {
        let answer_to = room(transfer)?;
        let (to, from) = (meant(to, Kind::Buffer)?, meant(from, Kind::Buffer)?);
        if to.number != from.number {
            return Err(GdmaError::Argument);
        }
        let into = End { buffer: to.id, offset: to_offset };
        let out_of = End { buffer: from.id, offset: from_offset };
        let done = done.map(|done| ended(to.number, done, user));
        let id = to.context.start(into, out_of, bytes, done)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(answer_to, pointer(to.handle(Kind::Transfer, id))) };
        Ok(())
    })
}

type Callee = extern "C" fn(*mut gdma_context, gdma_id, c_int, *mut c_void);

/// Calls the program's function with its own pointer.
fn ended(context: u32, done: Callee, user: *mut c_void) -> Done {
    let user = user.expose_provenance();
    Box::new(move |id, status| {
        let user = std::ptr::with_exposed_provenance_mut(user);
        done(pointer(handle(context, Kind::Context, 0)), id, status, user);
    })
}

/// # Safety
///
/// `id` is null or where a number may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_id(transfer: *mut gdma_transfer, id: *mut gdma_id) -> c_int {
    edge(|| {
        let meant = meant(transfer, Kind::Transfer)?;
        meant.context.query(meant.id)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(room(id)?, meant.id) };
        Ok(())
    })
}

/// # Safety
///
/// `transfer` is null or where a pointer may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_by_id(
    context: *mut gdma_context,
    id: gdma_id,
    transfer: *mut *mut gdma_transfer,
) -> c_int {
    edge(|| {
        let meant = meant(context, Kind::Context)?;
        meant.context.query(id)?;
        // SAFETY: not null, and the program's.
        unsafe { answer(room(transfer)?, pointer(meant.handle(Kind::Transfer, id))) };
        Ok(())
    })
}

/// # Safety
///
/// `progress` is null or where a `gdma_progress` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_query(
    transfer: *mut gdma_transfer,
    progress: *mut gdma_progress,
) -> c_int {
    edge(|| {
        let meant = meant(transfer, Kind::Transfer)?;
        let p = meant.context.query(meant.id)?;
        let value =
            gdma_progress { status: p.status, reserved: 0, moved: p.moved, cycles: p.cycles };
        // SAFETY: not null, and the program's.
        unsafe { answer(room(progress)?, value) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn gdma_transfer_release(transfer: *mut gdma_transfer) -> c_int {
    edge(|| {
        let meant = meant(transfer, Kind::Transfer)?;
        meant.context.release(meant.id)
    })
}

/// # Safety
///
/// `bytes` bytes from `base` on are the program's, to be read and written until
/// the context is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_pool_use(
    context: *mut gdma_context,
    base: *mut c_void,
    bytes: u64,
) -> c_int {
    edge(|| {
        let meant = meant(context, Kind::Context)?;
        let base = room(base.cast::<u8>())?;
        if !(base.addr().get() as u64).is_multiple_of(ALIGNMENT) {
            return Err(GdmaError::Argument);
        }
        // SAFETY: as the function's.
        meant.context.use_pool(unsafe { PoolMemory::of_program(base, bytes) })
    })
}
