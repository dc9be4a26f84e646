//! `vfun bindgen`: stubs by a function's signature, for C, Rust and Python.

mod c;
mod python;
mod rust;

use crate::connect::{Host, Who};
use crate::fail::{self, Exit, Failure, Result};
use crate::out;
use std::path::{Path, PathBuf};
use vfun::signature::Signature;

const AFTER: &str = "\
Examples:
  vfun bindgen factorial sum_f64 --lang c -o functions.h
  vfun bindgen --manifest function.toml --lang rust -o src/functions.rs
A stub bears its signature's fingerprint: where the host's function has another
signature, opening it is refused, and the refusal shows the host's.";

/// Write stubs in C, Rust or Python for functions with a signature.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Functions, by name; all of the manifests' if none is named.
    #[arg(required_unless_present = "manifest")]
    pub functions: Vec<String>,
    /// The language of the stubs.
    #[arg(long, value_name = "LANGUAGE", value_parser = ["c", "rust", "python"])]
    pub lang: String,
    /// Where to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Read signatures from a manifest, not from the running host; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub manifest: Vec<PathBuf>,
    #[command(flatten)]
    who: Who,
}

/// A function to write a stub for.
pub(crate) struct Bound {
    name: String,
    signature: Signature,
}

/// What of a manifest counts here; its driver need not be built yet.
#[derive(serde::Deserialize)]
struct Manifest {
    name: String,
    signature: Option<String>,
}

pub fn run(host: &Host, args: &Args) -> Result<()> {
    let functions = match args.manifest.is_empty() {
        true => from_host(host, args)?,
        false => from_manifests(args)?,
    };
    let text = match args.lang.as_str() {
        "c" => c::header(&functions, args.output.as_deref()),
        "rust" => rust::module(&functions),
        _ => python::module(&functions),
    };
    match &args.output {
        Some(path) if path != Path::new("-") => {
            std::fs::write(path, text).map_err(|e| fail::file(path, "written", &e))
        }
        _ => out::text(&text),
    }
}

fn untyped(name: &str) -> Failure {
    Failure::new(Exit::Failed, format!("'{name}' has no signature to make stubs from"))
        .advise("declare one in its manifest: signature = \"(n: u64) -> u64\"")
}

fn from_host(host: &Host, args: &Args) -> Result<Vec<Bound>> {
    let session = host.session(&args.who)?;
    let one = |name: &String| {
        let signature = session.describe_function(name)?.signature.ok_or_else(|| untyped(name))?;
        Ok(Bound { name: name.clone(), signature })
    };
    args.functions.iter().map(one).collect()
}

fn from_manifests(args: &Args) -> Result<Vec<Bound>> {
    let mut found = vec![];
    for path in &args.manifest {
        let text = std::fs::read_to_string(path).map_err(|e| fail::file(path, "read", &e))?;
        let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
        let m: Manifest = toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        vfun_wire::names::check(&m.name).map_err(|e| wrong(format!("name '{}': {e}", m.name)))?;
        if !args.functions.is_empty() && !args.functions.contains(&m.name) {
            continue;
        }
        let text = m.signature.ok_or_else(|| untyped(&m.name))?;
        let signature = text.parse().map_err(|e| wrong(format!("{e}")))?;
        found.push(Bound { name: m.name, signature });
    }
    match args.functions.iter().find(|f| !found.iter().any(|b| b.name == **f)) {
        Some(f) => Err(Failure::usage(format!("no manifest that was named declares '{f}'"))),
        None => Ok(found),
    }
}

/// A function's name as an identifier: `my-function.v2` is `my_function_v2`.
pub(crate) fn identifier(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("f_{plain}") } else { plain }
}

/// `my-function` as a type's name: `MyFunction`.
pub(crate) fn camel(name: &str) -> String {
    let mut out = String::new();
    for part in identifier(name).split('_').filter(|p| !p.is_empty()) {
        let (first, rest) = part.split_at(1);
        out += &first.to_ascii_uppercase();
        out += rest;
    }
    if out.starts_with(|c: char| c.is_ascii_alphabetic()) { out } else { format!("F{out}") }
}

/// Whether it is a word of C, C++, Rust or Python, or one that stubs use.
pub(crate) fn is_word(name: &str) -> bool {
    [c::WORDS, rust::WORDS, python::WORDS].iter().any(|words| words.contains(&name))
}

/// A member's name that is a word of the language gets a `_`.
pub(crate) fn safe(name: &str, words: &[&str]) -> String {
    if words.contains(&name) { format!("{name}_") } else { name.to_owned() }
}
