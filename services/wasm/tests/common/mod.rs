//! Modules written down in text.

use std::process::Command;

/// The bytes of a module in text form, by Debian's `wabt`: a crate that does
/// this changes what wasmtime is built with, and so builds it twice.
pub fn assembled(text: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (source, module) = (dir.path().join("m.wat"), dir.path().join("m.wasm"));
    std::fs::write(&source, text).expect("it can be written");
    let out = Command::new("wat2wasm")
        .args(["--enable-all", "--no-check", "-o"])
        .args([&module, &source])
        .output()
        .expect("wat2wasm is in Debian's package wabt: packaging/setup.sh installs it");
    assert!(out.status.success(), "{}\n{text}", String::from_utf8_lossy(&out.stderr));
    std::fs::read(module).expect("wat2wasm has written it")
}

/// `vfun_driver_info` as text of a data segment.
pub fn info(name: &str, max_args: u32, max_result: u32) -> String {
    let mut b = vec![];
    b.extend(1u32.to_le_bytes());
    b.extend(0u32.to_le_bytes());
    b.extend(name.bytes().chain(std::iter::repeat(0)).take(64));
    b.extend(1u16.to_le_bytes());
    b.extend(0u16.to_le_bytes());
    b.extend(max_args.to_le_bytes());
    b.extend(max_result.to_le_bytes());
    b.extend([0; 12]);
    b.iter().map(|b| format!("\\{b:02x}")).collect()
}
