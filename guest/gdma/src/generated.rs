//! The guest's half of the API `gdma`.
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
use std::ffi::c_void;
use vfun_remoting_guest::{
    Description, Failure, Link, NOWHERE, Name, Reader, Refusal, Remote, Writer, found, limits, out,
    packed, parts, parts_filled, parts_turned,
};

/// This API in this process.
pub static REMOTE: Remote = Remote::new(Description {
    name: "gdma",
    fingerprint: 0xa707dd2e99f85100,
    cell_bytes: 4096,
    depth: 64,
});

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

/// The API's own status for what went wrong on the way.
pub fn status_of(failure: Failure) -> i32 {
    match failure {
        Failure::Argument => -1,
        Failure::Object => -1,
        Failure::Limit => -3,
        Failure::Unsupported => -8,
        Failure::NoHost => -7,
        Failure::Lost => -7,
        Failure::Internal => -7,
        Failure::Closed => -7,
        Failure::Own(status) => status as i32,
    }
}

/// Makes a status of what a function's body says. A panic is a fault of ours and not the program's end.
fn answer(body: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    let body = std::panic::AssertUnwindSafe(body);
    match std::panic::catch_unwind(body) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => status_of(failure),
        Err(_) => status_of(Failure::Internal),
    }
}

/// Reads each member.
pub fn read_gdma_info(r: &mut Reader<'_>) -> Result<gdma_info, Refusal> {
    let mut name = [0; 64];
    for v in &mut name {
        *v = r.i8()?;
    }
    let version = r.u32()?;
    let nodes = r.u32()?;
    let local = r.u32()?;
    let simulated = r.u32()?;
    let alignment = r.u32()?;
    let buffers = r.u32()?;
    let transfers = r.u32()?;
    let reserved = r.u32()?;
    let pool_bytes = r.u64()?;
    let longest = r.u64()?;
    Ok(gdma_info {
        name,
        version,
        nodes,
        local,
        simulated,
        alignment,
        buffers,
        transfers,
        reserved,
        pool_bytes,
        longest,
    })
}

/// Reads each member.
pub fn read_gdma_progress(r: &mut Reader<'_>) -> Result<gdma_progress, Refusal> {
    let status = r.i32()?;
    let reserved = r.u32()?;
    let moved = r.u64()?;
    let cycles = r.u64()?;
    Ok(gdma_progress { status, reserved, moved, cycles })
}

/// Call 16.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_init(version: u32, context: *mut *mut gdma_context) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_init(version, context) }
    })
}

/// Call 17.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_exit(context: *mut gdma_context) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_exit(context) }
    })
}

/// Call 36.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_abort(context: *mut gdma_context) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_abort(context) }
    })
}

/// Answered here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_status_text(status: i32) -> *const i8 {
    // SAFETY: C's rules for this function, which its program keeps.
    unsafe { hand::gdma_status_text(status) }
}

/// Call 18.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_device_info(context: *mut gdma_context, info: *mut gdma_info) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let info_place = unsafe { out::place(info) }?;
        let (returned, outs) = link.cached(
            calls::GDMA_DEVICE_INFO,
            |w| {
                w.name(context_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_gdma_info(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
            |made| made.1.is_some(),
        )?;
        if let Some((info_answer,)) = outs {
            info_place.write(info_answer);
        }
        Ok(returned)
    })
}

/// Call 19.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_node_count(context: *mut gdma_context, count: *mut u32) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let count_place = unsafe { out::place(count) }?;
        let (returned, outs) = link.cached(
            calls::GDMA_NODE_COUNT,
            |w| {
                w.name(context_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.u32()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
            |made| made.1.is_some(),
        )?;
        if let Some((count_answer,)) = outs {
            count_place.write(count_answer);
        }
        Ok(returned)
    })
}

/// Call 20.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_node_local(
    context: *mut gdma_context,
    node: *mut *mut gdma_node,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let node_place = unsafe { out::place(node) }?;
        let node_new = REMOTE.objects.make(kinds::NODE, link.number(), Some(context_object))?;
        let (returned, outs) = link.call(
            calls::GDMA_NODE_LOCAL,
            |w| {
                w.name(context_name);
                w.name(node_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.name()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((node_answer,)) = outs {
            let node_object = REMOTE.objects.found(node_new, node_answer, kinds::NODE)?;
            node_place.write(std::ptr::with_exposed_provenance_mut(node_object.pointer()));
        }
        Ok(returned)
    })
}

