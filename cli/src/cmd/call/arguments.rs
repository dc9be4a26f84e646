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
            Ok(words.join(" ").into_bytes())
        }
        f @ "sum" => {
            only("repetitions", f)?;
            let Some(element) = &args.element else {
                return Err(Failure::usage(
                    "sum needs the type of its elements: --type u8, u64, f32 or f64",
                ));
            };
            let [file] = words[..] else {
                return Err(Failure::usage("sum takes one file: vfun call sum --type f64 FILE"));
            };
            sum(element, &read(Path::new(file))?)
        }
        f @ "sha256" => {
            only("type", f)?;
            only("repetitions", f)?;
            let [file] = words[..] else {
                return Err(Failure::usage("sha256 takes one file: vfun call sha256 FILE"));
            };
            read(Path::new(file))
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
    let wrong = |why: String| Failure::usage(format!("{why}: {f}{s}"));
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
        let word = words.next().map_or("", String::as_str);
        values.push(Value::Array(match word.strip_prefix('@') {
            Some(file) => {
                raw = Some(read(Path::new(file))?);
                vec![]
            }
            None => list(s, &t.element, word)
                .map_err(|e| wrong(format!("argument '{}': {e}", t.name)))?,
        }));
    }
    if words.next().is_some() {
        return Err(wrong(format!("{} words are too many", args.words.len())));
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

fn value(s: &Signature, ty: &Type, word: &str) -> std::result::Result<Value, String> {
    match ty {
        Type::Scalar(of) => Value::parse(*of, word).map_err(|e| e.to_string()),
        Type::Array(of, _) => list(s, of, word).map(Value::Array),
        Type::Struct(_) => {
            Err("a struct has no word; give all as bytes, with --hex or --file".into())
        }
    }
}

fn list(s: &Signature, of: &Type, word: &str) -> std::result::Result<Vec<Value>, String> {
    word.split(',').filter(|w| !w.is_empty()).map(|w| value(s, of, w.trim())).collect()
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
        assert!(why(&["factorial", "1", "2", "3"]).contains("3 words are too many"));
        assert!(why(&["factorial", "1", "2", "--repetitions", "3"]).contains("given twice"));
        assert!(why(&["typed", "true", "1,2"]).contains("bytes where the signature has"));
        assert!(why(&["typed", "maybe", "1,2", "1"]).contains("'maybe' is not true or false"));
        assert!(why(&["typed", "true", "1,200", "1"]).contains("-128 to 127"));
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
