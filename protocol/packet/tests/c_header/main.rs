//! `include/vfun_packet.h` says and does the same as the Rust code: constants by value;
//! ends by a model test, in which the same operations, honest and hostile, meet two Rust
//! ends and two C ends. What each operation says and all bytes at the end must be equal.
#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../wire/tests/c_header/compile.rs"]
mod compile;
mod links;
#[path = "../common/raced.rs"]
mod raced;
#[path = "../common/strategy.rs"]
mod strategy;

use common::{Op, Pair};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use strategy::op;
use vfun_packet::Ring;
use vfun_packet::layout::*;
use vfun_packet::limits::*;

fn constants() -> Vec<(&'static str, u64)> {
    vec![
        ("VFUN_PACKET_RING_OFF", RING_OFF as u64),
        ("VFUN_PACKET_HEAD", header::HEAD as u64),
        ("VFUN_PACKET_SENT", header::SENT as u64),
        ("VFUN_PACKET_SENT_BYTES", header::SENT_BYTES as u64),
        ("VFUN_PACKET_FULL", header::FULL as u64),
        ("VFUN_PACKET_LONG", header::LONG as u64),
        ("VFUN_PACKET_TAIL", header::TAIL as u64),
        ("VFUN_PACKET_TAKEN", header::TAKEN as u64),
        ("VFUN_PACKET_TAKEN_BYTES", header::TAKEN_BYTES as u64),
        ("VFUN_PACKET_REFUSED", header::REFUSED as u64),
        ("VFUN_PACKET_BAD", header::BAD as u64),
        ("VFUN_PACKET_STATE", header::STATE as u64),
        ("VFUN_PACKET_FRAME", header::FRAME as u64),
        ("VFUN_PACKET_WAKE", header::WAKE as u64),
        ("VFUN_PACKET_DOWN", DOWN),
        ("VFUN_PACKET_UP", UP),
        ("VFUN_PACKET_ALIGN", ALIGN),
        ("VFUN_PACKET_RECORD_HEAD", RECORD_HEAD),
        ("VFUN_PACKET_KIND_SKIP", KIND_SKIP),
        ("VFUN_PACKET_KIND_FRAME", KIND_FRAME),
        ("VFUN_PACKET_KIND_SWITCH", KIND_SWITCH),
        ("VFUN_PACKET_KIND_RETURN", KIND_RETURN),
        ("VFUN_PACKET_KIND_END", KIND_END),
        ("VFUN_PACKET_KIND_BEGIN", KIND_BEGIN),
        ("VFUN_PACKET_CONTROL_BYTES", CONTROL_BYTES),
        ("VFUN_PACKET_AHEAD", AHEAD),
        ("VFUN_PACKET_RING_MIN", RING_MIN),
        ("VFUN_PACKET_RING_MAX", RING_MAX),
        ("VFUN_PACKET_FRAME_MAX", FRAME_MAX.into()),
        ("VFUN_LINKED_KNOWS", header::KNOWS as u64),
        ("VFUN_LINKED_OUT", header::OUT as u64),
        ("VFUN_LINKED_ACK", header::ACK as u64),
        ("VFUN_LINKED_HAS_OUT", header::HAS_OUT as u64),
        ("VFUN_LINKED_MAKING", header::MAKING as u64),
        ("VFUN_LINKED_IN", header::IN as u64),
        ("VFUN_LINKED_OPEN", header::OPEN as u64),
        ("VFUN_LINKED_HAS_IN", header::HAS_IN as u64),
        ("VFUN_LINKED_STARTS", header::STARTS as u64),
        ("VFUN_LINKED_LINK_OUT", header::LINK_OUT as u64),
        ("VFUN_LINKED_TURN", header::TURN as u64),
        ("VFUN_LINKED_LINK_IN", header::LINK_IN as u64),
        ("VFUN_LINKED_OUT_PLACE", header::OUT_PLACE as u64),
        ("VFUN_LINKED_OUT_BELL", header::OUT_BELL as u64),
        ("VFUN_LINKED_IN_PLACE", header::IN_PLACE as u64),
        ("VFUN_LINKED_FENCED_LINK", header::FENCED_LINK as u64),
        ("VFUN_LINKED_FENCED", header::FENCED as u64),
        ("VFUN_LINKED_STAMP", line::STAMP as u64),
        ("VFUN_LINKED_LAST", line::LAST as u64),
        ("VFUN_LINKED_ROUND", line::ROUND as u64),
        ("VFUN_LINKED_STAMP_BITS", STAMP_BITS.into()),
        ("VFUN_LINKED_PASSED", line::PASSED as u64),
        ("VFUN_LINKED_WORDS", line::WORDS as u64),
        ("VFUN_LINKED_SWITCH_KEEPS_MS", SWITCH_KEEPS_MS),
        ("VFUN_LINKED_OVERTAKES", OVERTAKES),
        ("VFUN_CLAIMS_STARTS", LINK_STARTS),
        ("VFUN_PACKET_TAKES", header::TAKES as u64),
        ("VFUN_PACKET_TAKES_SUM", takes::SUM),
        ("VFUN_PACKET_TAKES_TCP4", takes::TCP4),
        ("VFUN_PACKET_TAKES_TCP6", takes::TCP6),
        ("VFUN_PACKET_KIND_NOTED", KIND_NOTED),
        ("VFUN_PACKET_NOTE_BYTES", NOTE_BYTES.into()),
        ("VFUN_PACKET_NOTED_RING_MIN", NOTED_RING_MIN),
        // Bits of an answer, which in Rust is a struct.
        ("VFUN_LINKED_RING_PORT", 1),
        ("VFUN_LINKED_RING_LINK", 2),
    ]
}

