//! Arguments: from Python's values to the bytes of a signature.

use crate::buffer::Lent;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use vfun::signature::{Field, Scalar, Signature, Tail, Type, Value};
use vfun_wire::limits::INLINE_BYTES;

/// How to encode a function's arguments.
pub struct Plan {
    pub signature: Signature,
    function: String,
    names: Vec<Py<PyString>>,
    /// `virtfun._typed.Codec`: what is not on the way of a plain call.
    pub codec: Py<PyAny>,
}

/// Arguments on their way.
pub enum Prepared {
    /// So many bytes that fit a line.
    Small([u8; INLINE_BYTES], usize),
    /// Bytes made for this call.
    Bytes(Vec<u8>),
    /// Fixed fields, then a buffer of Python's.
    Lent(Vec<u8>, Lent),
}

impl Prepared {
    pub fn len(&self) -> usize {
        match self {
            Prepared::Small(_, len) => *len,
            Prepared::Bytes(bytes) => bytes.len(),
            Prepared::Lent(head, lent) => head.len() + lent.len(),
        }
    }

    /// All of it in one piece of private memory.
    pub fn to_vec(&self, py: Python<'_>) -> Vec<u8> {
        match self {
            Prepared::Small(bytes, len) => bytes[..*len].to_vec(),
            Prepared::Bytes(bytes) => bytes.clone(),
            Prepared::Lent(head, lent) => [head, lent.bytes(py)].concat(),
        }
    }
}

/// Arguments of a function without a signature: one buffer, or nothing.
pub fn untyped(
    function: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Prepared> {
    if args.len() > 1 || kwargs.is_some_and(|k| !k.is_empty()) {
        return Err(PyTypeError::new_err(format!(
            "{function}() has no signature and takes its arguments' bytes: at most one buffer (bytes, bytearray, memoryview, an array)"
        )));
    }
    match args.get_item(0) {
        Err(_) => Ok(Prepared::Small([0; INLINE_BYTES], 0)),
        Ok(object) => Ok(Prepared::Lent(vec![], Lent::of(&object)?)),
    }
}

/// What a call was given: by place, then by name.
struct Given<'a, 'py> {
    args: &'a Bound<'py, PyTuple>,
    kwargs: Option<&'a Bound<'py, PyDict>>,
    names: &'a [Py<PyString>],
    /// So many were found by name.
    named: usize,
}

impl<'py> Given<'_, 'py> {
    fn value(&mut self, i: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        if i < self.args.len() {
            return self.args.get_item(i).map(Some);
        }
        let Some(k) = self.kwargs else { return Ok(None) };
        let found = k.get_item(self.names[i].bind(self.args.py()))?;
        self.named += usize::from(found.is_some());
        Ok(found)
    }
}

impl Plan {
    pub fn new(py: Python<'_>, function: &str, signature: Signature) -> PyResult<Self> {
        let record = &signature.args;
        let all = record.fields.iter().map(|f| &f.name).chain(record.tail.iter().map(|t| &t.name));
        let names = all.map(|n| PyString::intern(py, n).unbind()).collect();
        let text = signature.of_function(function).to_string();
        let parts = (
            function,
            text,
            crate::layout::record(py, &signature, &signature.args)?,
            crate::layout::record(py, &signature, &signature.results)?,
            signature.bare_result,
        );
        let codec = py.import("virtfun._typed")?.getattr("Codec")?.call1(parts)?.unbind();
        Ok(Plan { signature, function: function.to_owned(), names, codec })
    }