/// Call 21.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_node_by_id(
    context: *mut gdma_context,
    id: u32,
    node: *mut *mut gdma_node,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let node_place = unsafe { out::place(node) }?;
        let node_new = REMOTE.objects.make(kinds::NODE, link.number(), Some(context_object))?;
        let (returned, outs) = link.call(
            calls::GDMA_NODE_BY_ID,
            |w| {
                w.name(context_name);
                w.u32(id);
                w.name(node_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.name()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((node_answer,)) = outs {
            let node_object = REMOTE.objects.found(node_new, node_answer, kinds::NODE)?;
            node_place.write(std::ptr::with_exposed_provenance_mut(node_object.pointer()));
        }
        Ok(returned)
    })
}

/// Call 22.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_node_id(node: *mut gdma_node, id: *mut u32) -> i32 {
    answer(|| {
        let (node_object, link) = REMOTE.object(node.addr(), kinds::NODE)?;
        let node_name = node_object.name();
        // SAFETY: C's rules for this function.
        let id_place = unsafe { out::place(id) }?;
        let (returned, outs) = link.cached(
            calls::GDMA_NODE_ID,
            |w| {
                w.name(node_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.u32()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
            |made| made.1.is_some(),
        )?;
        if let Some((id_answer,)) = outs {
            id_place.write(id_answer);
        }
        Ok(returned)
    })
}

/// Call 23.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_alloc(
    node: *mut gdma_node,
    bytes: u64,
    buffer: *mut *mut gdma_buffer,
) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_buffer_alloc(node, bytes, buffer) }
    })
}

/// Call 24.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_free(buffer: *mut gdma_buffer) -> i32 {
    answer(|| {
        let (buffer_object, link) = REMOTE.object(buffer.addr(), kinds::BUFFER)?;
        let buffer_name = buffer_object.name();
        let (returned, outs) = link.call(
            calls::GDMA_BUFFER_FREE,
            |w| {
                w.name(buffer_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(buffer_object);
        }
        Ok(returned)
    })
}

/// Call 25.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_map(
    buffer: *mut gdma_buffer,
    address: *mut *mut c_void,
    bytes: *mut u64,
) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_buffer_map(buffer, address, bytes) }
    })
}

/// Call 26.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_id(buffer: *mut gdma_buffer, id: *mut u32) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_buffer_id(buffer, id) }
    })
}

/// Call 27.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_buffer_by_id(
    context: *mut gdma_context,
    id: u32,
    buffer: *mut *mut gdma_buffer,
) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_buffer_by_id(context, id, buffer) }
    })
}

/// Call 28.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_start(
    to: *mut gdma_buffer,
    to_offset: u64,
    from: *mut gdma_buffer,
    from_offset: u64,
    bytes: u64,
    done: Option<unsafe extern "C" fn(*mut gdma_context, u32, i32, *mut c_void)>,
    user: *mut c_void,
    transfer: *mut *mut gdma_transfer,
) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe {
            hand::gdma_transfer_start(to, to_offset, from, from_offset, bytes, done, user, transfer)
        }
    })
}

/// Call 29.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_id(transfer: *mut gdma_transfer, id: *mut u32) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_transfer_id(transfer, id) }
    })
}

/// Call 30.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_by_id(
    context: *mut gdma_context,
    id: u32,
    transfer: *mut *mut gdma_transfer,
) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_transfer_by_id(context, id, transfer) }
    })
}

/// Call 31.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_query(
    transfer: *mut gdma_transfer,
    progress: *mut gdma_progress,
) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_transfer_query(transfer, progress) }
    })
}

/// Call 32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_transfer_release(transfer: *mut gdma_transfer) -> i32 {
    answer(|| {
        // SAFETY: C's rules for this function, which its program keeps.
        unsafe { hand::gdma_transfer_release(transfer) }
    })
}

/// Call 33.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdma_pool_use(
    context: *mut gdma_context,
    base: *mut c_void,
    bytes: u64,
) -> i32 {
    answer(|| {
        // the pool of a program in a VM is a buffer of its window
        let _ = (context, base, bytes);
        Err(Failure::Unsupported)
    })
}
