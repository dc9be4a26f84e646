//! The file of a plain window, in the hands of whoever may write it.

use super::Field;
use crate::window::{Place, truncate as cut};
use std::path::Path;
use std::time::Duration;

/// How long a file stays wrong: not long enough for the manager to look at its
/// size (each second), or long enough.
const SHORT: u64 = 50;
const LONG: u64 = 1_300;

/// What the test's driver does: sleeps in a call, so that its service has one
/// under way when its pages go.
const SLEEP: u8 = 6;

/// Cuts it short under a service that computes in it and makes it whole again;
/// or puts another in its place for a while, or none.
pub(super) fn truncate(f: &mut Field) {
    let Place::File(path) = f.place.clone() else {
        std::thread::sleep(Duration::from_millis(20));
        return;
    };
    let Ok(bytes) = std::fs::metadata(&path).map(|m| m.len()) else { return };
    // Whoever cuts what he has mapped himself falls with it: no mapping is kept.
    if !served(f) {
        return;
    }
    let time = f.random.of(&[SHORT, LONG]);
    match f.random.below(4) {
        0 => swap(&path, time, |path| std::fs::write(path, [0x5a; 8192])),
        1 => swap(&path, time, |_| Ok(())),
        _ => {
            let _ = cut(&path, f.random.of(&[0, 1, 4096, bytes / 2, bytes - 1]));
            std::thread::sleep(Duration::from_millis(time));
            let _ = cut(&path, bytes);
        }
    }
    f.report.deeds += 1;
}

/// A service with calls under way in this window; false while the manager
/// serves none, as it lays a window out anew in its own time.
fn served(f: &mut Field) -> bool {
    let Some((w, app)) = f.app(0) else { return false };
    let function = app.function(&w, "misbehave", 4, 256);
    let Some(mut channel) = f.got(function) else { return false };
    let ms = 20 + f.random.below(100) as u32;
    let args = [&[SLEEP][..], &ms.to_le_bytes()].concat();
    (0..channel.depth()).for_each(|cell| channel.call(&w, cell, &args));
    true
}

/// Another file, or none, under its name for a while.
fn swap(path: &Path, ms: u64, put: impl Fn(&Path) -> std::io::Result<()>) {
    let aside = path.with_extension("aside");
    if std::fs::rename(path, &aside).is_ok() {
        let _ = put(path);
        std::thread::sleep(Duration::from_millis(ms));
        let _ = std::fs::rename(&aside, path);
    }
}
