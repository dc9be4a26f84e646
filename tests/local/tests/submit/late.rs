//! What comes after its client, or its program, is another one.

use super::disk::Stuck;
use super::{Clients, call, refused};
use vfun::{FunctionRequest, SubmitCode};
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, placed, programs};

#[test]
#[ignore = "needs `make wasm`"]
fn what_arrives_late_is_not_the_next_clients_of_that_name() {
    let c = Clients::new();
    let (a, b) = (c.of("a"), c.of("b"));
    b.submit_module(&c.module("double")).unwrap();
    let triple = a.submit_module(&c.module("triple")).unwrap().function;
    a.withdraw_module("double").unwrap();
    // Of b a module is written for ever, and one of a waits behind it.
    let digest: String = triple.sha256.iter().map(|b| format!("{b:02x}")).collect();
    let stuck = Stuck::at(c.folder("b").join(digest).with_extension("part"));
    assert_eq!(refused(b.submit_module(&c.module("triple").name("x"))).0, SubmitCode::HostTrouble);
    assert_eq!(refused(a.submit_module(&c.module("double"))).0, SubmitCode::HostTrouble);
    drop(a);
    let add = || c.stand.add_client("name = \"a\"\nkind = \"host\"\n");
    std::thread::scope(|s| {
        let removed = s.spawn(|| c.stand.ask(&Ask::RemoveClient { name: "a".into() }));
        c.stand.until("the client to be gone", |s| match s.ask(&Ask::Clients) {
            Reply::Clients { clients } => clients.iter().all(|c| c.name != "a"),
            other => panic!("{other:?}"),
        });
        let early = add();
        stuck.release();
        removed.join().unwrap();
        // Not before nothing is left of the one before.
        let e = early.expect_err("its files are still being removed").to_string();
        assert!(e.contains("still being removed"), "{e}");
    });
    add().unwrap();
    // What was handed over before is done when this is.
    b.submit_module(&c.module("double").name("after")).unwrap();
    let a = c.of("a");
    assert!(a.submitted_modules().unwrap().is_empty());
    assert!(!c.folder("a").exists(), "nothing is left of the client before");
    a.submit_module(&c.module("double")).unwrap();
    assert_eq!(call(&a, "my.double", 4), 8);
}

/// The program is replaced, by a package's update, while a service of it runs.
#[test]
#[ignore = "needs `make wasm`"]
fn code_of_a_program_that_was_replaced_is_not_kept_as_the_next_ones() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir_in(programs()).unwrap();
    let all_may = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), all_may).unwrap();
    for file in std::fs::read_dir(programs()).unwrap().flatten() {
        let name = file.file_name();
        let plain = file.file_type().unwrap().is_file();
        if plain
            && (name.to_string_lossy().starts_with("vf") || name.to_string_lossy().ends_with(".so"))
        {
            std::fs::hard_link(file.path(), dir.path().join(name)).unwrap();
        }
    }
    let c = Clients::on(|| Stand::of(&dir.path().join("vfund"), &[], &[]));
    let a = c.of("a");
    let code = |name: &str| {
        let text = std::fs::read_to_string(c.folder("a").join("holding.json")).unwrap();
        let held: serde_json::Value = serde_json::from_str(&text).unwrap();
        held["modules"][name]["code"].clone()
    };
    // A channel that is held keeps its service.
    let held = a.negotiate(&FunctionRequest::new("submit").depth(1)).unwrap().activate().unwrap();
    a.submit_module(&c.module("double")).unwrap();
    assert!(code("my.double").is_object());
    let program = dir.path().join("vfun-service-wasm");
    let new = dir.path().join("new");
    placed::copy(&program, &new);
    std::fs::rename(&new, &program).unwrap();
    a.submit_module(&c.module("triple").name("triple")).unwrap();
    assert!(code("my.triple").is_null(), "{}", code("my.triple"));
    assert_eq!((call(&a, "my.double", 5), call(&a, "my.triple", 5)), (10, 15));
    // From a service of the new one it is kept.
    drop(held);
    c.without_services();
    assert!(a.submit_module(&c.module("triple").name("triple")).unwrap().renewed);
    assert!(code("my.triple").is_object());
}

#[test]
#[ignore = "needs `make wasm`"]
fn a_service_of_an_earlier_manager_brings_code_as_before() {
    let mut c = Clients::new();
    let a = c.of("a");
    let code = |c: &Clients, name: &str| {
        let text = std::fs::read_to_string(c.folder("a").join("holding.json")).unwrap();
        let held: serde_json::Value = serde_json::from_str(&text).unwrap();
        held["modules"][name]["code"].clone()
    };
    // A channel that is held keeps its service.
    let held = a.negotiate(&FunctionRequest::new("submit").depth(1)).unwrap().activate().unwrap();
    a.submit_module(&c.module("double")).unwrap();
    let service = |c: &Clients| c.stand.grants().into_iter().find_map(|g| g.pid);
    let before = service(&c);
    assert!(before.is_some());
    for _ in 0..2 {
        c.stand.kill_vfund();
        c.stand.start_vfund();
    }
    assert_eq!(service(&c), before, "the same one");
    assert!(a.submit_module(&c.module("double")).unwrap().already_there);
    assert!(code(&c, "my.double").is_object());
    a.submit_module(&c.module("triple").name("triple")).unwrap();
    assert!(code(&c, "my.triple").is_object());
    assert_eq!((call(&a, "my.double", 5), call(&a, "my.triple", 5)), (10, 15));
    drop(held);
}

#[test]
#[ignore = "needs `make wasm`"]
fn what_policy_forbids_before_it_is_listed_leaves_nothing() {
    let c = Clients::new();
    let (a, b) = (c.of("a"), c.of("b"));
    b.submit_module(&c.module("double")).unwrap();
    let triple = a.submit_module(&c.module("triple")).unwrap().function;
    // Of b a module is written for ever, and one of a waits behind it.
    let digest: String = triple.sha256.iter().map(|b| format!("{b:02x}")).collect();
    let stuck = Stuck::at(c.folder("b").join(digest).with_extension("part"));
    assert_eq!(refused(b.submit_module(&c.module("triple").name("x"))).0, SubmitCode::HostTrouble);
    let waits = c.module("double").replace(true).name("other");
    assert_eq!(refused(a.submit_module(&waits)).0, SubmitCode::HostTrouble);
    c.policy("[client.a]\nsubmit = false\n[client.b]\nsubmit = true\n");
    stuck.release();
    // What was handed over before is done when this is.
    c.stand.until("the next one", |_| b.submit_module(&c.module("double").name("after")).is_ok());
    c.stand.until("its files to be gone", |_| c.files("a", "wasm").len() == 1);
    assert_eq!(c.files("a", "code").len(), 1);
    c.policy("[client.a]\nsubmit = true\n");
    assert_eq!(call(&a, "my.double", 4), 12, "what was there before is there");
}
