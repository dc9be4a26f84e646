//! The C interface, by C programs that are compiled here and run against
//! libvfun.so and a manager made up of threads.

use crate::fake;

use fake::Fake;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that holds libvfun.so: where cargo put it for this very build.
fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let deps = here.parent().unwrap();
    let found = [deps, deps.parent().unwrap()].into_iter().find(|d| d.join("libvfun.so").exists());
    found.expect("cargo builds libvfun.so together with the tests").to_path_buf()
}

fn compile(source: &str, to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let done = Command::new(compiler)
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-D_DEFAULT_SOURCE",
            "-pthread",
        ])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg("-L")
        .arg(library())
        .args(["-lvfun", "-o"])
        .arg(to)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn run(program: &Path, args: &[&str]) -> String {
    let done = Command::new(program).args(args).env("LD_LIBRARY_PATH", library()).output().unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{:?}: {words}", done.status);
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn every_function_and_every_wrong_use() {
    let (fake, dir) = (Fake::honest(), tempfile::tempdir().unwrap());
    let program = dir.path().join("exercise");
    compile("tests/c/exercise.c", &program);
    run(&program, &[&format!("host:{}", fake.socket().display())]);
}

#[test]
fn what_outlives_a_release_reaches_nothing_of_the_next_function() {
    over_each_transport("tests/c/release.c");
}

#[test]
fn buffers_are_shared_until_they_end() {
    let fake = Fake::new(fake::Setup { heartbeat_ms: 20, ..Default::default() });
    let (gateway, dir) = (fake::Gateway::new(None), tempfile::tempdir().unwrap());
    let program = dir.path().join("program");
    compile("tests/c/buffers.c", &program);
    let host = format!("host:{}", fake.socket().display());
    run(&program, &[&host, &format!("tcp:{}", gateway.address)]);
    assert!(fake.host.buffers.lock().unwrap().is_empty());
}

#[test]
fn a_child_of_fork_is_told_so_and_its_parent_loses_nothing() {
    over_each_transport("tests/c/fork.c");
}

/// Through a window, with a thread that shows that the app lives, and over TCP.
fn over_each_transport(source: &str) {
    let fake = Fake::new(fake::Setup { heartbeat_ms: 20, ..Default::default() });
    let (gateway, dir) = (fake::Gateway::new(None), tempfile::tempdir().unwrap());
    let program = dir.path().join("program");
    compile(source, &program);
    run(&program, &[&format!("host:{}", fake.socket().display())]);
    run(&program, &[&format!("tcp:{}", gateway.address)]);
}

#[test]
fn the_example_computes() {
    let (fake, dir) = (Fake::honest(), tempfile::tempdir().unwrap());
    let program = dir.path().join("factorial");
    compile("examples/factorial.c", &program);
    let out = run(&program, &["20", &format!("host:{}", fake.socket().display())]);
    assert_eq!(out, "20! = 2432902008176640000\n");
}

/// Here because environment variables are a whole process's.
#[test]
fn an_endpoint_left_open_is_found_or_what_was_tried_is_listed() {
    let (fake, dir) = (Fake::honest(), tempfile::tempdir().unwrap());
    let program = dir.path().join("factorial");
    compile("examples/factorial.c", &program);
    let run = |root: &Path, endpoint: &str| {
        let mut command = Command::new(&program);
        command.arg("5").env("LD_LIBRARY_PATH", library());
        let done = command.env("VFUN_ROOT", root).env("VFUN_ENDPOINT", endpoint).output().unwrap();
        (done.status.success(), String::from_utf8(done.stderr).unwrap())
    };
    let socket = fake.socket();
    let (found, words) = run(socket.parent().unwrap(), "");
    assert!(found && words.starts_with("host ("), "{words}");
    let (found, words) = run(dir.path(), &format!("host:{}", socket.display()));
    assert!(found, "{words}");
    let (found, words) = run(dir.path(), "");
    assert!(
        !found
            && words.contains("Tried module (/dev)")
            && words.contains("; ivshmem (")
            && words.contains("host.sock")
            && words.contains("Start vfund"),
        "{words}"
    );
    let (found, words) = run(dir.path(), "carrier-pigeon");
    assert!(!found && words.contains("'carrier-pigeon' is not an endpoint"), "{words}");
}

/// The library's header, the protocol's and the driver's, in one program, in any order.
#[test]
fn the_headers_are_good_c_and_cpp_together() {
    let (root, dir) = (Path::new(env!("CARGO_MANIFEST_DIR")), tempfile::tempdir().unwrap());
    let folders = ["include", "../../protocol/wire/include", "../../services/sdk/include"];
    let orders = [
        "<vfun.h>",
        "<vfun.h>\n#include <vfun_wire.h>\n#include <vfun_driver.h>",
        "<vfun_driver.h>\n#include <vfun_wire.h>\n#include <vfun.h>",
    ];
    for (compiler, language, name) in
        [("cc", "-std=c11", "all.c"), ("c++", "-std=c++11", "all.cpp")]
    {
        for order in orders {
            let source = dir.path().join(name);
            std::fs::write(
                &source,
                format!("#include {order}\nint main(void) {{ return !vfun_version(); }}\n"),
            )
            .unwrap();
            let mut command = Command::new(compiler);
            command.args([language, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
            command.args(
                folders.map(|f| root.join(f)).iter().flat_map(|f| ["-I".as_ref(), f.as_os_str()]),
            );
            match command.arg(&source).output() {
                Ok(done) => {
                    assert!(
                        done.status.success(),
                        "{order}: {}",
                        String::from_utf8_lossy(&done.stderr)
                    )
                }
                // A machine without a C++ compiler says nothing about the headers.
                Err(e) => assert_eq!(compiler, "c++", "{e}"),
            }
        }
    }
}
