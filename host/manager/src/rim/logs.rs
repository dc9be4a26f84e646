//! Services' logs: what a service says is its client's doing, and a driver that
//! was taken over could write for ever. Each is cut when it is too long; the
//! end of what it held is kept beside it.
//!
//! The service holds the file open for appending, so it is copied and
//! truncated, not renamed. What is written between the two is lost. The kernel
//! lets a service make no file longer than [`LOG_BYTES`]:
//! what it writes beyond that before the next look is lost, too.

use super::Daemon;
use crate::limits::{LOG_BYTES, LOG_CUT, LOGS_LOOK};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use vfun_rim::methods::*;

impl Daemon {
    /// Cuts logs that are too long, now and then.
    pub(super) fn look_after_logs(&mut self) {
        if self.rim.services.is_empty() || self.last_logs.elapsed() < LOGS_LOOK {
            return;
        }
        self.last_logs = Instant::now();
        for log in self.tree.service_logs() {
            if let Err(e) = cut(&log, LOG_CUT)
                && self.may_say("services' logs")
            {
                tracing::warn!("{} could not be cut: {e}", log.display());
            }
        }
    }

    pub(super) fn logs_patience(&self) -> Option<Duration> {
        (!self.rim.services.is_empty()).then(|| LOGS_LOOK.saturating_sub(self.last_logs.elapsed()))
    }
}

/// Keeps all of a file that is longer than `bytes` in `FILE.1`, and empties it.
fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    let meta = std::fs::symlink_metadata(path)?;
    if !meta.is_file() || meta.len() <= bytes {
        return Ok(());
    }
    let mut file = File::options().read(true).write(true).open(path)?;
    if file.metadata()?.ino() != meta.ino() {
        return Ok(());
    }
    let kept = (|| {
        let start = file.metadata()?.len().saturating_sub(LOG_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        (&file).take(LOG_BYTES).read_to_end(&mut end)?;
        let mut old = path.as_os_str().to_owned();
        old.push(".1");
        let _ = std::fs::remove_file(&old);
        File::create_new(&old)?.write_all(&end)
    })();
    // Emptied in any case: a full disk is the best reason to.
    file.set_len(0)?;
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_and_its_end_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.log");
        let mut log = File::options().create(true).append(true).open(&path).unwrap();
        log.write_all(b"0123456789").unwrap();
        cut(&path, 10).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123456789");
        log.write_all(b"abc").unwrap();
        cut(&path, 10).unwrap();
        log.write_all(b"next").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"next");
        assert_eq!(std::fs::read(dir.path().join("f.log.1")).unwrap(), b"0123456789abc");
        // Again and again: two files, no more.
        for _ in 0..5 {
            log.write_all(&[b'x'; 50]).unwrap();
            cut(&path, 10).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn what_is_no_file_of_ours_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("t"), dir.path().join("f.log"));
        std::fs::write(&target, "0123456789abc").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        cut(&link, 10).unwrap();
        assert_eq!(std::fs::metadata(&target).unwrap().len(), 13);
    }
}
