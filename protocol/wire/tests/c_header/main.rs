//! `include/vfun_wire.h` says the same as the Rust structs: a C program made
//! from the table below prints every size, offset and number, and each must
//! be Rust's. The table in turn must hold everything that the sources declare.

mod compile;
mod ranges;
mod source;
mod table;

use std::collections::BTreeMap;
use std::fmt::Write;

/// The program's lines are `name value`; a name is a C expression.
fn program(expressions: &[String]) -> String {
    let mut c = String::from("#include <stdio.h>\n#include <stddef.h>\n#include \"vfun_wire.h\"\n");
    c.push_str(table::ROW_MACROS);
    c.push_str("int main(void) {\n\tat = 0;\n");
    for e in expressions {
        writeln!(c, "\tprintf(\"%s %llu\\n\", \"{e}\", (unsigned long long)({e}));").unwrap();
    }
    c.push_str("\treturn 0;\n}\n");
    c
}

#[test]
fn the_header_says_what_rust_says() {
    let expected = table::expectations();
    let expressions: Vec<String> = expected.iter().map(|(e, _)| e.clone()).collect();
    let printed = compile::run(&program(&expressions));
    let found: BTreeMap<&str, &str> =
        printed.lines().map(|l| l.rsplit_once(' ').expect("the program prints pairs")).collect();
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(e, v)| found.get(e.as_str()) != Some(&v.to_string().as_str()))
        .map(|(e, v)| format!("{e}: Rust has {v}, the header {:?}", found.get(e.as_str())))
        .collect();
    assert!(wrong.is_empty(), "vfun_wire.h differs from the Rust structs:\n{}", wrong.join("\n"));
    assert!(expected.len() > 450, "the table has shrunk to {}", expected.len());
}

/// A struct, constant or enum added in Rust must be added to the table, and
/// so to the header.
#[test]
fn the_table_holds_everything_the_sources_declare() {
    let declared = source::declared();
    assert!(declared.len() > 100, "the scan of src/ finds only {}", declared.len());
    let known = table::known();
    let missing: Vec<_> = declared.difference(&known).collect();
    assert!(missing.is_empty(), "declared in src/, not in tests/c_header/table.rs: {missing:?}");
    let stale: Vec<_> = known.difference(&declared).collect();
    assert!(stale.is_empty(), "in tests/c_header/table.rs, no longer in src/: {stale:?}");
}

/// Nothing stands in the header that is not compared.
#[test]
fn the_header_holds_nothing_else() {
    let compared = table::c_names();
    let stale: Vec<_> =
        source::header_names().into_iter().filter(|n| !compared.contains(n)).collect();
    assert!(stale.is_empty(), "in vfun_wire.h, but compared with nothing: {stale:?}");
}

#[test]
fn the_header_compiles_strictly_as_c_and_as_cpp() {
    let source =
        "#include \"vfun_wire.h\"\n#include \"vfun_wire.h\"\nint main(void) { return 0; }\n";
    for std in ["c99", "c11", "c17"] {
        compile::check("cc", &["-x", "c", &format!("-std={std}")], source);
    }
    for std in ["c++11", "c++17"] {
        compile::check("c++", &["-x", "c++", &format!("-std={std}")], source);
    }
}

/// The inline functions are compared by value, not only compiled.
#[test]
fn the_functions_agree() {
    use vfun_wire::channel::{Word0, Word1, line_off, side_bytes, spaces_off};
    use vfun_wire::control::{Posted, answer_off, request_off};
    use vfun_wire::version::FunctionVersion;
    let mut expected: Vec<(String, u64)> = Vec::new();
    let mut e = |c: String, rust: u64| expected.push((c, rust));
    for i in [0usize, 1, 15] {
        e(format!("vfun_request_off({i})"), request_off(i) as u64);
        e(format!("vfun_answer_off({i})"), answer_off(i) as u64);
        e(format!("vfun_line_off({i})"), line_off(i) as u64);
    }
    for depth in [0u16, 1, 2, 3, 64, 65, 128, 1024, 2048] {
        e(format!("vfun_spaces_off({depth})"), spaces_off(depth) as u64);
        for bytes in [0u32, 63, 64, 4096, 1 << 30, (1 << 30) + 64] {
            e(format!("vfun_side_bytes({depth}, {bytes})"), side_bytes(depth, bytes).unwrap_or(0));
        }
    }
    for w in [0u64, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
        let p = Posted::unpack(w);
        e(format!("vfun_posted_seq({w}u)"), p.seq.into());
        e(format!("vfun_posted_kind({w}u)"), p.kind.into());
        e(format!("vfun_posted_len({w}u)"), p.len.into());
        e(format!("vfun_posted({}u, {}, {})", p.seq, p.kind, p.len), p.pack());
        let Word0 { seq, op, flags, reserved } = Word0::unpack(w);
        e(format!("vfun_word0_seq({w}u)"), seq.into());
        e(format!("vfun_word0_op({w}u)"), op.into());
        e(format!("vfun_word0_flags({w}u)"), flags.into());
        e(format!("vfun_word0_reserved({w}u)"), reserved.into());
        e(
            format!("vfun_word0({seq}u, {op}, {flags})"),
            Word0 { seq, op, flags, reserved: 0 }.pack(),
        );
        let Word1 { len, status } = Word1::unpack(w);
        e(format!("vfun_word1_len({w}u)"), len.into());
        e(format!("vfun_word1_status({w}u)"), status.into());
        e(format!("vfun_word1({len}u, {status}u)"), Word1 { len, status }.pack());
    }
    ranges::cases(&mut e);
    e("VFUN_FUNCTION_VERSION(65535, 7)".into(), FunctionVersion::new(65535, 7).0.into());
    let expressions: Vec<String> = expected.iter().map(|x| x.0.clone()).collect();
    let printed = compile::run(&program(&expressions));
    for ((c, rust), line) in expected.iter().zip(printed.lines()) {
        assert_eq!(line, format!("{c} {rust}"));
    }
    let called: Vec<_> = source::header_functions()
        .into_iter()
        .filter(|f| !expressions.iter().any(|e| e.starts_with(&format!("{f}("))))
        .collect();
    assert!(called.is_empty(), "functions of vfun_wire.h that no test compares: {called:?}");
}
