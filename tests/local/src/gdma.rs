//! Programs in C that know of nothing but the header of the API `gdma`, and the two libraries
//! that they may be run with: the one that does the work, and the one that asks the host for it.

use crate::{Stand, programs, repo};
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_admin::Ask;

/// Bytes of a node's pool, as the libraries' variable says it, in all of these tests.
pub const POOL_BYTES: &str = "GDMA_POOL_BYTES=8388608";
/// What a program looks for.
pub const LIBRARY: &str = "libgdma.so.0";

/// Where the library was built that asks the host.
pub fn remoted_library() -> PathBuf {
    programs().join("libvfun_gdma.so")
}

/// A manager that offers the API.
pub fn offer() -> Stand {
    let stand = Stand::start();
    let path = repo().join("services/gdmaback/functions/gdma/function.toml");
    let manifest = std::fs::read_to_string(path).expect("it ships");
    stand.ask(&Ask::AddFunction { manifest, file: "function.toml".into() });
    stand
}

/// A program, and for each library a folder that has it alone.
pub struct Program {
    _dir: tempfile::TempDir,
    path: PathBuf,
    native: PathBuf,
    remoted: PathBuf,
}

fn folder(dir: &Path, name: &str, library: &Path) -> PathBuf {
    let folder = dir.join(name);
    std::fs::create_dir(&folder).expect("a new folder");
    for file in ["libgdma.so", LIBRARY] {
        std::os::unix::fs::symlink(library, folder.join(file)).expect("a new link");
    }
    folder
}

impl Program {
    /// Compiles a file of the repository.
    ///
    /// # Panics
    ///
    /// If it cannot be compiled, or with a warning.
    pub fn of(source: &str) -> Program {
        let dir = tempfile::tempdir().expect("a folder");
        let native = folder(dir.path(), "native", &programs().join("libgdma.so"));
        let remoted = folder(dir.path(), "remoted", &remoted_library());
        let path = dir.path().join("program");
        let compiled = Command::new("cc")
            .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE"])
            .arg("-I")
            .arg(repo().join("services/gdma/include"))
            .arg(repo().join(source))
            .arg("-L")
            .arg(&native)
            .args(["-lgdma", "-lpthread", "-o"])
            .arg(&path)
            .status();
        assert!(compiled.expect("cc runs").success(), "{source} does not compile");
        Program { _dir: dir, path, native, remoted }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// With the library that does the work.
    pub fn native(&self) -> Command {
        self.with(&self.native)
    }

    /// With the library that asks the host, which it finds here.
    pub fn remoted(&self, endpoint: &str) -> Command {
        let mut command = self.with(&self.remoted);
        command.env("VFUN_ENDPOINT", endpoint);
        command
    }

    fn with(&self, libraries: &Path) -> Command {
        let (name, bytes) = POOL_BYTES.split_once('=').expect("a variable");
        let mut command = Command::new(&self.path);
        command.env("LD_LIBRARY_PATH", libraries).env(name, bytes);
        command
    }
}

/// Where programs on this machine reach a manager.
pub fn endpoint(stand: &Stand) -> String {
    format!("host:{}", stand.root().join("host.sock").display())
}

/// What a command prints; it must succeed.
///
/// # Panics
///
/// If it fails.
pub fn said(mut command: Command) -> String {
    let out = command.output().expect("the program runs");
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {words}");
    String::from_utf8(out.stdout).expect("text")
}

/// Checks what a program has heard: all that the library said on the host, and nothing else.
///
/// # Panics
///
/// If it was anything else; the first line that differs is named.
pub fn assert_same(native: &str, remoted: &str) {
    assert!(
        native.contains("0 bytes are wrong") && native.contains("100 transfers ended, 0 wrongly"),
        "{native}"
    );
    for (native, remoted) in native.lines().zip(remoted.lines()) {
        assert_eq!(native, remoted);
    }
    assert_eq!(native, remoted);
}

/// What `survive.c` says, in this order, when its service dies and comes back.
const SURVIVED: [&str; 9] = [
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

/// Kills the service that a program uses.
///
/// # Panics
///
/// If there is none.
pub fn kill_service(stand: &Stand) {
    let pid = stand.grants().iter().find_map(|g| g.pid).expect("a service");
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

/// Checks what `survive.c` said.
///
/// # Panics
///
/// If a line is missing, or stands elsewhere.
pub fn assert_survived(said: &str) {
    let mut lines = said.lines();
    for want in SURVIVED {
        assert!(lines.any(|line| line == want), "no '{want}' where it belongs in:\n{said}");
    }
}
