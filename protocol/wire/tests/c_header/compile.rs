//! Runs the C compiler over a text.

use std::path::{Path, PathBuf};
use std::process::Command;

const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion"];

/// Where the header lies.
pub fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// `CC` and `CXX` are obeyed.
fn compiler(name: &str) -> String {
    let var = if name == "cc" { "CC" } else { "CXX" };
    std::env::var(var).unwrap_or_else(|_| name.to_string())
}

/// Compiles into a file, warnings being errors.
pub fn compile(name: &str, flags: &[&str], source: &str, out: &Path) {
    let file = out.with_extension("src");
    std::fs::write(&file, source).unwrap();
    let done = Command::new(compiler(name))
        .args(flags)
        .args(STRICT)
        .arg("-I")
        .arg(include())
        .arg(&file)
        .arg("-o")
        .arg(out)
        .output()
        .unwrap_or_else(|e| panic!("cannot run {name} ({e}): install a C and C++ compiler"));
    assert!(done.status.success(), "{name} {flags:?}:\n{}", String::from_utf8_lossy(&done.stderr));
}

/// Compiles, warnings being errors.
pub fn check(name: &str, flags: &[&str], source: &str) {
    let dir = tempfile::tempdir().unwrap();
    compile(name, flags, source, &dir.path().join("check"));
}

/// Compiles as C99 and runs: what it printed.
pub fn run(source: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("program");
    compile("cc", &["-x", "c", "-std=c99"], source, &exe);
    let done = Command::new(&exe).output().unwrap();
    assert!(done.status.success());
    String::from_utf8(done.stdout).unwrap()
}
