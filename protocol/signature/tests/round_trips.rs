//! Text, layout and values, there and back.

use proptest::prelude::*;
use vfun_signature::*;

fn parse(text: &str) -> Signature {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn layout_is_cs() {
    let s = parse(
        "struct point { x: f64, tag: u8 } struct pair { a: [point; 2], n: u16 } (k: u8, p: pair, data: [u32; 1..=7]) -> (ok: bool, at: point)",
    );
    assert_eq!((s.structs[0].bytes, s.structs[0].align), (16, 8));
    assert_eq!((s.structs[1].bytes, s.structs[1].members[1].offset), (40, 32));
    assert_eq!((s.args.fields[1].offset, s.args.tail.as_ref().unwrap().offset), (8, 48));
    assert_eq!((s.args.min_bytes(), s.args.max_bytes(), s.args.step()), (52, 76, 4));
    assert_eq!((s.results.fixed_bytes, s.results.fields[1].offset), (24, 8));
    assert_eq!(s.args.check(56), Ok(2));
    for wrong in [0, 51, 54, 80] {
        assert!(s.args.check(wrong).is_err(), "{wrong}");
    }
    // A tail begins right after the fixed part: no padding of the whole.
    assert_eq!(parse("(a: u64, b: u8, data: [u8]) -> ()").args.min_bytes(), 9);
    assert_eq!(parse("(kind: u8, data: [f64]) -> f64").args.min_bytes(), 8);
}

#[test]
fn one_text_form() {
    for (loose, strict) in [
        ("(n:u64)->u64", "(n: u64) -> u64"),
        (" ( ) -> ( ) ", "() -> ()"),
        ("(d:[u8;0..])\n->[u8;32]", "(d: [u8]) -> [u8; 32]"),
        ("(d:[u8;2..=3])->[ u8 ]", "(d: [u8; 2..=3]) -> [u8]"),
        (
            "(x:f64=1,y:f32=1.5,b:bool=true,i:i8=-0x10)->()",
            "(x: f64 = 1.0, y: f32 = 1.5, b: bool = true, i: i8 = -16) -> ()",
        ),
        ("struct p{x:u8}(a:[p;3])->p", "struct p { x: u8 } (a: [p; 3]) -> p"),
    ] {
        assert_eq!(parse(loose).to_string(), strict);
        assert_eq!(parse(strict).to_string(), strict);
    }
}

/// A name in front of the text would stand before the first struct's.
#[test]
fn a_function_is_shown_with_its_structs_behind_it() {
    let s = parse("struct p { x: f64 } struct q { at: p, n: u8 } (a: p, all: [q; 1..]) -> (b: q)");
    assert_eq!(
        s.of_function("near").to_string(),
        "near(a: p, all: [q; 1..]) -> (b: q); struct p { x: f64 }; struct q { at: p, n: u8 }"
    );
    let s = parse("(n: u64, repetitions: u64 = 1) -> u64");
    assert_eq!(s.of_function("f").to_string(), "f(n: u64, repetitions: u64 = 1) -> u64");
}

#[test]
fn wrong_texts_say_where_and_what() {
    for (text, at, expect) in [
        ("", 0, "'(' is missing"),
        ("(n u64) -> u64", 3, "':' is expected"),
        ("(n: u63) -> u64", 4, "'u63' is no type"),
        ("(n: u64, n: u8) -> u64", 9, "two of the name 'n'"),
        ("(u8: u8) -> ()", 1, "is a type and cannot"),
        ("(d: [u8], n: u8) -> ()", 10, "nothing can come after"),
        ("(d: [[u8]; 3]) -> ()", 5, "only be the last"),
        ("(d: [u8; 0]) -> ()", 9, "at least one"),
        ("(d: [u8; 5..=4]) -> ()", 9, "fewer than the least"),
        ("(n: u8 = 256) -> ()", 9, "from 0 to 255"),
        ("(n: u8 = 1, m: u8) -> ()", 12, "'m' needs a default"),
        ("(n: u8 = 1, m: [u8]) -> ()", 12, "before a variable array"),
        ("() -> (n: u8 = 1)", 13, "a result has no default"),
        ("(n: [u8; 2] = 1) -> ()", 12, "only a scalar"),
        ("() -> u8 x", 9, "nothing is expected"),
        ("() u8", 3, "'->' is expected"),
        ("(d: [u64; 999999999]) -> ()", 0, "more than any cell"),
        ("struct a { x: b } () -> ()", 14, "'b' is no type"),
        ("struct a { } () -> ()", 11, "the name of a member"),
        ("(d: [[[[[[[[[u8; 1]; 1]; 1]; 1]; 1]; 1]; 1]; 1]; 1]) -> ()", 12, "nest at most"),
    ] {
        let e = text.parse::<Signature>().unwrap_err();
        assert!(e.at == at && e.reason.contains(expect), "{text}: {e} (at {})", e.at);
    }
    let long =
        format!("({}) -> ()", (0..400).map(|i| format!("a{i}: u8")).collect::<Vec<_>>().join(", "));
    assert!(long.parse::<Signature>().unwrap_err().reason.contains("at most 2048"));
}

/// Structs of structs of structs: neither time nor memory doubles with them.
#[test]
fn structs_that_double_end_at_the_limit() {
    let mut text = "struct s0 { a: u8 } ".to_owned();
    for i in 1..40 {
        text += &format!("struct s{i} {{ a: s{}, b: s{} }} ", i - 1, i - 1);
    }
    let e = (text.clone() + "() -> ()").parse::<Signature>().unwrap_err();
    assert!(e.reason.contains("s31 is larger"), "{e}");
    let part = text.split("struct s28").next().unwrap();
    let s = parse(&format!("{part}(a: s27) -> ()"));
    assert_eq!(s.args.fixed_bytes, 1 << 27);
    assert_ne!(s.fingerprint(), 0);
}

fn scalar() -> impl Strategy<Value = Scalar> {
    proptest::sample::select(&Scalar::ALL[..])
}

fn type_text(structs: usize) -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => scalar().prop_map(|s| s.name().to_owned()),
        1 => (0..structs.max(1)).prop_map(move |i| if structs == 0 { "u16".into() } else { format!("s{i}") }),
    ];
    leaf.prop_recursive(3, 6, 1, |of| (of, 1u64..5).prop_map(|(of, n)| format!("[{of}; {n}]")))
}

