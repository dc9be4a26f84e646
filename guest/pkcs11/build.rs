//! Gives the library a name for the linker at run time, for programs that are linked with it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-Wl,-soname,libvfun_pkcs11.so");
    // Its threads go on when a program unloads it, and forks ask it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A program may load several modules with the same symbols: ours call ours.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
