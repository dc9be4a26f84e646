//! The API gdma by its C symbols, of a library that is found by its path.
#![allow(unsafe_code)]

use super::signal::Signal;
use crate::{GdmaFailed, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use std::ffi::c_void;
use std::path::Path;

/// Objects of the API: what its pointers say. The library looks them up and never follows them, so
/// that a stale one is answered and does no harm.
pub type Handle = usize;

type Done = unsafe extern "C" fn(Handle, u32, i32, *mut c_void);
type Start = unsafe extern "C" fn(
    Handle,
    u64,
    Handle,
    u64,
    u64,
    Option<Done>,
    *mut c_void,
    *mut Handle,
) -> i32;

/// As in gdma.h.
#[repr(C)]
#[derive(Default)]
struct Progress {
    status: i32,
    reserved: u32,
    moved: u64,
    cycles: u64,
}

const VERSION: u32 = 1;
const BUSY: i32 = 1;

/// Its functions; the library stays loaded until this process ends.
pub struct Gdma {
    init: unsafe extern "C" fn(u32, *mut Handle) -> i32,
    exit: unsafe extern "C" fn(Handle) -> i32,
    node_by_id: unsafe extern "C" fn(Handle, u32, *mut Handle) -> i32,
    node_id: unsafe extern "C" fn(Handle, *mut u32) -> i32,
    buffer_alloc: unsafe extern "C" fn(Handle, u64, *mut Handle) -> i32,
    buffer_free: unsafe extern "C" fn(Handle) -> i32,
    buffer_map: unsafe extern "C" fn(Handle, *mut *mut u8, *mut u64) -> i32,
    buffer_id: unsafe extern "C" fn(Handle, *mut u32) -> i32,
    transfer_start: Start,
    transfer_query: unsafe extern "C" fn(Handle, *mut Progress) -> i32,
    transfer_release: unsafe extern "C" fn(Handle) -> i32,
    /// Of the remoted library only.
    crossings: Option<extern "C" fn() -> u64>,
}

/// Makes an error of a status.
fn fine(function: &'static str, status: i32) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(GdmaFailed::Status { function, status }) }
}

impl Gdma {
    /// Loads the library at this path, by itself: its symbols are nobody else's.
    ///
    /// # Errors
    /// It is not there, or is not this library.
    pub fn load(path: &Path) -> Result<Gdma> {
        let failed = |why: libloading::Error| GdmaFailed::Load {
            path: path.to_owned(),
            why: why.to_string(),
        };
        // SAFETY: a library of ours, whose constructors are Rust's.
        let library =
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
        let library: &'static Library = Box::leak(Box::new(library));
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type is that of gdma.h; the library stays.
                *unsafe { library.get::<_>($name) }.map_err(failed)?
            };
        }
        let crossings: Option<Symbol<extern "C" fn() -> u64>> =
            // SAFETY: as above.
            unsafe { library.get(b"vfun_gdma_crossings") }.ok();
        Ok(Gdma {
            init: symbol!(b"gdma_init"),
            exit: symbol!(b"gdma_exit"),
            node_by_id: symbol!(b"gdma_node_by_id"),
            node_id: symbol!(b"gdma_node_id"),
            buffer_alloc: symbol!(b"gdma_buffer_alloc"),
            buffer_free: symbol!(b"gdma_buffer_free"),
            buffer_map: symbol!(b"gdma_buffer_map"),
            buffer_id: symbol!(b"gdma_buffer_id"),
            transfer_start: symbol!(b"gdma_transfer_start"),
            transfer_query: symbol!(b"gdma_transfer_query"),
            transfer_release: symbol!(b"gdma_transfer_release"),
            crossings: crossings.map(|s| *s),
        })
    }

    /// How often this process has asked the host through it; none if it is the native one.
    pub fn crossings(&self) -> Option<u64> {
        self.crossings.map(|count| count())
    }

    pub fn init(&self) -> Result<Handle> {
        let mut context = 0;
        // SAFETY: the place is ours, as in all calls below.
        fine("gdma_init", unsafe { (self.init)(VERSION, &mut context) })?;
        Ok(context)
    }

    pub fn exit(&self, context: Handle) -> Result<()> {
        // SAFETY: the library looks the handle up, as in all calls below.
        fine("gdma_exit", unsafe { (self.exit)(context) })
    }

    pub fn node_by_id(&self, context: Handle, id: u32) -> Result<Handle> {
        let mut node = 0;
        // SAFETY: as above.
        fine("gdma_node_by_id", unsafe { (self.node_by_id)(context, id, &mut node) })?;
        Ok(node)
    }

    pub fn node_id(&self, node: Handle) -> Result<u32> {
        let mut id = 0;
        // SAFETY: as above.
        fine("gdma_node_id", unsafe { (self.node_id)(node, &mut id) })?;
        Ok(id)
    }

    pub fn alloc(&self, node: Handle, bytes: u64) -> Result<Handle> {
        let mut buffer = 0;
        // SAFETY: as above.
        fine("gdma_buffer_alloc", unsafe { (self.buffer_alloc)(node, bytes, &mut buffer) })?;
        Ok(buffer)
    }

    /// Where a buffer is; nothing here reads or writes it.
    pub fn map(&self, buffer: Handle) -> Result<*mut u8> {
        let (mut address, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: as above.
        let status = unsafe { (self.buffer_map)(buffer, &mut address, &mut bytes) };
        fine("gdma_buffer_map", status)?;
        Ok(address)
    }

    pub fn free(&self, buffer: Handle) -> Result<()> {
        // SAFETY: as above.
        fine("gdma_buffer_free", unsafe { (self.buffer_free)(buffer) })
    }

    pub fn buffer_id(&self, buffer: Handle) -> Result<u32> {
        let mut id = 0;
        // SAFETY: as above.
        fine("gdma_buffer_id", unsafe { (self.buffer_id)(buffer, &mut id) })?;
        Ok(id)
    }

    /// Starts to move bytes from the start of one buffer to that of another.
    pub fn start(
        &self,
        to: Handle,
        from: Handle,
        bytes: u64,
        done: Option<&'static Signal>,
    ) -> Result<Handle> {
        let mut transfer = 0;
        let user = done.map_or(std::ptr::null_mut(), |s| std::ptr::from_ref(s).cast_mut().cast());
        let function = done.map(|_| ended as Done);
        // SAFETY: as above; the signal stays for ever.
        let status =
            unsafe { (self.transfer_start)(to, 0, from, 0, bytes, function, user, &mut transfer) };
        fine("gdma_transfer_start", status)?;
        Ok(transfer)
    }

    /// Whether a transfer has ended.
    pub fn has_ended(&self, transfer: Handle) -> Result<bool> {
        let mut progress = Progress::default();
        // SAFETY: as above.
        let status = unsafe { (self.transfer_query)(transfer, &mut progress) };
        fine("gdma_transfer_query", status)?;
        match progress.status {
            BUSY => Ok(false),
            status => fine("a transfer", status).map(|()| true),
        }
    }

    pub fn release(&self, transfer: Handle) -> Result<()> {
        // SAFETY: as above.
        fine("gdma_transfer_release", unsafe { (self.transfer_release)(transfer) })
    }
}

/// The library's callback.
unsafe extern "C" fn ended(_: Handle, _: u32, status: i32, user: *mut c_void) {
    // SAFETY: the signal that `start` was given, which stays for ever.
    let signal = unsafe { &*user.cast::<Signal>() };
    signal.ended(status);
}
