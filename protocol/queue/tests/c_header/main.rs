//! `include/vfun_queue.h` says and does the same as the Rust code: constants by
//! value; ends by a model test, in which the same operations meet a window with
//! two Rust ends and one where C has one of them, and all bytes must be equal.
#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../wire/tests/c_header/compile.rs"]
mod compile;
mod pair;

use pair::{CSide, Op};
use proptest::prelude::*;
use std::collections::BTreeSet;
use vfun_queue::layout::*;
use vfun_queue::limits::*;
use vfun_queue::{Reason, Shape};

/// Every constant of the header, and what it is in Rust.
fn constants() -> Vec<(&'static str, u64)> {
    vec![
        ("VFUN_QUEUE_STAMP_BYTES", STAMP_BYTES as u64),
        ("VFUN_QUEUE_ENTRIES_OFF", ENTRIES_OFF as u64),
        ("VFUN_QUEUE_CONSUMER_BYTES", CONSUMER_BYTES),
        ("VFUN_QUEUE_SLEEPS", header::SLEEPS as u64),
        ("VFUN_QUEUE_BROKEN", header::BROKEN as u64),
        ("VFUN_QUEUE_POSITION", header::POSITION as u64),
        ("VFUN_QUEUE_ENTRY_BYTES_MIN", ENTRY_BYTES_MIN.into()),
        ("VFUN_QUEUE_ENTRY_BYTES_MAX", ENTRY_BYTES_MAX.into()),
        ("VFUN_QUEUE_DEPTH_MIN", DEPTH_MIN.into()),
        ("VFUN_QUEUE_DEPTH_MAX", DEPTH_MAX.into()),
        ("VFUN_QUEUE_REASON_BAD_STAMP", Reason::BadStamp.to_wire()),
        ("VFUN_QUEUE_REASON_BAD_COUNT", Reason::BadCount.to_wire()),
        ("VFUN_QUEUE_REASON_CLOSED", Reason::Closed.to_wire()),
    ]
}

#[test]
fn the_header_says_what_rust_says() {
    let mut expected: Vec<(String, u64)> =
        constants().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for position in [0, 1, u64::from(u32::MAX) - 1, u64::from(u32::MAX), u64::MAX] {
        expected.push((format!("vfun_queue_stamp({position}u)"), stamp(position).into()));
    }
    for bytes in [0u32, 8, 16, 24, 32, 64, 128, 256] {
        for depth in [0u32, 1, 2, 3, 64, 65, 1 << 16, 1 << 17] {
            let rust = Shape::new(bytes, depth).map_or(0, |s| s.producer_bytes());
            expected.push((format!("vfun_queue_producer_bytes({bytes}u, {depth}u)"), rust));
        }
    }
    let prints: String = expected
        .iter()
        .map(|(c, _)| format!("\tprintf(\"%llu\\n\", (unsigned long long)({c}));\n"))
        .collect();
    let source = format!(
        "#include <stdio.h>\n#include \"vfun_queue.h\"\nint main(void) {{\n{prints}\treturn 0;\n}}\n"
    );
    let printed = compile::run(&source);
    for ((c, rust), line) in expected.iter().zip(printed.lines()) {
        assert_eq!(line, rust.to_string(), "{c}");
    }
}

#[test]
fn every_constant_of_the_header_is_compared() {
    let text = std::fs::read_to_string(compile::include().join("vfun_queue.h")).unwrap();
    let constant = |line: &str| {
        let line = line.trim();
        let name = line.strip_prefix("#define ").unwrap_or(line);
        let name = name.split([' ', '(']).next().unwrap().to_owned();
        let value = line.rsplit([' ', '=']).next().unwrap().trim_end_matches(',');
        (name.starts_with("VFUN_QUEUE_") && value.parse::<u64>().is_ok()).then_some(name)
    };
    let found: BTreeSet<String> = text.lines().filter_map(constant).collect();
    let compared: BTreeSet<String> = constants().into_iter().map(|(n, _)| n.to_owned()).collect();
    assert_eq!(found, compared);
}

const TWICE: &str =
    "#include \"vfun_queue.h\"\n#include \"vfun_queue.h\"\nint main(void) { return 0; }\n";

