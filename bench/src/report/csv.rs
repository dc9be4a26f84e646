//! A report's rows as CSV: a head line with the fields' names, an empty cell for null.
//! Machine and settings are not in it; keep the JSON beside it.

use super::{ReportError, file};
use serde::{Serialize, de::DeserializeOwned};
use std::path::Path;

/// Writes rows, replacing an older table whole.
///
/// # Errors
/// [`ReportError::Io`] and [`ReportError::Csv`]; both name the file.
pub fn write<R: Serialize>(path: &Path, rows: &[R]) -> Result<(), ReportError> {
    let csv = |source| ReportError::Csv { path: path.to_owned(), source };
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).map_err(csv)?;
    }
    let bytes = writer.into_inner().map_err(|e| ReportError::io("write", path, e.into_error()))?;
    file::write(path, &bytes)
}

/// Reads rows back.
///
/// # Errors
/// [`ReportError::Io`] and [`ReportError::Csv`]; both name the file.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>, ReportError> {
    let bytes = std::fs::read(path).map_err(|source| ReportError::io("read", path, source))?;
    let csv = |source| ReportError::Csv { path: path.to_owned(), source };
    ::csv::Reader::from_reader(&bytes[..]).deserialize().collect::<Result<_, _>>().map_err(csv)
}
