//! `vfun bench`: the program vfun-bench.

use crate::fail::{Failure, Result};
use crate::out::Output;
use crate::programs;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Measure: the published experiment, latency, grain and footprint.
///
/// It starts a manager and a guest of its own, so it has options of its own,
/// which follow its name. It is a program of its own too, vfun-bench.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What to measure, and its options; `vfun bench --help` shows them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WHAT")]
    words: Vec<OsString>,
}

/// What was said before `bench` is meant for it too.
fn before(root: Option<&Path>, endpoint: Option<&str>, output: Output) -> Result<Vec<OsString>> {
    if output.is_json() {
        return Err(Failure::usage("bench writes JSON to a file")
            .advise("give --json FILE after bench; - is stdout"));
    }
    let mut words = vec![];
    for (option, variable, value) in [
        ("--root", "VFUN_ROOT", root.map(Path::as_os_str)),
        ("--endpoint", "VFUN_ENDPOINT", endpoint.map(OsStr::new)),
    ] {
        // What a variable says is said to the program too.
        if let Some(value) = value.filter(|v| std::env::var_os(variable).as_deref() != Some(*v)) {
            words.extend([option.into(), value.to_owned()]);
        }
    }
    Ok(words)
}

/// Becomes it. Returns only if that cannot be.
pub fn run(root: Option<&Path>, endpoint: Option<&str>, output: Output, args: &Args) -> Failure {
    match before(root, endpoint, output) {
        Ok(before) => programs::run("bench", args.words.iter().cloned().chain(before)),
        Err(wrong) => wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(clap::Subcommand)]
    enum Sub {
        Bench(Args),
    }

    #[test]
    fn its_options_are_its_own() {
        let Line { json, command: Sub::Bench(args) } =
            Line::parse_from(["vfun", "bench", "grain", "--json", "f", "--help"]);
        assert_eq!(args.words, ["grain", "--json", "f", "--help"]);
        assert!(!json);
        let root = Some(Path::new("/r"));
        assert_eq!(before(root, None, Output::Text).unwrap(), ["--root", "/r"]);
        assert!(before(root, None, Output::Json).is_err());
    }
}
