//! PKCS#11 for programs that know of nothing but it: SoftHSM itself, and the module that asks
//! the host for it.

use crate::{Stand, programs, repo};
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_admin::Ask;

/// SoftHSM's module, as Debian has it.
pub const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
/// The user's PIN of the tokens that `programs.sh` makes.
pub const PIN: &str = "1234";

/// The module that asks the host.
pub fn remoted_module() -> PathBuf {
    programs().join("libvfun_pkcs11.so")
}

/// Where the function's manifest and SoftHSM's settings are.
fn shipped() -> PathBuf {
    repo().join("services/pkcs11back/functions/pkcs11")
}

/// A manager that offers the API, with tokens below its root.
///
/// # Panics
///
/// If the manifest that ships is not as an install expects it.
pub fn offer() -> Stand {
    assert!(Path::new(SOFTHSM).exists(), "{SOFTHSM} is missing: run packaging/setup.sh");
    let place = "@PREFIX@/share/virtfun/functions-pkcs11";
    let manifest = std::fs::read_to_string(shipped().join("function.toml")).expect("it ships");
    assert!(manifest.contains(place), "{manifest}");
    let manifest = manifest.replace(place, shipped().to_str().expect("a plain path"));
    let stand = Stand::start();
    stand.ask(&Ask::AddFunction { manifest, file: "function.toml".into() });
    stand
}

/// A program's place: a folder for its tokens, where SoftHSM's settings hold.
pub struct Native {
    dir: tempfile::TempDir,
}

impl Native {
    /// Without a token yet.
    pub fn new() -> Native {
        Native { dir: tempfile::tempdir().expect("a folder") }
    }

    /// A program that SoftHSM itself serves.
    pub fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path());
        command.env("SOFTHSM2_CONF", shipped().join("softhsm2.conf")).arg(SOFTHSM);
        command
    }
}

impl Default for Native {
    fn default() -> Self {
        Native::new()
    }
}

/// A program with the module that asks a manager, as a program of this client's. These words
/// come before the module's path.
pub fn remoted(stand: &Stand, client: &str, program: &Path, before: &[&str]) -> Command {
    let mut command = Command::new(program);
    let socket = stand.root().join("host.sock");
    command.env("VFUN_ENDPOINT", format!("host:{}", socket.display()));
    command.env("VFUN_CLIENT", client).env("SOFTHSM2_CONF", "/nowhere");
    command.args(before).arg(remoted_module());
    command
}

/// Compiles a program in C of the tests.
///
/// # Panics
///
/// If it cannot be compiled, or with a warning.
pub fn compiled(source: &str, dir: &Path) -> PathBuf {
    let path = dir.join("program");
    let done = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE"])
        .args(["-I", "/usr/include/p11-kit-1"])
        .arg(repo().join(source))
        .args(["-ldl", "-o"])
        .arg(&path)
        .status();
    assert!(done.expect("cc runs").success(), "{source} does not compile");
    path
}
