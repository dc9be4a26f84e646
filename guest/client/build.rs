//! Gives libvfun.so its name for the linker at run time, `libvfun.so.ABI`, so that a
//! program never loads a library with another ABI. A link of that name lies beside
//! the library, for programs that are linked with it before it is installed.

use std::path::{Path, PathBuf};

/// Not the version: raised when a program that was linked with the library before would
/// not run with it any more, because a function of vfun.h is gone, or it or a struct of
/// it has another shape or meaning. The package libvfun0 has this number in its name.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let soname = format!("libvfun.so.{ABI}");
    // Not `rustc-cdylib-link-arg`: cargo passes that on to each cdylib that stands on this crate.
    println!("cargo::rustc-link-arg=-Wl,-soname,{soname}");
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
