//! The host's half of the API `gdma`.
//!
//! Made by `vfun-apigen generate gdma`; change tools/apigen/apis/gdma and make it again.
#![allow(
    unsafe_code,
    unused_imports,
    unused_mut,
    unused_variables,
    dead_code,
    non_camel_case_types,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::type_complexity,
    clippy::unnecessary_cast,
    clippy::useless_conversion
)]
use crate::hand;
use std::any::Any;
use std::ffi::c_void;
use vfun_remoting_host::{
    Context, NOWHERE, Name, Places, Reader, Refusal, Returned, Room, Writer, limits, room,
};

/// Stands for the whole description: the guest's half must have the same.
pub const FINGERPRINT: u64 = 0xa707dd2e99f85100;

/// Longest call and answer, bytes. The manifest says the same.
pub const CELL_BYTES: u32 = 4096;

/// What a function answers if it did what was asked.
pub const OK: i32 = 0;

/// Kinds of objects.
pub mod kinds {
    pub const BUFFER: u16 = 3;
    pub const CONTEXT: u16 = 1;
    pub const NODE: u16 = 2;
    pub const TRANSFER: u16 = 4;
}
/// Numbers of calls.
pub mod calls {
    pub const GDMA_INIT: u16 = 16;
    pub const GDMA_EXIT: u16 = 17;
    pub const GDMA_ABORT: u16 = 36;
    pub const GDMA_STATUS_TEXT: u16 = 35;
    pub const GDMA_DEVICE_INFO: u16 = 18;
    pub const GDMA_NODE_COUNT: u16 = 19;
    pub const GDMA_NODE_LOCAL: u16 = 20;
    pub const GDMA_NODE_BY_ID: u16 = 21;
    pub const GDMA_NODE_ID: u16 = 22;
    pub const GDMA_BUFFER_ALLOC: u16 = 23;
    pub const GDMA_BUFFER_FREE: u16 = 24;
    pub const GDMA_BUFFER_MAP: u16 = 25;
    pub const GDMA_BUFFER_ID: u16 = 26;
    pub const GDMA_BUFFER_BY_ID: u16 = 27;
    pub const GDMA_TRANSFER_START: u16 = 28;
    pub const GDMA_TRANSFER_ID: u16 = 29;
    pub const GDMA_TRANSFER_BY_ID: u16 = 30;
    pub const GDMA_TRANSFER_QUERY: u16 = 31;
    pub const GDMA_TRANSFER_RELEASE: u16 = 32;
    pub const GDMA_POOL_USE: u16 = 33;
}
/// Known by its address only.
#[repr(C)]
pub struct gdma_buffer {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct gdma_context {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct gdma_node {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct gdma_transfer {
    _nothing: [u8; 0],
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gdma_info {
    pub name: [i8; 64],
    pub version: u32,
    pub nodes: u32,
    pub local: u32,
    pub simulated: u32,
    pub alignment: u32,
    pub buffers: u32,
    pub transfers: u32,
    pub reserved: u32,
    pub pool_bytes: u64,
    pub longest: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gdma_progress {
    pub status: i32,
    pub reserved: u32,
    pub moved: u64,
    pub cycles: u64,
}

/// The functions of the library that does the work.
#[derive(Clone, Copy)]
pub struct Native {
    pub gdma_init: unsafe extern "C" fn(u32, *mut *mut gdma_context) -> i32,
    pub gdma_exit: unsafe extern "C" fn(*mut gdma_context) -> i32,
    pub gdma_abort: unsafe extern "C" fn(*mut gdma_context) -> i32,
    pub gdma_device_info: unsafe extern "C" fn(*mut gdma_context, *mut gdma_info) -> i32,
    pub gdma_node_count: unsafe extern "C" fn(*mut gdma_context, *mut u32) -> i32,
    pub gdma_node_local: unsafe extern "C" fn(*mut gdma_context, *mut *mut gdma_node) -> i32,
    pub gdma_node_by_id: unsafe extern "C" fn(*mut gdma_context, u32, *mut *mut gdma_node) -> i32,
    pub gdma_node_id: unsafe extern "C" fn(*mut gdma_node, *mut u32) -> i32,
    pub gdma_buffer_alloc: unsafe extern "C" fn(*mut gdma_node, u64, *mut *mut gdma_buffer) -> i32,
    pub gdma_buffer_free: unsafe extern "C" fn(*mut gdma_buffer) -> i32,
    pub gdma_buffer_map: unsafe extern "C" fn(*mut gdma_buffer, *mut *mut c_void, *mut u64) -> i32,
    pub gdma_transfer_start: unsafe extern "C" fn(
        *mut gdma_buffer,
        u64,
        *mut gdma_buffer,
        u64,
        u64,
        Option<unsafe extern "C" fn(*mut gdma_context, u32, i32, *mut c_void)>,
        *mut c_void,
        *mut *mut gdma_transfer,
    ) -> i32,
    pub gdma_transfer_query: unsafe extern "C" fn(*mut gdma_transfer, *mut gdma_progress) -> i32,
    pub gdma_transfer_release: unsafe extern "C" fn(*mut gdma_transfer) -> i32,
    pub gdma_pool_use: unsafe extern "C" fn(*mut gdma_context, *mut c_void, u64) -> i32,
}

impl Native {
    /// Those of the library that this program is linked with.
    pub fn linked() -> Native {
        unsafe extern "C" {
            fn gdma_init(version: u32, context: *mut *mut gdma_context) -> i32;
            fn gdma_exit(context: *mut gdma_context) -> i32;
            fn gdma_abort(context: *mut gdma_context) -> i32;
            fn gdma_device_info(context: *mut gdma_context, info: *mut gdma_info) -> i32;
            fn gdma_node_count(context: *mut gdma_context, count: *mut u32) -> i32;
            fn gdma_node_local(context: *mut gdma_context, node: *mut *mut gdma_node) -> i32;
            fn gdma_node_by_id(
                context: *mut gdma_context,
                id: u32,
                node: *mut *mut gdma_node,
            ) -> i32;
            fn gdma_node_id(node: *mut gdma_node, id: *mut u32) -> i32;
            fn gdma_buffer_alloc(
                node: *mut gdma_node,
                bytes: u64,
                buffer: *mut *mut gdma_buffer,
            ) -> i32;
            fn gdma_buffer_free(buffer: *mut gdma_buffer) -> i32;
            fn gdma_buffer_map(
                buffer: *mut gdma_buffer,
                address: *mut *mut c_void,
                bytes: *mut u64,
            ) -> i32;
            fn gdma_transfer_start(
                to: *mut gdma_buffer,
                to_offset: u64,
                from: *mut gdma_buffer,
                from_offset: u64,
                bytes: u64,
                done: Option<unsafe extern "C" fn(*mut gdma_context, u32, i32, *mut c_void)>,
                user: *mut c_void,
                transfer: *mut *mut gdma_transfer,
            ) -> i32;
            fn gdma_transfer_query(
                transfer: *mut gdma_transfer,
                progress: *mut gdma_progress,
            ) -> i32;
            fn gdma_transfer_release(transfer: *mut gdma_transfer) -> i32;
            fn gdma_pool_use(context: *mut gdma_context, base: *mut c_void, bytes: u64) -> i32;
        }
        Native {
            gdma_init,
            gdma_exit,
            gdma_abort,
            gdma_device_info,
            gdma_node_count,
            gdma_node_local,
            gdma_node_by_id,
            gdma_node_id,
            gdma_buffer_alloc,
            gdma_buffer_free,
            gdma_buffer_map,
            gdma_transfer_start,
            gdma_transfer_query,
            gdma_transfer_release,
            gdma_pool_use,
        }
    }
}

/// Writes each member.
pub fn write_gdma_info(w: &mut Writer<'_>, of: &gdma_info) {
    of.name.iter().for_each(|v| w.i8(*v));
    w.u32(of.version);
    w.u32(of.nodes);
    w.u32(of.local);
    w.u32(of.simulated);
    w.u32(of.alignment);
    w.u32(of.buffers);
    w.u32(of.transfers);
    w.u32(of.reserved);
    w.u64(of.pool_bytes);
    w.u64(of.longest);
}

/// Writes each member.
pub fn write_gdma_progress(w: &mut Writer<'_>, of: &gdma_progress) {
    w.i32(of.status);
    w.u32(of.reserved);
    w.u64(of.moved);
    w.u64(of.cycles);
}

fn gdma_device_info(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    args.end()?;
    let mut info = gdma_info {
        name: [0; 64],
        version: 0,
        nodes: 0,
        local: 0,
        simulated: 0,
        alignment: 0,
        buffers: 0,
        transfers: 0,
        reserved: 0,
        pool_bytes: 0,
        longest: 0,
    };
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.gdma_device_info)(std::ptr::with_exposed_provenance_mut(context), &mut info)
    };
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_gdma_info(reply, &info);
    Ok(Returned::Fine)
}

fn gdma_node_count(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    args.end()?;
    let mut count = 0;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.gdma_node_count)(std::ptr::with_exposed_provenance_mut(context), &mut count)
    };
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.u32(count);
    Ok(Returned::Fine)
}

fn gdma_node_local(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    let node_name = args.name()?;
    cx.objects.check_free(node_name)?;
    args.end()?;
    let mut node = std::ptr::null_mut();
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.gdma_node_local)(std::ptr::with_exposed_provenance_mut(context), &mut node)
    };
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent = context_name;
    let found = cx.objects.found(node_name, kinds::NODE, node.expose_provenance(), parent);
    reply.name(found);
    Ok(Returned::Fine)
}

