//! A program in a real guest brings a module of its own. It needs what `make
//! wasm` builds, which `make test` has done before.

use std::time::Duration;
use vfun_admin::{Ask, Reply};
use vfun_tests_local::modules::{compiled, source, times};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::{LONG, boot, client, config};

#[test]
fn a_guest_brings_a_module_calls_it_and_takes_it_back() {
    if !programs().join("vfun-service-wasm").is_file() {
        eprintln!("SKIPPED: vfun-service-wasm is not built (make wasm)");
        return;
    }
    let stand = Stand::start();
    let windows = vec![client(&stand, "vm1", "")];
    client(&stand, "vm2", "");
    let text = "[client.vm1]\nsubmit = true\n".to_owned();
    let set = stand.ask(&Ask::SetPolicy { text, file: "test.toml".into() });
    assert!(matches!(set, Reply::Done { .. }), "{set:?}");
    let dir = tempfile::tempdir().unwrap();
    let mut config = config("submit", windows);
    for (name, bytes) in compiled(&[
        ("double", source("double", 0, "", &times(2))),
        ("triple", source("double", 1, "", &times(3))),
    ]) {
        let file = dir.path().join(&name);
        std::fs::write(&file, bytes).unwrap();
        config.files.push((file, format!("/{name}.wasm")));
    }
    let guest = boot(&config);
    let run = |script: &str| {
        guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", stand.log()))
    };
    let said = run("vfun submit /double.wasm --signature '(n: u64) -> u64'");
    assert!(said.starts_with("my.double 1.0 is offered, compiled in"), "{said}");
    assert_eq!(run("vfun call my.double 21"), "42");
    let out = guest.run("vfun submit /triple.wasm --signature '(n: u64) -> u64'", LONG).unwrap();
    let why = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status == 3 && why.contains("--replace"), "{}: {why}", out.status);
    run("vfun submit /triple.wasm --signature '(n: u64) -> u64' --replace");
    assert_eq!(run("vfun call my.double 21"), "63");
    assert!(run("vfun submit --list").contains("my.double"));
    // It is that guest's alone.
    match stand.ask(&Ask::Functions) {
        Reply::Functions { functions } => {
            let own = functions.iter().find(|f| f.name == "my.double").expect("it is offered");
            assert_eq!(own.client.as_deref(), Some("vm1"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(run("vfun submit --remove double"), "my.double is no longer offered");
    assert!(!run("vfun list").contains("my.double"));
    guest.shutdown(Duration::from_secs(20)).unwrap();
}
