//! The file of a plain window, in the hands of whoever may write it.

use super::Field;
use crate::window::{Place, truncate as cut};
use std::time::Duration;

/// Cuts it short, makes it long again, and puts another in its place.
pub(super) fn truncate(f: &mut Field) {
    let Place::File(path) = f.place.clone() else {
        std::thread::sleep(Duration::from_millis(20));
        return;
    };
    let Ok(bytes) = std::fs::metadata(&path).map(|m| m.len()) else { return };
    match f.random.below(3) {
        0 => {
            let _ = cut(&path, f.random.of(&[0, 1, 4096, bytes / 2, bytes - 1]));
        }
        1 => {
            let other = path.with_extension("evil");
            let made = std::fs::write(&other, vec![0x5a; 8192]);
            let _ = made.and_then(|()| std::fs::rename(&other, &path));
        }
        _ => {
            let _ = std::fs::remove_file(&path);
        }
    }
    f.report.deeds += 1;
    std::thread::sleep(Duration::from_millis(50));
    let _ = cut(&path, bytes.max(1 << 20));
}