fn gdma_node_by_id(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    let id = args.u32()?;
    let node_name = args.name()?;
    cx.objects.check_free(node_name)?;
    args.end()?;
    let mut node = std::ptr::null_mut();
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned = unsafe {
        (native.gdma_node_by_id)(std::ptr::with_exposed_provenance_mut(context), id, &mut node)
    };
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent = context_name;
    let found = cx.objects.found(node_name, kinds::NODE, node.expose_provenance(), parent);
    reply.name(found);
    Ok(Returned::Fine)
}

fn gdma_node_id(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let node_name = args.name()?;
    let node = cx.objects.find(node_name, kinds::NODE)?;
    args.end()?;
    let mut id = 0;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.gdma_node_id)(std::ptr::with_exposed_provenance_mut(node), &mut id) };
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.u32(id);
    Ok(Returned::Fine)
}

fn gdma_buffer_free(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let buffer_name = args.name()?;
    let buffer = cx.objects.check_owned(buffer_name, kinds::BUFFER)?;
    args.end()?;
    // SAFETY: every object is alive and of its kind, and every pointer is to something of ours.
    let returned =
        unsafe { (native.gdma_buffer_free)(std::ptr::with_exposed_provenance_mut(buffer)) };
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(buffer_name);
    Ok(Returned::Fine)
}

