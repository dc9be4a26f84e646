//! The C interface, by C programs that are compiled here and run with libgdma.so.

use crate::compile;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder that holds libgdma.so: where cargo put it for this very build.
fn library() -> PathBuf {
    let here = std::env::current_exe().expect("a path");
    let deps = here.parent().expect("a folder");
    let found = [deps, deps.parent().expect("a folder")];
    let found = found.into_iter().find(|d| d.join("libgdma.so").exists());
    found.expect("cargo builds libgdma.so together with the tests").to_path_buf()
}

/// Compiles a program of this crate and runs it.
fn run(source: &str, arguments: &[&str], pool: Option<&str>) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("program");
    let text = std::fs::read_to_string(root.join(source)).expect("readable");
    let flags = ["-x", "c", "-std=c11", "-D_DEFAULT_SOURCE", "-pthread", "-g"];
    let search = format!("-L{}", library().display());
    let folder = format!("-I{}", root.join("tests/c").display());
    let flags: Vec<&str> = flags
        .into_iter()
        .chain([search.as_str(), folder.as_str(), "-Wl,--no-as-needed", "-lgdma"])
        .collect();
    compile::compile("cc", &flags, &text, &program);
    let mut command = Command::new(&program);
    command.args(arguments).env("LD_LIBRARY_PATH", library());
    command.env_remove("GDMA_NODE").env_remove("GDMA_POOL_BYTES");
    if let Some(bytes) = pool {
        command.env("GDMA_POOL_BYTES", bytes);
    }
    command.output().expect("it was just compiled")
}

fn succeeds(source: &str, arguments: &[&str]) -> String {
    let done = run(source, arguments, None);
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{source} {arguments:?}: {:?}: {words}", done.status);
    String::from_utf8(done.stdout).expect("words")
}

#[test]
fn the_example_goes_there_and_back() {
    for bytes in ["1", "1000001"] {
        let words = succeeds("examples/bounce.c", &[bytes]);
        assert!(
            words.starts_with(&format!("{bytes} bytes went")) && words.contains("simulated"),
            "{words}"
        );
    }
}

#[test]
fn the_example_says_what_is_wrong() {
    for (pool, reason) in
        [("4096", "no room in one piece"), ("4095", "argument"), ("much", "argument")]
    {
        let done = run("examples/bounce.c", &["5000"], Some(pool));
        let words = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{words}");
        assert!(words.contains(reason), "{pool}: {words}");
    }
}

#[test]
fn every_function_and_every_wrong_use() {
    succeeds("tests/c/misuse.c", &[]);
}

#[test]
fn a_pool_of_the_programs_own() {
    succeeds("tests/c/pool.c", &[]);
}

#[test]
fn a_context_has_one_thread() {
    succeeds("tests/c/contexts.c", &[]);
}

#[test]
fn many_threads() {
    succeeds("tests/c/threads.c", &[]);
}
