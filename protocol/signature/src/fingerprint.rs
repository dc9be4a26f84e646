//! A 64-bit fingerprint of what must agree between a caller and a function.
//!
//! In it: the types of arguments and results, their order, and the lengths of
//! fixed arrays. Not in it: names, defaults, the bounds of variable arrays,
//! and whether a result has a name. It guards against mistakes, not against
//! people who look for collisions: those only deceive themselves.

use crate::types::{Struct, Type};
use crate::{Record, Signature};
use std::fmt::Write;

/// FNV-1a of the text's bytes, 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A struct stands as the hash of its members: written out, structs of
/// structs would double with every level.
fn push(out: &mut String, ty: &Type, structs: &[u64]) {
    match ty {
        Type::Scalar(s) => out.push_str(s.name()),
        Type::Struct(i) => {
            let _ = write!(out, "{{{:016x}}}", structs[*i]);
        }
        Type::Array(of, n) => {
            out.push('[');
            push(out, of, structs);
            let _ = write!(out, ";{n}]");
        }
    }
}

fn record(out: &mut String, r: &Record, structs: &[u64]) {
    for f in &r.fields {
        push(out, &f.ty, structs);
        out.push(',');
    }
    if let Some(t) = &r.tail {
        out.push('[');
        push(out, &t.element, structs);
        out.push(']');
    }
}

fn of_structs(structs: &[Struct]) -> Vec<u64> {
    let mut hashes = vec![];
    for s in structs {
        let mut text = String::new();
        for m in &s.members {
            push(&mut text, &m.ty, &hashes);
            text.push(',');
        }
        hashes.push(hash(&text));
    }
    hashes
}

impl Signature {
    /// The fingerprint; never 0, which on the wire means *unchecked*.
    pub fn fingerprint(&self) -> u64 {
        let structs = of_structs(&self.structs);
        let mut text = String::from("1(");
        record(&mut text, &self.args, &structs);
        text.push_str(")->(");
        record(&mut text, &self.results, &structs);
        text.push(')');
        hash(&text).max(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::Signature;

    fn of(text: &str) -> u64 {
        text.parse::<Signature>().unwrap().fingerprint()
    }

    #[test]
    fn names_defaults_and_bounds_are_not_in_it() {
        let a = of("(n: u64, repetitions: u64 = 1) -> u64");
        assert_eq!(a, of("(x: u64, y: u64) -> u64"));
        assert_eq!(a, of("(x: u64, y: u64) -> (z: u64)"));
        assert_eq!(of("(d: [f64])->f64"), of("(e: [f64; 1..=9])->f64"));
        assert_eq!(
            of("struct p { x: f64, y: f64 } (a: p) -> ()"),
            of("struct q { b: f64, c: f64 } (d: q) -> ()")
        );
    }

    #[test]
    fn types_order_and_fixed_lengths_are() {
        let texts = [
            "(n: u64) -> u64",
            "(n: i64) -> u64",
            "(n: u64) -> i64",
            "(n: u64, m: u64) -> u64",
            "(n: u32, m: u64) -> u64",
            "(m: u64, n: u32) -> u64",
            "(n: [u64; 1]) -> u64",
            "(n: [u64; 2]) -> u64",
            "(n: [u64]) -> u64",
            "() -> u64",
            "(n: u64) -> ()",
            "struct s { x: u64 } (n: s) -> u64",
            "struct s { x: u8, y: u64 } (n: s) -> u64",
        ];
        for (i, a) in texts.iter().enumerate() {
            for b in &texts[i + 1..] {
                assert_ne!(of(a), of(b), "{a} and {b}");
            }
        }
    }

    /// Callers have them built in: they never change.
    #[test]
    fn fingerprints_are_for_ever() {
        assert_eq!(of("(n: u64, repetitions: u64 = 1) -> u64"), PAIR);
    }
    const PAIR: u64 = 11841142547413121154;
}
