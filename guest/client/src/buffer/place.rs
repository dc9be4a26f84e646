//! Asks the host for a buffer, checks what it says of its place, and maps it.

use super::life::{DROP_TIMEOUT, Inner, Over, put};
use super::{Buffer, BufferRequest};
use crate::calls::Way;
use crate::control;
use crate::error::{Error, Result};
use crate::function::Active;
use crate::session::SessionInner;
use crate::transport::Window;
use std::sync::Arc;
use vfun_window::{Access, MapError, WriteSpan};
use vfun_wire::PAGE;
use vfun_wire::header::FURTHER_HEAP_OFF;
use vfun_wire::limits::WINDOW_BYTES_MAX;
use vfun_wire::message::{BufferAck, BufferGet, Kind};
use vfun_wire::range::{self, Heap};
use vfun_wire::version::Features;
use zerocopy::IntoBytes;

/// Asks for a buffer of the session, or of one of its functions.
pub(super) fn get(
    session: &Arc<SessionInner>,
    function: Option<&Arc<Active>>,
    request: BufferRequest,
) -> Result<Buffer> {
    let Some(window) = &session.window else {
        return Err(Error::Unsupported(
            "a buffer is memory shared with the host: a session over TCP has none",
        ));
    };
    if !session.info.features.has(Features::BUFFERS) {
        return Err(Error::Unsupported(
            "this host is too old to share buffers: update VirtFun on the host",
        ));
    }
    let ask = request.encode(function.map_or(0, |f| f.hold.info.grant))?;
    let body = session.request(Kind::BufferGet, ask.as_bytes(), control::TIMEOUT)?;
    let ack: BufferAck = control::exact(&body, "buffer-get")?;
    let handle = ack.buffer.get();
    let further = session.info.features.has(Features::WINDOWS);
    let span = placed(window, further, &ack, &ask).inspect_err(|_| {
        if handle != 0 {
            // Best effort: it is the session's until then.
            let _ = put(session, handle, DROP_TIMEOUT);
        }
    })?;
    let r = ack.range;
    let offset = (r.window.get() == 0).then(|| r.offset.get());
    let inner = Inner::new((handle, request.bytes(), span), window, offset, session, function);
    match function {
        None => session.buffers.adopt(&inner, Over::Closed)?,
        Some(f) => match f.calls.way()? {
            Way::Window(w) => w.buffers.adopt(&inner, Over::Released)?,
            _ => return Err(Error::Unsupported("only a function that is called has buffers")),
        },
    }
    Ok(Buffer { inner })
}

/// Checks what the host says of a buffer (R-RNG-1, R-RNG-5), and maps it.
/// With `further` it may lie in another window of the VM: the kernel module, which
/// knows how long that is, has checked its end.
fn placed(window: &Window, further: bool, ack: &BufferAck, asked: &BufferGet) -> Result<WriteSpan> {
    let wrong = |what: String| Error::HostNonsense(format!("the buffer that it gave {what}"));
    let r = ack.range;
    let heap = match r.window.get() {
        0 => window.checked.heap(),
        number if further => {
            Heap { window: number, from: FURTHER_HEAP_OFF as u64, to: WINDOW_BYTES_MAX }
        }
        number => return Err(wrong(format!("lies in window {number}, which is not mapped here"))),
    };
    range::check(&[r], &[heap]).map_err(|e| Error::HostNonsense(format!("of a buffer, {e}")))?;
    let due = asked.bytes.get().next_multiple_of(PAGE as u64);
    if ack.buffer.get() == 0 {
        return Err(wrong("has no handle".into()));
    }
    if r.access != range::Access::Both.to_wire() {
        return Err(wrong("is not for both sides to write".into()));
    }
    if r.bytes.get() != due {
        return Err(wrong(format!("has {} bytes where {due} were due", r.bytes)));
    }
    if !r.offset.get().is_multiple_of(asked.align.get()) {
        return Err(wrong(format!("begins at {}, no multiple of {}", r.offset, asked.align)));
    }
    let number = |n: u64| usize::try_from(n).map_err(|_| Error::Map(MapError::Shape));
    let len = number(r.bytes.get())?;
    let mapping = window.transport.map_of(r.window.get(), r.offset.get(), len, Access::ReadWrite);
    let mapping = mapping.map_err(Error::Map)?;
    mapping.write().ok_or(Error::Map(MapError::Shape))
}
