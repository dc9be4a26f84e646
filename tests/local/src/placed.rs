//! Programs that a test puts in a place and then starts.
//!
//! Another process writes them. If the test wrote them itself, a child that another
//! thread starts meanwhile would hold the file open for writing until its `exec`, and
//! the kernel would refuse to start the file ("Text file busy").

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program, with its mode.
///
/// # Panics
///
/// If it cannot be copied.
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("/bin/cp").arg("--").args([from, to]).status().expect("cp starts");
    assert!(status.success(), "{} to {}: {status}", from.display(), to.display());
}

/// Writes a script that everybody may run (mode 755), with `text` as its content.
///
/// # Panics
///
/// If it cannot be written.
pub fn script(at: &Path, text: &str) {
    let mut child = Command::new("/bin/sh")
        .args(["-c", r#"cat >"$1" && chmod 755 "$1""#, "sh"])
        .arg(at)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    let mut pipe = child.stdin.take().expect("it was piped");
    pipe.write_all(text.as_bytes()).expect("the shell reads");
    drop(pipe);
    let status = child.wait().expect("the shell ends");
    assert!(status.success(), "{}: {status}", at.display());
}

/// A folder with the manager, in which this script stands for one of its helpers.
///
/// # Panics
///
/// If it cannot be made.
pub fn manager(helper: &str, text: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    for program in ["vfun-keeper", "vfun-jail", "vfun-service"] {
        let made =
            std::os::unix::fs::symlink(crate::programs().join(program), place.path().join(program));
        made.expect("a new link");
    }
    // Not a link: it looks for the others beside itself.
    copy(&crate::programs().join("vfund"), &place.path().join("vfund"));
    script(&place.path().join(helper), text);
    place
}
