//! Gives the library the name for the linker at run time that the library on the host has, so
//! that a program finds the one or the other.

/// As in services/gdma/build.rs.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-Wl,-soname,libgdma.so.{ABI}");
    // libvfun's functions are in here as well: ours call these, whatever else the program loads.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
