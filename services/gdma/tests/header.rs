//! `include/gdma.h` says what Rust says.

use crate::compile;
use gdma::edge::capi::{GDMA_VERSION, gdma_info, gdma_progress};
use gdma::{BUSY, GdmaError, OK};
use std::mem::{offset_of, size_of};

#[test]
fn the_header_says_what_rust_says() {
    let expected = [
        ("GDMA_VERSION", i64::from(GDMA_VERSION)),
        ("GDMA_OK", OK.into()),
        ("GDMA_BUSY", BUSY.into()),
        ("GDMA_ERR_ARGUMENT", GdmaError::Argument.code().into()),
        ("GDMA_ERR_MEMORY", GdmaError::Memory.code().into()),
        ("GDMA_ERR_LIMIT", GdmaError::Limit.code().into()),
        ("GDMA_ERR_NODE", GdmaError::Node.code().into()),
        ("GDMA_ERR_RANGE", GdmaError::Range.code().into()),
        ("GDMA_ERR_DEVICE", GdmaError::Device.code().into()),
        ("GDMA_ERR_LOST", GdmaError::Lost.code().into()),
        ("GDMA_ERR_UNSUPPORTED", GdmaError::Unsupported.code().into()),
        ("sizeof(gdma_id)", 4),
        ("sizeof(struct gdma_info)", size_of::<gdma_info>() as i64),
        ("offsetof(struct gdma_info, version)", offset_of!(gdma_info, version) as i64),
        ("offsetof(struct gdma_info, nodes)", offset_of!(gdma_info, nodes) as i64),
        ("offsetof(struct gdma_info, local)", offset_of!(gdma_info, local) as i64),
        ("offsetof(struct gdma_info, simulated)", offset_of!(gdma_info, simulated) as i64),
        ("offsetof(struct gdma_info, alignment)", offset_of!(gdma_info, alignment) as i64),
        ("offsetof(struct gdma_info, buffers)", offset_of!(gdma_info, buffers) as i64),
        ("offsetof(struct gdma_info, transfers)", offset_of!(gdma_info, transfers) as i64),
        ("offsetof(struct gdma_info, reserved)", offset_of!(gdma_info, reserved) as i64),
        ("offsetof(struct gdma_info, pool_bytes)", offset_of!(gdma_info, pool_bytes) as i64),
        ("offsetof(struct gdma_info, longest)", offset_of!(gdma_info, longest) as i64),
        ("sizeof(struct gdma_progress)", size_of::<gdma_progress>() as i64),
        ("offsetof(struct gdma_progress, status)", offset_of!(gdma_progress, status) as i64),
        ("offsetof(struct gdma_progress, moved)", offset_of!(gdma_progress, moved) as i64),
        ("offsetof(struct gdma_progress, cycles)", offset_of!(gdma_progress, cycles) as i64),
    ];
    let prints: String = expected
        .iter()
        .map(|(c, _)| format!("\tprintf(\"%lld\\n\", (long long)({c}));\n"))
        .collect();
    let printed = compile::run(&format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"gdma.h\"\nint main(void) {{\n{prints}\treturn 0;\n}}\n"
    ));
    assert_eq!(printed.lines().count(), expected.len());
    for ((c, rust), line) in expected.iter().zip(printed.lines()) {
        assert_eq!(line, rust.to_string(), "{c}");
    }
}

#[test]
fn it_can_be_included_twice_and_by_cpp() {
    let twice = "#include \"gdma.h\"\n#include \"gdma.h\"\nint main() { return GDMA_OK; }\n";
    compile::check("c++", &["-x", "c++", "-std=c++17"], twice);
}