#[test]
fn the_header_compiles_strictly_as_c_and_as_cpp() {
    for std in ["c99", "c11", "c17"] {
        compile::check("cc", &["-x", "c", &format!("-std={std}")], TWICE);
    }
    for std in ["c++11", "c++17"] {
        compile::check("c++", &["-x", "c++", &format!("-std={std}")], TWICE);
    }
}

/// Every function, made into one that is called from outside.
const CALLS: &str = "#include \"vfun_queue.h\"
int produce(struct vfun_queue_producer *p, const void *e, uint32_t n);
int produce(struct vfun_queue_producer *p, const void *e, uint32_t n)
{ return vfun_queue_produce(p, e, n) + vfun_queue_must_ring(&p->end); }
int consume(struct vfun_queue_consumer *c, void *e, uint32_t n);
int consume(struct vfun_queue_consumer *c, void *e, uint32_t n)
{ vfun_queue_declare_sleep(&c->end); return vfun_queue_consume(c, e, n) + vfun_queue_is_there(c); }
int init(struct vfun_queue_producer *p, struct vfun_queue_consumer *c, void *x, void *y);
int init(struct vfun_queue_producer *p, struct vfun_queue_consumer *c, void *x, void *y)
{ return vfun_queue_producer_init(p, x, 8192, y, 4096, 64, 8)
  + vfun_queue_consumer_init(c, y, 4096, x, 8192, 64, 8); }
";

/// Names that an object takes from elsewhere.
fn undefined(flags: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let object = dir.path().join("object.o");
    compile::compile("cc", flags, CALLS, &object);
    let out = std::process::Command::new("nm").arg("-u").arg(&object).output().unwrap();
    assert!(out.status.success());
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

#[test]
fn nothing_of_a_library_is_called() {
    assert_eq!(undefined(&["-x", "c", "-std=c99", "-O2", "-ffreestanding", "-c"]), "");
}

/// As the kernel compiles it, with that one's names for what it brings.
#[test]
fn the_header_compiles_as_the_kernel_does() {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("linux/types.h", "#include <stdint.h>\n"),
        (
            "linux/compiler.h",
            "#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
",
        ),
        (
            "asm/barrier.h",
            // The kernel's own macros write `*p` without parentheses.
            "#define virt_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define virt_load_acquire(p) __atomic_load_n(&(*p), __ATOMIC_ACQUIRE)
#define virt_store_release(p, v) __atomic_store_n(&(*p), v, __ATOMIC_RELEASE)
",
        ),
    ] {
        let at = dir.path().join(file);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, text).unwrap();
    }
    let include = format!("-I{}", dir.path().display());
    let flags = ["-x", "c", "-std=gnu11", "-O2", "-ffreestanding", "-D__KERNEL__", &include, "-c"];
    assert_eq!(undefined(&flags), "");
}

fn op() -> impl Strategy<Value = Op> {
    let value = prop_oneof![4 => 0u64..40, 1 => any::<u64>()];
    let index = prop_oneof![3 => 0u32..10, 4 => 512u32..600];
    prop_oneof![
        10 => (0u32..20, any::<u64>()).prop_map(|(count, seed)| Op::Produce { count, seed }),
        10 => (0u32..20).prop_map(|most| Op::Consume { most }),
        2 => (0u32..20).prop_map(|wanted| Op::Room { wanted }),
        2 => Just(Op::Ready),
        2 => any::<bool>().prop_map(|producer| Op::Sleep { producer }),
        1 => any::<bool>().prop_map(|producer| Op::Close { producer }),
        1 => any::<bool>().prop_map(|producer| Op::TakeUp { producer }),
        1 => (0u32..4, 0u32..4).prop_map(|(unnoted, torn)| Op::Killed { unnoted, torn }),
        1 => (any::<bool>(), index, value)
            .prop_map(|(producer, index, value)| Op::Poke { producer, index, value }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn c_and_rust_leave_the_same_bytes(
        bytes in 4u32..8, depth in 1u32..5, producer: bool,
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let in_c = if producer { CSide::Producer } else { CSide::Consumer };
        match bytes {
            4 => pair::run::<16>(1 << depth, in_c, &ops),
            5 => pair::run::<32>(1 << depth, in_c, &ops),
            6 => pair::run::<64>(1 << depth, in_c, &ops),
            _ => pair::run::<128>(1 << depth, in_c, &ops),
        }
    }
}

#[test]
fn a_side_that_is_too_short_is_refused_and_not_touched() {
    pair::short_sides();
}
