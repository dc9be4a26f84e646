//! Arguments, from words, digits or files.

use super::Args;
use crate::fail::{self, Failure, Result};
use std::io::Read;
use std::path::Path;
use vfun::signature::{Record, Signature, Type, Value};

/// The bytes that the command line means.
pub fn encode(args: &Args, signature: Option<&Signature>) -> Result<Vec<u8>> {
    if let Some(digits) = &args.hex {
        return hex(digits);
    }
    if let Some(path) = &args.file {
        return read(path);
    }
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let only = |name: &str, wanted: &str| -> Result<()> {
        match name {
            "repetitions" if args.repetitions.is_some() => {
                Err(Failure::usage(format!("--repetitions is not for {wanted}")))
            }
            "type" if args.element.is_some() => {
                Err(Failure::usage(format!("--type is not for {wanted}")))
            }
            _ => Ok(()),
        }
    };
    match args.function.as_str() {
        f @ "echo" => {
            only("type", f)?;
            only("repetitions", f)?;
            match words[..] {
                [word] if word.starts_with('@') => file(word),
                _ => Ok(words.join(" ").into_bytes()),
            }
        }
        f @ "sum" => {
            only("repetitions", f)?;
            let Some(element) = &args.element else {
                return Err(Failure::usage(
                    "sum needs the type of its elements: --type u8, u64, f32 or f64",
                ));
            };
            let [word] = words[..] else {
                return Err(Failure::usage("sum takes one file: vfun call sum --type f64 @FILE"));
            };
            sum(element, &file(word)?)
        }
        f @ "sha256" => {
            only("type", f)?;
            only("repetitions", f)?;
            let [word] = words[..] else {
                return Err(Failure::usage("sha256 takes one file: vfun call sha256 @FILE"));
            };
            file(word)
        }
        f => match signature {
            Some(signature) => {
                only("type", f)?;
                typed(args, signature)
            }
            None if words.is_empty() => Ok(vec![]),
            None => Err(Failure::usage(format!("vfun does not know how {f} takes words"))
                .advise("give its arguments as bytes, with --hex or --file")),
        },
    }
}

/// A word for each argument, by the function's signature. `--repetitions` is
/// the argument of that name.
fn typed(args: &Args, s: &Signature) -> Result<Vec<u8>> {
    let f = &args.function;
    let wrong = |why: String| Failure::usage(format!("{why}: {}", s.of_function(f)));
    let mut words = args.words.iter();
    let mut values = vec![];
    for field in &s.args.fields {
        let by_option = args.repetitions.filter(|_| field.name == "repetitions");
        let value = match (by_option, words.next(), &field.default) {
            (Some(n), None, _) => Value::Unsigned(n),
            (Some(_), Some(_), _) => {
                return Err(wrong("'repetitions' is given twice".into()));
            }
            (None, Some(word), _) => value(s, &field.ty, word)
                .map_err(|e| wrong(format!("argument '{}': {e}", field.name)))?,
            (None, None, Some(v)) => v.clone(),
            (None, None, None) => {
                return Err(wrong(format!("the argument '{}' is missing", field.name)));
            }
        };
        values.push(value);
    }
    if args.repetitions.is_some() && !s.args.fields.iter().any(|f| f.name == "repetitions") {
        return Err(wrong("--repetitions is not for this function".into()));
    }
    let mut raw = None;
    if let Some(t) = &s.args.tail {
        let Some(word) = words.next() else {
            return Err(wrong(format!("the argument '{}' is missing", t.name))
                .advise("give its elements as 1,2,3, as @FILE, or as '' for none"));
        };
        values.push(Value::Array(if word.starts_with('@') {
            raw = Some(file(word)?);
            vec![]
        } else {
            let mut numbers = Numbers::of(word);
            let mut all = vec![];
            while !numbers.end() {
                let one = numbers.take(s, &t.element);
                all.push(one.map_err(|e| wrong(format!("argument '{}': {e}", t.name)))?);
            }
            all
        }));
    }
    if words.next().is_some() {
        let most = s.args.fields.len() + usize::from(s.args.tail.is_some());
        return Err(wrong(format!("too many arguments ({}, at most {most})", args.words.len())));
    }
    let encoded = match (raw, &s.args.tail) {
        (Some(raw), Some(t)) => {
            let head = Record { tail: None, fixed_bytes: t.offset, ..s.args.clone() };
            values.pop();
            let mut bytes = s.encode(&head, &values).map_err(|e| wrong(e.to_string()))?;
            bytes.extend_from_slice(&raw);
            bytes
        }
        _ => s.encode(&s.args, &values).map_err(|e| wrong(e.to_string()))?,
    };
    s.args.check(encoded.len() as u64).map_err(|e| wrong(e.to_string()))?;
    Ok(encoded)
}

