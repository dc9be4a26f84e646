//! Results: from a call's answer to Python's values.

use crate::buffer::{Held, InUse, Results};
use crate::channel::{Channel, Holds, SlotCell};
use crate::errors;
use crate::fork::Ours;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfun::signature::{Scalar, Signature, Type};
use vfun::{KeptResults, OwnedPending};
use vfun_wire::limits::INLINE_BYTES;

/// What a call's results become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The function has no signature: `bytes` come back.
    Bytes,
    /// A `Results`, without a look at it.
    Raw,
    Nothing,
    /// One number or truth value.
    Scalar(Scalar),
    /// `bytes` of a fixed length.
    Digest(usize),
    /// A `memoryview` of bytes.
    View,
    /// What `Codec.decode` makes of a buffer.
    Other,
}

impl Shape {
    /// The shape that a signature says; `bytes` without one.
    pub fn of(signature: Option<&Signature>) -> Shape {
        let Some(s) = signature else { return Shape::Bytes };
        if s.results.is_empty() {
            return Shape::Nothing;
        }
        if !s.bare_result {
            return Shape::Other;
        }
        match (s.results.fields.first().map(|f| &f.ty), &s.results.tail) {
            (Some(Type::Scalar(scalar)), _) => Shape::Scalar(*scalar),
            (Some(Type::Array(of, n)), _) if **of == Type::Scalar(Scalar::U8) => {
                Shape::Digest(*n as usize)
            }
            (None, Some(t)) if t.element == Type::Scalar(Scalar::U8) => Shape::View,
            _ => Shape::Other,
        }
    }

    /// Whether the results are copied out and their cell freed at once.
    fn small(self) -> Option<usize> {
        match self {
            Shape::Nothing => Some(0),
            Shape::Scalar(s) => Some(s.bytes() as usize),
            _ => None,
        }
    }
}

/// How a call goes.
pub enum Flight {
    /// In a cell of its own.
    Own(OwnedPending),
    /// In a slot's cell.
    Slot(Arc<SlotCell>),
}

/// What came back, not yet Python's.
pub enum Came {
    Small([u8; INLINE_BYTES], usize),
    Bytes(Vec<u8>),
    Kept(KeptResults),
    InSlot(Option<vfun_window::ReadSpan>, Vec<u8>),
}

impl Came {
    /// Results that were copied out of the window.
    pub fn of(bytes: Vec<u8>) -> Came {
        match bytes.len() {
            n @ 0..=INLINE_BYTES => {
                let mut room = [0; INLINE_BYTES];
                room[..n].copy_from_slice(&bytes);
                Came::Small(room, n)
            }
            _ => Came::Bytes(bytes),
        }
    }
}

impl Flight {
    /// Takes the answer; waits if it must. Without the interpreter.
    pub fn land(
        self,
        shape: Shape,
        copy: bool,
    ) -> Result<(Came, Option<Arc<SlotCell>>), vfun::Error> {
        let small = |r: vfun::Results<'_>| -> Result<Came, vfun::Error> {
            let n = r.len();
            if n <= INLINE_BYTES {
                let mut room = [0; INLINE_BYTES];
                r.read(0, &mut room[..n])?;
                return Ok(Came::Small(room, n));
            }
            let mut bytes = vec![0; n];
            r.read(0, &mut bytes)?;
            Ok(Came::Bytes(bytes))
        };
        match self {
            Flight::Own(p) if copy || shape.small().is_some() => Ok((p.wait_with(small)??, None)),
            Flight::Own(p) => Ok((Came::Kept(p.wait_kept()?), None)),
            Flight::Slot(cell) => {
                let came = {
                    let mut c = match cell.lock() {
                        Ok(c) => c,
                        Err(_) => return Err(vfun::Error::Unsupported("a child has no window")),
                    };
                    match shape.small() {
                        Some(_) => c.finish(small)??,
                        None => c.finish(|r| match r.span() {
                            Some(span) => Ok(Came::InSlot(Some(span.clone()), vec![])),
                            None => {
                                let mut bytes = vec![0; r.len()];
                                r.read(0, &mut bytes).map(|()| Came::InSlot(None, bytes))
                            }
                        })??,
                    }
                };
                Ok((came, Some(cell)))
            }
        }
    }
}

