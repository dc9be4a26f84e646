//! `vfun` on the host, as a person runs it beside a stand's manager.

use serde_json::Value;
use std::process::Command;
use vfun_tests_local::{Stand, programs};

/// Its exit status, and what it printed: on stdout if it succeeded, on stderr if not.
pub fn vfun(stand: &Stand, words: &[&str]) -> (i32, String) {
    let out = Command::new(programs().join("vfun"))
        .arg("--root")
        .arg(stand.root())
        .args(words)
        .env_remove("VFUN_ENDPOINT")
        .output()
        .unwrap();
    let said = if out.status.success() { out.stdout } else { out.stderr };
    (out.status.code().unwrap(), String::from_utf8(said).unwrap())
}

/// The same with `--json`; null if what it printed is no JSON.
pub fn asked(stand: &Stand, words: &[&str]) -> (i32, Value) {
    let (code, said) = vfun(stand, &[words, &["--json"]].concat());
    (code, serde_json::from_str(&said).unwrap_or_default())
}

/// What it answers; it must succeed.
pub fn json(stand: &Stand, words: &[&str]) -> Value {
    let (code, said) = asked(stand, words);
    assert_eq!(code, 0, "vfun {words:?}: {said}\n{}", stand.log());
    said
}
