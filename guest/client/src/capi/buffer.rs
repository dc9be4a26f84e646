//! Buffers in C.

use super::edge::{Edge, Failure, Wrong, bytes, edge, given, put, room, taken};
use super::function::vfun_function;
use super::session::vfun_session;
use super::status::vfun_status;
use super::types::check_size;
use crate::buffer::{Buffer, BufferRequest};
use std::ffi::c_void;

/// Memory that this app and the services of its host both write. Any number of
/// threads may use it at once.
pub struct vfun_buffer {
    buffer: Buffer,
}

/// What is wanted of a buffer. Set all to zero, then size to
/// sizeof(struct vfun_buffer_options), then what is to differ.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_buffer_options {
    /// sizeof(struct vfun_buffer_options), for later versions.
    pub size: usize,
    /// Begins at a multiple of so many bytes of the window: a power of two from 4096 to
    /// 2097152; 0 for 4096.
    pub align: usize,
    /// The function that it belongs to, and ends with; null: it is the session's.
    pub function: *const vfun_function,
    /// 1: in one piece in the host's memory too, as a device without an address
    /// table of its own needs it. The host refuses one that is longer than a page of the
    /// memory behind the window: 4 KiB, or 2 MiB where that is of huge pages.
    pub contiguous: u32,
    /// 0; anything else is refused.
    pub reserved: u32,
}

/// What a buffer is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_buffer_place {
    /// What names it to the host: pass it in a call's arguments.
    pub handle: u64,
    /// Where it lies in this process, aligned to a page. The host may write there at
    /// any moment: read once, check, use. It stays mapped until vfun_buffer_put.
    pub at: *mut c_void,
    /// Bytes of it, as asked for.
    pub bytes: usize,
}

const OUT: Wrong = Wrong {
    null: "to is null but len is not 0",
    long: "len is more than any object has (PTRDIFF_MAX)",
};
const IN: Wrong = Wrong { null: "from is null but len is not 0", long: OUT.long };

/// # Safety
/// As vfun_buffer_get's.
unsafe fn request<'a>(
    bytes: usize,
    options: *const vfun_buffer_options,
) -> Edge<(BufferRequest, Option<&'a vfun_function>)> {
    let request = BufferRequest::new(bytes);
    // SAFETY: the caller's promise for the pointer itself.
    let Ok(o) = (unsafe { given(options, "options") }) else { return Ok((request, None)) };
    check_size::<vfun_buffer_options>(
        o.size,
        "options->size is not set: sizeof(struct vfun_buffer_options)",
    )?;
    super::types::check_reserved(o.reserved)?;
    let contiguous = match o.contiguous {
        0 => false,
        1 => true,
        _ => return Err(Failure::Argument("options->contiguous is neither 0 nor 1")),
    };
    let request = match o.align {
        0 => request,
        align => request.align(align),
    };
    // SAFETY: the caller's promise for the pointer in the options.
    let function = unsafe { given(o.function, "function") }.ok();
    Ok((request.contiguous(contiguous), function))
}

/// Asks for bytes of memory that this app and the host both write, full of zeros.
/// options may be null: the session's, aligned to a page. *place says where it is; place may
/// be null. *buffer is the caller's, to be ended by vfun_buffer_put, also after its
/// function was released or its session closed: its bytes are zeros of this process's own
/// then. VFUN_STATUS_BAD_OPTION for a size or alignment that cannot be, VFUN_STATUS_REFUSED
/// with what the host says (over quota, no room), VFUN_STATUS_UNSUPPORTED where the host is
/// too old and over TCP.
///
/// # Safety
/// session is open, and so is options->function, which is of this session; buffer points to
/// room for a pointer, place is null or points to room for a struct vfun_buffer_place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_buffer_get(
    session: *const vfun_session,
    bytes: usize,
    options: *const vfun_buffer_options,
    buffer: *mut *mut vfun_buffer,
    place: *mut vfun_buffer_place,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(buffer, std::ptr::null_mut(), "buffer is null")?;
            let session = given(session, "session is null")?;
            let (request, function) = request(bytes, options)?;
            let got = match function {
                None => session.session.buffer(request)?,
                Some(f) if !f.function.is_of(&session.session) => {
                    return Err(Failure::Argument("options->function is of another session"));
                }
                Some(f) => f.function.buffer(request)?,
            };
            if !place.is_null() {
                put(place, place_of(&got), "place is null")?;
            }
            put(buffer, Box::into_raw(Box::new(vfun_buffer { buffer: got })), "buffer is null")
        }
    })
}

fn place_of(b: &Buffer) -> vfun_buffer_place {
    vfun_buffer_place { handle: b.handle(), at: b.as_ptr().cast(), bytes: b.len() }
}

/// Copies len bytes into a buffer, from offset on. VFUN_STATUS_BAD_OPTION if they do not
/// lie inside: nothing was written.
///
/// # Safety
/// buffer was not ended; from points to len bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_buffer_write(
    buffer: *const vfun_buffer,
    offset: usize,
    from: *const c_void,
    len: usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let (b, from) = unsafe { (given(buffer, "buffer is null")?, bytes(from, len, IN)?) };
        Ok(b.buffer.write(offset, from)?)
    })
}

/// Copies len bytes out of a buffer, from offset on. As vfun_buffer_write.
///
/// # Safety
/// buffer was not ended; to points to len bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_buffer_read(
    buffer: *const vfun_buffer,
    offset: usize,
    to: *mut c_void,
    len: usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let (b, to) = unsafe { (given(buffer, "buffer is null")?, room(to, len, OUT)?) };
        Ok(b.buffer.read(offset, to)?)
    })
}

/// Whether a buffer is still shared with the host, as far as this process knows; if not,
/// why: VFUN_STATUS_RELEASED, VFUN_STATUS_CLOSED, VFUN_STATUS_STALE_GENERATION or
/// VFUN_STATUS_DEVICE_GONE. For programs that use its bytes where they lie. It asks the
/// host nothing: that the host ended a session whose heartbeat stopped, a buffer of that
/// session does not show; the next request of the session fails then.
///
/// # Safety
/// buffer was not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_buffer_check(buffer: *const vfun_buffer) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let b = unsafe { given(buffer, "buffer is null")? };
        Ok(b.buffer.check()?)
    })
}

/// Gives a buffer back; the handle is gone, and its bytes are not mapped any more, whatever
/// the status. Its memory may be another buffer's at once: wait first for calls that use it.
///
/// # Safety
/// buffer came from vfun_buffer_get and is not used again, and neither are its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_buffer_put(buffer: *mut vfun_buffer) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let b = unsafe { taken(buffer, "buffer is null")? };
        Ok(b.buffer.close()?)
    })
}