/// The numbers of a word, `1,2;3`: a struct or an array takes as many as it has
/// members or elements, one after the other.
struct Numbers<'a>(std::iter::Peekable<std::vec::IntoIter<&'a str>>);

impl<'a> Numbers<'a> {
    fn of(word: &'a str) -> Self {
        let parts = word.split([',', ';']).map(str::trim).filter(|w| !w.is_empty());
        Numbers(parts.collect::<Vec<_>>().into_iter().peekable())
    }

    fn end(&mut self) -> bool {
        self.0.peek().is_none()
    }

    fn take(&mut self, s: &Signature, ty: &Type) -> std::result::Result<Value, String> {
        match ty {
            Type::Scalar(of) => {
                let text = s.type_text(ty);
                let word = self.0.next().ok_or_else(|| format!("a number ({text}) is missing"))?;
                Value::parse(*of, word).map_err(|e| e.to_string())
            }
            Type::Array(of, n) => (0..*n)
                .map(|_| self.take(s, of))
                .collect::<std::result::Result<_, _>>()
                .map(Value::Array),
            Type::Struct(i) => {
                let members = s.structs[*i].members.iter();
                let all =
                    members.map(|m| self.take(s, &m.ty).map_err(|e| format!("{}: {e}", m.name)));
                all.collect::<std::result::Result<_, _>>().map(Value::Struct)
            }
        }
    }
}

/// One value: all numbers of its word.
fn value(s: &Signature, ty: &Type, word: &str) -> std::result::Result<Value, String> {
    let mut numbers = Numbers::of(word);
    let value = numbers.take(s, ty)?;
    match numbers.0.next() {
        Some(more) => Err(format!("'{more}' is more than a {} has", s.type_text(ty))),
        None => Ok(value),
    }
}

/// The file that a word names: `FILE` or `@FILE`; `-` is standard input.
fn file(word: &str) -> Result<Vec<u8>> {
    read(Path::new(word.strip_prefix('@').unwrap_or(word)))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path).map_err(|e| fail::file(path, "read", &e));
    }
    let mut bytes = vec![];
    std::io::stdin().read_to_end(&mut bytes).map_err(|e| {
        Failure::new(fail::Exit::Failed, format!("standard input could not be read: {e}"))
    })?;
    Ok(bytes)
}

fn hex(text: &str) -> Result<Vec<u8>> {
    let digits: Vec<char> =
        text.chars().filter(|c| !c.is_ascii_whitespace() && *c != '_').collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |[a, b]: &[char; 2]| Some((a.to_digit(16)? << 4 | b.to_digit(16)?) as u8);
    match pairs.iter().map(byte).collect::<Option<Vec<u8>>>() {
        Some(bytes) if rest.is_empty() => Ok(bytes),
        Some(_) => Err(Failure::usage("--hex has an odd number of digits")),
        None => Err(Failure::usage("--hex has a character that is no hexadecimal digit")),
    }
}

