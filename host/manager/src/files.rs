//! Files that are there as they were, or as they are to be, whatever happens:
//! written beside their place and moved there whole. No link is followed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file that is there when this returns, also after a loss of power.
/// Waits for the disk. On an error nothing of it is left; what was there before
/// is there still, but where only its folder could not be written.
pub fn write_durably(file: &Path, bytes: &[u8]) -> io::Result<()> {
    write_whole(file, bytes)?;
    match file.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// The same, for what can be made again: whole wherever it is there, but after
/// a loss of power it may not be.
pub fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = file.with_extension("part");
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let written = (|| {
        let mut f = File::options()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(nofollow)
            .open(&part)?;
        f.write_all(bytes)?;
        f.sync_all()?;
        fs::rename(&part, file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_as_it_was_or_as_it_is_to_be() {
        for write in [write_durably, write_whole] {
            let dir = tempfile::tempdir().unwrap();
            let (file, part) = (dir.path().join("f.json"), dir.path().join("f.part"));
            write(&file, b"longer").unwrap();
            write(&file, b"new").unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"new");
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(!part.exists());
            // A link in the way is not followed, and is out of the way then.
            let outside = dir.path().join("outside");
            fs::write(&outside, "as it was").unwrap();
            symlink(&outside, &part).unwrap();
            assert!(write(&file, b"newer").is_err());
            assert_eq!(fs::read(&outside).unwrap(), b"as it was");
            assert_eq!(fs::read(&file).unwrap(), b"new");
            assert!(part.symlink_metadata().is_err());
            // What is written and cannot be moved to its place leaves nothing.
            let folder = dir.path().join("g.json");
            fs::create_dir(&folder).unwrap();
            assert!(write(&folder, b"newer").is_err());
            assert!(folder.is_dir() && !dir.path().join("g.part").exists());
        }
    }
}
