//! Errors become exceptions: a class each, by the variant's own name, so that
//! a new one is an exception of the base class until it gets its own.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `virtfun._errors.make`, which makes the exceptions.
static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn make<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    let found = MAKE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("virtfun._errors")?.getattr("make")?.unbind())
    })?;
    Ok(found.bind(py))
}

/// The first word of a value's debug text: an enum's variant.
fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.chars().take_while(|c| c.is_ascii_alphanumeric()).collect()
}

/// Something that went wrong in the library.
#[cold]
pub fn of(py: Python<'_>, e: &vfun::Error) -> PyErr {
    let (kind, code, sentence) = match e {
        vfun::Error::Refused(nack) => {
            (variant(&nack.code), nack.code.to_wire().into(), nack.sentence.clone())
        }
        vfun::Error::Driver { code, sentence } => {
            ("Driver".into(), i64::from(*code), sentence.clone())
        }
        vfun::Error::NotAccepted { code, sentence } => {
            ("NotAccepted".into(), code.number().into(), sentence.clone())
        }
        other => (variant(other), 0, other.to_string()),
    };
    let refused = matches!(e, vfun::Error::Refused(_));
    raise(py, &kind, refused, &e.to_string(), &e.advice(), e.is_retryable(), code, &sentence)
}

/// Anything else of this package's own.
#[cold]
pub fn own(py: Python<'_>, kind: &str, text: &str, advice: &str) -> PyErr {
    raise(py, kind, false, text, advice, false, 0, text)
}

/// Use in a child of what its parent opened.
#[cold]
pub fn forked(py: Python<'_>) -> PyErr {
    own(
        py,
        "Forked",
        "this was opened by the parent process; a child has no part in its window",
        "Connect again in the child, or start children by 'spawn'.",
    )
}

/// The exception for a session or function that was closed.
#[cold]
pub fn closed(py: Python<'_>) -> PyErr {
    own(py, "Closed", "the session or function was closed", "Connect again.")
}

#[allow(clippy::too_many_arguments, reason = "one exception's fields")]
fn raise(
    py: Python<'_>,
    kind: &str,
    refused: bool,
    text: &str,
    advice: &str,
    retryable: bool,
    code: i64,
    sentence: &str,
) -> PyErr {
    let made =
        make(py).and_then(|m| m.call1((kind, refused, text, advice, retryable, code, sentence)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err(text.to_owned()),
    }
}
