//! Reports as JSON files.

use super::{ReportError, file};
use serde::{Serialize, de::DeserializeOwned};
use std::path::Path;

/// Writes a report, indented, replacing an older one whole.
///
/// # Errors
/// [`ReportError::Io`] and [`ReportError::Json`]; both name the file.
pub fn write(path: &Path, report: &impl Serialize) -> Result<(), ReportError> {
    let json = |source| ReportError::Json { path: path.to_owned(), source };
    let mut bytes = serde_json::to_vec_pretty(report).map_err(json)?;
    bytes.push(b'\n');
    file::write(path, &bytes)
}

/// Reads a report back. Fields it does not know are passed over.
///
/// # Errors
/// [`ReportError::Io`] and [`ReportError::Json`]; both name the file.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<R, ReportError> {
    let bytes = std::fs::read(path).map_err(|source| ReportError::io("read", path, source))?;
    serde_json::from_slice(&bytes)
        .map_err(|source| ReportError::Json { path: path.to_owned(), source })
}
