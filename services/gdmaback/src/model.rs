//! A model of the library, for the fuzzer: memory is real, transfers are copies, nothing waits.
//! It checks what it is given: an object that the dispatcher should have refused ends the test.
#![allow(unsafe_code)]

use crate::generated::{
    Native, gdma_buffer, gdma_context, gdma_info, gdma_node, gdma_progress, gdma_transfer,
};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

const ERR_ARGUMENT: i32 = -1;
const ERR_MEMORY: i32 = -2;
const ERR_NODE: i32 = -4;
const ERR_RANGE: i32 = -5;
const NODES: u32 = 4;
const LOCAL: u32 = 1;

struct Context {
    /// The local node's memory, lent.
    pool: *mut u8,
    pool_bytes: u64,
    used: u64,
    nodes: Vec<*mut Node>,
    buffers: BTreeSet<usize>,
    transfers: BTreeSet<usize>,
}

struct Node {
    context: *mut Context,
    id: u32,
}

struct Buffer {
    context: *mut Context,
    start: *mut u8,
    bytes: u64,
    /// Memory of another node; none for a part of the pool.
    own: Option<Box<[u8]>>,
}

struct Transfer {
    context: *mut Context,
    moved: u64,
}

/// Every object that lives, by its address.
static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<usize>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many objects live: none may be left when their connections have ended.
pub fn objects() -> usize {
    live().len()
}

fn born<T>(value: T) -> *mut T {
    let object = Box::into_raw(Box::new(value));
    live().insert(object.addr());
    object
}

/// # Panics
/// If the object does not live.
unsafe fn gone<T>(object: *mut T) {
    assert!(live().remove(&object.addr()), "an object was freed twice");
    // SAFETY: it was made by `born` and lived until now.
    drop(unsafe { Box::from_raw(object) });
}

/// # Panics
/// If the object does not live.
unsafe fn of<'a, T, U>(object: *mut U) -> &'a mut T {
    assert!(live().contains(&object.addr()), "an object that does not live");
    // SAFETY: it was made by `born` as a T: the dispatcher checks kinds, and one thread calls.
    unsafe { &mut *object.cast() }
}

unsafe extern "C" fn init(version: u32, context: *mut *mut gdma_context) -> i32 {
    if version != 1 {
        return ERR_ARGUMENT;
    }
    let made = born(Context {
        pool: std::ptr::null_mut(),
        pool_bytes: 0,
        used: 0,
        nodes: vec![],
        buffers: BTreeSet::new(),
        transfers: BTreeSet::new(),
    });
    for id in 0..NODES {
        // SAFETY: just made.
        unsafe { (*made).nodes.push(born(Node { context: made, id })) };
    }
    // SAFETY: the dispatcher's place.
    unsafe { *context = made.cast() };
    0
}

unsafe extern "C" fn exit(context: *mut gdma_context) -> i32 {
    // SAFETY: checked to live; all of these are the context's own.
    unsafe {
        let this: &mut Context = of(context);
        let (nodes, buffers) = (std::mem::take(&mut this.nodes), std::mem::take(&mut this.buffers));
        let transfers = std::mem::take(&mut this.transfers);
        nodes.into_iter().for_each(|node| gone(node));
        buffers.into_iter().for_each(|b| gone(std::ptr::with_exposed_provenance_mut::<Buffer>(b)));
        transfers
            .into_iter()
            .for_each(|t| gone(std::ptr::with_exposed_provenance_mut::<Transfer>(t)));
        gone(context.cast::<Context>());
    }
    0
}

unsafe extern "C" fn pool_use(context: *mut gdma_context, base: *mut c_void, bytes: u64) -> i32 {
    // SAFETY: checked to live.
    let this: &mut Context = unsafe { of(context) };
    (this.pool, this.pool_bytes) = (base.cast(), bytes);
    0
}

unsafe extern "C" fn device_info(_: *mut gdma_context, info: *mut gdma_info) -> i32 {
    // SAFETY: the dispatcher's place.
    unsafe { (*info).nodes = NODES };
    0
}

unsafe extern "C" fn node_count(_: *mut gdma_context, count: *mut u32) -> i32 {
    // SAFETY: the dispatcher's place.
    unsafe { *count = NODES };
    0
}

unsafe extern "C" fn node_by_id(
    context: *mut gdma_context,
    id: u32,
    node: *mut *mut gdma_node,
) -> i32 {
    // SAFETY: checked to live; the dispatcher's place.
    unsafe {
        let this: &mut Context = of(context);
        match this.nodes.get(id as usize) {
            Some(found) => *node = found.cast(),
            None => return ERR_NODE,
        }
    }
    0
}

unsafe extern "C" fn node_local(context: *mut gdma_context, node: *mut *mut gdma_node) -> i32 {
    // SAFETY: as there.
    unsafe { node_by_id(context, LOCAL, node) }
}

