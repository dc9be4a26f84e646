//! Stubs for C and Rust are made, compiled and called against a real manager;
//! those for Python in guest/python/tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_tests_local::{Stand, repo};

// Made by this very command; the test compares. After a change on purpose run
// with VFUN_GOLDEN=write.
#[rustfmt::skip]
#[path = "bindings/functions.rs"]
mod functions;

const FUNCTIONS: [&str; 5] = ["factorial", "sum_f64", "sha256", "null", "echo"];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bindings")
}

/// A manager with `echo` by the manifest beside this test; none if the
/// workspace is not built.
fn stand() -> Option<Stand> {
    let beside = Path::new(env!("CARGO_BIN_EXE_vfun"));
    let needed =
        ["vfund", "vfun-service", "libvfun.so", "libvfun_fn_echo.so", "libvfun_fn_sum_f64.so"];
    if !needed.iter().all(|n| beside.with_file_name(n).is_file()) {
        eprintln!("passed over: build the workspace first");
        return None;
    }
    let s = Stand::start();
    let out = vfun(&s, &["function", "add", here().join("echo.toml").to_str().unwrap()]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(s)
}

fn vfun(s: &Stand, args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_vfun"))
        .arg("--root")
        .arg(s.root())
        .args(args)
        .env_remove("VFUN_ENDPOINT")
        .output()
        .unwrap()
}

fn bindgen(s: &Stand, lang: &str, file: &Path) {
    let args =
        [&["bindgen", "--lang", lang, "-o", file.to_str().unwrap()], &FUNCTIONS[..]].concat();
    let out = vfun(s, &args);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn stubs_for_c_compile_and_call() {
    let Some(s) = stand() else { return };
    let dir = tempfile::tempdir().unwrap();
    bindgen(&s, "c", &dir.path().join("functions.h"));
    let (program, lib) =
        (dir.path().join("exercise"), Path::new(env!("CARGO_BIN_EXE_vfun")).parent().unwrap());
    for flags in [&["-std=c11", "-xc"][..], &["-std=c++17", "-xc++"]] {
        let done = Command::new(if flags[1] == "-xc" { "cc" } else { "c++" })
            .args(flags)
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
            .arg(dir.path())
            .arg("-I")
            .arg(repo().join("guest/client/include"))
            .arg(here().join("exercise.c"))
            .arg("-L")
            .arg(lib)
            .args(["-lvfun", "-o"])
            .arg(&program)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let endpoint = format!("host:{}", s.root().join("host.sock").display());
        let done =
            Command::new(&program).arg(endpoint).env("LD_LIBRARY_PATH", lib).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&done.stdout),
            "done\n",
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

#[test]
fn stubs_for_rust_are_current_and_call() {
    let Some(s) = stand() else { return };
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("functions.rs");
    bindgen(&s, "rust", &made);
    let made = std::fs::read_to_string(made).unwrap();
    if std::env::var_os("VFUN_GOLDEN").is_some() {
        std::fs::write(here().join("functions.rs"), &made).unwrap();
    }
    assert_eq!(made, std::fs::read_to_string(here().join("functions.rs")).unwrap());

    let session = s.connect("bindgen");
    assert_eq!(
        functions::factorial::Factorial::open(&session).unwrap().call(20, 1).unwrap(),
        2432902008176640000
    );
    let sum = functions::sum_f64::SumF64::open(&session).unwrap();
    assert_eq!(sum.call(&[1.5, 2.0, -0.25]).unwrap(), 3.25);
    assert_eq!(functions::sha256::Sha256::open(&session).unwrap().call(b"abc").unwrap()[0], 0xba);
    functions::null::Null::open(&session).unwrap().call(&[]).unwrap();
    use functions::echo::{Echo, Pair, Point};
    let point = |x, class| Point { x, y: -1.0, class };
    let p = Pair { first: point(1.25, 1), rest: [point(2.0, 2), point(3.0, 200)], on: true };
    let echo = Echo::open(&session).unwrap();
    let got = echo.call(p, true, [1, -2, 3], -5, &[7, 8, 9]).unwrap();
    assert_eq!(
        (got.p, got.flag, got.three, got.to, got.data),
        (p, true, [1, -2, 3], -5, vec![7, 8, 9])
    );
    assert!(echo.call(p, true, [1, -2, 3], -5, &[]).unwrap().data.is_empty());
}

#[test]
fn callers_made_for_another_signature_are_refused() {
    let Some(s) = stand() else { return };
    let session = s.connect("old");
    let wanted = vfun::FunctionRequest::new("factorial").signature(0x1234);
    let e = session.negotiate(&wanted).map(drop).unwrap_err();
    let vfun::Error::Refused(nack) = &e else { panic!("{e}") };
    assert_eq!(nack.code, vfun::NackCode::WrongSignature);
    for words in
        ["0000000000001234", "(n: u64, repetitions: u64 = 1) -> u64", "vfun bindgen factorial"]
    {
        assert!(nack.sentence.contains(words), "{nack}");
    }
    // A function without a signature is none that stubs were made for.
    assert!(session.negotiate(&vfun::FunctionRequest::new("sum").signature(1)).is_err());
    // Cells that cannot hold a call are refused before there is one.
    let e = session
        .negotiate(&vfun::FunctionRequest::new("echo").cell_bytes(64))
        .map(drop)
        .unwrap_err();
    assert!(e.to_string().contains("at least"), "{e}");
    // And the service refuses a length before the driver is asked.
    let f = session.function("factorial").unwrap();
    let e = f.call(&[0; 15]).unwrap_err();
    assert!(
        matches!(&e, vfun::Error::Driver { sentence, .. } if sentence == "arguments: 15 bytes, not 16"),
        "{e}"
    );
    f.rst().unwrap();
    let e = session.function("sum_f64").unwrap().call(&[0; 12]).unwrap_err();
    assert!(e.to_string().contains("not 0 + n * 8"), "{e}");
}

#[test]
fn bindgen_says_what_it_cannot_do() {
    let Some(s) = stand() else { return };
    let fails = |args: &[&str], words: &str| {
        let out = vfun(&s, args);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && text.contains(words), "{args:?}: {text}");
    };
    fails(&["bindgen", "sum", "--lang", "c"], "'sum' has no signature");
    fails(&["bindgen", "nothing", "--lang", "c"], "no function 'nothing'");
    let echo = here().join("echo.toml");
    let echo = echo.to_str().unwrap();
    fails(
        &["bindgen", "other", "--manifest", echo, "--lang", "rust"],
        "no manifest that was named declares 'other'",
    );
    let out = vfun(&s, &["bindgen", "--manifest", echo, "--lang", "python"]);
    let python = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(python.contains("class Echo:\n    \"\"\"echo("), "structs stand behind: {python}");
    let shown = vfun(&s, &["function", "show", "factorial"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("a4543068e952b882"), "the fingerprint: {shown}");
    let code = ["error -3", "fewer than two numbers of 8 bytes"];
    assert!(shown.lines().any(|l| code.iter().all(|c| l.contains(c))), "a code: {shown}");
}
