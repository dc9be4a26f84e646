//! A signature's layout as plain Python values, for `virtfun._typed`.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use vfun::signature::{Record, Signature, Type, Value};

/// `"u64"`, `("array", type, count)` or `("struct", name, bytes, [(name, offset, type), ...])`.
fn ty<'py>(py: Python<'py>, s: &Signature, t: &Type) -> PyResult<Bound<'py, PyAny>> {
    Ok(match t {
        Type::Scalar(scalar) => scalar.name().into_pyobject(py)?.into_any(),
        Type::Array(of, n) => ("array", ty(py, s, of)?, *n).into_pyobject(py)?.into_any(),
        Type::Struct(i) => {
            let of = &s.structs[*i];
            let members = PyList::empty(py);
            for m in &of.members {
                members.append((m.name.as_str(), m.offset, ty(py, s, &m.ty)?))?;
            }
            ("struct", of.name.as_str(), of.bytes, members).into_pyobject(py)?.into_any()
        }
    })
}

fn default<'py>(py: Python<'py>, v: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match v {
        Value::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
        Value::Unsigned(n) => n.into_pyobject(py)?.into_any(),
        Value::Signed(n) => n.into_pyobject(py)?.into_any(),
        Value::Float(x) => x.into_pyobject(py)?.into_any(),
        Value::Double(x) => x.into_pyobject(py)?.into_any(),
        _ => py.None().into_bound(py),
    })
}

/// `([(name, offset, type, has default, default), ...], tail, bytes)`; the tail
/// is None or `(name, offset, type, bytes of an element, least, most or None)`.
pub fn record<'py>(py: Python<'py>, s: &Signature, r: &Record) -> PyResult<Bound<'py, PyTuple>> {
    let fields = PyList::empty(py);
    for f in &r.fields {
        let value = match &f.default {
            Some(v) => default(py, v)?,
            None => py.None().into_bound(py),
        };
        fields.append((
            f.name.as_str(),
            f.offset,
            ty(py, s, &f.ty)?,
            f.default.is_some(),
            value,
        ))?;
    }
    let tail = match &r.tail {
        None => py.None().into_bound(py),
        Some(t) => {
            let of = ty(py, s, &t.element)?;
            (t.name.as_str(), t.offset, of, t.element_bytes, t.least, t.most)
                .into_pyobject(py)?
                .into_any()
        }
    };
    (fields, tail, r.fixed_bytes).into_pyobject(py)
}
