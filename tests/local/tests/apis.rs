//! Remoted APIs: programs in C that know of nothing but the API's header, linked with the library
//! that does the work and with the one that asks the host for it. Both must say the same.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vfun_admin::Ask;
use vfun_tests_local::{Stand, programs, repo};

/// A program, and the folders that each hold a `libgdma.so`.
struct Made {
    _dir: tempfile::TempDir,
    program: PathBuf,
    native: PathBuf,
    remoted: PathBuf,
}

fn folder(dir: &Path, name: &str, library: &str) -> PathBuf {
    let folder = dir.join(name);
    std::fs::create_dir(&folder).unwrap();
    for file in ["libgdma.so", "libgdma.so.0"] {
        std::os::unix::fs::symlink(programs().join(library), folder.join(file)).unwrap();
    }
    folder
}

fn made(source: &str) -> Made {
    let dir = tempfile::tempdir().unwrap();
    let native = folder(dir.path(), "native", "libgdma.so");
    let remoted = folder(dir.path(), "remoted", "libvfun_gdma.so");
    let program = dir.path().join("program");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE"])
        .arg("-I")
        .arg(repo().join("services/gdma/include"))
        .arg(repo().join(source))
        .arg("-L")
        .arg(&native)
        .args(["-lgdma", "-lpthread", "-o"])
        .arg(&program)
        .status();
    assert!(compiled.expect("cc runs").success(), "{source} does not compile");
    Made { _dir: dir, program, native, remoted }
}

impl Made {
    fn command(&self, libraries: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env("LD_LIBRARY_PATH", libraries).env("GDMA_POOL_BYTES", "8388608");
        command
    }

    fn on(&self, stand: &Stand) -> Command {
        let mut command = self.command(&self.remoted);
        let socket = stand.root().join("host.sock");
        command.env("VFUN_ENDPOINT", format!("host:{}", socket.display()));
        command
    }
}

fn offer_gdma() -> Stand {
    let stand = Stand::start();
    let path = repo().join("services/gdmaback/functions/gdma/function.toml");
    let manifest = std::fs::read_to_string(path).expect("it ships");
    stand.ask(&Ask::AddFunction { manifest, file: "function.toml".into() });
    stand
}

fn said(mut command: Command) -> String {
    let out = command.output().expect("the program runs");
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {words}");
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn a_program_hears_the_same_from_the_host_and_from_the_library() {
    let program = made("tests/local/tests/apis/conform.c");
    let stand = offer_gdma();
    let native = said(program.command(&program.native));
    assert!(
        native.contains("0 bytes are wrong") && native.contains("100 transfers ended, 0 wrongly")
    );
    let remoted = said(program.on(&stand));
    for (native, remoted) in native.lines().zip(remoted.lines()) {
        assert_eq!(native, remoted);
    }
    assert_eq!(native, remoted);
    stand.until("nothing is left of it", |stand| stand.grants().is_empty());
}

fn kill_the_service(stand: &Stand) {
    let pid = stand.grants().iter().find_map(|g| g.pid).expect("a service");
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_program_outlives_its_service_and_its_fork() {
    let program = made("tests/local/tests/apis/survive.c");
    let stand = offer_gdma();
    let mut child = program.on(&stand).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    while !said.ends_with("ready\n") {
        assert_ne!(out.read_line(&mut said).expect("text"), 0, "it ended early: {said}");
    }
    kill_the_service(&stand);
    out.read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("its child").success(), "{said}");
    let wanted = [
        // The child: its parent's objects are lost to it, its own are not.
        "gdma_node_local(parents, &node) = -7",
        "gdma_init(GDMA_VERSION, &own) = 0",
        "gdma_node_local(own, &node) = 0",
        "once(context, here, there) = 0",
        "the service is gone: -7",
        "gdma_buffer_alloc(local, 4096, &here) = -7",
        "gdma_exit(context) = 0",
        "gdma_init(GDMA_VERSION, &context) = 0",
        "gdma_buffer_alloc(local, 4096, &here) = 0",
    ];
    let mut lines = said.lines();
    for want in wanted {
        assert!(lines.any(|line| line == want), "no '{want}' where it belongs in:\n{said}");
    }
}

#[test]
fn what_programs_seldom_do_is_the_same_from_the_host_and_from_the_library() {
    let program = made("tests/local/tests/apis/unruly.c");
    let stand = offer_gdma();
    let native = said(program.command(&program.native));
    assert!(native.contains("900 functions called, 0 wrong"), "{native}");
    assert_eq!(native, said(program.on(&stand)));
    stand.until("nothing is left of it", |stand| stand.grants().is_empty());
}

#[test]
fn a_program_that_waits_for_callbacks_hears_that_its_service_died() {
    let program = made("tests/local/tests/apis/unruly.c");
    let stand = offer_gdma();
    let mut command = program.on(&stand);
    command.arg("dies").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    let mut hear = |said: &mut String, what| {
        while !said.ends_with(what) {
            assert_ne!(out.read_line(said).expect("text"), 0, "it ended early: {said}");
        }
    };
    hear(&mut said, "ready\n");
    kill_the_service(&stand);
    hear(&mut said, "again\n");
    assert!(said.contains("300 functions called, 0 wrong, the last with -7\n"), "{said}");
    stand.until("the lost connection is closed", |stand| stand.grants().len() == 1);
    drop(child.stdin.take());
    assert!(child.wait().expect("its child").success(), "{said}");
}

#[test]
fn without_a_host_a_program_is_told_so_at_once() {
    let program = made("services/gdma/examples/bounce.c");
    let mut command = program.command(&program.remoted);
    let out = command.env("VFUN_ENDPOINT", "host:/nowhere.sock").output().expect("it runs");
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success());
    assert!(words.contains("no host offers 'gdma' to this program"), "{words}");
    assert!(words.contains("no host offers it"), "the API's own words: {words}");
}