type Call = fn(
    &mut hand::State,
    &Native,
    &mut Context<'_>,
    Reader<'_>,
    &mut Writer<'_>,
) -> Result<Returned, Refusal>;

/// Calls by their numbers, from 16 on.
const CALLS: [Option<Call>; 21] = [
    Some(hand::gdma_init),
    Some(hand::gdma_exit),
    Some(gdma_device_info),
    Some(gdma_node_count),
    Some(gdma_node_local),
    Some(gdma_node_by_id),
    Some(gdma_node_id),
    Some(hand::gdma_buffer_alloc),
    Some(gdma_buffer_free),
    None,
    None,
    None,
    Some(hand::gdma_transfer_start),
    None,
    None,
    Some(hand::gdma_transfer_query),
    Some(hand::gdma_transfer_release),
    None,
    None,
    None,
    Some(hand::gdma_abort),
];

/// Makes one call, by its number.
pub fn dispatch(
    state: &mut hand::State,
    native: &Native,
    call: u16,
    cx: &mut Context<'_>,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let at = usize::from(call).wrapping_sub(16);
    let make = CALLS.get(at).copied().flatten().ok_or(Refusal::Unknown)?;
    make(state, native, cx, args, reply)
}

/// Whether a call and its answer are wiped after use.
pub fn is_secret(call: u16) -> bool {
    false
}

/// Frees an object whose program is gone, and says whether the library did. Objects without a
/// function here end with their parents.
pub fn destroy(native: &Native, kind: u16, object: usize) -> bool {
    match kind {
        kinds::CONTEXT => {
            // SAFETY: the library made it, and nobody uses it any more.
            OK == unsafe { (native.gdma_abort)(std::ptr::with_exposed_provenance_mut(object)) }
        }
        _ => true,
    }
}