unsafe extern "C" fn node_id(node: *mut gdma_node, id: *mut u32) -> i32 {
    // SAFETY: checked to live; the dispatcher's place.
    unsafe { *id = of::<Node, _>(node).id };
    0
}

unsafe extern "C" fn buffer_alloc(
    node: *mut gdma_node,
    bytes: u64,
    buffer: *mut *mut gdma_buffer,
) -> i32 {
    // SAFETY: checked to live; the dispatcher's place.
    unsafe {
        let node: &mut Node = of(node);
        let this: &mut Context = of(node.context);
        if bytes == 0 {
            return ERR_ARGUMENT;
        }
        let bytes = bytes.checked_next_multiple_of(64).unwrap_or(u64::MAX);
        let room = this.pool_bytes - this.used;
        if bytes > if node.id == LOCAL { room } else { 1 << 20 } {
            return ERR_MEMORY;
        }
        let mut own = (node.id != LOCAL).then(|| vec![0; bytes as usize].into_boxed_slice());
        let start = match &mut own {
            Some(own) => own.as_mut_ptr(),
            None => this.pool.add(this.used as usize),
        };
        this.used += if own.is_none() { bytes } else { 0 };
        let made = born(Buffer { context: node.context, start, bytes, own });
        this.buffers.insert(made.expose_provenance());
        *buffer = made.cast();
    }
    0
}

unsafe extern "C" fn buffer_free(buffer: *mut gdma_buffer) -> i32 {
    // SAFETY: checked to live.
    unsafe {
        let this: &mut Buffer = of(buffer);
        of::<Context, _>(this.context).buffers.remove(&buffer.addr());
        gone(buffer.cast::<Buffer>());
    }
    0
}

unsafe extern "C" fn buffer_map(
    buffer: *mut gdma_buffer,
    address: *mut *mut c_void,
    bytes: *mut u64,
) -> i32 {
    // SAFETY: checked to live; the dispatcher's places.
    unsafe {
        let this: &mut Buffer = of(buffer);
        *bytes = this.bytes;
        if this.own.is_some() {
            return ERR_NODE;
        }
        *address = this.start.cast();
    }
    0
}

unsafe extern "C" fn transfer_start(
    to: *mut gdma_buffer,
    to_offset: u64,
    from: *mut gdma_buffer,
    from_offset: u64,
    bytes: u64,
    done: Option<unsafe extern "C" fn(*mut gdma_context, u32, i32, *mut c_void)>,
    user: *mut c_void,
    transfer: *mut *mut gdma_transfer,
) -> i32 {
    // SAFETY: checked to live, and that the bytes are inside both; the dispatcher's place.
    unsafe {
        let (to, from): (&mut Buffer, &mut Buffer) = (of(to), of(from));
        let inside = |offset: u64, of: u64| offset.checked_add(bytes).is_some_and(|end| end <= of);
        if !inside(to_offset, to.bytes) || !inside(from_offset, from.bytes) {
            return ERR_RANGE;
        }
        if to.own.is_some() && from.own.is_some() || to.context != from.context {
            return ERR_NODE;
        }
        let (target, source) =
            (to.start.add(to_offset as usize), from.start.add(from_offset as usize));
        std::ptr::copy(source, target, bytes as usize);
        let made = born(Transfer { context: to.context, moved: bytes });
        of::<Context, _>(to.context).transfers.insert(made.expose_provenance());
        *transfer = made.cast();
        if let Some(done) = done {
            done(to.context.cast(), 1, 0, user);
        }
    }
    0
}

unsafe extern "C" fn transfer_query(
    transfer: *mut gdma_transfer,
    progress: *mut gdma_progress,
) -> i32 {
    // SAFETY: checked to live; the dispatcher's place.
    unsafe { (*progress).moved = of::<Transfer, _>(transfer).moved };
    0
}

unsafe extern "C" fn transfer_release(transfer: *mut gdma_transfer) -> i32 {
    // SAFETY: checked to live.
    unsafe {
        let this: &mut Transfer = of(transfer);
        of::<Context, _>(this.context).transfers.remove(&transfer.addr());
        gone(transfer.cast::<Transfer>());
    }
    0
}

/// The model's functions.
pub fn native() -> Native {
    Native {
        gdma_init: init,
        gdma_exit: exit,
        gdma_abort: exit,
        gdma_device_info: device_info,
        gdma_node_count: node_count,
        gdma_node_local: node_local,
        gdma_node_by_id: node_by_id,
        gdma_node_id: node_id,
        gdma_buffer_alloc: buffer_alloc,
        gdma_buffer_free: buffer_free,
        gdma_buffer_map: buffer_map,
        gdma_transfer_start: transfer_start,
        gdma_transfer_query: transfer_query,
        gdma_transfer_release: transfer_release,
        gdma_pool_use: pool_use,
    }
}