fn fields(structs: usize, name: &'static str) -> impl Strategy<Value = Vec<String>> {
    let tail = prop_oneof![
        type_text(structs).prop_map(|t| format!("[{t}]")),
        (type_text(structs), 0u64..4, 1u64..4)
            .prop_map(|(t, a, n)| format!("[{t}; {a}..={}]", a + n)),
        (type_text(structs), 1u64..4).prop_map(|(t, a)| format!("[{t}; {a}..]")),
    ];
    (proptest::collection::vec(type_text(structs), 0..5), proptest::option::of(tail)).prop_map(
        move |(types, tail)| {
            types
                .into_iter()
                .chain(tail)
                .enumerate()
                .map(|(i, t)| format!("{name}{i}: {t}"))
                .collect()
        },
    )
}

fn text() -> impl Strategy<Value = String> {
    let structs = proptest::collection::vec(proptest::collection::vec(scalar(), 1..4), 0..3);
    structs.prop_flat_map(|structs| {
        let mut head = String::new();
        for (i, members) in structs.iter().enumerate() {
            let inner = if i > 0 { format!(", z: [s{}; 2]", i - 1) } else { String::new() };
            let members: Vec<_> =
                members.iter().enumerate().map(|(i, s)| format!("m{i}: {}", s.name())).collect();
            head += &format!("struct s{i} {{ {}{inner} }} ", members.join(", "));
        }
        (fields(structs.len(), "a"), fields(structs.len(), "r"))
            .prop_map(move |(a, r)| format!("{head}({}) -> ({})", a.join(", "), r.join(", ")))
    })
}

proptest! {
    #[test]
    fn text_survives(text in text()) {
        let s: Signature = text.parse().unwrap();
        prop_assert_eq!(s.to_string(), text.clone());
        prop_assert_eq!(s.to_string().parse::<Signature>().unwrap(), s);
    }

    #[test]
    fn any_text_parses_or_is_refused(text in "(struct [a-c] |[(){}\\[\\]:;,=.>-]|u8|f64|bool|[a-c]|[0-9]{1,3}|.| ){0,40}") {
        if let Ok(s) = text.parse::<Signature>() {
            prop_assert_eq!(s.to_string().parse::<Signature>().unwrap(), s);
        }
    }

    /// Offsets are aligned, in order and apart; the bounds agree with `check`.
    #[test]
    fn layout_is_sound(text in text()) {
        let s: Signature = text.parse().unwrap();
        for r in [&s.args, &s.results] {
            let mut end = 0;
            for f in &r.fields {
                prop_assert!(f.offset >= end && f.offset.is_multiple_of(s.align_of(&f.ty)));
                end = f.offset + s.bytes_of(&f.ty);
            }
            if let Some(t) = &r.tail {
                prop_assert!(t.offset >= end && t.offset.is_multiple_of(s.align_of(&t.element)));
                prop_assert_eq!(r.check(t.offset + t.element_bytes * t.least), Ok(t.least));
            }
            prop_assert!(r.check(r.min_bytes()).is_ok() && r.check(r.max_bytes()).is_ok());
            prop_assert!(r.check(r.max_bytes() + 1).is_err());
            prop_assert!(r.min_bytes() == 0 || r.check(r.min_bytes() - 1).is_err());
        }
    }

    /// Any bytes of a possible length decode, and what was decoded encodes to
    /// the same value again (padding and not-a-number apart).
    #[test]
    fn values_survive(text in text(), more in 0u64..3, seed: u64) {
        let s: Signature = text.parse().unwrap();
        let r = &s.args;
        let len = (r.min_bytes() + more * r.step()).min(r.max_bytes());
        prop_assume!(r.check(len).is_ok() && len < 1 << 16);
        let bytes: Vec<u8> = (0..len).map(|i| (seed >> (i % 8 * 7)) as u8 & 0x3f).collect();
        let values = s.decode(r, &bytes).unwrap();
        let again = s.encode(r, &values).unwrap();
        prop_assert_eq!(again.len(), bytes.len());
        prop_assert_eq!(s.decode(r, &again).unwrap(), values);
    }
}