/// Python's value of what came back.
pub fn value(
    py: Python<'_>,
    shape: Shape,
    codec: Option<&Py<PyAny>>,
    channel: &Arc<Channel>,
    came: Came,
    slot: Option<Arc<SlotCell>>,
) -> PyResult<Py<PyAny>> {
    let length = |n, due| length(py, n, due);
    match (&came, shape) {
        (Came::Small(bytes, n), Shape::Scalar(s)) => {
            if *n != s.bytes() as usize {
                return Err(length(*n, s.bytes() as usize));
            }
            return scalar(py, s, bytes);
        }
        (Came::Small(_, 0), Shape::Nothing) => return Ok(py.None()),
        (Came::Small(_, n), Shape::Nothing) => return Err(length(*n, 0)),
        (Came::Bytes(b), Shape::Scalar(_) | Shape::Nothing) => {
            return Err(length(b.len(), shape.small().unwrap_or(0)));
        }
        _ => {}
    }
    let held = hold(py, shape, channel, came, slot)?;
    if let (Held::Bytes(bytes), Shape::Bytes | Shape::Digest(_)) = (&held, shape) {
        return match shape {
            Shape::Digest(n) if n != bytes.len() => Err(length(bytes.len(), n)),
            _ => Ok(PyBytes::new(py, bytes).into_any().unbind()),
        };
    }
    let results = Bound::new(py, Results { held })?.into_any();
    match (shape, codec) {
        (Shape::Raw, _) => Ok(results.unbind()),
        (Shape::View, _) => Ok(PyMemoryView::from(&results)?.into_any().unbind()),
        (Shape::Bytes, _) => {
            Ok(py.import("builtins")?.getattr("bytes")?.call1((results,))?.unbind())
        }
        (Shape::Digest(n), _) => {
            let bytes = py.import("builtins")?.getattr("bytes")?.call1((results,))?;
            match bytes.len()? {
                len if len == n => Ok(bytes.unbind()),
                len => Err(length(len, n)),
            }
        }
        (_, Some(codec)) => Ok(codec.bind(py).call_method1("decode", (results,))?.unbind()),
        (_, None) => Ok(results.unbind()),
    }
}

/// The error of results that are not as long as they are due to be.
fn length(py: Python<'_>, n: usize, due: usize) -> PyErr {
    errors::own(
        py,
        "HostNonsense",
        &format!("the host sent nonsense: {n} bytes of results where the signature has {due}"),
        "Update the older of the two sides; if both are current, report it.",
    )
}

/// Where the results stay: in the window, or private.
fn hold(
    py: Python<'_>,
    shape: Shape,
    channel: &Arc<Channel>,
    came: Came,
    slot: Option<Arc<SlotCell>>,
) -> PyResult<Held> {
    Ok(match came {
        Came::Small(bytes, n) => Held::Bytes(bytes[..n].to_vec()),
        Came::Bytes(bytes) => Held::Bytes(bytes),
        Came::InSlot(Some(span), _) => match slot {
            Some(slot) => Held::InSlot(Ours::new(span), InUse::new(slot)),
            None => return Err(length(py, span.len(), 0)),
        },
        Came::InSlot(None, bytes) => Held::Bytes(bytes),
        Came::Kept(kept) if !kept.holds_cell() => {
            Held::Bytes(kept.to_private().map_err(|e| errors::of(py, &e))?)
        }
        // Half of the cells are for calls, whatever is kept.
        Came::Kept(kept)
            if matches!(shape, Shape::Bytes | Shape::Digest(_))
                || (channel.held.load(Ordering::Relaxed) + 1) * 2 > channel.depth.max(2) =>
        {
            Held::Bytes(kept.to_private().map_err(|e| errors::of(py, &e))?)
        }
        Came::Kept(kept) => Held::Kept(Ours::new(kept), Holds::new(channel)),
    })
}

fn scalar(py: Python<'_>, s: Scalar, bytes: &[u8; INLINE_BYTES]) -> PyResult<Py<PyAny>> {
    macro_rules! number {
        ($ty:ty) => {{
            let mut word = [0; size_of::<$ty>()];
            word.copy_from_slice(&bytes[..size_of::<$ty>()]);
            <$ty>::from_le_bytes(word).into_pyobject(py)?.into_any().unbind()
        }};
    }
    Ok(match s {
        Scalar::Bool => (bytes[0] != 0).into_pyobject(py)?.to_owned().into_any().unbind(),
        Scalar::U8 => number!(u8),
        Scalar::U16 => number!(u16),
        Scalar::U32 => number!(u32),
        Scalar::U64 => number!(u64),
        Scalar::I8 => number!(i8),
        Scalar::I16 => number!(i16),
        Scalar::I32 => number!(i32),
        Scalar::I64 => number!(i64),
        Scalar::F32 => number!(f32),
        Scalar::F64 => number!(f64),
    })
}