    /// The bytes of a call, or the buffer that has them.
    pub fn prepare(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Prepared> {
        let record = &self.signature.args;
        if args.len() > self.names.len() {
            return Err(PyTypeError::new_err(format!(
                "{}() takes {} arguments, {} were given: {}",
                self.function,
                self.names.len(),
                args.len(),
                self.usage()
            )));
        }
        let mut given = Given { args, kwargs, names: &self.names, named: 0 };
        let head_bytes = match &record.tail {
            Some(t) => t.offset as usize,
            None => record.fixed_bytes as usize,
        };
        let mut small = [0u8; INLINE_BYTES];
        let mut large = match head_bytes <= INLINE_BYTES {
            true => vec![],
            false => vec![0; head_bytes],
        };
        let head: &mut [u8] =
            if large.is_empty() { &mut small[..head_bytes] } else { &mut large[..] };
        for (i, f) in record.fields.iter().enumerate() {
            match (given.value(i)?, &f.default) {
                (Some(v), _) => self.field(i, f, &v, head)?,
                (None, Some(v)) => self.default(f, v, head)?,
                (None, None) => return Err(self.missing(&f.name)),
            }
        }
        let tail = match &record.tail {
            None => None,
            Some(t) => match given.value(record.fields.len())? {
                Some(v) => Some(self.tail(t, &v)?),
                None if t.least == 0 => None,
                None => return Err(self.missing(&t.name)),
            },
        };
        if let Some(k) = kwargs
            && k.len() > given.named
        {
            return Err(self.strange(k, args.len()));
        }
        match tail {
            Some(lent) => {
                let total = (head_bytes + lent.len()) as u64;
                record.check(total).map_err(|e| {
                    PyValueError::new_err(format!("{}(): {e}: {}", self.function, self.usage()))
                })?;
                Ok(Prepared::Lent(head.to_vec(), lent))
            }
            None if large.is_empty() => Ok(Prepared::Small(small, head_bytes)),
            None => Ok(Prepared::Bytes(large)),
        }
    }

    /// How it is called, for people.
    pub fn usage(&self) -> String {
        self.signature.of_function(&self.function).to_string()
    }

    #[cold]
    fn missing(&self, name: &str) -> PyErr {
        PyTypeError::new_err(format!(
            "{}() needs the argument '{name}': {}",
            self.function,
            self.usage()
        ))
    }

    #[cold]
    fn strange(&self, kwargs: &Bound<'_, PyDict>, given: usize) -> PyErr {
        for (key, _) in kwargs {
            let key = key.to_string();
            match self.names.iter().position(|n| n.bind(kwargs.py()).to_string() == key) {
                Some(i) if i >= given => {}
                found => {
                    let why = if found.is_some() { "twice" } else { "which it does not have" };
                    return PyTypeError::new_err(format!(
                        "{}() was given the argument '{key}' {why}: {}",
                        self.function,
                        self.usage()
                    ));
                }
            }
        }
        PyTypeError::new_err(format!("{}(): {}", self.function, self.usage()))
    }

    fn default(&self, f: &Field, v: &Value, to: &mut [u8]) -> PyResult<()> {
        let mut bytes = vec![];
        self.signature
            .put(&f.ty, v, &mut bytes)
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        to[f.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    fn field(&self, i: usize, f: &Field, v: &Bound<'_, PyAny>, to: &mut [u8]) -> PyResult<()> {
        let to = &mut to[f.offset as usize..];
        let Type::Scalar(scalar) = f.ty else {
            let bytes = self.codec.bind(v.py()).call_method1("encode_field", (i, v))?;
            let bytes: &[u8] = bytes.cast::<PyBytes>()?.as_bytes();
            let room = self.signature.bytes_of(&f.ty) as usize;
            if bytes.len() != room {
                return Err(PyValueError::new_err("a field was encoded to a wrong length"));
            }
            to[..room].copy_from_slice(bytes);
            return Ok(());
        };
        put_scalar(scalar, v, to).map_err(|e| self.explain(v.py(), &f.name, scalar, &e))
    }

    #[cold]
    fn explain(&self, py: Python<'_>, name: &str, scalar: Scalar, e: &PyErr) -> PyErr {
        let range = match scalar.range() {
            Some((least, most)) if scalar != Scalar::Bool => format!(", {least} to {most}"),
            _ => String::new(),
        };
        let text = format!(
            "{}(): argument '{name}' is a {}{range}: {}",
            self.function,
            scalar.name(),
            e.value(py)
        );
        PyErr::from_type(e.get_type(py), text)
    }

    /// The variable array as a buffer: its own where its items are right,
    /// otherwise one that is made.
    fn tail(&self, t: &Tail, v: &Bound<'_, PyAny>) -> PyResult<Lent> {
        if let Ok(lent) = Lent::of(v)
            && suits(t, &lent)
        {
            return Ok(lent);
        }
        let made = self.codec.bind(v.py()).call_method1("encode_tail", (v,))?;
        Lent::of(&made)
    }
}

/// Whether a buffer's items are the elements of a variable array.
fn suits(t: &Tail, lent: &Lent) -> bool {
    let format = lent.format();
    let Type::Scalar(scalar) = t.element else {
        // Structs and arrays: numpy's structured types, of the right size.
        return lent.item_bytes() as u64 == t.element_bytes && !format.contains(['>', '!']);
    };
    // Any buffer is bytes.
    if scalar == Scalar::U8 {
        return true;
    }
    let kind = match scalar {
        Scalar::Bool => "?",
        Scalar::F32 | Scalar::F64 => "fd",
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => "bhilqn",
        _ => "BHILQN",
    };
    let code = format.trim_start_matches(['<', '=', '@']);
    code.len() == 1 && kind.contains(code) && lent.item_bytes() as u64 == t.element_bytes
}

fn put_scalar(scalar: Scalar, v: &Bound<'_, PyAny>, to: &mut [u8]) -> PyResult<()> {
    macro_rules! number {
        ($ty:ty) => {{
            let bytes = v.extract::<$ty>()?.to_le_bytes();
            to[..bytes.len()].copy_from_slice(&bytes);
        }};
    }
    match scalar {
        Scalar::Bool => to[0] = v.extract::<bool>()?.into(),
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
    }
    Ok(())
}
