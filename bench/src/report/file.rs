//! Writing a whole file or none of it.

use super::ReportError;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;

/// A temporary file beside `path`, so that the rename stays on one file system.
/// Its mode is that of any new file (the umask applies).
pub(super) fn beside(path: &Path, suffix: &str) -> Result<NamedTempFile, ReportError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".report-")
        .suffix(suffix)
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|source| ReportError::io("write", path, source))
}

/// Gives the temporary file its name, taking the place of an older report.
pub(super) fn put_in_place(file: NamedTempFile, path: &Path) -> Result<(), ReportError> {
    file.as_file().sync_all().map_err(|source| ReportError::io("write", path, source))?;
    file.persist(path).map_err(|e| ReportError::io("write", path, e.error))?;
    Ok(())
}

/// Writes `bytes` to `path`: a reader sees the old file or the whole new one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let mut file = beside(path, ".tmp")?;
    file.write_all(bytes).map_err(|source| ReportError::io("write", path, source))?;
    put_in_place(file, path)
}
