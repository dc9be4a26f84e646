//! Over the network, and from C.

use super::{Clients, call, names, refused};
use std::process::Command;
use vfun::{ConnectOptions, Endpoint, SubmitCode};
use vfun_tests_local::{Stand, programs, repo};

#[test]
#[ignore = "needs `make wasm`"]
fn a_caller_over_the_network_brings_modules_like_any_other() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let c = Clients::on(|| Stand::with(&["--tcp", &address]));
    for (name, policy) in [("far", "tcp = \"open\"\n"), ("wide", "tcp = \"open\"\n")] {
        c.stand.add_client(&format!("name = \"{name}\"\nkind = \"host\"\n{policy}")).unwrap();
    }
    c.policy("[client.far]\nsubmit = true\n[client.wide]\nsubmit = true\n");
    c.stand.until("the gateway", |_| std::net::TcpStream::connect(&address).is_ok());
    let over = |client: &str| {
        let endpoint: Endpoint = format!("tcp:{address}").parse().unwrap();
        ConnectOptions::new("remote").client(client).endpoint(endpoint).connect().unwrap()
    };
    let (far, wide) = (over("far"), over("wide"));
    assert!(far.describe().contains("tcp"), "{}", far.describe());
    let done = far.submit_module(&c.module("double").signature("(n: u64) -> u64")).unwrap();
    assert_eq!(done.function.name, "my.double");
    assert_eq!(call(&far, "my.double", 21), 42);
    assert!(
        far.submit_module(&c.module("double").signature("(n: u64) -> u64")).unwrap().already_there
    );
    // The host's words arrive, and a request as long as one can be.
    let (code, sentence) = refused(far.submit_module(&vfun::Submission::new(b"\0asm\x01\0\0\0")));
    assert!(code == SubmitCode::BadModule && sentence.contains("export memory"), "{sentence}");
    let long = vec![1; 8 << 20];
    let (code, sentence) = refused(far.submit_module(&vfun::Submission::new(&long)));
    assert!(code == SubmitCode::BadModule && sentence.contains("not a WebAssembly"), "{sentence}");
    assert_eq!((names(&wide).len(), names(&far).len()), (1, 2));
    assert_eq!(far.submitted_modules().unwrap(), [done.function]);
    // It stays when the connection ends.
    drop(far);
    let far = over("far");
    assert_eq!(call(&far, "my.double", 4), 8);
    far.withdraw_module("double").unwrap();
    assert!(far.submitted_modules().unwrap().is_empty());
}

#[test]
#[ignore = "needs `make wasm`"]
fn modules_are_brought_from_c() {
    let c = Clients::new();
    let dir = tempfile::tempdir().unwrap();
    let (program, file) = (dir.path().join("submit"), dir.path().join("double.wasm"));
    std::fs::write(&file, &c.modules["double"]).unwrap();
    let client = repo().join("guest/client");
    let made = Command::new("cc")
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(client.join("include"))
        .arg(client.join("tests/c/submit.c"))
        .arg("-L")
        .arg(programs())
        .args(["-lvfun", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let run = |client: &str| {
        let out = Command::new(&program)
            .arg(format!("host:{}", c.stand.root().join("host.sock").display()))
            .args([client.as_ref(), file.as_os_str()])
            .env("LD_LIBRARY_PATH", programs())
            .output()
            .unwrap();
        assert!(out.status.success(), "{:?} {}", out.status, String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(run("a"), "my.double(21) = 42\n");
    assert_eq!(names(&c.of("a")), ["submit"], "it was withdrawn");
    // A client that may not.
    assert!(run("c").starts_with("refused: "), "{}", run("c"));
}
