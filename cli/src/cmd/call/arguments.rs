//! Arguments, from words, digits or files.

use super::Args;
use crate::fail::{self, Failure, Result};
use std::io::Read;
use std::path::Path;

/// The bytes that the command line means.
pub fn encode(args: &Args) -> Result<Vec<u8>> {
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
        f @ ("factorial" | "fibonacci") => {
            only("type", f)?;
            let [n] = words[..] else {
                return Err(Failure::usage(format!("{f} takes one number: vfun call {f} 20")));
            };
            let n: u64 = n.parse().map_err(|_| {
                Failure::usage(format!("'{n}' is not a number from 0 to {}", u64::MAX))
            })?;
            Ok([n.to_le_bytes(), args.repetitions.unwrap_or(1).to_le_bytes()].concat())
        }
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
        _ if words.is_empty() => Ok(vec![]),
        f => Err(Failure::usage(format!("vfun does not know how {f} takes words"))
            .advise("give its arguments as bytes, with --hex or --file")),
    }
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
            Command::Call(args) => encode(&args),
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
        assert!(why(&["sum", "--type", "f64", file]).contains("whole number of f64"));
    }

    #[test]
    fn wrong_words_are_named() {
        assert!(why(&["factorial"]).contains("one number"));
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
