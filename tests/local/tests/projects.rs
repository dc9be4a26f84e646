//! `vfun new`: the project that it writes in each language builds, passes its own test
//! and is called, by the very commands that it prints.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, programs, repo};

fn new(words: &[&str]) -> Output {
    Command::new(programs().join("vfun")).arg("new").args(words).output().unwrap()
}

/// The project `mine` in a folder, and the commands that are to follow.
fn made(lang: &str, project: &Path) -> Vec<String> {
    let (at, tree) = (project.to_str().unwrap(), repo());
    let source = tree.to_str().unwrap();
    let out = new(&["mine", "--lang", lang, "--dir", at, "--source", source, "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((said["name"].as_str(), said["lang"].as_str()), (Some("mine"), Some(lang)));
    for file in said["written"].as_array().unwrap() {
        let text = std::fs::read_to_string(file.as_str().unwrap()).unwrap();
        assert!(!text.contains("@NAME@") && !text.contains("@HEADERS@"), "{file}: {text}");
    }
    let next = said["next"].as_array().unwrap().iter();
    next.map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// What a command of a project prints.
fn shell(stand: &Stand, project: &Path, line: &str) -> String {
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap());
    let out = Command::new("sh")
        .args(["-ec", line])
        .current_dir(project)
        .env("PATH", path)
        .env("VFUN_ROOT", stand.root())
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Each command as it is printed; the last one is a call.
fn runs(stand: &Stand, project: &Path, commands: &[String]) {
    let (call, before) = commands.split_last().unwrap();
    assert_eq!(before[0], format!("cd {}", project.display()));
    for line in &before[1..] {
        shell(stand, project, line);
    }
    assert!(call.starts_with("vfun call "), "{call}");
    assert_eq!(shell(stand, project, call), "42\n");
}

#[test]
fn a_new_project_in_c_is_called() {
    let (stand, dir) = (Stand::start(), tempfile::tempdir().unwrap());
    let project = dir.path().join("deep/mine");
    runs(&stand, &project, &made("c", &project));
    // Without headers it says so, and what to do.
    let make = Command::new("make").args(["-B", "PKG_CONFIG=false"]).current_dir(&project).output();
    let words = String::from_utf8(make.unwrap().stderr).unwrap();
    assert!(words.contains("pkg-config does not know vfun. Install VirtFun, or"), "{words}");
}

/// With the versions of this tree's lock file, nothing fetched, and not optimized: that is
/// compiled sooner.
#[test]
fn a_new_project_in_rust_is_called() {
    let (stand, dir) = (Stand::start(), tempfile::tempdir().unwrap());
    let project = dir.path().join("mine");
    let commands = made("rust", &project);
    std::fs::copy(repo().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let debug = |line: &String| line.replace(" --release", "").replace("/release/", "/debug/");
    runs(&stand, &project, &commands.iter().map(debug).collect::<Vec<_>>());
}

#[test]
fn a_new_project_in_python_is_called() {
    let found = Command::new("pkg-config").args(["--exists", "python3-embed"]).status();
    if !found.is_ok_and(|s| s.success()) {
        eprintln!("passed over: python3-dev is not installed (packaging/setup.sh)");
        return;
    }
    let (stand, dir) = (Stand::start(), tempfile::tempdir().unwrap());
    let project = dir.path().join("mine");
    runs(&stand, &project, &made("python", &project));

    // Its exceptions are the callers' errors, and calls go on after them.
    let f = stand.connect("app").function("mine").unwrap();
    let call = |a: u64, b: u64| f.call(&[a.to_le_bytes(), b.to_le_bytes()].concat());
    match call(u64::MAX, 1) {
        Err(vfun::Error::Driver { code: -3, sentence }) => {
            assert_eq!(sentence, format!("{} + 1 exceeds 64 bits", u64::MAX));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(call(2, 40).unwrap(), 42u64.to_le_bytes());
}

/// A module that this client brings.
#[test]
#[ignore = "needs `make wasm`"]
fn a_new_project_in_webassembly_is_called() {
    let (stand, dir) = (Stand::start(), tempfile::tempdir().unwrap());
    let text = "[client.host]\nsubmit = true\n".to_owned();
    let set = Ask::SetPolicy { text, file: "test.toml".into() };
    assert!(matches!(stand.ask(&set), Reply::Done { .. }));
    let project = dir.path().join("mine");
    runs(&stand, &project, &made("wasm", &project));
    // And the same for all clients, as its README says.
    shell(&stand, &project, "vfun function add mine.wasm");
    assert_eq!(shell(&stand, &project, "vfun call mine 2 40"), "42\n");
}

#[test]
fn a_bad_name_a_used_folder_and_a_wrong_source_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    let refused = |words: &[&str], says: &str| {
        let out = new(words);
        let words = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && words.contains(says), "{words}");
    };
    refused(&["Mine", "--lang", "c", "--dir", at], "small letters, digits and '_'");
    refused(&["lambda", "--lang", "python", "--dir", at], "choose another name");
    refused(&["mine", "--lang", "java", "--dir", at], "c, rust, python, wasm");
    refused(&["mine", "--lang", "rust", "--dir", at, "--source", at], "not VirtFun's source tree");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was written");

    // A folder that is empty is taken; one with somebody's work is not.
    assert!(new(&["mine", "--lang", "c", "--dir", at]).status.success());
    let before = std::fs::read(dir.path().join("mine.c")).unwrap();
    refused(
        &["mine", "--lang", "wasm", "--dir", at],
        "another folder with --dir, or empty this one",
    );
    assert_eq!(std::fs::read(dir.path().join("mine.c")).unwrap(), before);
}
