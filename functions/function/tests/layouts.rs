//! What the macros lay out is what `vfun_signature` lays out by the text.
// Features of the crate that has a function; this one has none.
#![allow(unexpected_cfgs, dead_code)]

use vfun_function::{Value, vfunction};
use vfun_signature::{Signature, Type};

#[derive(Clone, Copy, Debug, PartialEq, Value)]
struct Inner {
    a: u8,
    b: u32,
    ok: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Value)]
struct Outer {
    tag: i16,
    inners: [Inner; 3],
    x: f64,
    r#type: u8,
}

#[vfunction(version = "2.7", name = "odd.one", summary = "a \"quoted\" \\ thing", deadline_ms = 5)]
fn odd(flag: bool, o: Outer, m: [[u16; 2]; 3], rest: &[Inner]) -> Result<Vec<Outer>, String> {
    match flag {
        true => Ok(vec![o; rest.len() + m.len()]),
        false => Err("no flag".into()),
    }
}

#[vfunction(version = "1.0")]
fn nothing(_n: u64) {}

#[test]
fn texts_are_those_of_a_manifest() {
    let s: Signature = odd::SIGNATURE.parse().unwrap();
    assert_eq!(s.to_string(), odd::SIGNATURE);
    assert_eq!(
        odd::SIGNATURE,
        "struct Inner { a: u8, b: u32, ok: bool } struct Outer { tag: i16, inners: [Inner; 3], x: f64, type: u8 } \
         (flag: bool, o: Outer, m: [[u16; 2]; 3], rest: [Inner]) -> [Outer]"
    );
    assert_eq!((odd::NAME, odd::VERSION), ("odd.one", (2, 7)));
    assert!(odd::MANIFEST.starts_with(
        "name = \"odd.one\"\nversion = \"2.7\"\nsummary = \"a \\\"quoted\\\" \\\\ thing\"\ndeadline_ms = 5\nsignature = \""
    ));
    assert_eq!(nothing::SIGNATURE, "(_n: u64) -> ()");
    let s: Signature = nothing::SIGNATURE.parse().unwrap();
    assert!(s.results.is_empty());
}

#[test]
fn structs_have_the_bytes_that_their_signature_says() {
    let s: Signature = odd::SIGNATURE.parse().unwrap();
    for (i, bytes, align) in [(0, Inner::BYTES, Inner::ALIGN), (1, Outer::BYTES, Outer::ALIGN)] {
        assert_eq!(s.bytes_of(&Type::Struct(i)), bytes as u64);
        assert_eq!(s.align_of(&Type::Struct(i)), align as u64);
    }
    let inner = |n: u8| Inner { a: n, b: u32::from(n) << 24, ok: n.is_multiple_of(2) };
    let o = Outer { tag: -1, inners: [inner(1), inner(2), inner(3)], x: 0.5, r#type: 9 };
    let mut bytes = vec![0; Outer::BYTES];
    o.put(&mut bytes);
    assert_eq!(Outer::get(&bytes), Ok(o));
    // Each member is where the signature puts it.
    let at = |m: usize| s.structs[1].members[m].offset as usize;
    assert_eq!(bytes[at(0)..][..2], (-1i16).to_le_bytes());
    assert_eq!(bytes[at(1) + 12 + 4..][..4], (2u32 << 24).to_le_bytes());
    assert_eq!(bytes[at(2)..][..8], 0.5f64.to_le_bytes());
    assert_eq!(bytes[at(3)], 9);
    // A byte that is no bool is no value.
    bytes[at(1) + 8] = 2;
    assert!(Outer::get(&bytes).is_err());
}

#[test]
fn it_stays_an_ordinary_function() {
    let o = Outer { tag: 0, inners: [Inner { a: 0, b: 0, ok: false }; 3], x: 0., r#type: 0 };
    assert_eq!(odd(true, o, [[0; 2]; 3], &[]).unwrap().len(), 3);
    assert!(odd(false, o, [[0; 2]; 3], &[]).is_err());
    nothing(1);
}