const HEADERS: [&str; 3] = ["vfun_packet.h", "vfun_link_ring.h", "vfun_link_ledger.h"];

#[test]
fn the_header_says_what_rust_says() {
    let mut expected: Vec<(String, u64)> =
        constants().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for bytes in [0u64, 4095, 4096, 5000, 65536, RING_MAX, RING_MAX * 2] {
        let ring = Ring::new(bytes);
        expected.push((format!("vfun_packet_ring_ok({bytes}u)"), ring.is_ok().into()));
        if let Ok(ring) = ring {
            expected.push((format!("vfun_packet_longest({bytes}u)"), ring.longest().into()));
        }
    }
    for bytes in [1u32, 56, 57, 120, 1500, FRAME_MAX] {
        expected.push((format!("vfun_packet_record({bytes}u)"), record(bytes)));
    }
    let prints: String = expected
        .iter()
        .map(|(c, _)| format!("\tprintf(\"%llu\\n\", (unsigned long long)({c}));\n"))
        .collect();
    let printed = compile::run(&format!(
        "#include <stdio.h>\n#include \"vfun_link_ledger.h\"\nint main(void) {{\n{prints}\treturn 0;\n}}\n"
    ));
    for ((c, rust), line) in expected.iter().zip(printed.lines()) {
        assert_eq!(line, rust.to_string(), "{c}");
    }
}

#[test]
fn every_constant_of_the_headers_is_compared() {
    let read = |name| std::fs::read_to_string(compile::include().join(name)).unwrap();
    let text = HEADERS.map(read).concat();
    let constant = |line: &str| {
        let name = line.strip_prefix("#define ")?.split([' ', '(']).next()?;
        let value = line.split_whitespace().nth(2)?;
        let is_number = value.parse::<u64>().is_ok();
        let is_ours =
            ["VFUN_PACKET_", "VFUN_LINKED_", "VFUN_CLAIMS_"].iter().any(|p| name.starts_with(p));
        (is_ours && is_number).then(|| name.to_owned())
    };
    let found: BTreeSet<String> = text.lines().filter_map(constant).collect();
    let compared: BTreeSet<String> = constants().into_iter().map(|(n, _)| n.to_owned()).collect();
    assert_eq!(found, compared);
}

#[test]
fn the_headers_compile_strictly_as_c_and_as_cpp() {
    for header in HEADERS {
        let include = format!("#include \"{header}\"\n");
        let twice = format!("{include}{include}int main(void) {{ return 0; }}\n");
        for std in ["c99", "c11", "c17"] {
            compile::check("cc", &["-x", "c", &format!("-std={std}")], &twice);
        }
        for std in ["c++11", "c++17"] {
            compile::check("c++", &["-x", "c++", &format!("-std={std}")], &twice);
        }
    }
}

/// What the C ends say to each operation, and their memory at the end.
fn in_c(exe: &std::path::Path, ops: &[Op]) -> (Vec<String>, Vec<u8>) {
    let mut child = Command::new(exe).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let text: String = ops.iter().map(Op::line).collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let mut out = child.wait_with_output().unwrap().stdout;
    let memory = out.split_off(out.len() - common::BYTES);
    (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), memory)
}

#[test]
fn c_does_what_rust_does() {
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("peer");
    // posix_memalign is the test's, not the header's.
    let flags = ["-x", "c", "-std=c11", "-O2", "-D_POSIX_C_SOURCE=200809L"];
    compile::compile("cc", &flags, include_str!("peer.c"), &exe);
    proptest!(ProptestConfig::with_cases(96), |(ops in prop::collection::vec(op(), 1..200))| {
        let mut pair = Pair::new();
        let said: Vec<String> = ops.iter().map(|op| pair.step(*op)).collect();
        let (c_said, memory) = in_c(&exe, &ops);
        prop_assert_eq!(said, c_said);
        prop_assert!(pair.memory() == memory, "the memory differs");
    });
}
