//! Gives libvfun.so its name for the linker at run time, `libvfun.so.MAJOR` (of
//! a version 0: `libvfun.so.0.MINOR`), so that a program never loads a library
//! with another ABI. A link of that name lies beside the library, for programs
//! that are linked with it before it is installed.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let part =
        |name: &str| std::env::var(format!("CARGO_PKG_VERSION_{name}")).expect("cargo sets it");
    let soname = match part("MAJOR").as_str() {
        "0" => format!("libvfun.so.0.{}", part("MINOR")),
        major => format!("libvfun.so.{major}"),
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // OUT_DIR is PROFILE/build/vfun-HASH/out; the library comes into PROFILE and PROFILE/deps.
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let Some(profile) = out.ancestors().nth(3) else { return };
    for folder in [profile.to_owned(), profile.join("deps")] {
        link(&folder.join(&soname));
    }
}

/// Not without it: what is linked with the library would not start.
fn link(at: &Path) {
    if at.is_symlink() || !at.parent().is_some_and(Path::is_dir) {
        return;
    }
    if let Err(e) = std::os::unix::fs::symlink("libvfun.so", at)
        && e.kind() != std::io::ErrorKind::AlreadyExists
    {
        println!("cargo::warning=no link {}: {e}", at.display());
    }
}
