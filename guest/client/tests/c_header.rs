//! `include/vfun.h` is what cbindgen makes of `src/capi`. After a change:
//! `VFUN_WRITE_HEADER=1 cargo test -p vfun --test client c_header`.

use std::path::Path;

#[test]
fn the_c_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in [
        "types", "status", "edge", "session", "function", "pending", "slot", "buffer", "port",
        "submit", "waiter",
    ] {
        builder = builder.with_src(root.join(format!("src/capi/{file}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = without_safety_sections(&String::from_utf8(made).unwrap());
    let path = root.join("include/vfun.h");
    if std::env::var_os("VFUN_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "include/vfun.h is not what src/capi says: run this test with VFUN_WRITE_HEADER=1"
    );
}

/// Rust's heading for what a caller must see to means nothing to C; the words below it stay.
fn without_safety_sections(header: &str) -> String {
    let lines = header.lines().map(|l| if l == "// # Safety" { "// Requires:" } else { l });
    let enums = ["VFUN_STATUS_", "VFUN_WAIT_POLICY_", "VFUN_PREFERENCE_", "VFUN_SUBMIT_CODE_"];
    let fixed = lines.map(|l| {
        let mut l = l.to_string();
        for (made, wanted) in
            ["vfun_status_", "vfun_wait_policy_", "vfun_preference_", "vfun_submit_code_"]
                .iter()
                .zip(enums)
        {
            l = l.replace(made, wanted);
        }
        l
    });
    fixed.collect::<Vec<_>>().join("\n") + "\n"
}
