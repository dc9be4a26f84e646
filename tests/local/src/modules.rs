//! WebAssembly modules for tests, compiled from C.

use crate::repo;
use std::collections::BTreeMap;
use std::process::Command;

/// A module in C: its name, its version's minor number, what stands before the
/// function, and the function's body.
pub fn source(name: &str, minor: u16, before: &str, body: &str) -> String {
    format!(
        "#include \"vfun_driver.h\"\n\
         const struct vfun_driver_info vfun_driver_info = {{ .abi = VFUN_DRIVER_ABI, \
         .name = \"{name}\", .version_major = 1, .version_minor = {minor}, .max_args = 64, .max_result = 64 }};\n\
         {before}\n\
         int vfun_driver_function(void *state, struct vfun_call *call)\n{{ (void)state; (void)call; {body}\n\
         return VFUN_DRIVER_OK; }}\n"
    )
}

/// The u64 in the arguments, times so much, is the result.
pub fn times(n: u64) -> String {
    format!(
        "uint64_t x = 0; __builtin_memcpy(&x, call->args, call->args_len < 8 ? call->args_len : 8); \
         x *= {n}; __builtin_memcpy(call->out, &x, 8); call->out_len = 8;"
    )
}

/// Modules by name, of their sources.
pub fn compiled(sources: &[(&str, String)]) -> BTreeMap<String, Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let files: Vec<_> = sources
        .iter()
        .map(|(file, text)| {
            let path = dir.path().join(format!("{file}.c"));
            std::fs::write(&path, text).expect("the folder is ours");
            path
        })
        .collect();
    let out = Command::new(repo().join("services/wasm/modules/build.sh"))
        .arg(dir.path())
        .args(&files)
        .output()
        .expect("the script runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |file: &str| std::fs::read(dir.path().join(format!("{file}.wasm")));
    sources.iter().map(|(file, _)| ((*file).to_owned(), read(file).expect("made"))).collect()
}
