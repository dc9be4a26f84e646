//! Writing a whole file or none of it.

use super::ReportError;
use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What is there already and is no file: a device, a pipe, a terminal. It is
/// written to; a file that took its place would be a surprise to the rest of
/// the machine (`/dev/null`).
fn special(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Where the bytes go: behind a link, so that it stays one.
fn behind(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.into())
}

/// A temporary file beside `path`, so that the rename stays on one file system.
/// Its mode is that of any new file (the umask applies).
pub(super) fn beside(path: &Path, suffix: &str) -> Result<NamedTempFile, ReportError> {
    let folder = match behind(path).parent() {
        _ if special(path) => std::env::temp_dir(),
        Some(folder) if !folder.as_os_str().is_empty() => folder.into(),
        _ => PathBuf::from("."),
    };
    tempfile::Builder::new()
        .prefix(".report-")
        .suffix(suffix)
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|source| ReportError::io("write", path, source))
}

/// Gives the temporary file its name, taking the place of an older report.
/// What is no file is written to instead.
pub(super) fn put_in_place(file: NamedTempFile, path: &Path) -> Result<(), ReportError> {
    let failed = |source| ReportError::io("write", path, source);
    if special(path) {
        let copy = |mut to: File| {
            // By its name: a chart's own hand has written it anew.
            let mut from = File::open(file.path())?;
            std::io::copy(&mut from, &mut to).map(|_| ())
        };
        return OpenOptions::new().write(true).open(path).and_then(copy).map_err(failed);
    }
    file.as_file().sync_all().map_err(failed)?;
    file.persist(behind(path)).map_err(|e| failed(e.error))?;
    Ok(())
}

/// Writes `bytes` to `path`: a reader sees the old file or the whole new one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let mut file = beside(path, ".tmp")?;
    file.write_all(bytes).map_err(|source| ReportError::io("write", path, source))?;
    put_in_place(file, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileTypeExt;

    #[test]
    fn a_pipe_stays_a_pipe_and_gets_the_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = {
            let path = path.clone();
            std::thread::spawn(move || std::fs::read(path).unwrap())
        };
        write(&path, b"a report").unwrap();
        assert_eq!(reader.join().unwrap(), b"a report");
        assert!(path.metadata().unwrap().file_type().is_fifo());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link_and_a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "a longer older one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        write(&dir.path().join("another"), b"x").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
