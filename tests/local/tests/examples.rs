//! The examples that come with the library do what they say, in C and in Rust.

use std::path::Path;
use std::process::Command;
use vfun_tests_local::{Stand, programs, repo};

const COUNT: u64 = 1 << 20;

fn said(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let words = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{command:?}: {words}");
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// Each makes the same array where the host reads it.
fn sums(program: &Path) {
    let stand = Stand::start();
    let endpoint = format!("host:{}", stand.root().join("host.sock").display());
    let whole = COUNT / 1000;
    let expect = whole * 499_500 + (0..COUNT % 1000).sum::<u64>();
    let mut command = Command::new(program);
    command.args([&COUNT.to_string(), &endpoint]).env("LD_LIBRARY_PATH", programs());
    assert_eq!(said(&mut command), expect.to_string());
}

#[test]
fn an_array_is_summed_in_place_from_c() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("sum");
    let client = repo().join("guest/client");
    let flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE"];
    said(
        Command::new("cc")
            .args(flags)
            .arg("-I")
            .arg(client.join("include"))
            .arg(client.join("examples/sum.c"))
            .arg("-L")
            .arg(programs())
            .args(["-lvfun", "-o"])
            .arg(&program),
    );
    sums(&program);
}

#[test]
fn an_array_is_summed_in_place_from_rust() {
    said(
        Command::new(env!("CARGO"))
            .args(["build", "--release", "--quiet", "-p", "vfun", "--example", "sum"])
            .current_dir(repo()),
    );
    sums(&programs().join("examples/sum"));
}
