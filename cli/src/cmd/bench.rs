//! `vfun bench`: the measurements of `vfun_bench`.

use crate::args::Cli;
use crate::fail::{Exit, Failure, Result};
use clap::{Args as _, FromArgMatches};
use std::ffi::OsString;
use std::process::ExitCode;
use vfun_bench::BenchError;

/// Measure: the published experiment, latency, grain and footprint.
///
/// It starts a manager and a guest of its own, so it has options of its own,
/// which follow its name.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What to measure, and its options; `vfun bench --help` shows them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WHAT")]
    words: Vec<OsString>,
}

/// The command that reads those words.
pub fn command() -> clap::Command {
    vfun_bench::cli::Args::augment_args(
        clap::Command::new("vfun bench").version(env!("CARGO_PKG_VERSION")),
    )
    .arg_required_else_help(true)
    .max_term_width(100)
}

/// What was said before `bench` is meant for it too.
fn before(cli: &Cli) -> Result<Vec<OsString>> {
    if cli.json {
        return Err(Failure::usage("bench writes JSON to a file")
            .advise("give --json FILE after bench; - is stdout"));
    }
    let named =
        |variable: &str, value: &OsString| std::env::var_os(variable).as_ref() != Some(value);
    let mut words = vec![];
    for (option, variable, value) in [
        ("--root", "VFUN_ROOT", cli.root.clone().map(OsString::from)),
        ("--endpoint", "VFUN_ENDPOINT", cli.endpoint.clone().map(OsString::from)),
    ] {
        if let Some(value) = value.filter(|v| named(variable, v)) {
            words.extend([option.into(), value]);
        }
    }
    Ok(words)
}

/// Measures.
pub fn run(cli: &Cli, args: &Args) -> Result<ExitCode> {
    let words = [vec!["vfun bench".into()], args.words.clone(), before(cli)?].concat();
    let matches = command().get_matches_from(words);
    let args = vfun_bench::cli::Args::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    Ok(vfun_bench::cli::run(args)?)
}

impl From<BenchError> for Failure {
    fn from(e: BenchError) -> Self {
        match e {
            BenchError::Vfun(e) => e.into(),
            BenchError::Admin(e) => e.into(),
            BenchError::Guest(e) => e.into(),
            BenchError::Options(why) => Failure::usage(why),
            other => Failure::new(Exit::Failed, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;
    use clap::Parser;

    #[test]
    fn its_options_are_its_own() {
        command().debug_assert();
        let cli =
            Cli::parse_from(["vfun", "--root", "/r", "bench", "grain", "--json", "f", "--help"]);
        let Command::Bench(args) = &cli.command else { unreachable!() };
        assert_eq!(args.words, ["grain", "--json", "f", "--help"]);
        assert_eq!(before(&cli).unwrap(), ["--root", "/r"]);
        assert!(!cli.json && before(&Cli { json: true, ..cli }).is_err());
    }
}