fn sum(element: &str, array: &[u8]) -> Result<Vec<u8>> {
    let (tag, size) = match element {
        "u8" => (1u8, 1),
        "f32" => (2, 4),
        "f64" => (3, 8),
        _ => (4, 8),
    };
    if !array.len().is_multiple_of(size) {
        return Err(Failure::usage(format!(
            "{} bytes are no whole number of {element} ({size} bytes each)",
            array.len()
        )));
    }
    let mut bytes = vec![tag, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(array);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn of(line: &[&str]) -> Result<Vec<u8>> {
        match Cli::parse_from([&["vfun", "call"], line].concat()).command {
            Command::Call(args) => {
                let s = match args.function.as_str() {
                    "factorial" | "fibonacci" => Some("(n: u64, repetitions: u64 = 1) -> u64"),
                    "typed" => Some("(a: bool, b: [i8; 2], data: [f32; 1..]) -> ()"),
                    "bytes" => Some("(level: u8, data: [u8]) -> [u8]"),
                    "near" => Some("struct p { x: u8, y: i8 } (to: p, all: [p]) -> p"),
                    _ => None,
                };
                encode(&args, s.map(|s| s.parse().unwrap()).as_ref())
            }
            _ => unreachable!(),
        }
    }
    fn why(line: &[&str]) -> String {
        of(line).unwrap_err().what
    }

    #[test]
    fn words_become_the_functions_layout() {
        assert_eq!(
            of(&["factorial", "20"]).unwrap(),
            [20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(of(&["fibonacci", "1", "--repetitions", "258"]).unwrap()[8..10], [2, 1]);
        assert_eq!(of(&["echo", "hello", "world"]).unwrap(), b"hello world");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, [1, 2, 3, 4]).unwrap();
        let file = file.to_str().unwrap();
        assert_eq!(
            of(&["sum", "--type", "f32", file]).unwrap(),
            [2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]
        );
        assert_eq!(of(&["sha256", file]).unwrap(), [1, 2, 3, 4]);
        for function in ["sha256", "echo"] {
            assert_eq!(of(&[function, &format!("@{file}")]).unwrap(), [1, 2, 3, 4], "{function}");
        }
        let sum = of(&["sum", "--type", "f32", &format!("@{file}")]).unwrap();
        assert_eq!(sum[8..], [1, 2, 3, 4]);
        assert_eq!(of(&["bytes", "3", ""]).unwrap(), [3]);
        for points in ["3,4;5,-1", "3,4,5,-1"] {
            assert_eq!(of(&["near", "1,-2", points]).unwrap(), [1, 254, 3, 4, 5, 255]);
        }
        assert_eq!(of(&["other", "--file", file]).unwrap(), [1, 2, 3, 4]);
        assert_eq!(of(&["other", "--hex", "de ad_BE ef"]).unwrap(), [0xde, 0xad, 0xbe, 0xef]);
        assert!(of(&["other"]).unwrap().is_empty());
        let typed = [1, 3, 254, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40];
        assert_eq!(of(&["typed", "true", "3,-2", "1,2"]).unwrap(), typed);
        assert_eq!(of(&["typed", "true", "3,-2", &format!("@{file}")]).unwrap()[4..], [1, 2, 3, 4]);
        assert!(why(&["sum", "--type", "f64", file]).contains("whole number of f64"));
    }

    #[test]
    fn wrong_words_are_named() {
        assert!(why(&["factorial"]).contains("argument 'n' is missing"));
        assert!(why(&["factorial", "1", "2", "3"]).contains("too many arguments (3, at most 2)"));
        assert!(why(&["factorial", "1", "2", "--repetitions", "3"]).contains("given twice"));
        assert!(why(&["typed", "true", "1,2"]).contains("the argument 'data' is missing"));
        assert!(why(&["typed", "true", "1,2", ""]).contains("bytes where the signature has"));
        assert!(why(&["typed", "true", "1", "1"]).contains("a number (i8) is missing"));
        assert!(why(&["typed", "true", "1,2,3", "1"]).contains("'3' is more than a [i8; 2] has"));
        assert!(why(&["bytes", "3"]).contains("the argument 'data' is missing: bytes(level: u8"));
        assert!(of(&["bytes", "3"]).unwrap_err().advice.unwrap().contains("@FILE"));
        let near = why(&["near", "1", "1,1"]);
        let usage = "near(to: p, all: [p]) -> p; struct p { x: u8, y: i8 }";
        assert_eq!(near, format!("argument 'to': y: a number (i8) is missing: {usage}"));
        assert!(why(&["typed", "maybe", "1,2", "1"]).contains("'maybe' is not true or false"));
        assert!(why(&["typed", "true", "1,200", "1"]).contains("-128 to 127"));
        assert!(why(&["echo", "@/no/such"]).contains("/no/such"));
        assert!(
            why(&["factorial", "-1"].map(|w| if w == "-1" { "x1" } else { w })).contains("'x1'")
        );
        assert!(why(&["sum", "f"]).contains("--type"));
        assert!(why(&["echo", "a", "--repetitions", "2"]).contains("not for echo"));
        assert!(why(&["other", "word"]).contains("does not know"));
        assert!(why(&["other", "--hex", "abc"]).contains("odd"));
        assert!(why(&["other", "--hex", "zz"]).contains("no hexadecimal"));
        assert!(why(&["sha256", "/no/such"]).contains("/no/such"));
    }
}
